"""The linear layers that adapters can be added to, and which of them a user means."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwise.workload.model.types import CATEGORIES, PHASES, Workload
from gpuwise.workload.transform.checkpoint import blocks_of

__all__ = ["TARGETS", "chosen_modules", "linear_modules"]

TARGETS = ("all", "attention", "mlp", "qkv", "qv")
_FORWARD = PHASES.index("forward")
_WEIGHT = CATEGORIES.index("weight")
# The last part of a layer's path in the common families. A single projection to q, k and v counts as each of them.
_TOGETHER = ("c_attn", "qkv_proj", "query_key_value", "Wqkv", "qkv", "in_proj")
_QUERIES = ("q_proj", "query", "q", "q_lin", "to_q")
_KEYS = ("k_proj", "key", "k", "k_lin", "to_k")
_VALUES = ("v_proj", "value", "v", "v_lin", "to_v")


def linear_modules(workload: Workload) -> dict[str, list[int]]:
    """Return the linear layers in the model's repeated blocks, with their forward calls."""
    prefixes = tuple(f"{block}." for block in blocks_of(workload))
    inside = [path.startswith(prefixes) for path in workload.modules]
    found: dict[str, list[int]] = {}
    held = _holding_weights(workload)
    for number, call in enumerate(workload.calls):
        is_product = call.phase == _FORWARD and inside[call.module] and workload.ops[call.op].kind == "matmul"
        if is_product and held & set(call.reads[1:2]):
            found.setdefault(workload.modules[call.module], []).append(number)
    return found


def _holding_weights(workload: Workload) -> set[int]:
    """Return the buffers of weights, and of their copies in another type."""
    held = {row for row, buffer in enumerate(workload.buffers) if buffer.category == _WEIGHT}
    for call in workload.calls:
        if call.phase == _FORWARD and workload.ops[call.op].kind == "cast" and held & set(call.reads):
            held.update(call.writes)
    return held


def chosen_modules(paths: Iterable[str], targets: str) -> tuple[str, ...]:
    """Return the layers that `targets` names: one of `TARGETS`, or comma-separated layer names.

    >>> chosen_modules(["h.0.attn.c_attn", "h.0.mlp.c_fc"], "attention"), chosen_modules(["h.0.mlp.c_fc"], "c_fc,c_proj")
    (('h.0.attn.c_attn',), ('h.0.mlp.c_fc',))
    """
    if targets in ("", "all"):
        return tuple(paths)
    if targets in ("attention", "mlp"):
        return tuple(path for path in paths if _is_attention(path) == (targets == "attention"))
    names = {
        "qv": (*_TOGETHER, *_QUERIES, *_VALUES),
        "qkv": (*_TOGETHER, *_QUERIES, *_KEYS, *_VALUES),
    }.get(targets) or tuple(name.strip() for name in targets.split(","))
    return tuple(path for path in paths if path.rpartition(".")[2] in names)


def _is_attention(path: str) -> bool:
    return any("attn" in part or "attention" in part for part in path.lower().split("."))
