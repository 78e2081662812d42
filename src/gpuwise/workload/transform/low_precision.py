"""Runs the large products of a step in fp8 or fp4, as Transformer Engine does; everything between them stays in 16 bits.

Operands are cast before a product: the input in the forward pass and the gradient in the backward pass, each also transposed for
the product that computes the weights' gradients, which then needs no further casts. Embeddings, attention and the last layer
are unchanged. For inference, the weights of these products are stored in 8 bits, and an input is cast once for all its readers.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, Call, Op, Workload
from gpuwise.workload.transform.parts import Parts, parts_of

__all__ = ["held_in_low", "in_low"]

_WEIGHT = CATEGORIES.index("weight")
_SIXTEEN = ("bf16", "fp16")
_NOTHING = "fp8: this model has no repeated blocks with large matrix products, so all of it runs in bf16"


def in_low(workload: Workload, dtype: str = "fp8") -> Workload:
    """Return the workload with the products in its repeated blocks in this type. fp4 operands count as one byte each: the
    scales and a second copy in another layout make up for the rest.
    """
    parts = parts_of(workload)
    draft = Draft(workload)
    made: dict[int, int] = {}
    casts: dict[int, int] = {}
    for number, call in enumerate(workload.calls):
        op = workload.ops[call.op]
        if op.kind != "matmul" or not _inside(parts, number):
            continue
        if call.op not in made:
            made[call.op] = draft.op(_low(draft, op, dtype))
        draft.calls[number] = Call(made[call.op], call.phase, call.module, call.reads, call.writes)
        if any(workload.buffers[row].category == _WEIGHT for row in call.reads[:2]):  # a weight's gradient reads cast operands
            if call.op not in casts:
                casts[call.op] = draft.op(_cast(draft, op))
            draft.before(number, Call(casts[call.op], call.phase, call.module, (), ()))
    return draft.done(options={**workload.options, "products": dtype}, precision="fp8")


def held_in_low(workload: Workload, dtype: str = "fp8") -> Workload:
    """Return an inference step with the products in its repeated blocks, and their weights, in this type."""
    parts = parts_of(workload)
    draft = Draft(workload)
    held = _only_multiplied(workload, parts)
    if not held:
        return replace(workload, notes=(*workload.notes, _NOTHING))
    cast: dict[int, int] = {}  # inputs, and their 8-bit copies
    for number, call in enumerate(workload.calls):
        weights = held.intersection(call.reads[:2])
        if workload.ops[call.op].kind != "matmul" or not weights:
            continue
        op = workload.ops[call.op]
        for row in weights:
            eight = draft.tensor("fp8", draft.tensors[workload.buffers[row].tensor].elements)
            draft.buffers[row] = replace(draft.buffers[row], tensor=eight)
        given = [(row, tensor) for row, tensor in zip(call.reads[:2], op.reads[:2], strict=True) if row not in held]
        for row, tensor in given:
            if row not in cast:
                eight = draft.tensor("fp8", draft.tensors[tensor].elements)
                cast[row] = draft.buffer(eight, "temporary")
                quantise = Op("cast", "quantise", "fp8", (draft.tensors[tensor].elements,), {}, (tensor,), (eight,))
                draft.before(number, Call(draft.op(quantise), call.phase, call.module, (row,), (cast[row],)))
        reads = tuple(cast.get(row, row) for row in call.reads)
        draft.calls[number] = Call(draft.op(_low(draft, op, dtype)), call.phase, call.module, reads, call.writes)
    return draft.done(options={**workload.options, "products": dtype}, precision="fp8")


def _only_multiplied(workload: Workload, parts: Parts) -> set[int]:
    """Return 16-bit weights that only products in the blocks read; this excludes an embedding table shared with the last
    layer.
    """
    multiplied, otherwise = set[int](), set[int]()
    for number, call in enumerate(workload.calls):
        product = workload.ops[call.op].kind == "matmul" and _inside(parts, number)
        weights = {row for row in call.reads if workload.buffers[row].category == _WEIGHT}
        multiplied |= weights.intersection(call.reads[:2]) if product else set()
        otherwise |= weights.difference(call.reads[:2]) if product else weights
    return {row for row in multiplied - otherwise if workload.tensors[workload.buffers[row].tensor].dtype in _SIXTEEN}


def _inside(parts: Parts, number: int) -> bool:
    return 0 < int(parts.place[number]) <= len(parts.blocks)


def _low(draft: Draft, op: Op, dtype: str) -> Op:
    reads = tuple(draft.tensor("fp8", draft.tensors[row].elements) for row in op.reads[:2])
    return replace(op, dtype=dtype, reads=(*reads, *op.reads[2:]))


def _cast(draft: Draft, op: Op) -> Op:
    """Add a cast that reads 16 bits and writes 8 bits twice: as they are, and transposed."""
    elements = draft.tensors[op.reads[0]].elements
    eight = draft.tensor("fp8", elements)
    return Op("cast", "cast_transpose", "fp8", (elements,), {}, (op.reads[0],), (eight, eight))
