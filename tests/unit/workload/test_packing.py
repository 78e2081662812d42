"""Packing: graphs come back as they went in, and damage is refused in words."""

from __future__ import annotations

import contextlib
import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.core.errors import BadFile
from gpuwise.workload.model.edit import Graph, graph_of, workload_of
from gpuwise.workload.model.types import Buffer, Buffers, Call, Calls, Op, TensorSpec, Workload
from gpuwise.workload.store.packing import pack, unpack

NAMES = ("mm", "add", "cat")


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Any list of calls on buffers that exist when they are used."""
    products = ((), (0,), (0, 1))
    tensors = tuple(TensorSpec(dtype, product) for dtype in ("fp32", "bf16") for product in range(3))
    row = st.integers(0, len(tensors) - 1)
    ops = tuple(
        Op(
            "elementwise",
            draw(st.sampled_from(NAMES)),
            "fp32",
            (draw(st.integers(0, 2)),),
            {"n": (number, 2)},
            *draw(_operands(row)),
        )
        for number in range(draw(st.integers(1, 4)))
    )
    count = draw(st.integers(1, 12))
    cuts = sorted((draw(st.integers(0, count)), draw(st.integers(0, count))))
    buffers: list[Buffer] = [Buffer(0, 0, 0, count) for _ in range(3)]
    calls = []
    for number in range(count):
        op = draw(st.integers(0, min(len(ops) - 1, max((call.op for call in calls), default=-1) + 1)))
        made = [Buffer(draw(row), draw(st.integers(0, 5)), number, count) for _ in ops[op].writes]
        reads = tuple(draw(st.integers(0, len(buffers) - 1)) for _ in ops[op].reads)
        writes = tuple(range(len(buffers), len(buffers) + len(made)))
        buffers += made
        calls.append(Call(op, sum(number >= cut for cut in cuts), draw(st.integers(0, 1)), reads, writes))
    return _workload(products, tensors, ops, calls, [_until_used(buffer, row, calls, draw) for row, buffer in enumerate(buffers)])


def _operands(row: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[tuple[int, ...], tuple[int, ...]]]:
    some = st.lists(row, max_size=3).map(tuple)
    return st.tuples(some, some)


def _until_used(buffer: Buffer, row: int, calls: list[Call], draw: st.DrawFn) -> Buffer:
    last = max((number for number, call in enumerate(calls) if row in (*call.reads, *call.writes)), default=buffer.born)
    return replace(buffer, died=draw(st.integers(min(last + 1, len(calls)), len(calls))))


def _workload(
    products: tuple[tuple[int, ...], ...],
    tensors: tuple[TensorSpec, ...],
    ops: tuple[Op, ...],
    calls: list[Call],
    buffers: list[Buffer],
) -> Workload:
    used = sorted({call.op for call in calls})
    return Workload(
        model="any",
        source="test",
        mode="train",
        precision="fp32",
        batch=2,
        symbols=("batch",),
        parameters=1,
        dims=np.array([[3.0, 0.5, 0.0, 0.0], [7.0, 0.0, 0.0, 0.0]]),
        products=products,
        tensors=tensors,
        ops=tuple(ops[row] for row in used),
        calls=Calls.of([replace(call, op=used.index(call.op)) for call in calls]),
        modules=("", "layer.0"),
        buffers=Buffers.of(buffers),
    )


def _same(one: Graph, two: Workload) -> bool:
    about = {key: getattr(two, key) for key in ("model", "source", "mode", "precision", "batch", "symbols", "parameters")}
    back = workload_of(one, **about)
    named = [(call.op, call.phase, back.modules[call.module], call.reads, call.writes) for call in back.calls]
    wanted = [(call.op, call.phase, two.modules[call.module], call.reads, call.writes) for call in two.calls]
    tables = ("products", "tensors", "ops", "buffers")
    return (
        named == wanted and np.array_equal(back.dims, two.dims) and all(getattr(back, key) == getattr(two, key) for key in tables)
    )


@given(st.lists(workloads(), min_size=1, max_size=3))
def test_graphs_survive_packing(several: list[Workload]) -> None:
    data = pack([graph_of(workload) for workload in several])
    for number, workload in enumerate(several):
        assert _same(unpack(data, number, "a file"), workload)


def _layered(count: int) -> Workload:
    """A forward pass of equal layers, each of two ops, and a backward pass in the other order that reads what they made."""
    op = Op("elementwise", "add", "fp32", (1,), {}, (0, 0), (0,))
    made = [Buffer(0, 4, call, 4 * count) for call in range(4 * count)]
    forward = [Call(0, 0, 0, (number, 0), (number + 1,)) for number in range(2 * count)]
    backward = [Call(0, 1, 0, (2 * count + step, 2 * count - step), (2 * count + step + 1,)) for step in range(2 * count)]
    return _workload(((), (0,)), (TensorSpec("fp32", 1),), (op,), forward + backward, [Buffer(0, 0, 0, 4 * count), *made])


def test_ten_times_the_layers_cost_hardly_more() -> None:
    few, many = _layered(20), _layered(200)
    packed = pack([graph_of(many)])
    assert _same(unpack(packed, 0, "a file"), many)
    assert len(packed) < 1.25 * len(pack([graph_of(few)]))


@given(workloads(), st.binary(max_size=30), st.floats(0, 1))
def test_damage_never_ends_in_another_error(workload: Workload, noise: bytes, where: float) -> None:
    data = pack([graph_of(workload)])
    cut = int(len(data) * where)
    for broken in (noise, data[:cut], data[:cut] + b"\xff" + data[cut + 1 :]):
        with contextlib.suppress(BadFile):  # and nothing else; some damage does not show
            unpack(broken, 0, "a file")


def test_another_version_is_refused() -> None:
    text = b'{"version":99,"dtypes":[],"modules":[],"attrs":[],"heads":[],"columns":{}}'
    with pytest.raises(BadFile, match="version 99"):
        unpack(gzip.compress(text), 0, "a file")
