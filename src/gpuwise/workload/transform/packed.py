"""Weights stored in fewer bits than a step computes in: unpacked before each product in training, inside its kernel in
inference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, Call, Op, Workload
from gpuwise.workload.transform.targets import linear_modules

__all__ = ["compute_in", "pack", "quantised"]

_WEIGHT = CATEGORIES.index("weight")


def pack(draft: Draft, calls: Iterable[int], weight_bytes: float, *, dtype: str = "", unpacked_bytes: float = 0.0) -> None:
    """Store the weights that these products read in this many bytes each, and unpack them before each product: to `dtype`, or
    to the product's own type. `unpacked_bytes` per weight are written by intermediate passes, if no single kernel unpacks
    it.
    """
    done: set[int] = set()
    for number in calls:
        call = draft.calls[number]
        if call is None:
            continue
        for place, row in enumerate(call.reads):
            if draft.buffers[row].category != _WEIGHT or draft.workload.calls[number].reads[place] != row:
                continue
            elements = draft.tensors[draft.ops[call.op].reads[place]].elements
            if row not in done:
                done.add(row)
                tensor = draft.tensor("uint8", draft.scaled(elements, weight_bytes))
                draft.buffers[row] = replace(draft.buffers[row], tensor=tensor)
            wide = draft.tensor(dtype or draft.ops[call.op].dtype, elements)
            widened = _widened(draft, call, number, row, wide, unpacked_bytes)
            reads = tuple(widened if other == row else other for other in call.reads)
            call = Call(call.op, call.phase, call.module, reads, call.writes)
        draft.calls[number] = call


def _widened(draft: Draft, call: Call, number: int, row: int, wide: int, unpacked_bytes: float) -> int:
    """Return the packed weight as this tensor, unpacked right before the call that reads it."""
    source = row
    if unpacked_bytes:
        between = draft.tensor("uint8", draft.scaled(draft.tensors[wide].elements, unpacked_bytes))
        source = draft.buffer(between, "temporary")
        _pass(draft, call, number, ("elementwise", "unpack"), row, source)
    widened = draft.buffer(wide, "temporary")
    _pass(draft, call, number, ("cast", "dequantise"), source, widened)
    return widened


def _pass(draft: Draft, call: Call, number: int, name: tuple[str, str], read: int, write: int, *, after: bool = False) -> None:
    """Add one pass from one buffer to another, next to this call."""
    source, made = (draft.buffers[row].tensor for row in (read, write))
    wide = draft.tensors[made]
    op = draft.op(Op(*name, wide.dtype, (wide.elements,), {}, (source,), (made,)))
    (draft.after if after else draft.before)(number, Call(op, call.phase, call.module, (read,), (write,)))


def compute_in(draft: Draft, calls: Iterable[int], dtype: str) -> None:
    """Run products in a narrower type than the tensors around them: cast what they read before, and what they write after."""
    for number in calls:
        call = draft.calls[number]
        if call is None:
            continue
        op = draft.ops[call.op]
        narrow = tuple(draft.tensor(dtype, draft.tensors[row].elements) for row in (*op.reads[:2], op.writes[0]))
        reads = list(call.reads)
        for place, row in enumerate(call.reads[:2]):
            if draft.tensors[draft.buffers[row].tensor].dtype != dtype:
                reads[place] = draft.buffer(narrow[place], "temporary")
                _pass(draft, call, number, ("cast", "_to_copy"), row, reads[place])
        made = draft.buffer(narrow[2], "temporary")
        product = draft.op(replace(op, dtype=dtype, reads=(*narrow[:2], *op.reads[2:]), writes=(narrow[2], *op.writes[1:])))
        draft.calls[number] = Call(product, call.phase, call.module, tuple(reads), (made, *call.writes[1:]))
        _pass(draft, call, number, ("cast", "_to_copy"), made, call.writes[0], after=True)


def quantised(workload: Workload, weight_bytes: float) -> Workload:
    """Return an inference step with the weights of linear layers in this many bytes each, unpacked inside the kernels that
    read them.
    """
    draft = Draft(workload)
    for numbers in linear_modules(workload).values():
        for number in numbers:
            call = workload.calls[number]
            op = workload.ops[call.op]
            wide = op.reads[1]
            packed = draft.tensor("uint8", draft.scaled(draft.tensors[wide].elements, weight_bytes))
            row = draft.op(replace(op, name=f"{op.name}_packed", reads=(op.reads[0], packed, *op.reads[2:])))
            draft.calls[number] = Call(row, call.phase, call.module, call.reads, call.writes)
            draft.buffers[call.reads[1]] = replace(draft.buffers[call.reads[1]], tensor=packed)
    return draft.done(options={**workload.options, "weight_bytes": weight_bytes})
