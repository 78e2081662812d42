"""A step whose large products run in fp8 or fp4, as Transformer Engine runs it: what stands between them stays in 16 bits.

Operands are cast before a product: the input in the forward pass, the gradient in the backward pass, each also transposed for the
product that makes the weights' gradients, which then needs no casts of its own. Embeddings, attention and the last layer are not
touched.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, Call, Op, Workload
from gpuwise.workload.transform.parts import Parts, parts_of

__all__ = ["as_trained", "in_low"]

_WEIGHT = CATEGORIES.index("weight")


def as_trained(workload: Workload) -> Workload:
    """Captures keep the tensors of fp8 training in bf16, as recipes do; its large products are in fp8."""
    return in_low(workload) if (workload.precision, workload.mode) == ("fp8", "train") else workload


def in_low(workload: Workload, dtype: str = "fp8") -> Workload:
    """The workload with the products of its repeated blocks in this type. Operands of fp4 are counted as bytes: its scales, and a
    second copy in another layout, make up for the rest."""
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
        if any(workload.buffers[row].category == _WEIGHT for row in call.reads[:2]):  # a weight's gradient finds both cast
            if call.op not in casts:
                casts[call.op] = draft.op(_cast(draft, op))
            draft.before(number, Call(casts[call.op], call.phase, call.module, (), ()))
    return draft.done(options={**workload.options, "products": dtype}, precision="fp8")


def _inside(parts: Parts, number: int) -> bool:
    return 0 < int(parts.place[number]) <= len(parts.blocks)


def _low(draft: Draft, op: Op, dtype: str) -> Op:
    reads = tuple(draft.tensor("fp8", draft.tensors[row].elements) for row in op.reads[:2])
    return replace(op, dtype=dtype, reads=(*reads, *op.reads[2:]))


def _cast(draft: Draft, op: Op) -> Op:
    """Read in 16 bits, written twice in 8: as it is, and transposed."""
    elements = draft.tensors[op.reads[0]].elements
    eight = draft.tensor("fp8", elements)
    return Op("cast", "cast_transpose", "fp8", (elements,), {}, (op.reads[0],), (eight, eight))
