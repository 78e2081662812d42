"""A plain forward pass of a language model, as benchmarks time it: scores for every token, and no cache of keys and values.

A captured prefill, by contrast, prepares for generation: it keeps keys and values, and needs only the scores of the last token.
"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import Workload

__all__ = ["scoring_every_token"]


def scoring_every_token(workload: Workload) -> Workload:
    """Return the same pass without its cache and with scores for all tokens. A workload that is not a prefill is unchanged."""
    if workload.options.get("phase") != "prefill":
        return workload
    draft = Draft(workload)
    for number, call in enumerate(workload.calls):
        if workload.ops[call.op].name == "copy_":  # a copy into the cache
            draft.drop(number)
    _score(draft)
    return draft.done(options={name: value for name, value in workload.options.items() if name != "phase"})


def _score(draft: Draft) -> None:
    """Change the last product from one row per sequence to one row per token."""
    workload = draft.workload
    tokens = next(op.sizes[3] for op in workload.ops if op.kind == "attention")
    number = len(workload.calls) - 1
    call = workload.calls[number]
    op = workload.ops[call.op]
    one, rows, columns, inner = op.sizes
    every = draft.times(rows, tokens)
    hidden, scores = (draft.tensor(op.dtype, draft.times(every, width)) for width in (inner, columns))
    whole = replace(op, sizes=(one, every, columns, inner), reads=(hidden, *op.reads[1:]), writes=(scores,))
    draft.calls[number] = replace(call, op=draft.op(whole))
    for row in call.writes:
        draft.buffers[row] = replace(draft.buffers[row], tensor=scores)
