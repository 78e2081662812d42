"""Where answers go: stdout for the answer, stderr for the talk, JSON when asked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from gpuwise.report.figures.types import Figure

__all__ = ["check_figure", "colour", "print_json", "print_text", "show_progress", "terminal_width", "write_figure"]


def colour() -> bool:
    """Whether stdout shows bold text."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Columns of the terminal, or None where the output goes to a file or pipe and nothing needs to be cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_text(text: str) -> None:
    """Write the answer, whatever encoding the terminal has."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def print_json(answer: dict[str, Any]) -> None:
    """Write one JSON object and nothing else."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")


def show_progress(text: str) -> None:
    """One line on stderr for each thing that long work begins, where a person is watching."""
    if sys.stderr.isatty():
        sys.stderr.write(f"… {text}\n")


def check_figure(path: Path | None) -> None:
    """Whether the figure that was asked for, if any, can be written: known before the work begins."""
    if path is not None:
        from gpuwise.report.figures import files

        files.check_figure(path)


def write_figure(path: Path | None, build: Callable[[], Figure], *, quiet: bool) -> None:
    """Write the figure where one was asked for, and say where, unless stdout is JSON."""
    if path is not None:
        from gpuwise.report.figures import files

        files.save(build(), path)
        if not quiet:
            print_text(f"\nfigure: {path}")
