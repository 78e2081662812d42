"""`gpuwise charts`: all GPUs by speed, and by speed for the money."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, write_figure

__all__ = ["charts"]

_OURS = ("json", "figure", "chart")


def charts(
    gpu: Annotated[Optional[list[str]], typer.Option("--gpu", help="Only this GPU; may be repeated.")] = None,
    vendor: Annotated[str, typer.Option(help="Only this vendor, such as NVIDIA or AMD.")] = "",
    segment: Annotated[str, typer.Option(help="Only desktop, laptop, workstation, datacenter, ...; several with commas.")] = "",
    year: Annotated[str, typer.Option(help="Only GPUs launched then: 2022, 2020-2023 or 2020-.")] = "",
    min_memory: Annotated[str, typer.Option(help="Only GPUs with at least this memory, such as 24GB.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="The long tail too.")] = False,
    work: Annotated[str, typer.Option(help="Only these kinds of work: cnn, transformer, rnn, llm, images.")] = "",
    baseline: Annotated[str, typer.Option(help="The GPU that counts as 1 (RTX 3090 if you do not say).")] = "",
    price: options.Prices = None,
    prices: options.PriceFile = None,
    currency: options.CurrencyRate = "",
    years: Annotated[float, typer.Option(help="All costs: over these years.")] = 5.0,
    utilization: Annotated[float, typer.Option(help="All costs: the share of the time that it works.")] = 0.15,
    kwh_price: Annotated[Optional[float], typer.Option(help="All costs: what a kWh costs you.")] = None,
    machine: Annotated[Optional[float], typer.Option(help="All costs: the rest of the machine.")] = None,
    chart: Annotated[
        str, typer.Option(help="What to draw: speed, value (speed for the price) or owned (for all costs).")
    ] = "speed",
    figure: options.FigureFile = None,
    json: options.AsJson = False,
) -> None:
    """Chart every GPU by speed and by speed for the money: five kinds of work, in the precisions each is done in."""
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    from gpuwise.questions.charts.figure import charts_figure, check_chart
    from gpuwise.questions.charts.text import render

    check_figure(figure)
    check_chart(chart)
    answer = api.charts(api.ChartsQuery.of(**asked), progress=show_progress)
    print_answer(answer, render, json=json)
    write_figure(figure, lambda: charts_figure(answer, chart), quiet=json)
