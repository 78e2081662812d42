"""`gpuwise compare`: card A or card B?"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer, show_progress, wants_figure, write_figure

__all__ = ["compare"]

_NAMES = "Two or more, such as 'RTX 3090', '4x RTX 2070' or 'RTX 3090 + T4'; the first is the baseline."


def compare(
    names: Annotated[list[str], typer.Argument(metavar="GPU GPU...", help=_NAMES)],
    model: Annotated[Optional[list[str]], typer.Option("--model", help="Compare on this model; may be repeated.")] = None,
    mode: Annotated[str, typer.Option(help="train (if you give none) or infer, for --model.")] = "",
    precision: Annotated[str, typer.Option(help="A precision for --model; else what suits each GPU.")] = "",
    batch: Annotated[str, typer.Option(help="Samples per step for --model; `auto` is the largest power of two that fits.")] = "",
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    price: options.Prices = None,
    prices: options.PriceFile = None,
    currency: options.CurrencyRate = "",
    json: options.AsJson = False,
) -> None:
    """Compare GPUs by name alone: how many times as fast on common jobs, why, and what would turn it round."""
    from gpuwise.questions.compare.text import render

    answer = api.compare(
        names,
        models=model or (),
        mode=mode,
        precision=precision,
        batch=batch,
        stack=stack,
        cpu=cpu,
        price=price or (),
        prices=prices,
        currency=currency,
        progress=show_progress,
    )
    print_answer(answer, render, json=json)
    if wants_figure(None):  # for a report
        from gpuwise.questions.compare.figure import ratios_figure

        write_figure(None, lambda: ratios_figure(answer), quiet=json)
