"""Derives related graphs from a captured one, so that only a few graphs need to be stored.

- another 16-bit type: the same graph with other dtypes; tf32 and fp8 change only what kernels may use;
- a model entirely in 16 bits: the fp32 graph with narrower tensors, except for what fused kernels keep in fp32;
- mixed precision in bf16: the fp16 graph without the gradient scaler, and with the casts that softmax needs there;
- an optimizer: its multi-tensor ops, appended to a graph that ends with the gradients;
- channels-last: the same convolutions in the other layout.

`tools/build_zoo.py --verify` and the tests compare each with a direct capture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadValue
from gpuwise.kernels.types import Choices, is_needless
from gpuwise.workload.model.edit import Graph, slots
from gpuwise.workload.model.types import CATEGORIES, Ints, Op, TensorSpec
from gpuwise.workload.transform.softmax import with_softmax_casts

__all__ = [
    "BLOCK",
    "OPTIMIZERS",
    "SMALLEST_IN_8_BITS",
    "channels_last",
    "narrowed",
    "retyped",
    "unscaled",
    "with_optimizer",
    "without",
]

_OPTIMIZER, _INPUT, _TEMPORARY = (CATEGORIES.index(name) for name in ("optimizer", "input", "temporary"))
BLOCK = 256  # values that share a scale in an 8-bit state
SMALLEST_IN_8_BITS = 4096  # bitsandbytes keeps the states of smaller tensors in fp32
# The index, among an op's reads and then writes, of a tensor that stays in fp32.
_WIDE = {
    "gpuwise::attention": -1,
    "gpuwise::attention_backward": 5,
    "_weight_norm_interface": -1,
    "_weight_norm_interface_backward": 3,
}


# ---------------------------------------------------------------- precision


def retyped(graph: Graph, names: Mapping[str, str]) -> Graph:
    """Return the same graph with dtypes renamed, such as {"bf16": "fp16"}."""
    if names.get("fp16") == "bf16":
        graph = with_softmax_casts(graph)
    return replace(
        graph,
        tensors=[TensorSpec(names.get(tensor.dtype, tensor.dtype), tensor.elements) for tensor in graph.tensors],
        ops=[Op(op.kind, op.name, names.get(op.dtype, op.dtype), op.sizes, op.attrs, op.reads, op.writes) for op in graph.ops],
    )


def narrowed(graph: Graph, dtype: str) -> Graph:
    """Return an fp32 graph for a model stored in a 16-bit type."""
    kept = [_kept(op) for op in graph.ops]
    wide = {tensor for op, places in zip(graph.ops, kept, strict=True) for tensor in _at(op, places)}
    row = {tensor: len(graph.tensors) + number for number, tensor in enumerate(sorted(wide))}
    low = retyped(graph, {"fp32": dtype})
    ops = []
    for op, places in zip(low.ops, kept, strict=True):
        if not places:
            ops.append(op)
            continue
        tensors = [row[tensor] if place in places else tensor for place, tensor in enumerate((*op.reads, *op.writes))]
        ops.append(replace(op, reads=tuple(tensors[: len(op.reads)]), writes=tuple(tensors[len(op.reads) :])))
    wider = low.tensors + [graph.tensors[tensor] for tensor in sorted(wide)]
    return _with_tensors_of_writers(replace(low, tensors=wider, ops=ops), row)


def _kept(op: Op) -> tuple[int, ...]:
    """Return the index of the tensor that an op always keeps in fp32: sums over rows, for the backward pass."""
    place = _WIDE.get(op.name)
    return () if place is None else (place % (len(op.reads) + len(op.writes)),)


def _at(op: Op, places: Sequence[int]) -> list[int]:
    tensors = (*op.reads, *op.writes)
    return [tensors[place] for place in places]


def _with_tensors_of_writers(graph: Graph, row: Mapping[int, int]) -> Graph:
    """If an op writes a buffer as a tensor that stayed wide, give the buffer that tensor's type."""
    _, tensor, written = slots(graph)
    tensor_of = graph.tensor_of.copy()
    stays = written & np.isin(tensor, list(row.values()))
    tensor_of[graph.refs[stays]] = tensor[stays]
    return replace(graph, tensor_of=tensor_of)


def channels_last(graph: Graph) -> Graph:
    """Return convolutions on two-dimensional images in the layout NHWC, without the copies that only NCHW needs."""
    laid_out = Choices(nhwc=True)
    needless = np.array([is_needless(op, laid_out) for op in graph.ops], dtype=bool)
    graph = replace(graph, ops=[_last(op) for op in graph.ops])
    dropped = needless[graph.op_of]
    if not dropped.any():
        return graph
    call, _, written = slots(graph)
    copies = dropped[call]
    instead = dict(zip(graph.refs[copies & written].tolist(), graph.refs[copies & ~written].tolist(), strict=True))
    for copy, source in instead.items():  # for a copy of a copy, use the first source
        while source in instead:
            source = instead[source]
        instead[copy] = source
    return without(graph, dropped, instead)


def _last(op: Op) -> Op:
    if op.attrs.get("reordered") == "image":
        return replace(op, attrs={name: value for name, value in op.attrs.items() if name != "reordered"})
    stride = op.attrs.get("stride")
    flat = (op.kind == "conv" and isinstance(stride, tuple) and len(stride) == 2) or "group_norm" in op.name
    return replace(op, attrs={**op.attrs, "layout": "nhwc"}) if flat else op


# ---------------------------------------------------------------- leaving calls out


def without(graph: Graph, dropped: NDArray[np.bool_], instead: Mapping[int, int]) -> Graph:
    """Return the graph without these calls. Later calls that read a dropped call's result read the buffer given in `instead`."""
    call, _, _ = slots(graph)
    stays = ~dropped
    moved = np.append(0, np.cumsum(stays))  # the new position of each call, and of the end
    phase_of = np.repeat(np.arange(3), graph.phase_counts)
    same = np.arange(len(graph.born))
    died = graph.died.copy()
    for old, new in instead.items():
        same[old] = new
        died[new] = max(died[new], died[old])
    refs = same[graph.refs[stays[call]]]
    born_with_dropped = np.zeros(len(same), dtype=bool)
    born_with_dropped[graph.refs[dropped[call]]] = True
    kept = ~born_with_dropped | np.isin(np.arange(len(same)), refs) | (graph.category_of < _INPUT)
    number = np.cumsum(kept) - 1
    ops, op_of = np.unique(graph.op_of[stays], return_inverse=True)
    counts = np.bincount(phase_of[stays], minlength=3).tolist()
    return replace(
        graph,
        ops=[graph.ops[row] for row in ops.tolist()],
        op_of=op_of,
        phase_counts=(counts[0], counts[1], counts[2]),
        module_of=graph.module_of[stays],
        refs=number[refs],
        tensor_of=graph.tensor_of[kept],
        category_of=graph.category_of[kept],
        born=moved[graph.born[kept]],
        died=moved[died[kept]],
        trained=tuple((number[weights], number[gradients]) for weights, gradients in graph.trained),
    )


def unscaled(graph: Graph) -> Graph:
    """Return mixed precision without the gradient scaler, from a graph that has it and no optimizer."""
    updates = [row for row, op in enumerate(graph.ops) if op.name == "_amp_update_scale_"]
    if not updates:
        return graph
    call, _, written = slots(graph)
    at = np.flatnonzero(call == np.flatnonzero(np.isin(graph.op_of, updates))[0])
    scale = graph.refs[at[0]]
    before = sum(graph.phase_counts[:2])
    dropped = np.arange(len(graph.op_of)) >= before
    dropped[call[(graph.refs == scale) & ~written]] = True
    instead = {}
    for number in np.flatnonzero(dropped[:before]).tolist():
        read, _, made = graph.refs[call == number].tolist()  # loss or gradient, scale, their product
        instead[made] = read
    return without(graph, dropped, instead)


# ---------------------------------------------------------------- adding calls


class _Lists:
    """Buffers of one role, one for each weight, and the tensors that describe them."""

    def __init__(self, buffers: list[int], tensors: list[int]) -> None:
        self.buffers, self.tensors = buffers, tensors


class _Editor:
    """A graph that is extended at its end with sizes, tensors, ops, buffers and calls of the optimizer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.dims, self.products = list(graph.dims), list(graph.products)
        self.tensors, self.ops = list(graph.tensors), list(graph.ops)
        self._calls: list[int] = []
        self._refs: list[int] = []
        self._new: list[tuple[list[int], int, int, int]] = []  # tensors, category, born, died of buffers
        self._count = len(graph.born)

    def tensors_of(self, buffers: Ints) -> list[int]:
        return [int(tensor) for tensor in self._graph.tensor_of[buffers]]

    @property
    def now(self) -> int:
        return len(self._graph.op_of) + len(self._calls)

    def product(self, count: int) -> int:
        """A size that does not depend on the batch."""
        if count == 1:
            self.products.append(())
        else:
            self.dims.append([float(count), 0.0, 0.0, 0.0])
            self.products.append((len(self.dims) - 1,))
        return len(self.products) - 1

    def tensor(self, dtype: str, product: int) -> int:
        self.tensors.append(TensorSpec(dtype, product))
        return len(self.tensors) - 1

    def elements(self, tensors: Sequence[int]) -> int:
        """Return the total elements of these tensors, none of which depends on the batch."""
        sizes = {
            tensor: prod(int(self.dims[dim][0]) for dim in self.products[self.tensors[tensor].elements])
            for tensor in set(tensors)
        }
        return sum(sizes[tensor] for tensor in tensors)

    def buffers(self, tensors: list[int], category: int, *, born: int = 0, calls: int | None = None) -> _Lists:
        """Add buffers that live for this many calls, or permanently."""
        first, self._count = self._count, self._count + len(tensors)
        self._new.append((tensors, category, born, -1 if calls is None else born + calls))
        return _Lists(list(range(first, self._count)), tensors)

    def call(self, name: str, sizes: tuple[int, ...], reads: Sequence[_Lists], writes: Sequence[_Lists]) -> None:
        """Add a multi-tensor call on these lists."""
        read, written = ([tensor for lists in side for tensor in lists.tensors] for side in (reads, writes))
        self.ops.append(Op("optimizer", name, self.tensors[read[0]].dtype, sizes, {}, tuple(read), tuple(written)))
        self._calls.append(len(self.ops) - 1)
        for lists in (*reads, *writes):
            self._refs += lists.buffers

    def done(self) -> Graph:
        graph, end = self._graph, self.now
        outlives = (graph.died == len(graph.op_of)) & (graph.category_of <= _INPUT)  # not left over from the backward pass
        forward, backward, optimizer = graph.phase_counts
        counts = [len(tensors) for tensors, *_ in self._new]
        rows = np.array([row[1:] for row in self._new], dtype=np.int64).reshape(-1, 3)
        category, born, died = np.repeat(rows, counts, axis=0).T
        return replace(
            graph,
            dims=self.dims,
            products=self.products,
            tensors=self.tensors,
            ops=self.ops,
            modules=graph.modules if "" in graph.modules else (*graph.modules, ""),
            op_of=np.append(graph.op_of, _array(self._calls)),
            phase_counts=(forward, backward, optimizer + len(self._calls)),
            module_of=np.append(graph.module_of, np.full(len(self._calls), _root(graph))),
            refs=np.append(graph.refs, _array(self._refs)),
            tensor_of=np.append(graph.tensor_of, _array([tensor for tensors, *_ in self._new for tensor in tensors])),
            category_of=np.append(graph.category_of, category),
            born=np.append(graph.born, born),
            died=np.append(np.where(outlives, end, graph.died), np.where(died < 0, end, died)),
        )


def _array(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _root(graph: Graph) -> int:
    return graph.modules.index("") if "" in graph.modules else len(graph.modules)


# ---------------------------------------------------------------- optimizers


@dataclass(frozen=True, slots=True)
class _Rule:
    """The calls of an optimizer on weights w, gradients g, states m and v, step counts s, temporaries t: (op, reads, writes)."""

    states: str
    calls: tuple[tuple[str, str, str], ...]


_ADAM = (
    ("_foreach_lerp_", "mg", "m"),
    ("_foreach_mul_", "v", "v"),
    ("_foreach_addcmul_", "vgg", "v"),
    ("_foreach_sqrt", "v", "t"),
    ("_foreach_div_", "t", "t"),
    ("_foreach_add_", "t", "t"),
    ("_foreach_addcdiv_", "wmt", "w"),
)
OPTIMIZERS: Mapping[tuple[str, str], _Rule] = {
    ("sgd", "foreach"): _Rule("", (("_foreach_add_", "wg", "w"),)),
    ("sgd", "fused"): _Rule("", (("_fused_sgd_", "wg", "wg"),)),
    ("momentum", "foreach"): _Rule(
        "m",
        (("_foreach_add", "gw", "t"), ("_foreach_mul_", "m", "m"), ("_foreach_add_", "mt", "m"), ("_foreach_add_", "wm", "w")),
    ),
    ("momentum", "fused"): _Rule("m", (("_fused_sgd_", "wgm", "wgm"),)),
    ("adam", "foreach"): _Rule("mv", _ADAM),
    ("adam", "fused"): _Rule("mvs", (("_fused_adam_", "wgmvs", "wgmv"),)),
    ("adamw", "foreach"): _Rule("mv", (("_foreach_mul_", "w", "w"), *_ADAM)),
    ("adamw", "fused"): _Rule("mvs", (("_fused_adamw_", "wgmvs", "wgmv"),)),
    ("lion", "foreach"): _Rule(
        "m",
        (
            ("_foreach_lerp", "mg", "t"),
            ("_foreach_sign_", "t", "t"),
            ("_foreach_mul_", "w", "w"),
            ("_foreach_add_", "wt", "w"),
            ("_foreach_lerp_", "mg", "m"),
        ),
    ),
}


def with_optimizer(graph: Graph, optimizer: str, implementation: str) -> Graph:
    """Return the graph with an update of its weights by this optimizer."""
    if optimizer == "none":
        return graph
    editor = _Editor(graph)
    if optimizer == "adam8bit":
        for weights, gradients in graph.trained:
            _update_in_8_bits(editor, weights, gradients)
        return editor.done()
    rule = OPTIMIZERS.get((optimizer, "foreach" if optimizer == "lion" else implementation))
    if rule is None:
        known = ", ".join(f"{name} ({how})" for name, how in OPTIMIZERS)
        raise BadValue(
            f"{optimizer} ({implementation}) cannot be added to a built-in workload",
            known=known,
            hint="capture the model itself, such as `timm:resnet50`, which supports any optimizer",
        )
    for weights, gradients in graph.trained:
        _update(editor, rule, weights, gradients)
    return editor.done()


def _update(editor: _Editor, rule: _Rule, weights: Ints, gradients: Ints) -> None:
    """Add the calls for one group of weights. Gradients take the shape of their weights."""
    tensors = editor.tensors_of(weights)
    found = {"w": _Lists(weights.tolist(), tensors), "g": _Lists(gradients.tolist(), tensors)}
    for state in rule.states:
        alike = tensors if state != "s" else [editor.tensor("fp32", editor.product(1))] * len(tensors)
        found[state] = editor.buffers(alike, _OPTIMIZER)
    made = [number for number, (_, _, writes) in enumerate(rule.calls) if "t" in writes]
    used = [number for number, (_, reads, _) in enumerate(rule.calls) if "t" in reads]
    if made:
        found["t"] = editor.buffers(tensors, _TEMPORARY, born=editor.now + made[0], calls=used[-1] - made[0] + 1)
    elements, count = editor.elements(tensors), editor.product(len(tensors))
    for name, reads, writes in rule.calls:
        sizes = (editor.product(elements * len(writes)), count)
        editor.call(name, sizes, [found[letter] for letter in reads], [found[letter] for letter in writes])


def _update_in_8_bits(editor: _Editor, weights: Ints, gradients: Ints) -> None:
    """Adam with block-wise 8-bit states (Dettmers et al. 2022): one kernel per tensor, an fp32 scale per 256 values."""
    one = editor.product(1)
    for weight, gradient in zip(weights.tolist(), gradients.tolist(), strict=True):
        (tensor,) = editor.tensors_of(np.array([weight]))
        elements = editor.elements([tensor])
        small = elements < SMALLEST_IN_8_BITS
        kept = [editor.tensor("fp32" if small else "uint8", editor.tensors[tensor].elements)] * 2
        if not small:
            kept += [editor.tensor("fp32", editor.product(-(-elements // BLOCK)))] * 2
        states = editor.buffers(kept, _OPTIMIZER)
        own, slope = _Lists([weight], [tensor]), _Lists([gradient], [tensor])
        editor.call("gpuwise::adam8bit", (editor.product(elements), one), (own, slope, states), (own, states))
