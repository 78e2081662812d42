"""`gpuwise compare`: card A or card B?"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.cli.output import colour, print_json, print_text, show_progress, terminal_width

__all__ = ["compare"]


def compare(
    names: Annotated[list[str], typer.Argument(metavar="GPU GPU...", help="Two or more GPUs; the first is the baseline.")],
    model: Annotated[Optional[list[str]], typer.Option("--model", help="Compare on this model; may be repeated.")] = None,
    mode: Annotated[str, typer.Option(help="train (if you give none) or infer, for --model.")] = "",
    precision: Annotated[str, typer.Option(help="A precision for --model; else what suits each GPU.")] = "",
    batch: Annotated[str, typer.Option(help="Samples per step for --model.")] = "",
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare GPUs by name alone: how many times as fast on common jobs, why, and what would turn it round."""
    from gpuwise.report.compare import render

    answer = api.compare(names, models=model or (), mode=mode, precision=precision, batch=batch, progress=show_progress)
    if json:
        print_json(answer.to_dict())
    else:
        print_text(render(answer, width=terminal_width(), colour=colour()))
