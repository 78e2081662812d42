"""Commands that show progress or run another program: what the command line adds to their questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import Question, Shown
from gpuwise.surfaces.cli.progress import FileBar, counting, show_share

__all__ = ["RUNNERS", "Asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed: values by name, apart from those that are only about how the answer is shown."""

    options: Any
    shown: dict[str, Any]
    surface: dict[str, Any]


def _why(question: Question, asked: Asked) -> Shown:
    """A bar while a file is read; over many runs a bar that counts them."""
    from gpuwise.questions.why.ask import asks_many

    answer: Shown
    if not asks_many(asked.options):
        answer = question.answer(asked.options, FileBar(), announce=lambda text: print(text, file=sys.stderr, flush=True))
        return answer
    form = asked.shown.get("format", "text")
    if form != "text":
        raise BadValue(f"--format {form} works only with a single run", hint="leave out --each, --on, --out and --fresh")
    with counting("runs") as show:
        answer = question.answer(asked.options, progress_of_many=show)
        return answer


def _bench(question: Question, asked: Asked) -> Shown:
    answer: Shown = question.answer(asked.options, show_share)
    return answer


def _sweep(question: Question, asked: Asked) -> Shown:
    with counting("parts") as show:
        answer: Shown = question.answer(asked.options, show)
        return answer


def _watch(question: Question, asked: Asked) -> Shown:
    from gpuwise.surfaces.cli.watching import watch_live

    return watch_live(question, asked.options, json=bool(asked.surface["json"]))


RUNNERS: dict[str, Callable[[Question, Asked], Shown]] = {"why": _why, "bench": _bench, "sweep": _sweep, "watch": _watch}
