"""`--report FILE` on every command that answers: the same words and figures, as one file to keep."""

from __future__ import annotations

import functools
import inspect
import shlex
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from gpuwise.core.errors import BadValue
from gpuwise.surfaces.cli import output

__all__ = ["with_report"]

_Report = Annotated[
    Optional[Path],
    typer.Option(
        "--report", help="Also write the answer to this .html file, or to this .md file and its figures to files next to it."
    ),
]


def with_report(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one more option."""

    @functools.wraps(command)
    def answered(*, report: Path | None = None, **options: Any) -> None:
        if report is None:
            command(**options)
            return
        _check(report)
        with output.keeping() as kept:
            try:
                command(**options)
            finally:
                if kept.texts:  # an answer of "no" ends the command, and is one
                    _write(report, kept)
        if not options.get("json"):
            output.print_text(f"\nreport: {', '.join(map(str, [report, *_beside(report, kept)]))}")

    given = inspect.signature(command, eval_str=True)
    more = inspect.Parameter("report", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Report)
    answered.__signature__ = given.replace(parameters=[*given.parameters.values(), more])  # type: ignore[attr-defined]
    answered.__annotations__ = {**command.__annotations__, "report": _Report}
    return answered


def _check(path: Path) -> None:
    from gpuwise.core.files import check_place
    from gpuwise.render.document import ENDINGS

    if path.suffix.lower() not in ENDINGS:
        raise BadValue(
            f"{path} does not have the ending of a report file",
            looked_in=f"known endings: {', '.join(ENDINGS)}",
            hint=f"for example `--report {path.stem or 'report'}.html`",
        )
    check_place(path, "report.html")


def _write(path: Path, kept: output.Kept) -> None:
    from gpuwise.core.files import write_whole
    from gpuwise.render import document
    from gpuwise.render.svg import draw

    command, drawn = shlex.join(["gpuwise", *sys.argv[1:]]), [draw(figure) for figure in kept.figures]
    if path.suffix.lower() == ".html":
        write_whole(path, document.as_html(command, kept.texts, drawn, date.today()).encode())
        return
    beside = _beside(path, kept)
    for place, image in zip(beside, drawn, strict=True):
        write_whole(place, image.encode())
    images = [(figure.title, place.name) for figure, place in zip(kept.figures, beside, strict=True)]
    write_whole(path, document.as_markdown(command, kept.texts, images, date.today()).encode())


def _beside(path: Path, kept: output.Kept) -> list[Path]:
    """The files of a Markdown report's figures: its own name with another ending, numbered from the second on."""
    if path.suffix.lower() == ".html":
        return []
    return [path.with_name(f"{path.stem}{f'-{place}' if place > 1 else ''}.svg") for place in range(1, len(kept.figures) + 1)]
