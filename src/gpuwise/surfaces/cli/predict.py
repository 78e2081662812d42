"""`gpuwise predict`: how fast a model runs on a GPU, and what limits it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, wants_figure, write_figure

__all__ = ["predict"]

_BATCH = "Samples per step and GPU, or auto for the largest power of two that fits; several: 8,32,128, or 1..128 by doubling."


def predict(
    model: options.Model,
    gpu: options.GpuNames = None,
    gpus: options.GpuCount = 1,
    batch: Annotated[str, typer.Option(help=_BATCH)] = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    precision: Annotated[str, typer.Option(help="fp32, tf32, fp16, bf16, amp, amp-bf16 or fp8; several: fp32,amp.")] = "",
    mode: options.Mode = "",
    optimizer: options.Optimizer = "",
    phase: options.Phase = "",
    compiled: options.Compiled = False,
    channels_last: options.ChannelsLast = False,
    accumulate: options.Accumulate = None,
    checkpoint: options.Checkpoint = False,
    inputs: options.Inputs = None,
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    pcie: Annotated[str, typer.Option(help="The link of the GPU, such as 'PCIe 3.0 x8'; counts the copies of inputs.")] = "",
    link: Annotated[str, typer.Option(help="What joins several GPUs: 'PCIe 3.0 x8', NVLink, 'PCIe 4.0 x16, no p2p'.")] = "",
    loader_samples_per_s: options.LoaderRate = None,
    image_decode: Annotated[
        bool, typer.Option("--image-decode", help="Work out the loader: JPEG files, on the host's cores.")
    ] = False,
    workers: Annotated[Optional[int], typer.Option(help="Loader processes of each GPU, with --image-decode.")] = None,
    power_limit: options.PowerLimit = "",
    measured: options.Measured = None,
    on_this_machine: Annotated[
        bool, typer.Option("--on-this-machine", help="On the device that `gpuwise bench` measured here; no --gpu.")
    ] = False,
    timeout_s: options.Timeout = 120.0,
    figure: options.FigureFile = None,
    json: options.AsJson = False,
) -> None:
    """Predict the time and memory of a step on one or several GPUs, with a range and what limits it."""
    asked = {name: value for name, value in locals().items() if name not in ("json", "figure") and value is not None}
    from gpuwise.questions.predict.text import render

    check_figure(figure)
    if api.is_grid(batch, precision):
        _grid(asked, figure, json=json)
        return
    answer = api.predict(api.predict_query(**{"gpu": (), **asked}), progress=show_progress)
    print_answer(answer, render, json=json)
    if wants_figure(figure):
        from gpuwise.questions.predict.figure import steps_figure

        write_figure(figure, lambda: steps_figure(answer), quiet=json)


def _grid(asked: dict[str, Any], figure: Path | None, *, json: bool) -> None:
    from gpuwise.questions.predict.grid_text import render

    answer = api.predict_grid(progress=show_progress, **{"gpu": (), **asked})
    print_answer(answer, render, json=json)
    if wants_figure(figure):
        from gpuwise.questions.predict.grid_figure import grid_figure

        write_figure(figure, lambda: grid_figure(answer), quiet=json)
