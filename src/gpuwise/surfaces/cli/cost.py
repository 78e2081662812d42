"""`gpuwise cost`: what a GPU costs to own and to rent, and where the two cross."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, wants_figure, write_figure

__all__ = ["cost"]


def cost(
    gpu: Annotated[Optional[list[str]], typer.Option("--gpu", help="A GPU by any name, or typed specs.")] = None,
    gpus: Annotated[int, typer.Option(help="How many of them, in one machine.")] = 1,
    price: Annotated[str, typer.Option(help="What one GPU costs: 700, or 'RTX 3090=700'.")] = "",
    used: Annotated[bool, typer.Option("--used", help="Buy it used, at the newest dated price of a used one.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Buy it new: the newest price of a shop, else the launch price.")] = False,
    machine: Annotated[Optional[float], typer.Option(help="What the rest of the machine costs; 0 where you have it.")] = None,
    machine_watts: Annotated[Optional[float], typer.Option(help="What the rest of the machine draws (100 if not given).")] = None,
    watts: Annotated[Optional[float], typer.Option(help="What one GPU draws while it works; else its rated power.")] = None,
    utilization: Annotated[Optional[float], typer.Option(help="Share of all hours that it works, such as 0.15.")] = None,
    hours_per_week: Annotated[Optional[float], typer.Option(help="The same, in hours a week.")] = None,
    years: Annotated[Optional[float], typer.Option(help="How long it is kept (3 if not given).")] = None,
    kwh_price: Annotated[Optional[float], typer.Option(help="Electricity, for each kWh.")] = None,
    tariff: Annotated[str, typer.Option(help="Electricity in tiers by month: '200=0.0996,600=0.437'.")] = "",
    bills: Annotated[str, typer.Option(help="The same from two monthly bills: '200=19.92,600=194.7'.")] = "",
    household_kwh: Annotated[Optional[float], typer.Option(help="What the household uses a month before the GPU does.")] = None,
    region: Annotated[str, typer.Option(help="Country for electricity and carbon: US, DE, France, ...")] = "",
    resale: Annotated[float, typer.Option(help="What it all sells for in the end.")] = 0.0,
    cloud_price: Annotated[Optional[float], typer.Option(help="What one rented GPU costs an hour.")] = None,
    cloud: Annotated[str, typer.Option(help="A cloud of the tables, such as aws; see `gpuwise prices`.")] = "",
    cloud_gpu: Annotated[str, typer.Option(help="Rent this GPU instead.")] = "",
    spot: Annotated[bool, typer.Option("--spot", help="Hold owning against spot prices.")] = False,
    commit: Annotated[Optional[float], typer.Option(help="Discount of a commitment that pays every hour, such as 0.4.")] = None,
    job_hours: Annotated[Optional[float], typer.Option(help="Also price one job of so many hours.")] = None,
    model: Annotated[str, typer.Option(help="Also price training this model, with --samples.")] = "",
    samples: Annotated[Optional[float], typer.Option(help="Samples of an epoch, for --model.")] = None,
    epochs: Annotated[Optional[float], typer.Option(help="Epochs, for --model (1 if not given).")] = None,
    batch: Annotated[str, typer.Option(help="Samples per step and GPU, for --model.")] = "",
    precision: options.Precision = "",
    currency: Annotated[str, typer.Option(help="Money typed and shown: EUR=1.08 means one euro is 1.08 dollars.")] = "",
    prices: Annotated[Optional[Path], typer.Option(help="A TOML file with prices of your own.")] = None,
    figure: options.FigureFile = None,
    json: options.AsJson = False,
) -> None:
    """Tell what a GPU costs to own and to rent, after how many days it has paid for itself, and the carbon of its electricity."""
    asked = {name: value for name, value in locals().items() if name not in ("json", "figure") and value is not None}
    from gpuwise.questions.cost.text import render

    if gpu and len(gpu) > 1:
        raise BadValue(
            f"cost is about one GPU at a time, not {len(gpu)}", hint="`--gpus 2` for two of one kind; else ask once for each"
        )
    check_figure(figure)
    answer = api.cost(api.cost_query(**{**asked, "gpu": gpu[0] if gpu else ""}), progress=show_progress)
    print_answer(answer, render, json=json)
    if wants_figure(figure):
        from gpuwise.questions.cost.figure import cost_figure

        write_figure(figure, lambda: cost_figure(answer), quiet=json)
