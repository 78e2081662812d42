"""`gpuwise predict`: how fast a model runs on a GPU, and what limits it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.cli.output import check_figure, colour, print_json, print_text, show_progress, terminal_width, write_figure

__all__ = ["predict"]

_MODEL = "A zoo name, a workload file, timm:NAME, torchvision:NAME, hf:ID, keras:NAME, config.json or file.py:Net."


def predict(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    gpu: Annotated[Optional[list[str]], typer.Option("--gpu", help="A GPU by any name, or typed specs; may be repeated.")] = None,
    gpus: Annotated[int, typer.Option(help="How many of each GPU.")] = 1,
    batch: Annotated[str, typer.Option(help="Samples per step and GPU, or auto for the largest power of two that fits.")] = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: Annotated[Optional[int], typer.Option(help="Image size in pixels.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, tf32, fp16, bf16, amp, amp-bf16 or fp8.")] = "",
    mode: Annotated[str, typer.Option(help="train (the default) or infer.")] = "",
    optimizer: Annotated[str, typer.Option(help="none, sgd, momentum, adam, adamw, adafactor, lion or adam8bit.")] = "",
    phase: Annotated[str, typer.Option(help="prefill or decode, for generating language models.")] = "",
    compiled: Annotated[bool, typer.Option("--compile", help="Run as torch.compile would.")] = False,
    channels_last: Annotated[bool, typer.Option("--channels-last", help="NHWC memory layout.")] = False,
    accumulate: Annotated[Optional[int], typer.Option(help="Micro-batches accumulated into one step.")] = None,
    checkpoint: Annotated[bool, typer.Option("--checkpoint", help="Recompute activations of repeated blocks.")] = False,
    inputs: Annotated[Optional[list[str]], typer.Option("--input", help="An input by hand: x=batch,3,224,224:fp32.")] = None,
    stack: Annotated[str, typer.Option(help="Software, such as torch-2.4 or tf-2.4.")] = "",
    cpu: Annotated[str, typer.Option(help="The host: desktop, laptop, server, or a CPU's name.")] = "",
    pcie: Annotated[str, typer.Option(help="The link of the GPU, such as 'PCIe 3.0 x8'; counts the copies of inputs.")] = "",
    loader_samples_per_s: Annotated[Optional[float], typer.Option(help="What the data loader delivers.")] = None,
    image_decode: Annotated[
        bool, typer.Option("--image-decode", help="Work out the loader: JPEG files, on the host's cores.")
    ] = False,
    workers: Annotated[Optional[int], typer.Option(help="Loader processes of each GPU, with --image-decode.")] = None,
    power_limit: Annotated[str, typer.Option(help="A power limit below the GPU's own, such as 250W.")] = "",
    measured: Annotated[Optional[list[str]], typer.Option(help="A step you measured: 'RTX 3090=412ms'; may be repeated.")] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds a capture may take.")] = 120.0,
    figure: Annotated[Optional[Path], typer.Option("--figure", help="Draw it too: FILE.svg, FILE.html or FILE.png.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict the time and memory of a step on one or several GPUs, with a range and what limits it."""
    asked = {name: value for name, value in locals().items() if name not in ("json", "figure") and value is not None}
    from gpuwise.report.predict import render

    check_figure(figure)
    answer = api.predict(api.predict_query(**{"gpu": (), **asked}), progress=show_progress)
    if json:
        print_json(answer.to_dict())
    else:
        print_text(render(answer, width=terminal_width(), colour=colour()))
    if figure is not None:
        from gpuwise.report.figures.steps import steps_figure

        write_figure(figure, lambda: steps_figure(answer), quiet=json)
