"""`gpuwise doctor`: what this machine has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli.output import colour, print_json, print_text

__all__ = ["doctor"]


def doctor(
    catalog: Annotated[Optional[Path], typer.Option(help="A TOML file with GPUs of your own.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show Python, frameworks, drivers and GPUs of this machine, each GPU matched to the catalogue."""
    from gpuwise.questions.doctor.text import render

    checkup = api.doctor(catalog)
    if json:
        print_json(checkup.to_dict())
    else:
        print_text(render(checkup, colour=colour()))
