"""Writes answers to stdout, messages to stderr, and JSON on request. With `--report FILE`, every command that answers also
writes the same text and charts to one file.
"""

from __future__ import annotations

import functools
import inspect
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, Protocol

import typer

from gpuwise.core.encoding import to_json
from gpuwise.core.errors import BadValue, GpuwiseError

if TYPE_CHECKING:
    from gpuwise.render.chart import Figure

__all__ = [
    "Answer",
    "Kept",
    "check_figure",
    "colour",
    "keeping",
    "print_answer",
    "print_json",
    "print_text",
    "show_progress",
    "terminal_width",
    "wants_figure",
    "with_report",
    "write_figure",
]


@dataclass
class Kept:
    """What a command has said and drawn, for a report of it."""

    texts: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)


_kept: Kept | None = None


@contextmanager
def keeping() -> Iterator[Kept]:
    """Keep what is printed meanwhile, and let figures be drawn that nobody asked a file for."""
    global _kept
    _kept = Kept()
    try:
        yield _kept
    finally:
        _kept = None


def colour() -> bool:
    """Whether stdout shows bold text."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Columns of the terminal, or None where the output goes to a file or pipe and nothing needs to be cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_text(text: str) -> None:
    """Write the answer, whatever encoding the terminal has."""
    if _kept is not None:
        _kept.texts.append(text)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def print_json(answer: dict[str, Any]) -> None:
    """Write one JSON object and nothing else."""
    text = to_json(answer, indent=2).decode()
    if _kept is not None:
        _kept.texts.append(text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        import json

        text = json.dumps(json.loads(text), indent=2)  # signs the terminal does not know are written as numbers
    sys.stdout.write(text + "\n")


class Answer(Protocol):
    """What a question comes to."""

    def to_dict(self) -> dict[str, Any]: ...


def print_answer(answer: Answer, render: Callable[..., str], *, json: bool, verbose: bool | None = None, **options: Any) -> None:
    """Write an answer: as one JSON object, or as the text that `render` makes of it with these options: brief, or with `verbose`
    whole."""
    if json:
        print_json(answer.to_dict())
        return
    if verbose is not None:
        options["verbose"] = verbose
    print_text(render(answer, **options, width=terminal_width(), colour=colour()))


def show_progress(text: str) -> None:
    """One line on stderr for each thing that long work begins, where a person is watching."""
    if sys.stderr.isatty():
        sys.stderr.write(f"… {text}\n")


def check_figure(path: Path | None) -> None:
    """Whether the figure that was asked for, if any, can be written: known before the work begins."""
    if path is not None:
        from gpuwise.render import files

        files.check_figure(path)


def wants_figure(path: Path | None) -> bool:
    """Whether anybody will look at a figure."""
    return path is not None or _kept is not None


def write_figure(path: Path | None, build: Callable[[], Figure], *, quiet: bool) -> None:
    """Write the figure where one was asked for, and say where, unless stdout is JSON."""
    if _kept is not None:
        with suppress(GpuwiseError):  # where there is nothing to draw the text stands alone
            _kept.figures.append(build())
    if path is not None:
        from gpuwise.render import files

        files.save(build(), path)
        if not quiet:
            print_text(f"\nfigure: {path}")


# ---------------------------------------------------------------- reports

_Report = Annotated[
    Optional[Path],
    typer.Option(
        "--report", help="Also write a report to this .html file, or to this .md file with its figures in separate files."
    ),
]


def with_report(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one more option."""

    @functools.wraps(command)
    def answered(*, report: Path | None = None, **options: Any) -> None:
        if report is None:
            command(**options)
            return
        _check_report(report)
        with keeping() as kept:
            try:
                command(**options)
            finally:
                if kept.texts:  # an answer of "no" ends the command, and is one
                    _write_report(report, kept)
        if not options.get("json"):
            print_text(f"\nreport: {', '.join(map(str, [report, *_beside(report, kept)]))}")

    given = inspect.signature(command, eval_str=True)
    more = inspect.Parameter("report", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Report)
    answered.__signature__ = given.replace(parameters=[*given.parameters.values(), more])  # type: ignore[attr-defined]
    answered.__annotations__ = {**command.__annotations__, "report": _Report}
    return answered


def _check_report(path: Path) -> None:
    from gpuwise.core.files import check_place
    from gpuwise.render.document import ENDINGS

    if path.suffix.lower() not in ENDINGS:
        raise BadValue(
            f"{path} does not have a supported report file extension",
            known=", ".join(ENDINGS),
            hint=f"try `--report {path.stem or 'report'}.html`",
        )
    check_place(path, "report.html")


def _write_report(path: Path, kept: Kept) -> None:
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


def _beside(path: Path, kept: Kept) -> list[Path]:
    """The files of a Markdown report's figures: its own name with another ending, numbered from the second on."""
    if path.suffix.lower() == ".html":
        return []
    return [path.with_name(f"{path.stem}{f'-{place}' if place > 1 else ''}.svg") for place in range(1, len(kept.figures) + 1)]
