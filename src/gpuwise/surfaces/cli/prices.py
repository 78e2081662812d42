"""`gpuwise prices`: what GPUs cost, and of when that is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer, print_json, print_text

__all__ = ["prices"]


def prices(
    names: Annotated[
        Optional[list[str]], typer.Argument(metavar="[GPU]...", help="GPUs by any name; or `refresh` to fetch today's rents.")
    ] = None,
    price: Annotated[Optional[list[str]], typer.Option(help="A price of yours: 'RTX 3090=700'; may be repeated.")] = None,
    file: Annotated[Optional[Path], typer.Option("--prices", help="A TOML file with prices of your own.")] = None,
    currency: Annotated[str, typer.Option(help="Money typed and shown: EUR=1.08 means one euro is 1.08 dollars.")] = "",
    regions: Annotated[bool, typer.Option("--regions", help="Electricity and carbon by country instead.")] = False,
    json: options.AsJson = False,
) -> None:
    """List what GPUs cost to buy and to rent, with dates; `gpuwise prices refresh` fetches today's rents, only then."""
    if names and names[0].lower() == "refresh":
        _refresh(names[1:], json)
        return
    if names and regions:
        raise BadValue("names of GPUs and --regions were both given", hint="leave one of them out")
    from gpuwise.questions.prices.text import render

    answer = api.prices(names or (), price=price or (), file=file, currency=currency, regions=regions)
    print_answer(answer, render, json=json)


def _refresh(rest: list[str], json: bool) -> None:
    if rest:
        raise BadValue(
            f"refresh takes no names, but got '{rest[0]}'", hint="`gpuwise prices refresh`, then `gpuwise prices NAME`"
        )
    from gpuwise.questions.prices.text import render_refresh

    found = api.refresh_prices()
    if json:
        print_json({**asdict(found), "path": str(found.path)})
    else:
        print_text(render_refresh(found))
