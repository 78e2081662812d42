"""Decides which of the files given to `why` have a timeline, and which code answers about those that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwise.core.errors import BadFile, BadValue
from gpuwise.questions.why.ask import RunQuery
from gpuwise.questions.why.file_answer import FileAnswer
from gpuwise.questions.why.hangs import explain_hang
from gpuwise.questions.why.memory import explain_memory
from gpuwise.questions.why.op_sums import explain_sums
from gpuwise.questions.why.readings import explain_readings
from gpuwise.trace.formats import TIMELINES, Format, format_of
from gpuwise.trace.read import find_files

__all__ = ["Sorted", "explain_files", "sort_files"]

_EXPLAINS: dict[Format, Callable[[Sequence[Path]], FileAnswer]] = {
    Format.MEMORY: explain_memory,
    Format.FLIGHT: explain_hang,
    Format.OP_TABLE: explain_sums,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Files by content; unknown ones are left to the timeline reader, which reports what is wrong with them."""

    timelines: tuple[Path, ...]
    others: dict[Format, tuple[Path, ...]]

    @property
    def read_as_timelines(self) -> tuple[Path, ...]:
        """Return timelines and anything that does not belong with them, which their reader reports as skipped."""
        strange = [path for kind, paths in self.others.items() if kind is not Format.TELEMETRY for path in paths]
        return (*self.timelines, *strange)


def sort_files(named: Sequence[str]) -> Sorted | None:
    """Sort the files by content, from their first bytes; None if the names alone are wrong."""
    if not named or any("://" in text for text in named):
        return None
    timelines: list[Path] = []
    others: dict[Format, list[Path]] = {}
    for path in find_files(named):
        try:
            found = format_of(path)
        except BadFile:
            found = Format.CHROME  # its reader reports what is wrong
        if found in TIMELINES:
            timelines.append(path)
        else:
            others.setdefault(found, []).append(path)
    return Sorted(timelines=tuple(timelines), others={found: tuple(paths) for found, paths in others.items()})


def explain_files(found: Sorted, query: RunQuery) -> FileAnswer:
    """Return the answer about files that are all of one kind."""
    if len(found.others) > 1:
        kinds = ", ".join(f"{paths[0].name} ({kind.value})" for kind, paths in found.others.items())
        raise BadValue(f"these files are of different kinds: {kinds}", hint="pass one kind of file at a time")
    if query.compare:
        raise BadValue("--compare works only on traces", hint="leave out --compare")
    ((kind, paths),) = found.others.items()
    return explain_readings(paths, query.gpu) if kind is Format.TELEMETRY else _EXPLAINS[kind](paths)
