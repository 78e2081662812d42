"""Low-rank adapters on a captured step, and weights held in fewer bits.

LoRA (Hu et al. 2021): the weights of a model are frozen, and every linear layer of its blocks gets two thin matrices that are
trained instead. The product that made a layer's weight gradient gives way to the thin ones; what only served the gradients of
frozen weights goes away. QLoRA (Dettmers et al. 2023) also holds those weights in 4 bits and widens them before each use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, PHASES, Call, Op, Workload
from gpuwise.workload.transform.checkpoint import blocks_of

__all__ = ["adapted", "linear_modules", "quantised"]

_FORWARD, _BACKWARD, _UPDATE = range(len(PHASES))
_WEIGHT = CATEGORIES.index("weight")
_GONE = tuple(CATEGORIES.index(name) for name in ("gradient", "optimizer"))


@dataclass(slots=True, kw_only=True)
class _Linear:
    """A linear layer: its calls forward, for the gradient of its input and for that of its weight."""

    forward: list[int]
    data: list[int]
    weight: list[int]


def linear_modules(workload: Workload) -> dict[str, list[int]]:
    """The linear layers inside the model's repeated blocks, with their forward calls."""
    prefixes = tuple(f"{block}." for block in blocks_of(workload))
    inside = [path.startswith(prefixes) for path in workload.modules]
    found: dict[str, list[int]] = {}
    held = _holding_weights(workload)
    for number, call in enumerate(workload.calls):
        if call.phase == _FORWARD and inside[call.module] and _is_product(workload, call) and held & set(call.reads[1:2]):
            found.setdefault(workload.modules[call.module], []).append(number)
    return found


def _is_product(workload: Workload, call: Call) -> bool:
    return workload.ops[call.op].kind == "matmul"


def _holding_weights(workload: Workload) -> set[int]:
    """Buffers of weights, and of copies of them in another type."""
    held = {row for row, buffer in enumerate(workload.buffers) if buffer.category == _WEIGHT}
    for call in workload.calls:
        if call.phase == _FORWARD and workload.ops[call.op].kind == "cast" and held & set(call.reads):
            held.update(call.writes)
    return held


# ---------------------------------------------------------------- adapters


def adapted(workload: Workload, rank: int, weight_bytes: float | None = None) -> Workload:
    """A training step with frozen weights and adapters of this rank; `weight_bytes` a parameter where frozen ones are packed."""
    draft = Draft(workload)
    layers = _layers(draft, linear_modules(workload))
    if weight_bytes is not None:
        _pack(draft, (number for layer in layers.values() for number in (*layer.forward, *layer.data)), weight_bytes)
    trained: list[int] = []
    needed: set[int] = set()
    for layer in layers.values():
        trained += _adapt(draft, layer, rank, needed)
    _leave_out(draft, needed)
    _update(draft, trained)
    draft.by_use(row for row, buffer in enumerate(workload.buffers) if buffer.category in _GONE)
    return draft.done(optimizer="adamw", options={**workload.options, "lora_rank": rank})


def _layers(draft: Draft, found: dict[str, list[int]]) -> dict[str, _Linear]:
    """The calls of each layer. A product whose result grows with neither batch nor sequence makes a weight's gradient."""
    workload = draft.workload
    layers = {path: _Linear(forward=calls, data=[], weight=[]) for path, calls in found.items()}
    for number, call in enumerate(workload.calls):
        layer = layers.get(workload.modules[call.module])
        if layer is None or call.phase != _BACKWARD or not _is_product(workload, call):
            continue
        made = draft.tensors[workload.ops[call.op].writes[0]].elements
        (layer.data if draft.value(made) is None else layer.weight).append(number)
    return {path: layer for path, layer in layers.items() if layer.weight}


def _adapt(draft: Draft, layer: _Linear, rank: int, needed: set[int]) -> list[int]:
    """Two thin products forward, four backward. Returns the new weights."""
    workload = draft.workload
    trained: list[int] = []
    thin = draft.constant(rank)
    for place, number in enumerate(layer.forward):
        call = workload.calls[number]
        op = workload.ops[call.op]
        batch, rows, wide, deep = op.sizes
        one = draft.constant(1.0)
        narrow = draft.tensor(op.dtype, draft.times(batch, rows, thin))
        sides = [draft.tensor("fp32", draft.times(size, thin)) for size in (deep, wide)]
        down, up = (draft.buffer(tensor, "weight", stays=True) for tensor in sides)
        trained += [down, up]
        tokens = draft.times(batch, rows)
        held = draft.buffer(narrow, "activation")

        def thin_call(name: str, phase: int, sizes: tuple[int, int, int], reads: list[int], write: int, of: Call = call) -> Call:
            tensors = tuple(draft.buffers[row].tensor for row in reads)
            row = draft.matmul(name, op.dtype, (one, *sizes), tensors, draft.buffers[write].tensor)  # noqa: B023
            return Call(row, phase, of.module, tuple(reads), (write,))

        draft.after(number, thin_call("lora_down", _FORWARD, (tokens, thin, deep), [call.reads[0], down], held))
        draft.after(number, thin_call("lora_up", _FORWARD, (tokens, wide, thin), [held, up, call.writes[0]], call.writes[0]))
        if place >= len(layer.weight):
            continue
        at = layer.weight[len(layer.weight) - 1 - place]
        needed.update(workload.calls[at].reads)
        slope, x = _slope(workload, at, call), call.reads[0]
        grads = [draft.buffer(tensor, "gradient") for tensor in sides]
        inner = draft.buffer(narrow, "temporary")
        draft.after(at, thin_call("lora_up_weight", _BACKWARD, (thin, wide, tokens), [held, slope], grads[1]))
        draft.after(at, thin_call("lora_up_data", _BACKWARD, (tokens, thin, wide), [slope, up], inner))
        draft.after(at, thin_call("lora_down_weight", _BACKWARD, (deep, thin, tokens), [x, inner], grads[0]))
        for data in layer.data[len(layer.data) - 1 - place : len(layer.data) - place]:
            into = workload.calls[data].writes[0]
            draft.after(max(at, data), thin_call("lora_down_data", _BACKWARD, (tokens, deep, thin), [inner, down, into], into))
        trained += grads
        draft.drop(at)
    return trained


def _slope(workload: Workload, at: int, forward: Call) -> int:
    """Of the two buffers that a weight's gradient is made of, the one that is not the layer's input."""
    reads = workload.calls[at].reads
    others = [row for row in reads if row != forward.reads[0]]
    return others[0] if others else reads[0]


def _leave_out(draft: Draft, needed: set[int]) -> None:
    """Drop backward calls that lead to no adapter, and the whole update."""
    for number in range(len(draft.workload.calls) - 1, -1, -1):
        call = draft.calls[number]
        if call is None or call.phase == _FORWARD:
            continue
        if call.phase == _BACKWARD and needed & set(call.writes):
            needed.update(call.reads)
        else:
            draft.drop(number)


def _update(draft: Draft, trained: list[int]) -> None:
    """One fused AdamW step over the adapters: two states for each."""
    end = len(draft.workload.calls)
    weights = [row for row in trained if draft.buffers[row].category == _WEIGHT]
    lists = [weights, [row for row in trained if row not in set(weights)]]
    for _ in range(2):
        lists.append([draft.buffer(draft.buffers[row].tensor, "optimizer", stays=True) for row in weights])
    if not weights:
        return
    elements = sum(draft.value(draft.tensors[draft.buffers[row].tensor].elements) or 0.0 for row in weights)
    read = [row for rows in lists for row in rows]
    written = [row for rows in (lists[0], *lists[2:]) for row in rows]
    sides = [tuple(draft.buffers[row].tensor for row in rows) for rows in (read, written)]
    sizes = (draft.constant(elements), draft.constant(float(len(weights))))
    row = draft.op(Op("optimizer", "_fused_adamw_", "fp32", sizes, {}, *sides))
    draft.before(end, Call(row, _UPDATE, 0, tuple(read), tuple(written)))


# ---------------------------------------------------------------- weights in fewer bits


def _pack(draft: Draft, calls: Iterable[int], weight_bytes: float) -> None:
    """Hold the weights these products read in few bits, and widen them before each."""
    done: set[int] = set()
    for number in calls:
        call = draft.calls[number]
        if call is None:
            continue
        for place, row in enumerate(call.reads):
            if draft.buffers[row].category != _WEIGHT or draft.workload.calls[number].reads[place] != row:
                continue
            wide = draft.ops[call.op].reads[place]
            packed = draft.tensor("uint8", draft.scaled(draft.tensors[wide].elements, weight_bytes))
            if row not in done:
                done.add(row)
                draft.buffers[row] = replace(draft.buffers[row], tensor=packed)
            widened = draft.buffer(wide, "temporary")
            size = (draft.tensors[wide].elements,)
            op = draft.op(Op("cast", "dequantise", draft.tensors[wide].dtype, size, {}, (packed,), (wide,)))
            draft.before(number, Call(op, call.phase, call.module, (row,), (widened,)))
            reads = tuple(widened if other == row else other for other in call.reads)
            call = Call(call.op, call.phase, call.module, reads, call.writes)
        draft.calls[number] = call


def quantised(workload: Workload, weight_bytes: float) -> Workload:
    """Inference with the weights of linear layers in so many bytes each, widened inside the kernels that read them."""
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
