"""Packs the graphs of one model into a small file and back: gzipped JSON, column by column.

A step repeats itself layer after layer. So a reference is written as its distance from the one that stood in the same place of
the same op a layer before (see `sequences`), and a buffer as its difference from what its first writer and its last reader let
expect. A hundred equal layers then cost hardly more than two.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from gpuwise.core.errors import BadFile
from gpuwise.kernels.registry import KINDS
from gpuwise.workload.model.edit import Graph, slots, spread
from gpuwise.workload.model.types import DTYPE_BYTES, AttrValue, Ints, Op, TensorSpec, ints
from gpuwise.workload.store.sequences import (
    as_array,
    changes,
    cut,
    lags_of,
    plain,
    steps,
    unchanged,
    unstepped,
    unstepped_in_order,
)

__all__ = ["VERSION", "pack", "unpack"]

VERSION = 2
_DTYPES = tuple(DTYPE_BYTES)
_PLACES = 1 << 16  # more than any op has operands
_MANY = 16  # operands of one op, more than those of a layer's
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
    """One file. A head is kind, name, dtype, attributes, number of reads and of writes; graphs are read when asked for."""

    version: int
    dtypes: list[str]
    modules: list[str]
    attrs: list[dict[str, bool | int | float | str | list[int]]]
    heads: list[tuple[str, str, str, int, int, int]]
    graphs: list[msgspec.Raw]


def pack(graphs: Sequence[Graph]) -> bytes:
    """These graphs as one file."""
    packer = _Packer()
    columns = [msgspec.Raw(msgspec.json.encode(packer.columns(graph))) for graph in graphs]
    page = _Page(
        version=VERSION,
        dtypes=list(_DTYPES),
        modules=list(packer.modules),
        attrs=[msgspec.json.decode(text) for text in packer.attrs],
        heads=list(packer.heads),
        graphs=columns,
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
        lags = lags_of(graph.refs, kinds)
        return _Columns(
            dims=[plain(row) for row in graph.dims],
            product_lengths=[len(product) for product in graph.products],
            product_dims=steps(dim for product in graph.products for dim in product),
            tensor_dtypes=[_DTYPES.index(tensor.dtype) for tensor in graph.tensors],
            tensor_products=steps(tensor.elements for tensor in graph.tensors),
            op_heads=[self._head(op) for op in graph.ops],
            op_sizes=steps(size for op in graph.ops for size in op.sizes),
            op_tensors=steps(tensor for op in graph.ops for tensor in (*op.reads, *op.writes)),
            phases=graph.phase_counts,
            call_ops=steps(graph.op_of.tolist()),
            call_modules=np.diff(call_modules, prepend=0).tolist(),
            lags=lags,
            refs=changes(graph.refs, kinds, lags).tolist(),
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
    """Graph `number` of a file made by `pack`."""
    try:
        page = msgspec.json.decode(gzip.decompress(data), type=_Page)
        if page.version != VERSION:
            raise BadFile(
                f"{where} has version {page.version}; this version of gpuwise reads {VERSION}", hint="install gpuwise again"
            )
        return _graph(page, msgspec.json.decode(page.graphs[number], type=_Columns))
    except (msgspec.DecodeError, OSError, EOFError, zlib.error, IndexError, ValueError) as fault:
        raise BadFile(f"{where} is damaged: {fault}", hint="install gpuwise again") from None


def _graph(page: _Page, columns: _Columns) -> Graph:
    ops = _ops(page, columns)
    op_of = unstepped_in_order(as_array(columns.call_ops))
    modules = np.cumsum(as_array(columns.call_modules))
    used = np.flatnonzero(np.bincount(modules))
    bare = Graph(
        dims=columns.dims,
        products=cut(unstepped(columns.product_dims), columns.product_lengths),
        tensors=[
            TensorSpec(page.dtypes[dtype], product)
            for dtype, product in zip(columns.tensor_dtypes, unstepped(columns.tensor_products), strict=True)
        ],
        ops=ops,
        modules=tuple(page.modules[row] for row in used.tolist()),
        op_of=op_of,
        phase_counts=columns.phases,
        module_of=np.searchsorted(used, modules),
        refs=unchanged(as_array(columns.refs), _kinds(ops, op_of, columns.phases), columns.lags),
        tensor_of=as_array(()),
        category_of=as_array(()),
        born=as_array(()),
        died=as_array(()),
        trained=tuple((np.cumsum(as_array(weights)), np.cumsum(as_array(gradients))) for weights, gradients in columns.trained),
    )
    return _with_buffers(bare, columns)


def _ops(page: _Page, columns: _Columns) -> list[Op]:
    attrs: list[dict[str, AttrValue]] = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()} for row in page.attrs
    ]
    sizes, tensors = unstepped(columns.op_sizes), unstepped(columns.op_tensors)
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
    written = as_array(columns.buffer_tensors)
    first, made, last = _expected(graph, len(written))
    other = written != 0
    tensor_of = np.where(other, 0, made)
    tensor_of[other] = np.cumsum((written[other] - 1) // 2)
    born = first + as_array(columns.buffer_born)
    late = as_array(columns.buffer_died)
    died = np.where(late == 0, len(graph.op_of), np.maximum(last, born) + late - 1)
    category = as_array(columns.buffer_categories)
    expected = _category_expected(born, died, graph.phase_counts[0])
    return replace(graph, tensor_of=tensor_of, category_of=np.where(category < 0, expected, category), born=born, died=died)


# ---------------------------------------------------------------- what a graph lets expect of its buffers


def _expected(graph: Graph, buffer_count: int) -> tuple[Ints, Ints, Ints]:
    """Of every buffer: the call that writes it first (or 0), its tensor there (or -1), the last call that uses it (or -1)."""
    call, tensor, written = slots(graph)
    first, made = np.zeros(buffer_count, dtype=np.int64), np.full(buffer_count, -1, dtype=np.int64)
    last = np.full(buffer_count, -1, dtype=np.int64)
    back = np.flatnonzero(written)[::-1]  # of several writers the first one stays
    first[graph.refs[back]], made[graph.refs[back]] = call[back], tensor[back]
    last[graph.refs] = call  # of several users the last one stays
    return first, made, last


def _category_expected(born: Ints, died: Ints, forward: int) -> Ints:
    return np.where((born < forward) & (died > forward), _ACTIVATION, _TEMPORARY)


def _kinds(ops: Sequence[Op], op_of: Ints, phases: Sequence[int]) -> Ints:
    """References are alike that stand in the same place of ops of the same name, in the same phase of the step; and all of an op
    that takes many, such as one that updates every weight."""
    names: dict[str, int] = {}
    named = ints(names.setdefault(op.name, len(names)) for op in ops)
    arity = ints(len(op.reads) + len(op.writes) for op in ops)
    place = np.arange(arity.sum()) - np.repeat(np.cumsum(arity) - arity, arity)
    place[np.repeat(arity, arity) > _MANY] = 0
    phase = np.repeat(np.arange(len(phases)), phases) * len(names)
    kind: Ints = (np.repeat(named * _PLACES, arity) + place)[spread(arity, op_of)]
    return kind + np.repeat(phase * _PLACES, arity[op_of])
