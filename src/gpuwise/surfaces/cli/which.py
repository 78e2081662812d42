"""`gpuwise which`: what to buy, rent or keep."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, write_figure

__all__ = ["which"]

_OURS = ("json", "figure", "chart")


def which(
    model: Annotated[Optional[list[str]], typer.Option("--model", help="A model you run; may be repeated.")] = None,
    task: Annotated[
        str, typer.Option(help="In place of a model: learning, kaggle, vision, nlp, llm-finetune, llm-inference, ...")
    ] = "",
    budget: Annotated[
        Optional[str], typer.Option(help="What you can spend on GPUs, or on rent over the years: 800, '$800'.")
    ] = None,
    have: Annotated[Optional[list[str]], typer.Option("--have", help="What you have, such as 'GTX 1080 Ti' or '2x T4'.")] = None,
    hours_per_week: Annotated[Optional[float], typer.Option(help="Hours of work a week (25 if you do not say).")] = None,
    years: Annotated[Optional[float], typer.Option(help="Horizon (3 years if you do not say).")] = None,
    kwh_price: Annotated[Optional[float], typer.Option(help="What a kWh costs you.")] = None,
    tariff: Annotated[str, typer.Option(help="A tiered tariff, kWh a month and price: '200=0.10,600=0.44'.")] = "",
    region: Annotated[str, typer.Option(help="Where you are, for electricity and CO2: US, DE, KR, ...")] = "",
    price: options.Prices = None,
    prices: options.PriceFile = None,
    currency: options.CurrencyRate = "",
    buy: Annotated[bool, typer.Option("--buy", help="Only what is sold new; with --used also used cards.")] = False,
    used: Annotated[bool, typer.Option("--used", help="Only what is sold used, or with --buy that too.")] = False,
    rent: Annotated[bool, typer.Option("--rent", help="Only what can be rented.")] = False,
    vendor: Annotated[str, typer.Option(help="nvidia (if you do not say), amd, intel or any.")] = "",
    laptop: Annotated[bool, typer.Option("--laptop", help="Only GPUs of laptops.")] = False,
    deadline: Annotated[str, typer.Option(help="A run must be done in this time: '3 days', 12h.")] = "",
    samples: Annotated[Optional[float], typer.Option(help="Samples of a run: images, sequences, tokens written.")] = None,
    max_gpus: Annotated[int, typer.Option(help="The most GPUs of one machine.")] = 4,
    psu: Annotated[Optional[float], typer.Option(help="Watts of the power supply at hand.")] = None,
    machine: Annotated[Optional[float], typer.Option(help="What the rest of the machine costs; counted in the budget.")] = None,
    machine_watts: Annotated[Optional[float], typer.Option(help="What the rest of the machine draws (100 W).")] = None,
    batch: Annotated[str, typer.Option(help="Samples per step, or auto for the fastest that fits each GPU.")] = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens, for --model.")] = None,
    image: options.Image = None,
    precision: Annotated[str, typer.Option(help="A precision, or auto for the fastest each GPU has.")] = "",
    mode: options.Mode = "",
    phase: options.Phase = "",
    optimizer: options.Optimizer = "",
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    timeout_s: options.Timeout = 120.0,
    figure: options.FigureFile = None,
    chart: Annotated[str, typer.Option(help="What to draw: cost (time against money), value or speed.")] = "cost",
    json: options.AsJson = False,
) -> None:
    """Say what to buy, rent or keep for your models, a task or anything, with the time and the money of each option.

    Alone it gives picks by budget. Everything you add makes the answer yours.
    """
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    from gpuwise.questions.which.figure import check_chart, choices_figure
    from gpuwise.questions.which.text import render

    check_figure(figure)
    check_chart(chart)
    answer = api.which(api.which_query(**asked), progress=show_progress)
    print_answer(answer, render, json=json)
    write_figure(figure, lambda: choices_figure(answer, chart), quiet=json)
