"""Activation checkpointing on a captured step: blocks keep only their inputs and run again before their backward pass.

This follows non-reentrant `torch.utils.checkpoint`: the first backward call of a block starts the second run, which ends with the
last result that the backward pass needs. Tests compare it with real captures. Reentrant checkpoints, the default in Hugging Face
transformers, run the whole block again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from gpuwise.workload.model.edit import Draft, makers
from gpuwise.workload.model.types import CATEGORIES, PHASES, Call, Form, Workload

__all__ = ["blocks_of", "checkpointed", "inside_of"]

_FORWARD, _BACKWARD = PHASES.index("forward"), PHASES.index("backward")
_PASSING = tuple(CATEGORIES.index(name) for name in ("activation", "temporary"))


_blocks: WeakKeyDictionary[Form, dict[int, tuple[str, ...]]] = WeakKeyDictionary()


def blocks_of(workload: Workload, depth: int = 1) -> tuple[str, ...]:
    """Return the repeated blocks of a model in execution order: numbered modules with parts, at least two side by side.

    A `depth` of 1 means the outermost blocks (`layers.0`), 2 those inside them (`layers.0.blocks.0`).
    """
    known = _blocks.setdefault(workload.form, {})
    if depth not in known:
        known[depth] = _blocks_at(workload, depth)
    return known[depth]


def inside_of(workload: Workload, blocks: Collection[str]) -> list[bool]:
    """Return which modules are in one of these outermost blocks."""
    wanted = set(blocks)
    return [_numbered(path, 1) in wanted for path in workload.modules]


def _blocks_at(workload: Workload, depth: int) -> tuple[str, ...]:
    ran = dict.fromkeys(workload.calls.module[workload.calls.phase == _FORWARD].tolist())
    found: dict[str, set[str]] = {}
    for module in ran:
        path = workload.modules[module]
        if block := _numbered(path, depth):
            found.setdefault(block, set()).add(path)
    beside: dict[str, int] = defaultdict(int)
    whole = {block: paths for block, paths in found.items() if paths - {block}}
    for block in whole:
        beside[block.rpartition(".")[0]] += 1
    return tuple(block for block in whole if beside[block.rpartition(".")[0]] > 1)


def _numbered(path: str, depth: int) -> str:
    """`transformer.h.0.attn` at depth 1 -> `transformer.h.0`; an empty string for a path with fewer numbers."""
    parts = path.split(".")
    places = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: places[depth - 1] + 1]) if len(places) >= depth else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The calls of one block by phase, and the buffers it creates."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    made: frozenset[int]


def checkpointed(workload: Workload, blocks: Collection[str], *, whole: bool = False) -> Workload:
    """Return the workload with these blocks run again in the backward pass: up to the last result it needs, or `whole`."""
    draft = Draft(workload)
    found = [block for block in _found(workload, blocks) if block.forward and block.backward]
    for block in found:
        _run_again(draft, block, whole)
    return draft.done(options={**workload.options, "checkpoint": True})


def _found(workload: Workload, names: Iterable[str]) -> list[_Block]:
    """Return each block's calls, and the buffers that its forward calls write first."""
    wanted = tuple(names)
    owner = _owners(workload, wanted)
    calls: dict[tuple[str, int], list[int]] = defaultdict(list)
    made: dict[str, set[int]] = defaultdict(set)
    maker = makers(workload)
    for number, call in enumerate(workload.calls):
        name = owner[call.module]
        if not name:
            continue
        calls[name, call.phase].append(number)
        if call.phase == _FORWARD:
            made[name].update(row for row in call.writes if maker[row] == number and workload.buffers[row].category in _PASSING)
    return [
        _Block(forward=tuple(calls[name, _FORWARD]), backward=tuple(calls[name, _BACKWARD]), made=frozenset(made[name]))
        for name in wanted
    ]


def _owners(workload: Workload, names: Collection[str]) -> list[str]:
    """Return for every module the block that contains it, if any."""
    return [next((name for name in names if path == name or path.startswith(name + ".")), "") for path in workload.modules]


def _run_again(draft: Draft, block: _Block, whole: bool) -> None:
    """Insert the block's forward calls before its first backward call, with new buffers."""
    workload, start = draft.workload, block.backward[0]
    read = {row for number in block.backward for row in workload.calls[number].reads} & block.made
    if not read:
        return
    last = max(number for number in block.forward if whole or read & set(workload.calls[number].writes))
    again = [number for number in block.forward if number <= last]
    copy: dict[int, int] = {}
    for number in again:
        call = workload.calls[number]
        for row in call.writes:
            if row in block.made and row not in copy:
                copy[row] = draft.buffer(workload.buffers[row].tensor, "temporary")
        draft.before(start, Call(call.op, _BACKWARD, call.module, _instead(call.reads, copy), _instead(call.writes, copy)))
    for number in block.backward:
        now = draft.calls[number]
        if now is not None:
            draft.calls[number] = Call(now.op, now.phase, now.module, _instead(now.reads, copy), _instead(now.writes, copy))
    # What the backward pass would have needed is freed after its last use in the forward pass or in another block's second run.
    end = int((workload.calls.phase == _FORWARD).sum())
    draft.by_use(row for row in block.made if workload.buffers[row].died > end)


def _instead(rows: tuple[int, ...], copy: Mapping[int, int]) -> tuple[int, ...]:
    return tuple([copy.get(row, row) for row in rows])
