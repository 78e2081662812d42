"""`gpuwise validate`: how wrong the predictions are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli.output import check_figure, print_answer, show_progress, write_figure

__all__ = ["validate"]


def validate(
    held_out: Annotated[
        Optional[Path], typer.Option("--held-out", help="A file of measurements, .csv or .parquet; else our own table.")
    ] = None,
    by: Annotated[str, typer.Option(help="Break down by gpu, model, family or source.")] = "gpu",
    measured_rows: Annotated[int, typer.Option(help="Rows of each (source, model) given as the user's own measurements.")] = 0,
    figure: Annotated[Optional[Path], typer.Option("--figure", help="Draw it too: FILE.svg, FILE.html or FILE.png.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with every residual.")] = False,
) -> None:
    """Hold predictions against published measurements: errors, order of GPUs, honesty of ranges, beside simple rules."""
    from gpuwise.questions.validate.answer import BREAKDOWNS
    from gpuwise.questions.validate.figure import accuracy_figure
    from gpuwise.questions.validate.text import render

    if by not in BREAKDOWNS:
        raise BadValue(f"'{by}' is nothing to break down by", looked_in=", ".join(BREAKDOWNS), hint="for example `--by gpu`")
    check_figure(figure)
    answer = api.validate(held_out, measured_rows=measured_rows, progress=show_progress)
    print_answer(answer, render, json=json, by=by)
    write_figure(figure, lambda: accuracy_figure(answer, by=by), quiet=json)
