"""Adds low-rank adapters to a captured step.

LoRA (Hu et al. 2021) freezes the weights of a model and adds two thin matrices, which are trained instead, to linear layers in
its blocks. The product for a layer's weight gradient is replaced by the thin ones, and all calls that served only the gradients
of frozen weights are removed. QLoRA (Dettmers et al. 2023) also stores those weights in 4 bits and unpacks them before each use.
DoRA (Liu et al. 2024) also trains the norm of each row of the weights, which it must compute in every step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuwise.workload.model.edit import Draft
from gpuwise.workload.model.types import CATEGORIES, PHASES, Call, Op, Workload
from gpuwise.workload.transform.packed import compute_in, pack
from gpuwise.workload.transform.targets import chosen_modules, linear_modules

__all__ = ["Adapters", "adapted"]

_FORWARD, _BACKWARD, _UPDATE = range(len(PHASES))
_WEIGHT = CATEGORIES.index("weight")
_GONE = tuple(CATEGORIES.index(name) for name in ("gradient", "optimizer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What is trained, and how frozen weights are stored.

    `targets` are as in `chosen_modules`. `dtype` is the type that the adapters compute in, if it differs from their layer's: PEFT
    keeps them in fp32 and casts what they read. With `weight_bytes` per parameter, frozen weights are packed and unpacked before
    each use, by passes that move `unpacked_bytes` more of each (0 for a single kernel). `computed_in` is the type of frozen
    products in a step whose other tensors are in fp32. With `lengths`, the rows of the weights are scaled too (DoRA).
    """

    rank: int
    targets: str = "all"
    dtype: str = ""
    dropout: bool = False
    lengths: bool = False
    weight_bytes: float | None = None
    unpacked_bytes: float = 0.0
    computed_in: str = ""


@dataclass(slots=True, kw_only=True)
class _Linear:
    """A linear layer: its calls in the forward pass, for the gradient of its input and for that of its weight."""

    forward: list[int]
    data: list[int]
    weight: list[int]


def _is_product(workload: Workload, call: Call) -> bool:
    return workload.ops[call.op].kind == "matmul"


# ---------------------------------------------------------------- adapters


def adapted(workload: Workload, how: Adapters) -> Workload:
    """Return a training step with frozen weights and adapters."""
    draft = Draft(workload)
    layers = _layers(draft, linear_modules(workload))
    products = [number for layer in layers.values() for number in (*layer.forward, *layer.data)]
    if how.weight_bytes is not None:
        pack(draft, products, how.weight_bytes, dtype=how.computed_in, unpacked_bytes=how.unpacked_bytes)
    if how.computed_in:
        compute_in(draft, products, how.computed_in)
    chosen = chosen_modules(layers, how.targets)
    trained: list[int] = []
    needed: set[int] = set()
    for path in chosen:
        trained += _adapt(draft, layers[path], how, needed)
    _leave_out(draft, needed)
    _update(draft, trained)
    draft.by_use(row for row, buffer in enumerate(workload.buffers) if buffer.category in _GONE)
    count = sum(_elements(draft, row) for row in trained if draft.buffers[row].category == _WEIGHT)
    told = {"lora_rank": how.rank, "trained_parameters": int(count)}
    return draft.done(optimizer="adamw", options={**workload.options, **told})


def _elements(draft: Draft, row: int) -> float:
    return draft.value(draft.tensors[draft.buffers[row].tensor].elements) or 0.0


def _layers(draft: Draft, found: dict[str, list[int]]) -> dict[str, _Linear]:
    """Return the calls of each layer. A product whose result size depends on neither batch nor sequence computes a weight's
    gradient.
    """
    workload = draft.workload
    layers = {path: _Linear(forward=calls, data=[], weight=[]) for path, calls in found.items()}
    for number, call in enumerate(workload.calls):
        layer = layers.get(workload.modules[call.module])
        if layer is None or call.phase != _BACKWARD or not _is_product(workload, call):
            continue
        made = draft.tensors[workload.ops[call.op].writes[0]].elements
        (layer.data if draft.value(made) is None else layer.weight).append(number)
    return {path: layer for path, layer in layers.items() if layer.weight}


class _Side:
    """Writes the small calls that accompany those of one layer."""

    def __init__(self, draft: Draft, call: Call, dtype: str) -> None:
        self._draft, self._module, self._dtype = draft, call.module, dtype

    def new(self, size: int, category: str, dtype: str = "") -> int:
        """Return a buffer with this many elements."""
        return self._draft.buffer(self._draft.tensor(dtype or self._dtype, size), category)

    def product(self, name: str, at: int, phase: int, sizes: tuple[int, int, int, int], reads: list[int], write: int) -> None:
        """Add matrix products of `sizes` (how many, m, n, k) after the call `at`."""
        draft = self._draft
        tensors = tuple(draft.buffers[row].tensor for row in reads)
        op = draft.matmul(name, self._dtype, sizes, tensors, draft.buffers[write].tensor)
        draft.after(at, Call(op, phase, self._module, tuple(reads), (write,)))

    def like(self, row: int, category: str, dtype: str = "") -> int:
        """Return a buffer with as many elements as another."""
        return self.new(self._draft.tensors[self._draft.buffers[row].tensor].elements, category, dtype)

    def each(self, name: str, at: int, phase: int, reads: list[int], writes: list[int], kind: str = "elementwise") -> None:
        """Add a pass over all elements of the first tensor it writes."""
        into = self._draft.tensors[self._draft.buffers[writes[0]].tensor]
        self._call(kind, name, at, phase, (into.elements,), reads, writes)

    def reduce(self, name: str, at: int, phase: int, reads: list[int], write: int) -> None:
        """Add a sum over most of the first tensor it reads."""
        sizes = tuple(self._draft.tensors[self._draft.buffers[row].tensor].elements for row in (reads[0], write))
        self._call("reduction", name, at, phase, sizes, reads, [write])

    def _call(
        self, kind: str, name: str, at: int, phase: int, sizes: tuple[int, ...], reads: list[int], writes: list[int]
    ) -> None:
        draft = self._draft
        sides = [tuple(draft.buffers[row].tensor for row in rows) for rows in (reads, writes)]
        op = draft.op(Op(kind, name, draft.tensors[sides[1][0]].dtype, sizes, {}, *sides))
        draft.after(at, Call(op, phase, self._module, tuple(reads), tuple(writes)))

    def cast(self, row: int, at: int, phase: int, category: str = "temporary") -> int:
        """Return this buffer in the type that the adapters compute in."""
        draft = self._draft
        tensor = draft.tensors[draft.buffers[row].tensor]
        if tensor.dtype == self._dtype:
            return row
        made = self.new(tensor.elements, category)
        self.each("lora_cast", at, phase, [row], [made], kind="cast")
        return made


@dataclass(slots=True, kw_only=True)
class _Kept:
    """The buffers that the forward pass of one adapted layer keeps for the backward pass. `lengths` are the row norms of DoRA:
    the trained ones, the computed ones, and what they scale.
    """

    x: int
    mask: int | None
    held: int
    matrices: tuple[int, int]
    lengths: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Sizes of a layer with an adapter. A layer of experts is a `group` of layers with `rows` tokens each, and every expert has
    its own adapter; other layers are groups of one."""

    group: int
    rows: int
    tokens: int
    wide: int
    deep: int
    thin: int
    out: int
    into: int

    @classmethod
    def of(cls, draft: Draft, op: Op, rank: int) -> _Sizes:
        batch, rows, wide, deep = op.sizes
        out, into, tokens = draft.times(batch, rows, wide), draft.times(batch, rows, deep), draft.times(batch, rows)
        one = draft.constant(1.0)
        group, each = (one, tokens) if draft.value(batch) is None else (batch, rows)
        thin = draft.constant(rank)
        return cls(group=group, rows=each, tokens=tokens, wide=wide, deep=deep, thin=thin, out=out, into=into)


def _adapt(draft: Draft, layer: _Linear, how: Adapters, needed: set[int]) -> list[int]:
    """Add the adapters of one layer in place of its weight's gradient. Return what is trained, and its gradients."""
    workload = draft.workload
    trained: list[int] = []
    for place, number in enumerate(layer.forward):
        call = workload.calls[number]
        op = workload.ops[call.op]
        size = _Sizes.of(draft, op, how.rank)
        side = _Side(draft, call, how.dtype or how.computed_in or op.dtype)
        kept = _forward(draft, side, number, size, how)
        trained += kept.matrices
        trained += kept.lengths[:1] if kept.lengths else ()
        if place >= len(layer.weight):
            continue
        at = layer.weight[len(layer.weight) - 1 - place]
        needed.update(workload.calls[at].reads)
        data = layer.data[len(layer.data) - 1 - place : len(layer.data) - place]
        trained += _backward(draft, side, at, data, size, kept, _slope(workload, at, call))
        draft.drop(at)
    return trained


def _forward(draft: Draft, side: _Side, at: int, size: _Sizes, how: Adapters) -> _Kept:
    """Two thin products, whose result is scaled and added, as in PEFT: each in a separate pass."""
    call = draft.workload.calls[at]
    down, up = (
        draft.buffer(draft.tensor("fp32", draft.times(size.group, side_size, size.thin)), "weight", stays=True)
        for side_size in (size.deep, size.wide)
    )
    x, mask = _input(side, call.reads[0], at, how.dropout)
    held = side.new(draft.times(size.tokens, size.thin), "activation")
    added, scaled = side.new(size.out, "temporary"), side.new(size.out, "temporary")
    side.product("lora_down", at, _FORWARD, (size.group, size.rows, size.thin, size.deep), [x, down], held)
    side.product("lora_up", at, _FORWARD, (size.group, size.rows, size.wide, size.thin), [held, up], added)
    side.each("lora_scale", at, _FORWARD, [added], [scaled])
    lengths = _lengths(draft, side, at, size, (down, up)) if how.lengths else None
    side.each("lora_add", at, _FORWARD, [call.writes[0], scaled], [call.writes[0]])
    return _Kept(x=x, mask=mask, held=held, matrices=(down, up), lengths=lengths)


def _input(side: _Side, row: int, at: int, dropout: bool) -> tuple[int, int | None]:
    """Return the input of the adapters, which is kept for their gradients, and its dropout mask."""
    x = side.cast(row, at, _FORWARD, "activation")
    if not dropout:
        return x, None
    dropped, mask = side.like(x, "activation"), side.like(x, "activation", "bool")
    side.each("native_dropout", at, _FORWARD, [x], [dropped, mask])
    return dropped, mask


def _lengths(draft: Draft, side: _Side, at: int, size: _Sizes, matrices: tuple[int, int]) -> tuple[int, int, int]:
    """DoRA: the row norms of weight plus adapters, computed in every forward pass, scale the layer's output."""
    call = draft.calls[at] or draft.workload.calls[at]
    whole, summed = (side.new(draft.times(size.group, size.deep, size.wide), "temporary") for _ in range(2))
    per_row = draft.tensor("fp32", draft.times(size.group, size.wide))
    trained, norms = draft.buffer(per_row, "weight", stays=True), draft.buffer(per_row, "activation")
    side.product("dora_weight", at, _FORWARD, (size.group, size.wide, size.deep, size.thin), [*matrices], whole)
    side.each("dora_add", at, _FORWARD, [call.reads[1], whole], [summed])
    side.reduce("dora_norm", at, _FORWARD, [summed], norms)
    scaled = side.new(size.out, "activation")
    side.each("dora_scale", at, _FORWARD, [call.writes[0], norms, trained], [scaled])
    return trained, norms, scaled


def _backward(draft: Draft, side: _Side, at: int, data: Iterable[int], size: _Sizes, kept: _Kept, slope: int) -> list[int]:
    """Four thin products for each two in the forward pass. Returns the gradients."""
    down, up = kept.matrices
    grads = [draft.buffer(draft.buffers[row].tensor, "gradient") for row in kept.matrices]
    slope = side.cast(slope, at, _BACKWARD)
    if kept.lengths:
        trained, norms, scaled = kept.lengths
        grads.append(draft.buffer(draft.buffers[trained].tensor, "gradient"))
        side.reduce("dora_lengths", at, _BACKWARD, [slope, scaled], grads[2])
        side.each("dora_scale", at, _BACKWARD, [slope, norms, trained], [slope])
    inner, scaled_slope = side.new(draft.times(size.tokens, size.thin), "temporary"), side.new(size.out, "temporary")
    side.each("lora_scale", at, _BACKWARD, [slope], [scaled_slope])
    side.product(
        "lora_up_weight", at, _BACKWARD, (size.group, size.thin, size.wide, size.rows), [kept.held, scaled_slope], grads[1]
    )
    side.product("lora_up_data", at, _BACKWARD, (size.group, size.rows, size.thin, size.wide), [scaled_slope, up], inner)
    side.product("lora_down_weight", at, _BACKWARD, (size.group, size.deep, size.thin, size.rows), [kept.x, inner], grads[0])
    for number in data:
        into, last = draft.workload.calls[number].writes[0], max(at, number)
        through = side.new(size.into, "temporary")
        side.product("lora_down_data", last, _BACKWARD, (size.group, size.rows, size.deep, size.thin), [inner, down], through)
        if kept.mask is not None:
            side.each("native_dropout_backward", last, _BACKWARD, [through, kept.mask], [through])
        side.each("lora_add_data", last, _BACKWARD, [into, through], [into])
    return grads


def _slope(workload: Workload, at: int, forward: Call) -> int:
    """Return the operand of a weight's gradient that is not the layer's input."""
    reads = workload.calls[at].reads
    others = [row for row in reads if row != forward.reads[0]]
    return others[0] if others else reads[0]


def _leave_out(draft: Draft, needed: set[int]) -> None:
    """Drop the whole update and all backward calls that lead to no adapter."""
    for number in range(len(draft.workload.calls) - 1, -1, -1):
        call = draft.calls[number]
        if call is None or call.phase == _FORWARD:
            continue
        before = draft.workload.calls[number]  # products in another type write their own buffer, which is cast to this one
        if call.phase == _BACKWARD and needed & {*call.writes, *before.writes}:
            needed.update((*call.reads, *before.reads))
        else:
            draft.drop(number)


def _update(draft: Draft, trained: list[int]) -> None:
    """One fused AdamW step over the adapters: two states for each."""
    end = len(draft.workload.calls)
    weights = [row for row in trained if draft.buffers[row].category == _WEIGHT]
    kept = set(weights)
    lists = [weights, [row for row in trained if row not in kept]]
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
