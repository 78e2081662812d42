"""How many contexts of a language model fit on a GPU besides the weights, with and without a paged key-value cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuwise.advise.trial import Trial
from gpuwise.prediction.choices import Choices, DoesNotApply
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, Workload

__all__ = ["PAGE", "Serving", "cache_bytes", "serving"]

PAGE = 16  # tokens: vLLM's default block
_INPUT = CATEGORIES.index("input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Contexts of `context` tokens at once: `users_paged` if the cache grows by pages, `users_reserved` if each reserves room
    for the longest context, `reserved_context` tokens, from its start. `cache_bytes_per_token` is for one GPU.
    """

    context: int
    reserved_context: int
    cache_bytes_per_token: float
    users_paged: int
    users_reserved: int
    page: int = PAGE


def cache_bytes(workload: Workload) -> float:
    """Bytes that one context keeps for each of its tokens: what the step is given and writes into."""
    written = {row for call in workload.calls for row in call.writes if workload.buffers[row].category == _INPUT}
    if not written or workload.seq is None or "seq" not in workload.symbols:
        return 0.0
    values = product_values(workload, 1.0 if "batch" in workload.symbols else None)[0]
    tensors = [workload.tensors[workload.buffers[row].tensor] for row in written]
    return sum(float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec in tensors) / workload.seq


def serving(trial: Trial, choices: Choices, longest: int | None) -> Serving | None:
    """Return the contexts that fit, by decoding steps; None if the model has no growing cache."""
    try:
        workload = trial.workload(choices)
    except DoesNotApply:
        return None
    token = cache_bytes(workload)
    if not token or workload.seq is None:
        return None
    pages = -(-workload.seq // PAGE) * PAGE
    reserved = max(longest or workload.seq, workload.seq)
    paged = trial.max_batch(replace(choices, seq=min(pages, longest or pages)))
    return Serving(
        context=workload.seq,
        reserved_context=reserved,
        cache_bytes_per_token=token,
        users_paged=paged,
        users_reserved=trial.max_batch(replace(choices, seq=reserved)),
    )
