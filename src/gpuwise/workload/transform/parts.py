"""Divides a captured step where a cluster may divide it: what runs before the repeated blocks, the blocks, and what runs
after.

Blocks that run the same calls are one kind and are predicted once. A unit is the first part, a kind of block, or the last part; a
model without repeated blocks is one unit. The optimizer belongs to no unit, because it works on whatever weights a rank holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpuwise.workload.model.types import PHASES, Ints, Workload
from gpuwise.workload.transform.checkpoint import blocks_of

__all__ = ["FIRST", "NOWHERE", "Parts", "parts_of"]

_FORWARD, _BACKWARD, _UPDATE = range(len(PHASES))
FIRST = 0
NOWHERE = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """`kinds` is the unit of each block in execution order: 1, 1, 1, ... in a plain transformer. The first part is unit 0, the
    last part unit `units - 1`. `place` is the position of every call: 0 before the blocks, i + 1 in block i, then after
    them. `unit` is the same as a unit, or `NOWHERE` for the optimizer and for calls of a block that another of its kind
    represents.
    """

    workload: Workload
    blocks: tuple[str, ...]
    kinds: tuple[int, ...]
    units: int
    place: Ints
    unit: Ints

    @property
    def last(self) -> int:
        return self.units - 1


_known: WeakKeyDictionary[Workload, Parts] = WeakKeyDictionary()


def parts_of(workload: Workload) -> Parts:
    """Return the parts of this workload, computed once."""
    found = _known.get(workload)
    if found is None:
        found = _known[workload] = _cut(workload)
    return found


def _cut(workload: Workload) -> Parts:
    blocks = blocks_of(workload)
    place = _places(workload, blocks)
    kinds = _kinds(workload, place, len(blocks))
    units = max(kinds, default=0) + 2
    stands = np.full(len(blocks) + 2, NOWHERE)
    for kind in set(kinds):
        stands[kinds.index(kind) + 1] = kind
    stands[0], stands[-1] = FIRST, units - 1
    unit = np.where(place == NOWHERE, NOWHERE, stands[np.maximum(place, 0)])
    return Parts(workload=workload, blocks=blocks, kinds=tuple(kinds), units=units, place=place, unit=unit)


def _places(workload: Workload, blocks: Sequence[str]) -> Ints:
    """Calls of modules outside the blocks take the position of their neighbours: before, after, or with the block that ran
    last.
    """
    number = {name: place for place, name in enumerate(blocks)}
    inside = np.array([_block_of(path, number) for path in workload.modules], dtype=np.int64)
    own = inside[workload.calls.module]
    phase = workload.calls.phase
    place = np.full(len(own), NOWHERE)
    for passing, before, after in ((_FORWARD, 0, len(blocks) + 1), (_BACKWARD, len(blocks) + 1, 0)):
        calls = np.flatnonzero(phase == passing)
        found = np.flatnonzero(own[calls] >= 0)
        if not len(found):
            place[calls] = 0
            continue
        latest = np.maximum.accumulate(np.where(own[calls] >= 0, np.arange(len(calls)), -1))
        place[calls] = np.where(latest < 0, before, own[calls][np.maximum(latest, 0)] + 1)
        place[calls[found[-1] + 1 :]] = after
    return place


def _block_of(path: str, number: dict[str, int]) -> int:
    """Return the block that contains a module, or -1."""
    parts = path.split(".")
    above = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return next((number[name] for name in above if name in number), -1)


def _kinds(workload: Workload, place: Ints, count: int) -> list[int]:
    """Blocks that call the same ops in the same order have the same kind. Kinds are numbered from 1 in order of appearance."""
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(1, count + 2))
    known: dict[bytes, int] = {}
    kinds = []
    for block in range(count):
        calls = order[starts[block] : starts[block + 1]]
        kinds.append(known.setdefault(workload.calls.op[calls].tobytes(), len(known) + 1))
    return kinds
