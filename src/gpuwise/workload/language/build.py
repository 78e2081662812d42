"""Builds one pass of a decoder-only model as a workload from its sizes: reading a prompt (prefill), or the next token of every
sequence (decode).

The ops are those of text-generation software: one kernel for a norm, one product for queries, keys and values, one for gate and
up. Weights may be packed; products compute in 16 bits. `seq` is the length of the prompt, or the number of tokens that a new one
attends to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.language.weight_formats import Format
from gpuwise.workload.model.types import CATEGORIES, AttrValue, Buffer, Buffers, Call, Calls, Op, TensorSpec, Workload

__all__ = ["generation_pass"]

_BATCH, _SEQ = (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0)
_WEIGHT, _INPUT, _ACTIVATION = (CATEGORIES.index(name) for name in ("weight", "input", "activation"))


def generation_pass(
    shape: LanguageShape,
    phase: str,
    *,
    weights: Format,
    cache: str = "fp16",
    dtype: str = "",
    batch: int = 1,
    seq: int = 2048,
) -> Workload:
    """Return the pass at this batch and sequence; it is also valid at any other size. A window counts as full if `seq` is longer
    than it.

    Unless `dtype` is given, the pass computes in bf16 if the weights are in bf16, and otherwise in fp16.
    """
    builder = _Builder(shape, phase, weights, cache, dtype or ("bf16" if weights.name == "bf16" else "fp16"), seq)
    return builder.built(batch)


@dataclass(frozen=True, slots=True)
class _Held:
    """A weight: its buffer and its tensor."""

    buffer: int
    tensor: int


class _Builder:
    """Adds one call after another; each reads what the previous one wrote."""

    def __init__(self, shape: LanguageShape, phase: str, weights: Format, cache: str, dtype: str, seq: int) -> None:
        self.shape, self.phase, self.weights, self.cache, self.dtype, self.seq = shape, phase, weights, cache, dtype, seq
        self._dims: list[tuple[float, ...]] = []
        self._products: list[tuple[int, ...]] = []
        self._tensors: list[TensorSpec] = []
        self._ops: list[Op] = []
        self._calls: list[Call] = []
        self._modules: list[str] = []
        self._buffers: list[list[int]] = []
        self._known: dict[int, dict[object, int]] = {}
        self._sizes: dict[tuple[float | tuple[float, ...], ...], int] = {}
        tokens = (_BATCH,) if phase == "decode" else (_BATCH, _SEQ)
        self.tokens = tokens
        self._plain = (weights.rest or dtype) if weights.experts_only else weights.name

    # ------------------------------------------------------------ tables

    def _row(self, table: list[Any], value: Any, key: object = None) -> int:
        """Return the index of this value in a table, adding it if it is new; values that cannot be hashed come with a key."""
        known = self._known.setdefault(id(table), {})
        found = known.get(value if key is None else key)
        if found is None:
            table.append(value)
            found = known[value if key is None else key] = len(table) - 1
        return found

    def _size(self, *parts: float | tuple[float, ...]) -> int:
        """A product of constants and symbols."""
        found = self._sizes.get(parts)
        if found is None:
            constant = float(prod(part for part in parts if not isinstance(part, tuple)))
            symbols = [part for part in parts if isinstance(part, tuple)]
            rows = [self._row(self._dims, (constant, 0.0, 0.0, 0.0)), *(self._row(self._dims, part) for part in symbols)]
            found = self._sizes[parts] = self._row(self._products, tuple(rows))
        return found

    def _tensor(self, dtype: str, *parts: float | tuple[float, ...]) -> int:
        return self._row(self._tensors, TensorSpec(dtype, self._size(*parts)))

    def _buffer(self, tensor: int, category: int) -> int:
        self._buffers.append([tensor, category, len(self._calls), 0])
        return len(self._buffers) - 1

    def _weight(self, dtype: str, *parts: float) -> _Held:
        tensor = self._tensor(dtype, *parts)
        return _Held(self._buffer(tensor, _WEIGHT), tensor)

    def _call(
        self,
        kind: str,
        name: str,
        module: str,
        sizes: tuple[int, ...],
        reads: tuple[tuple[int, int], ...],
        writes: tuple[tuple[int, int], ...],
        attrs: dict[str, AttrValue] | None = None,
        dtype: str = "",
    ) -> None:
        """`reads` and `writes` are pairs of a buffer and a tensor."""
        op = Op(
            kind,
            name,
            dtype or self.dtype,
            sizes,
            attrs or {},
            tuple(tensor for _, tensor in reads),
            tuple(tensor for _, tensor in writes),
        )
        key = (kind, name, op.dtype, sizes, tuple(op.attrs.items()), op.reads, op.writes)
        self._calls.append(
            Call(
                self._row(self._ops, op, key),
                0,
                self._row(self._modules, module),
                tuple(row for row, _ in reads),
                tuple(row for row, _ in writes),
            )
        )

    def _result(self, *parts: float | tuple[float, ...]) -> tuple[int, int]:
        """Return a new activation: its buffer and tensor."""
        tensor = self._tensor(self.dtype, *parts)
        return self._buffer(tensor, _ACTIVATION), tensor

    # ------------------------------------------------------------ parts of a block

    def _norm(self, module: str, given: tuple[int, int]) -> tuple[int, int]:
        hidden = self.shape.hidden
        weight = self._weight(self.dtype, hidden)
        result = self._result(*self.tokens, hidden)
        sizes = (self._size(*self.tokens), self._size(hidden))
        self._call("norm", "rms_norm", module, sizes, (given, (weight.buffer, weight.tensor)), (result,), {"pass": "forward"})
        return result

    def _linear(
        self,
        module: str,
        given: tuple[int, int],
        inner: int,
        outer: int,
        dtype: str = "",
        rows: tuple[tuple[float, ...], ...] = (),
    ) -> tuple[int, int]:
        tokens = rows or self.tokens
        held = dtype or self._plain
        weight = self._weight(held, inner, outer)
        result = self._result(*tokens, outer)
        sizes = (self._size(*tokens), self._size(outer), self._size(inner))
        self._call(
            "linear",
            "linear",
            module,
            sizes,
            (given, (weight.buffer, weight.tensor)),
            (result,),
            {"weights": held},
            self._computed(held),
        )
        return result

    def _computed(self, held: str) -> str:
        """Return the type in which products with weights in this format run."""
        return self.weights.compute if held == self.weights.name else ""

    def _loop(self, module: str, name: str, given: tuple[tuple[int, int], ...], width: float) -> tuple[int, int]:
        result = self._result(*self.tokens, width)
        self._call("elementwise", name, module, (self._size(*self.tokens, width),), given, (result,))
        return result

    def _attention(self, block: str, given: tuple[int, int], window: int) -> tuple[int, int]:
        shape = self.shape
        if shape.latent:
            return self._latent_attention(block, given)
        wide = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        mixed = self._linear(f"{block}.attention.qkv", given, shape.hidden, wide)
        turned = self._loop(f"{block}.attention", "rotate", (mixed,), wide)
        looked = self._looked(window)
        keys, values = (self._kept(block, turned, width, looked) for width in (shape.head_dim, shape.values))
        queries = (turned[0], self._tensor(self.dtype, *self.tokens, shape.heads * shape.head_dim))
        return self._attend(
            block, (queries, keys, values), looked, shape.kv_heads, shape.head_dim, shape.values, shape.heads * shape.values
        )

    def _looked(self, window: int) -> tuple[float | tuple[float, ...], ...]:
        """Return the number of tokens that one attends to."""
        return (float(window),) if window and window < self.seq else (_SEQ,)

    def _kept(
        self, block: str, made: tuple[int, int], width: int, looked: tuple[float | tuple[float, ...], ...]
    ) -> tuple[int, int]:
        """Write keys or values of this pass to the cache."""
        kv_heads = 1 if self.shape.latent else self.shape.kv_heads
        whole = self._tensor(self.cache, _BATCH, kv_heads * width, *looked)
        cache = self._buffer(whole, _INPUT)
        new = (cache, self._tensor(self.cache, *self.tokens, kv_heads * width))
        read = (made[0], self._tensor(self.dtype, *self.tokens, kv_heads * width))
        self._call("copy", "copy_", f"{block}.attention", (self._size(*self.tokens, kv_heads * width),), (read,), (new,))
        return cache, whole

    def _latent_attention(self, block: str, given: tuple[int, int]) -> tuple[int, int]:
        """Attention of queries with latent width to one compressed head. In decoding, its products with the up-projection are
        absorbed.
        """
        shape = self.shape
        where = f"{block}.attention"
        asked = given
        if shape.query_latent:
            asked = self._linear(f"{where}.query_down", given, shape.hidden, shape.query_latent)
        queries = self._linear(f"{where}.query", asked, shape.query_latent or shape.hidden, shape.heads * shape.head_dim)
        compressed = self._linear(f"{where}.kv_down", given, shape.hidden, shape.latent + shape.rope_dim)
        whole = self._tensor(self.cache, _BATCH, shape.latent + shape.rope_dim, _SEQ)
        cache = self._buffer(whole, _INPUT)
        new = (cache, self._tensor(self.cache, *self.tokens, shape.latent + shape.rope_dim))
        self._call("copy", "copy_", where, (self._size(*self.tokens, shape.latent + shape.rope_dim),), (compressed,), (new,))
        up = shape.heads * (shape.head_dim - shape.rope_dim + shape.values)
        lifted = self._linear(f"{where}.kv_up", compressed, shape.latent, up)
        if self.phase == "prefill":
            wide = (lifted[0], self._tensor(self.dtype, *self.tokens, shape.heads * shape.head_dim))
            values = (lifted[0], self._tensor(self.dtype, *self.tokens, shape.heads * shape.values))
            return self._attend(
                block, (queries, wide, values), (_SEQ,), shape.heads, shape.head_dim, shape.values, shape.heads * shape.values
            )
        asks = (queries[0], self._tensor(self.dtype, *self.tokens, shape.heads * (shape.latent + shape.rope_dim)))
        head = shape.latent + shape.rope_dim
        return self._attend(block, (asks, (cache, whole)), (_SEQ,), 1, head, shape.latent, shape.heads * shape.values)

    def _attend(
        self,
        block: str,
        reads: tuple[tuple[int, int], ...],
        looked: tuple[float | tuple[float, ...], ...],
        kv_heads: int,
        head_dim: int,
        value_dim: int,
        width: int,
    ) -> tuple[int, int]:
        shape = self.shape
        result = self._result(*self.tokens, width)
        asking = self._size(1.0) if self.phase == "decode" else self._size(_SEQ)
        sizes = (
            self._size(_BATCH),
            self._size(shape.heads),
            self._size(kv_heads),
            asking,
            self._size(*looked),
            self._size(head_dim),
            self._size(value_dim),
        )
        attrs: dict[str, AttrValue] = {"causal": self.phase == "prefill", "mask": False, "pass": "forward"}
        self._call("attention", "attention", f"{block}.attention", sizes, reads, (result,), attrs)
        return self._linear(f"{block}.attention.output", result, width, shape.hidden)

    def _mlp(self, block: str, given: tuple[int, int], width: int, name: str = "mlp") -> tuple[int, int]:
        shape = self.shape
        up = (2 if shape.gated else 1) * width
        wide = self._linear(f"{block}.{name}.up", given, shape.hidden, up)
        active = self._loop(f"{block}.{name}", "silu_mul" if shape.gated else "gelu", (wide,), width)
        return self._linear(f"{block}.{name}.down", active, width, shape.hidden)

    def _experts(self, block: str, given: tuple[int, int]) -> tuple[int, int]:
        shape = self.shape
        scores = self._linear(f"{block}.router", given, shape.hidden, shape.experts, self.dtype)
        for name in ("softmax", "top_k", "sort_tokens"):  # routing, which is small but has its own kernels
            scores = self._loop(f"{block}.router", name, (scores,), shape.experts)
        width, rows = shape.expert_intermediate, (*self.tokens, float(shape.chosen))
        up = (2 if shape.gated else 1) * width
        wide = self._chosen(f"{block}.experts.up", given, shape.hidden, up)
        active = self._result(*rows, width)
        self._call("elementwise", "silu_mul", f"{block}.experts", (self._size(*rows, width),), (wide,), (active,))
        result = self._chosen(f"{block}.experts.down", active, width, shape.hidden)
        if shape.shared_intermediate:
            self._mlp(block, given, shape.shared_intermediate, "shared")
        summed = self._result(*self.tokens, shape.hidden)
        self._call("elementwise", "add", f"{block}.experts", (self._size(*rows, shape.hidden),), (result,), (summed,))
        return summed

    def _chosen(self, module: str, given: tuple[int, int], inner: int, outer: int) -> tuple[int, int]:
        """A linear layer of the experts. The op accounts for the fact that the weights read depend on the number of tokens."""
        shape = self.shape
        weight = self._weight(self.weights.name, shape.experts, inner, outer)
        result = self._result(*self.tokens, float(shape.chosen), outer)
        constants = (self._size(value) for value in (shape.experts, shape.chosen, outer, inner))
        sizes = (self._size(*self.tokens), *constants)
        reads = (given, (weight.buffer, self._tensor(self.weights.name, 0.0)))
        self._call("experts", "experts", module, sizes, reads, (result,), {"weights": self.weights.name}, self.weights.compute)
        return result

    # ------------------------------------------------------------ the whole pass

    def built(self, batch: int) -> Workload:
        shape = self.shape
        table = self._weight(self.weights.table or self.dtype, shape.vocabulary, shape.hidden)
        looked_up = self._tensor(table_dtype := self.weights.table or self.dtype, *self.tokens, shape.hidden)
        given = self._buffer(self._tensor("int64", *self.tokens), _INPUT), self._tensor("int64", *self.tokens)
        state = self._result(*self.tokens, shape.hidden)
        sizes = (self._size(*self.tokens), self._size(shape.hidden), self._size(shape.vocabulary))
        reads = (given, (table.buffer, looked_up))
        self._call("embedding", "embedding", "embedding", sizes, reads, (state,), {"pass": "forward"})
        for number in range(shape.layers):
            state = self._block(number, state)
        last = (_BATCH,)
        ending = self._norm("norm", state)
        head_dtype = self.weights.head or self.dtype
        if shape.tied and head_dtype == table_dtype:
            self._tied(ending, table)
        else:
            ending = (ending[0], self._tensor(self.dtype, *last, shape.hidden))
            self._linear("head", ending, shape.hidden, shape.vocabulary, head_dtype, last)
        return self._workload(batch)

    def _tied(self, ending: tuple[int, int], table: _Held) -> None:
        """The last layer, whose weights are the embedding table."""
        shape = self.shape
        result = self._result(_BATCH, shape.vocabulary)
        sizes = (self._size(_BATCH), self._size(shape.vocabulary), self._size(shape.hidden))
        given = (ending[0], self._tensor(self.dtype, _BATCH, shape.hidden))
        attrs: dict[str, AttrValue] = {"weights": self._tensors[table.tensor].dtype}
        self._call("linear", "linear", "head", sizes, (given, (table.buffer, table.tensor)), (result,), attrs)

    def _block(self, number: int, state: tuple[int, int]) -> tuple[int, int]:
        shape, block = self.shape, f"layers.{number}"
        every = shape.layers // max(1, shape.layers - shape.window_layers) if shape.window_layers < shape.layers else 0
        narrow = shape.window_layers > 0 and (not every or (number + 1) % every != 0 or every == 1)
        mixed = self._attention(block, self._norm(f"{block}.norm", state), shape.window if narrow else 0)
        state = self._loop(block, "add", (state, mixed), shape.hidden)
        asked = self._norm(f"{block}.mlp_norm", state)
        routed = shape.experts and number >= shape.dense_layers
        changed = self._experts(block, asked) if routed else self._mlp(block, asked, shape.intermediate)
        return self._loop(block, "add", (state, changed), shape.hidden)

    def _workload(self, batch: int) -> Workload:
        end = len(self._calls)
        last: dict[int, int] = {}
        for place, call in enumerate(self._calls):
            for row in (*call.reads, *call.writes):
                last[row] = place
        buffers = [
            Buffer(tensor, category, born, last.get(row, born) + 1)
            if category == _ACTIVATION
            else Buffer(tensor, category, 0, end)
            for row, (tensor, category, born, _) in enumerate(self._buffers)
        ]
        return Workload(
            model=self.shape.name,
            source="sizes",
            mode="infer",
            precision=self.dtype,
            options={"phase": self.phase, "weights": self.weights.name, "cache": self.cache},
            batch=batch,
            seq=self.seq,
            symbols=("batch", "seq"),
            parameters=self.shape.parameters,
            dims=np.array(self._dims, dtype=np.float64).reshape(-1, 4),
            products=tuple(self._products),
            tensors=tuple(self._tensors),
            ops=tuple(self._ops),
            calls=Calls.of(self._calls),
            modules=tuple(self._modules),
            buffers=Buffers.of(buffers),
        )
