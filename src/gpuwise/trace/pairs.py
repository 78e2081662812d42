"""Pairs the begin and end events of a Chrome trace: on each thread, an end closes the most recent begin.

Writers do not always name what they end. If they do and the name differs, the begins above it were never ended.
"""

from __future__ import annotations

import math
from typing import Any

from gpuwise.trace.records import Begin, End, Record

__all__ = ["Pairs"]

_DEEPEST = 10_000  # begin events that are open at once on one thread; deeper ones were never ended


class Pairs:
    """Open begin events by thread. Batches are given in the order of the file, which is the order of time on each thread."""

    def __init__(self) -> None:
        self._open: dict[tuple[Any, Any], list[Begin]] = {}
        self._lost = 0

    @property
    def unmatched(self) -> int:
        """Begins without an end and ends without a begin, so far."""
        return self._lost + sum(len(stack) for stack in self._open.values())

    def matched(self, batch: list[Any]) -> list[Record]:
        """The events that end in this batch."""
        found = []
        for entry in [one for one in batch if type(one) is Begin or type(one) is End]:
            stack = self._open.setdefault((entry.pid, entry.tid), [])
            if type(entry) is Begin:
                stack.append(entry)
                if len(stack) > _DEEPEST:
                    stack.pop(0)
                    self._lost += 1
                continue
            begun = self._begun(stack, entry)
            if begun is None or not _is_later(entry.ts, begun.ts):
                self._lost += 1 if begun is None else 2
                continue
            found.append(
                Record(
                    cat=begun.cat,
                    name=begun.name,
                    ts=begun.ts,
                    dur=entry.ts - begun.ts,
                    pid=begun.pid,
                    tid=begun.tid,
                    args=begun.args,
                )
            )
        return found

    def _begun(self, stack: list[Begin], end: Any) -> Begin | None:
        """Remove what an end closes from the stack, and return it."""
        if not end.name or (stack and stack[-1].name == end.name):
            return stack.pop() if stack else None
        place = next((number for number in range(len(stack) - 1, -1, -1) if stack[number].name == end.name), None)
        if place is None:
            return None
        self._lost += len(stack) - 1 - place
        begun = stack[place]
        del stack[place:]
        return begun


def _is_later(end: float, begin: float) -> bool:
    try:
        return math.isfinite(end) and math.isfinite(begin) and end >= begin
    except OverflowError:
        return False
