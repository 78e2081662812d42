"""Answers questions with the current code on frozen tables, for the texts in tests/golden.

Golden texts show what a change does to wording and layout. On the live tables, they would also change with every value: a refit
of the constants rewrote half of them, and one new GPU broke those that list or count GPUs, so that changes in wording were lost
among changed numbers. tests/golden/frozen therefore keeps copies of the tables that the questions read (catalogue, constants,
ranges, prices), and a separate process answers from a copy of the package with these tables instead of the live ones. The code is
live; only the tables are frozen. The process is separate because tables are read once and cached, some at import, so live and
frozen values would mix. tests/accuracy and tests/data judge the values themselves.

When the format of a table changes, `python tests/freezing.py` replaces the frozen tables by the current ones; a new table is
copied there by hand. Then GPUWISE_UPDATE_GOLDEN=1 pytest tests/golden renews the texts: read the diff.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.money import prices as money_prices
from gpuwise.surfaces.cli.app import app

DAY = date(2026, 11, 16)  # ages of prices
TABLES = Path(__file__).parent / "golden" / "frozen"
PACKAGE = Path(gpuwise.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed, or the error it ended with."""

    text: str
    refused: bool


def answer(arguments: Sequence[str], folder: Path, width: int = 100) -> Answer:
    """What this process's gpuwise prints on the given day, run in a folder where it also looks for the user's data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "dumb")
        patch.setenv("GPUWISE_DATA", str(folder))
        patch.setattr(money_prices, "today", lambda: DAY)
        patch.setitem(sys.modules, "gpuhunt", None)  # as where the extra is not installed
        result = CliRunner().invoke(app, list(arguments), prog_name="gpuwise")
    refused = isinstance(result.exception, GpuwiseError)
    if result.exception is not None and not refused and not isinstance(result.exception, SystemExit):
        raise result.exception  # a crash has no text: left alone, it would be recorded as an empty golden file
    return Answer(text=f"{result.exception}\n" if refused else result.output, refused=refused)


class Frozen:
    """A process that answers from the frozen tables until it is closed."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(PACKAGE, folder / "gpuwise")
        for table in tables():
            place = folder / "gpuwise" / table
            if not place.is_file():
                raise FileNotFoundError(f"frozen/{table} has no live table to stand in for: was it moved?")
            shutil.copyfile(TABLES / table, place)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__, "answer"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parent)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def answer(self, arguments: Sequence[str], folder: Path) -> Answer:
        told: dict[str, Any] = self._ask(json.dumps({"arguments": list(arguments), "folder": str(folder)}))
        return Answer(**told)

    def _ask(self, question: str) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise RuntimeError(f"the answering process ended with {self._process.wait()} on {question}")
        told: dict[str, Any] = json.loads(reply)
        return told

    def close(self) -> None:
        self._process.communicate()  # the process ends when its input ends


def tables() -> list[Path]:
    """The frozen tables, by their place in the package."""
    return sorted(path.relative_to(TABLES) for path in TABLES.rglob("*") if path.is_file())


def _answer_all() -> None:
    replies = sys.stdout  # a command's own output goes to the runner's
    for line in sys.stdin:
        question = json.loads(line)
        found = answer(question["arguments"], Path(question["folder"]))
        replies.write(json.dumps({"text": found.text, "refused": found.refused}) + "\n")
        replies.flush()


def _freeze() -> None:
    for table in tables():
        shutil.copyfile(PACKAGE / table, TABLES / table)


if __name__ == "__main__":
    _answer_all() if sys.argv[1:] == ["answer"] else _freeze()
