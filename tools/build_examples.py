"""Runs the commands in the docs and the README, and inserts their output and charts, so that no answer shown is typed by hand.

    python tools/build_examples.py [PAGE...]

A ```console block shows a command after `$ ` and the first lines of its answer; a last line `…` means that there are more. A
chart that a command draws, such as `--figure small_cnn.svg`, is stored as docs/images/small_cnn.svg.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from typer.testing import CliRunner

from gpuwise.money import prices
from gpuwise.surfaces.cli.app import app

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
DAY = date(2026, 11, 16)  # the age of prices is computed for this date
_BLOCK = re.compile(r"```(console|sh)\n(.*?)```", re.DOTALL)
_MORE = "…"


@dataclass(frozen=True, slots=True)
class Example:
    """A command and the lines of its answer that are shown. If `more` is set, these are only the first ones."""

    command: str
    shown: tuple[str, ...] = ()
    more: bool = False

    @property
    def figure(self) -> str:
        """The name of the file that the command draws, or an empty string."""
        found = re.search(r"--figure (\S+\.svg)", self.command)
        return found[1] if found else ""

    @property
    def arguments(self) -> list[str]:
        """What follows `gpuwise`, without comments and pipes."""
        words = shlex.split(self.command.split(" | ")[0], comments=True)[1:]
        return [sys.executable if word == "python" else word for word in words]


def pages() -> list[Path]:
    """All pages that contain commands for readers."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def examples(page: Path) -> list[Example]:
    """The commands on a page, in order."""
    return [one for _, body in _BLOCK.findall(page.read_text(encoding="utf-8")) for one in _of_block(body)]


def _of_block(body: str) -> list[Example]:
    found: list[Example] = []
    for line in body.splitlines():
        command = line.removeprefix("$ ")
        if command.startswith("gpuwise "):
            found.append(Example(command))
        elif found and "$ " in body:
            last = found[-1]
            found[-1] = Example(last.command, last.shown, True) if line == _MORE else Example(last.command, (*last.shown, line))
    return [Example(one.command, _stripped(one.shown), one.more) for one in found]


def _stripped(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Remove empty lines at the end, which only separate blocks."""
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)


def kept_figure(example: Example, page: Path) -> Path | None:
    """Where a command's figure is stored, if the page shows it."""
    shown = example.figure and f"images/{example.figure})" in page.read_text(encoding="utf-8")
    return IMAGES / example.figure if shown else None


def answer(example: Example) -> list[str]:
    """What the command prints in the current folder."""
    result = CliRunner().invoke(app, example.arguments)
    if result.exit_code != 0:
        raise SystemExit(f"{example.command}: {result.exception or result.output}")
    return result.stdout.strip("\n").split("\n")


def as_shown(example: Example, lines: list[str]) -> tuple[str, ...]:
    """The part of an answer that the page shows."""
    kept = [line for line in lines if not line.startswith("figure: ")]
    return _stripped(tuple(kept[: len(example.shown)] if example.more else kept))


@contextmanager
def reader_folder() -> Iterator[Path]:
    """A reader's folder with the examples in it, on a fixed date."""
    here, today = Path.cwd(), prices.today
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "examples").symlink_to(ROOT / "examples")
        os.chdir(name)
        prices.today = lambda: DAY
        try:
            yield Path(name)
        finally:
            prices.today = today
            os.chdir(here)


def rebuild(page: Path) -> None:
    """Update the answers and figures on one page."""
    text = page.read_text(encoding="utf-8")
    with reader_folder() as folder:
        for example in examples(page):
            if not example.shown and not kept_figure(example, page):
                continue
            lines = answer(example)
            if example.shown:
                old, new = "\n".join(example.shown), "\n".join(as_shown(example, lines))
                text = text.replace(f"$ {example.command}\n{old}", f"$ {example.command}\n{new}")
            if kept := kept_figure(example, page):
                kept.write_bytes((folder / example.figure).read_bytes())
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        rebuild(path)
