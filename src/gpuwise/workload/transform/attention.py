"""Attention as software without a fused kernel runs it: with the scores of all pairs of tokens in memory.

A captured step has attention as one op, whatever the software. If that op is unfused, PyTorch writes the scores, then their
softmax (in fp32 under autocast), then a copy in the type of the values; the backward pass needs the last two.
"""

from __future__ import annotations

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import PHASES, Workload

__all__ = ["has_attention", "unfolded"]

_FORWARD = PHASES.index("forward")


def has_attention(workload: Workload) -> bool:
    """Return whether there is attention that could run as one kernel."""
    return any(op.kind == "attention" for op in workload.ops)


def unfolded(workload: Workload) -> Workload:
    """Return the same step with its attention scores in memory."""
    draft = Draft(workload)
    readers: dict[int, int] = {}
    for number, call in enumerate(workload.calls):
        if workload.ops[call.op].kind == "attention" and call.phase != _FORWARD:
            readers.update(dict.fromkeys(call.reads, number))
    for number, call in enumerate(workload.calls):
        op = workload.ops[call.op]
        if op.kind != "attention" or call.phase != _FORWARD:
            continue
        batch, heads, _, queries, keys = op.sizes[:5]
        pairs = draft.times(batch, heads, queries, keys)
        until = max((readers[row] for row in call.writes if row in readers), default=number)
        exact = "fp32" if workload.precision.startswith("amp") else op.dtype
        draft.buffer(draft.tensor(op.dtype, pairs), "temporary", during=(number, number))
        for dtype in (exact, op.dtype):
            draft.buffer(draft.tensor(dtype, pairs), "activation" if until > number else "temporary", during=(number, until))
    return draft.done(options={**workload.options, "unfused_attention": True})
