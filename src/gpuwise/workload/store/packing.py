"""Packs the graphs of one model into a small file and unpacks them: gzipped JSON, column by column.

A step repeats itself layer after layer. A reference is therefore stored as its distance from the corresponding reference in the
previous layer (see the end of this file), and a buffer as its difference from what its first writer and its last reader predict.
A hundred equal layers then take hardly more space than two. The graphs of a model are alike too, so the same column of each is
stored side by side, close enough for gzip to find repetitions (its window is 32 KiB).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadFile
from gpuwise.kernels.registry import KINDS
from gpuwise.workload.model.edit import Graph, slots, spread
from gpuwise.workload.model.types import DTYPE_BYTES, AttrValue, Ints, Op, TensorSpec, ints

__all__ = ["VERSION", "pack", "unpack"]

VERSION = 3
_DTYPES = tuple(DTYPE_BYTES)
_PLACES = 1 << 16  # more operands than any op has
_LONGEST_LAG = 128
_MANY = 16  # operands of one op: more than any op in a layer has
_ACTIVATION, _TEMPORARY = 4, 5  # rows of CATEGORIES


class _Columns(msgspec.Struct, kw_only=True):
    """One graph."""

    dims: list[list[float]]
    product_lengths: list[int]
    product_dims: list[int]
    tensor_dtypes: list[int]
    tensor_products: list[int]
    op_heads: list[int]
    op_sizes: list[int]
    op_tensors: list[int]
    phases: tuple[int, int, int]
    call_ops: list[int]
    call_modules: list[int]
    lags: list[int]
    refs: list[int]
    buffer_tensors: list[int]
    buffer_categories: list[int]
    buffer_born: list[int]
    buffer_died: list[int]
    trained: list[tuple[list[int], list[int]]]


class _Page(msgspec.Struct, kw_only=True):
    """One file. A head is kind, name, dtype, attributes, number of reads and number of writes. `columns` has the columns of
    every graph by name, decoded for one graph at a time.
    """

    version: int
    dtypes: list[str]
    modules: list[str]
    attrs: list[dict[str, bool | int | float | str | list[int]]]
    heads: list[tuple[str, str, str, int, int, int]]
    columns: dict[str, list[msgspec.Raw]] = {}


def pack(graphs: Sequence[Graph]) -> bytes:
    """Return these graphs as one file."""
    packer = _Packer()
    columns = [packer.columns(graph) for graph in graphs]
    page = _Page(
        version=VERSION,
        dtypes=list(_DTYPES),
        modules=list(packer.modules),
        attrs=[msgspec.json.decode(text) for text in packer.attrs],
        heads=list(packer.heads),
        columns={
            name: [msgspec.Raw(msgspec.json.encode(getattr(own, name))) for own in columns] for name in _Columns.__struct_fields__
        },
    )
    return gzip.compress(msgspec.json.encode(page), 9, mtime=0)


class _Packer:
    """Interns what the graphs share and turns each into columns."""

    def __init__(self) -> None:
        self.modules: dict[str, int] = {}
        self.attrs: dict[bytes, int] = {}
        self.heads: dict[tuple[str, str, str, int, int, int], int] = {}

    def columns(self, graph: Graph) -> _Columns:
        modules = ints(self.modules.setdefault(name, len(self.modules)) for name in graph.modules)
        call_modules = modules[graph.module_of]
        kinds = _kinds(graph.ops, graph.op_of, graph.phase_counts)
        lags = _lags_of(graph.refs, kinds)
        return _Columns(
            dims=[_plain(row) for row in graph.dims],
            product_lengths=[len(product) for product in graph.products],
            product_dims=_steps(dim for product in graph.products for dim in product),
            tensor_dtypes=[_DTYPES.index(tensor.dtype) for tensor in graph.tensors],
            tensor_products=_steps(tensor.elements for tensor in graph.tensors),
            op_heads=[self._head(op) for op in graph.ops],
            op_sizes=_steps(size for op in graph.ops for size in op.sizes),
            op_tensors=_steps(tensor for op in graph.ops for tensor in (*op.reads, *op.writes)),
            phases=graph.phase_counts,
            call_ops=_steps(graph.op_of.tolist()),
            call_modules=np.diff(call_modules, prepend=0).tolist(),
            lags=lags,
            refs=_changes(graph.refs, kinds, lags).tolist(),
            trained=[
                (np.diff(weights, prepend=0).tolist(), np.diff(gradients, prepend=0).tolist())
                for weights, gradients in graph.trained
            ],
            **_buffer_columns(graph),
        )

    def _head(self, op: Op) -> int:
        attrs = msgspec.json.encode({key: list(value) if isinstance(value, tuple) else value for key, value in op.attrs.items()})
        row = self.attrs.setdefault(attrs, len(self.attrs))
        return self.heads.setdefault((op.kind, op.name, op.dtype, row, len(op.reads), len(op.writes)), len(self.heads))


def _buffer_columns(graph: Graph) -> dict[str, list[int]]:
    first, made, last = _expected(graph, len(graph.born))
    other = made != graph.tensor_of
    tensors = np.zeros_like(graph.tensor_of)
    tensors[other] = np.diff(graph.tensor_of[other], prepend=0) * 2 + 1
    category = _category_expected(graph.born, graph.died, graph.phase_counts[0])
    late = graph.died - np.maximum(last, graph.born)
    if late.min(initial=0) < 0:
        raise ValueError("a buffer is used after it is freed")
    return {
        "buffer_tensors": tensors.tolist(),
        "buffer_categories": np.where(category == graph.category_of, -1, graph.category_of).tolist(),
        "buffer_born": (graph.born - first).tolist(),
        "buffer_died": np.where(graph.died == len(graph.op_of), 0, late + 1).tolist(),
    }


def unpack(data: bytes, number: int, where: str) -> Graph:
    """Return graph `number` of a file made by `pack`."""
    try:
        page = msgspec.json.decode(gzip.decompress(data), type=_Page)
        if page.version != VERSION:
            raise BadFile(
                f"{where} has version {page.version}; this version of gpuwise reads only version {VERSION}",
                hint="reinstall gpuwise",
            )
        own = msgspec.json.encode({name: rows[number] for name, rows in page.columns.items()})
        return _graph(page, msgspec.json.decode(own, type=_Columns))
    except (msgspec.DecodeError, OSError, EOFError, zlib.error, IndexError, ValueError) as fault:
        raise BadFile(f"{where} is damaged: {fault}", hint="reinstall gpuwise") from None


def _graph(page: _Page, columns: _Columns) -> Graph:
    ops = _ops(page, columns)
    op_of = _unstepped_in_order(_as_array(columns.call_ops))
    modules = np.cumsum(_as_array(columns.call_modules))
    used = np.flatnonzero(np.bincount(modules))
    bare = Graph(
        dims=columns.dims,
        products=_cut(_unstepped(columns.product_dims), columns.product_lengths),
        tensors=[
            TensorSpec(page.dtypes[dtype], product)
            for dtype, product in zip(columns.tensor_dtypes, _unstepped(columns.tensor_products), strict=True)
        ],
        ops=ops,
        modules=tuple(page.modules[row] for row in used.tolist()),
        op_of=op_of,
        phase_counts=columns.phases,
        module_of=np.searchsorted(used, modules),
        refs=_unchanged(_as_array(columns.refs), _kinds(ops, op_of, columns.phases), columns.lags),
        tensor_of=_as_array(()),
        category_of=_as_array(()),
        born=_as_array(()),
        died=_as_array(()),
        trained=tuple((np.cumsum(_as_array(weights)), np.cumsum(_as_array(gradients))) for weights, gradients in columns.trained),
    )
    return _with_buffers(bare, columns)


def _ops(page: _Page, columns: _Columns) -> list[Op]:
    attrs: list[dict[str, AttrValue]] = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()} for row in page.attrs
    ]
    sizes, tensors = _unstepped(columns.op_sizes), _unstepped(columns.op_tensors)
    ops, size, tensor = [], 0, 0
    for row in columns.op_heads:
        kind, name, dtype, attr, reads, writes = page.heads[row]
        size_end, read_end = size + len(KINDS[kind].sizes), tensor + reads
        end = read_end + writes
        own = (tuple(sizes[size:size_end]), attrs[attr], tuple(tensors[tensor:read_end]), tuple(tensors[read_end:end]))
        ops.append(Op(kind, name, dtype, *own))
        size, tensor = size_end, end
    return ops


def _with_buffers(graph: Graph, columns: _Columns) -> Graph:
    written = _as_array(columns.buffer_tensors)
    first, made, last = _expected(graph, len(written))
    other = written != 0
    tensor_of = np.where(other, 0, made)
    tensor_of[other] = np.cumsum((written[other] - 1) // 2)
    born = first + _as_array(columns.buffer_born)
    late = _as_array(columns.buffer_died)
    died = np.where(late == 0, len(graph.op_of), np.maximum(last, born) + late - 1)
    category = _as_array(columns.buffer_categories)
    expected = _category_expected(born, died, graph.phase_counts[0])
    return replace(graph, tensor_of=tensor_of, category_of=np.where(category < 0, expected, category), born=born, died=died)


# ---------------------------------------------------------------- what a graph predicts about its buffers


def _expected(graph: Graph, buffer_count: int) -> tuple[Ints, Ints, Ints]:
    """Return for every buffer the call that first writes it (or 0), its tensor there (or -1), and the last call that uses it
    (or -1).
    """
    call, tensor, written = slots(graph)
    first, made = np.zeros(buffer_count, dtype=np.int64), np.full(buffer_count, -1, dtype=np.int64)
    last = np.full(buffer_count, -1, dtype=np.int64)
    back = np.flatnonzero(written)[::-1]  # if there are several writers, the first one wins
    first[graph.refs[back]], made[graph.refs[back]] = call[back], tensor[back]
    last[graph.refs] = call  # if there are several users, the last one wins
    return first, made, last


def _category_expected(born: Ints, died: Ints, forward: int) -> Ints:
    return np.where((born < forward) & (died > forward), _ACTIVATION, _TEMPORARY)


def _kinds(ops: Sequence[Op], op_of: Ints, phases: Sequence[int]) -> Ints:
    """References have the same kind if they are in the same position of ops with the same name, in the same phase of the step.
    All references of an op with many of them, such as one that updates every weight, have one kind.
    """
    names: dict[str, int] = {}
    named = ints(names.setdefault(op.name, len(names)) for op in ops)
    arity = ints(len(op.reads) + len(op.writes) for op in ops)
    place = np.arange(arity.sum()) - np.repeat(np.cumsum(arity) - arity, arity)
    place[np.repeat(arity, arity) > _MANY] = 0
    phase = np.repeat(np.arange(len(phases)), phases) * len(names)
    kind: Ints = (np.repeat(named * _PLACES, arity) + place)[spread(arity, op_of)]
    return kind + np.repeat(phase * _PLACES, arity[op_of])


# ---------------------------------------------------------------- sequences that repeat themselves
# A reference in one layer is a fixed distance from the same reference in the next layer. The number of references of a kind in a
# layer, the lag, differs from kind to kind. Each number is therefore written as its difference from what the numbers one lag and
# two lags before it predict, kind by kind, which gives long runs of zeros.


def _as_array(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _plain(values: Iterable[float]) -> list[float]:
    return [int(value) if float(value).is_integer() else float(value) for value in values]


def _cut(values: list[int], lengths: Iterable[int]) -> list[tuple[int, ...]]:
    found, at = [], 0
    for length in lengths:
        found.append(tuple(values[at : at + length]))
        at += length
    return found


# ---------------------------------------------------------------- distances from the newest


def _steps(values: Iterable[int]) -> list[int]:
    """Return how far behind the newest value each one is; a new one is 0."""
    found, top = [], 0
    for value in values:
        found.append(top - value)
        top = max(top, value + 1)
    return found


def _unstepped(given: Iterable[int]) -> list[int]:
    found, top = [], 0
    for step in given:
        value = top - step
        found.append(value)
        if value >= top:
            top = value + 1
    return found


def _unstepped_in_order(given: Ints) -> Ints:
    """The same for the case that every new value is the next whole number."""
    new = (given == 0).astype(np.int64)
    found: Ints = np.cumsum(new) - new - given
    return found


# ---------------------------------------------------------------- changes from one layer to the next


def _lags_of(values: Ints, kind: Ints) -> list[int]:
    """Return the lag of each kind, in the order of the kinds."""
    return [_lag(values[kind == one]) for one in np.unique(kind)]


def _lag(values: Ints) -> int:
    """Return the distance at which the differences change least often; 1 for irregular sequences."""
    best, least = 1, len(values) + 1
    for lag in range(1, min(_LONGEST_LAG, len(values) // 2) + 1):
        moved = values[lag:] - values[:-lag]
        cost = 2 * lag + int(np.count_nonzero(moved[lag:] != moved[:-lag]))
        if cost < least:
            best, least = lag, cost
    return best


def _changes(values: Ints, kind: Ints, lags: Sequence[int]) -> Ints:
    """Return each value minus its prediction, kind by kind: in the first layer, the previous value; in the second, the value
    one lag before; from there on, a linear extrapolation of the last two layers.
    """
    order, place, lag = _order(kind, lags)
    ordered = values[order]
    expected = np.zeros_like(ordered)
    first, second = (place > 0) & (place < lag), (place >= lag) & (place < 2 * lag)
    later = place >= 2 * lag
    at = np.arange(len(ordered))
    expected[first] = ordered[at[first] - 1]
    expected[second] = ordered[(at - lag)[second]]
    expected[later] = 2 * ordered[(at - lag)[later]] - ordered[(at - 2 * lag)[later]]
    found: Ints = ordered - expected
    return found


def _unchanged(given: Ints, kind: Ints, lags: Sequence[int]) -> Ints:
    """Return the values with these `changes`."""
    order, place, lag = _order(kind, lags)
    first = np.flatnonzero(place < lag)
    ordered = given.copy()
    ordered[first] = _sums(given[first], place[first] == 0)
    series = np.argsort((np.cumsum(place == 0) - 1) * (len(place) + 1) + place % lag, kind="stable")
    row, told = place[series] // lag[series], ordered[series]
    told[row > 0] = _sums(told[row > 0], row[row > 0] == 1)
    result = np.empty_like(given)
    result[order[series]] = _sums(told, row == 0)
    return result


def _order(kind: Ints, lags: Sequence[int]) -> tuple[Ints, Ints, Ints]:
    """Return the values ordered by kind, with the position of each within its kind and the lag there."""
    _, number, count = np.unique(kind, return_inverse=True, return_counts=True)
    if len(lags) != len(count) or min(lags, default=1) < 1:
        raise ValueError(f"{len(lags)} lags for {len(count)} kinds of references")
    place = np.arange(len(kind)) - np.repeat(np.cumsum(count) - count, count)
    return np.argsort(number, kind="stable"), place, np.repeat(_as_array(lags), count)


def _sums(values: Ints, starts: NDArray[np.bool_]) -> Ints:
    """Return running sums that restart at these positions."""
    at, sums = np.flatnonzero(starts), np.cumsum(values)
    lengths = np.diff(np.append(at, len(values)))
    found: Ints = sums - np.repeat(sums[at] - values[at], lengths)
    return found
