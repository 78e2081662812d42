"""`gpuwise fit`: will it fit, what is the largest batch, and what if it does not?"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, write_figure

__all__ = ["fit"]

_OURS = ("json", "strict", "catalogue", "figure")


def fit(
    model: options.Model,
    gpu: options.GpuNames = None,
    gpus: options.GpuCount = 1,
    catalogue: Annotated[bool, typer.Option("--all", help="Every GPU of the catalogue instead of --gpu.")] = False,
    batch: Annotated[str, typer.Option(help="Samples per step and GPU, or auto for the largest that fits.")] = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens; of a context in inference.")] = None,
    image: options.Image = None,
    precision: options.Precision = "",
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
    pcie: Annotated[str, typer.Option(help="The link of the GPU, such as 'PCIe 3.0 x8'.")] = "",
    loader_samples_per_s: options.LoaderRate = None,
    power_limit: options.PowerLimit = "",
    measured: options.Measured = None,
    display: Annotated[bool, typer.Option("--display", help="A desktop runs on this GPU too.")] = False,
    timeout_s: options.Timeout = 120.0,
    remedies: Annotated[bool, typer.Option(help="Also try what else could be done.")] = True,
    figure: options.FigureFile = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where it does not fit.")] = False,
    json: options.AsJson = False,
) -> None:
    """Tell whether a model fits a GPU's memory, the largest batch, and what to do if it does not, with the price in time."""
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    check_figure(figure)
    if catalogue:
        if figure is not None:
            raise BadValue("--all draws no figure", hint="leave --figure out, or name the GPUs with --gpu")
        _whole_catalogue(asked, json)
        return
    from gpuwise.questions.fit.figure import memory_figure
    from gpuwise.questions.fit.text import render

    answer = api.fit(api.fit_query(**{"gpu": (), **asked}), progress=show_progress)
    print_answer(answer, render, json=json)
    write_figure(figure, lambda: memory_figure(answer), quiet=json)
    if strict and not answer.fits:
        raise typer.Exit(1)


def _whole_catalogue(asked: dict[str, object], json: bool) -> None:
    from gpuwise.questions.fit.text import render_catalogue

    for name in ("display", "remedies"):  # of one GPU
        asked.pop(name)
    if asked.pop("gpu", None):
        raise BadValue("--all and --gpu were both given", hint="leave one of them out")
    answer = api.fit_catalogue(api.catalogue_query(**asked), progress=show_progress)
    print_answer(answer, render_catalogue, json=json)
