"""`gpuwise fit`: will it fit, what is the largest batch, and what if it does not?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.cli.output import check_figure, colour, print_json, print_text, show_progress, terminal_width, write_figure
from gpuwise.errors import BadValue

__all__ = ["fit"]

_MODEL = "A zoo name, a workload file, timm:NAME, torchvision:NAME, hf:ID, keras:NAME, config.json or file.py:Net."
_OURS = ("json", "strict", "catalogue", "figure")


def fit(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    gpu: Annotated[Optional[list[str]], typer.Option("--gpu", help="A GPU by any name, or typed specs; may be repeated.")] = None,
    gpus: Annotated[int, typer.Option(help="How many of each GPU.")] = 1,
    catalogue: Annotated[bool, typer.Option("--all", help="Every GPU of the catalogue instead of --gpu.")] = False,
    batch: Annotated[str, typer.Option(help="Samples per step and GPU, or auto for the largest that fits.")] = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens; of a context in inference.")] = None,
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
    pcie: Annotated[str, typer.Option(help="The link of the GPU, such as 'PCIe 3.0 x8'.")] = "",
    loader_samples_per_s: Annotated[Optional[float], typer.Option(help="What the data loader delivers.")] = None,
    power_limit: Annotated[str, typer.Option(help="A power limit below the GPU's own, such as 250W.")] = "",
    measured: Annotated[Optional[list[str]], typer.Option(help="A step you measured: 'RTX 3090=412ms'; may be repeated.")] = None,
    display: Annotated[bool, typer.Option("--display", help="A desktop runs on this GPU too.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds a capture may take.")] = 120.0,
    remedies: Annotated[bool, typer.Option(help="Also try what else could be done.")] = True,
    figure: Annotated[Optional[Path], typer.Option("--figure", help="Draw it too: FILE.svg, FILE.html or FILE.png.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where it does not fit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell whether a model fits a GPU's memory, the largest batch, and what to do if it does not, with the price in time."""
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    check_figure(figure)
    if catalogue:
        if figure is not None:
            raise BadValue("--all draws no figure", hint="leave --figure out, or name the GPUs with --gpu")
        _whole_catalogue(asked, json)
        return
    from gpuwise.report.figures.memory import memory_figure
    from gpuwise.report.fit import render

    answer = api.fit(api.fit_query(**{"gpu": (), **asked}), progress=show_progress)
    if json:
        print_json(answer.to_dict())
    else:
        print_text(render(answer, width=terminal_width(), colour=colour()))
    write_figure(figure, lambda: memory_figure(answer), quiet=json)
    if strict and not answer.fits:
        raise typer.Exit(1)


def _whole_catalogue(asked: dict[str, object], json: bool) -> None:
    from gpuwise.report.fit import render_catalogue

    for name in ("display", "remedies"):  # of one GPU
        asked.pop(name)
    if asked.pop("gpu", None):
        raise BadValue("--all and --gpu were both given", hint="leave one of them out")
    answer = api.fit_catalogue(api.catalogue_query(**asked), progress=show_progress)
    if json:
        print_json(answer.to_dict())
    else:
        print_text(render_catalogue(answer, width=terminal_width(), colour=colour()))
