"""Replaces attention that a model writes out (a product, a softmax, a product) with one fused kernel, which keeps no scores.

Attention is found by its scores: tensors with one value for every pair of tokens. All calls that touch them, from the product
that creates them to the gradients of queries, keys and values, are replaced by one forward and one backward kernel. If anything
else touches them (a learned bias, a second product), no fused kernel fits, and the calls stay. Tests compare this with a real
capture.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, PHASES, Call, Op, Workload

__all__ = ["folded"]

_FORWARD, _BACKWARD = PHASES.index("forward"), PHASES.index("backward")
_PASSING = tuple(CATEGORIES.index(name) for name in ("activation", "temporary"))
_LARGE = 0.5  # share of the scores' size: larger than a mask
_TAKEN_IN = ("matmul", "softmax", "elementwise", "cast", "copy", "random")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """The calls that touch the scores of one attention: products by phase, in order, and all calls."""

    forward: tuple[int, int]
    backward: tuple[int, ...]
    calls: tuple[int, ...]


def folded(workload: Workload) -> Workload | None:
    """Return the workload with its written-out attention fused, or None if there is none that can be fused."""
    found = _attentions(workload)
    if not found:
        return None
    draft = Draft(workload)
    for scores in found:
        _fuse(draft, scores)
    return draft.done(options={**workload.options, "folded_attention": len(found)})


def _attentions(workload: Workload) -> list[_Scores]:
    sizes = _sizes(workload)
    users: dict[int, list[int]] = defaultdict(list)
    for number, call in enumerate(workload.calls):
        for row in {*call.reads, *call.writes}:
            users[row].append(number)
    found = []
    for call in workload.calls:
        op = workload.ops[call.op]
        if op.kind == "softmax" and op.name == "_softmax" and call.phase == _FORWARD:
            connected = _connected(workload, sizes, users, call.writes[0])
            if _is_closed(workload, sizes, users, connected, call.writes[0]) and (scores := _checked(workload, connected)):
                found.append(scores)
    return found


def _sizes(workload: Workload) -> list[tuple[float, ...]]:
    """Return the elements of every buffer at two batches: buffers that are equal in both have the same shape."""
    batches = (workload.batch, workload.batch + 1) if "batch" in workload.symbols else (None, None)
    values = np.concatenate([product_values(workload, batch) for batch in batches])
    elements = [workload.tensors[buffer.tensor].elements for buffer in workload.buffers]
    return [tuple(column) for column in values[:, elements].T.tolist()]


def _connected(workload: Workload, sizes: list[tuple[float, ...]], users: dict[int, list[int]], start: int) -> list[int]:
    """Return all calls connected through temporary buffers of this size."""
    waiting, seen, calls = [start], {start}, set[int]()
    while waiting:
        for number in users[waiting.pop()]:
            calls.add(number)
            for row in (*workload.calls[number].reads, *workload.calls[number].writes):
                if row not in seen and sizes[row] == sizes[start] and workload.buffers[row].category in _PASSING:
                    seen.add(row)
                    waiting.append(row)
    return sorted(calls)


def _is_closed(
    workload: Workload, sizes: list[tuple[float, ...]], users: dict[int, list[int]], calls: list[int], scores: int
) -> bool:
    """Return whether only products lead in and out: nothing as large as the scores is combined with them, and nothing else
    reads their results.
    """
    inside = set(calls)
    for number in calls:
        call = workload.calls[number]
        if workload.ops[call.op].kind == "matmul":
            continue
        read_outside = any(sizes[row] != sizes[scores] and set(users[row]) - inside for row in call.writes)
        large = any(sizes[row] != sizes[scores] and sizes[row][0] >= _LARGE * sizes[scores][0] for row in call.reads)
        if read_outside or large:
            return False
    return True


def _checked(workload: Workload, calls: list[int]) -> _Scores | None:
    """Check for two forward products and, in training, four backward ones, with nothing between them that a kernel could not
    absorb.
    """
    products: dict[int, list[int]] = {_FORWARD: [], _BACKWARD: []}
    for number in calls:
        call = workload.calls[number]
        kind = workload.ops[call.op].kind
        if kind not in _TAKEN_IN or call.phase not in products:
            return None
        if kind == "matmul":
            products[call.phase].append(number)
    wanted = 4 if workload.mode == "train" else 0
    if len(products[_FORWARD]) != 2 or len(products[_BACKWARD]) != wanted:
        return None
    first, second = products[_FORWARD]
    return _Scores(forward=(first, second), backward=tuple(products[_BACKWARD]), calls=tuple(calls))


def _fuse(draft: Draft, scores: _Scores) -> None:
    workload = draft.workload
    first, second = (workload.calls[number] for number in scores.forward)
    one, (batch, rows, keys, deep) = draft.constant(1.0), workload.ops[first.op].sizes
    sizes = (batch, one, one, rows, keys, deep, workload.ops[second.op].sizes[2])
    dtype, attrs = workload.ops[second.op].dtype, {"causal": False, "mask": False}
    queries, values, out = first.reads[:2], second.reads[1], second.writes[0]
    kept = draft.buffer(draft.tensor("fp32", draft.times(batch, rows)), "activation")

    def call(name: str, phase: int, way: str, reads: tuple[int, ...], writes: tuple[int, ...], module: int) -> Call:
        sides = [tuple(draft.buffers[row].tensor for row in side) for side in (reads, writes)]
        return Call(draft.op(Op("attention", name, dtype, sizes, {**attrs, "pass": way}, *sides)), phase, module, reads, writes)

    inputs = (*queries, values)
    draft.after(scores.forward[1], call("gpuwise::attention", _FORWARD, "forward", inputs, (out, kept), second.module))
    if scores.backward:
        last, inside = max(scores.calls), set(scores.calls)
        touched = {row for number in inside for row in workload.calls[number].writes}
        made = [row for number in scores.backward for row in workload.calls[number].writes]
        read = {row for number in range(len(workload.calls)) if number not in inside for row in workload.calls[number].reads}
        gradients = tuple(row for row in made if row in read)
        slope = next(row for number in scores.backward for row in workload.calls[number].reads if row not in {*touched, *inputs})
        reads = (slope, *inputs, out, kept)
        draft.after(
            last, call("gpuwise::attention_backward", _BACKWARD, "backward", reads, gradients, workload.calls[last].module)
        )
    for number in scores.calls:
        draft.drop(number)
