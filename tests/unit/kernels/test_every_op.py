"""What must hold for every registered kind of op: its sizes, FLOPs, time and lower bound, and what other code reads from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuwise.kernels.ops
from gpuwise.hardware.catalog import load_catalog
from gpuwise.kernels.limits import CLASSES
from gpuwise.kernels.registry import KINDS, MODELS
from gpuwise.kernels.times import floors_s, gpus_of, load_constants, times
from gpuwise.kernels.types import AttrValue, Choices, Fusion, Gpus, Group, OpKind, Ops, Split

EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
GPUS = ("GTX 1070", "RTX 2080 Ti", "RTX 4090", "A100 PCIe 40GB", "H100 SXM 80GB", "MI300X")
# A value of each attribute that a kind may need, and a usual value of each size that is small.
ATTRS: Mapping[str, AttrValue] = {
    "groups": 1,
    "stride": (1, 1),
    "layout": "nchw",
    "causal": False,
    "cell": "lstm",
    "weights": "q4_k_m",
}
SMALL = {
    "experts": 8.0,
    "chosen": 2.0,
    "kernel": 9.0,
    "window": 9.0,
    "layers": 1.0,
    "directions": 1.0,
    "heads": 8.0,
    "kv_heads": 8.0,
    "steps": 32.0,
}
USUAL = 64.0
BYTES = 1e8


@dataclasses.dataclass(frozen=True)
class Made:
    """An op of a kind, with all that the kind asks of one."""

    name: str
    dtype: str
    attrs: Mapping[str, AttrValue]


def made(kind: OpKind, dtype: str = "fp16", way: str = "", name: str = "", **attrs: AttrValue) -> Made:
    said = {key: ATTRS[key] for key in kind.attrs} | ({"pass": way} if way else {}) | attrs
    return Made(name or kind.name, dtype, said)


def usual(kind: OpKind) -> dict[str, float]:
    return {size: SMALL.get(size, USUAL) for size in kind.sizes}


def forms(kind: OpKind) -> list[Made]:
    return [made(kind, dtype, way) for dtype, way in product(("fp32", "fp16"), kind.passes or ("",))]


def columns(kind: OpKind, op: Made, sizes: Mapping[str, float], choices: Choices | None = None) -> dict[str, Any]:
    given = {name: np.array([[value]]) for name, value in sizes.items()}
    filled = kind.columns([op], given, choices or Choices())
    return {name: np.broadcast_to(np.asarray(column, dtype=float), (1, 1)) for name, column in filled.items()}


def group(kind: OpKind, op: Made, sizes: Mapping[str, float], moved: float) -> Ops:
    half = np.full((1, 1), moved / 2)
    own = columns(kind, op, sizes) | {"read": half, "written": half}
    return Ops(count=1, groups=(Group(kind=kind.model.name, rows=np.arange(1), columns=own),))


def seconds(kind: OpKind, op: Made, sizes: Mapping[str, float], moved: float = BYTES) -> Any:
    return times(group(kind, op, sizes, moved), gpus(), load_constants()).seconds


@cache
def gpus() -> Gpus:
    return gpus_of([load_catalog().find(name).gpu for name in GPUS])


# ---------------------------------------------------------------- the table


def test_every_file_of_the_folder_is_registered_under_its_own_name() -> None:
    files = {path.stem for folder in gpuwise.kernels.ops.__path__ for path in Path(folder).glob("*.py")}
    assert files - {"__init__"} == set(KINDS)
    assert all(kind.name == name for name, kind in KINDS.items())


def test_kinds_of_one_model_share_it() -> None:
    """Two models of one name would be one in the table, and ops of the other be priced by it."""
    assert all(MODELS[kind.model.name] is kind.model for kind in KINDS.values())


@EVERY
def test_sizes_are_named_once(kind: OpKind) -> None:
    assert kind.sizes
    assert all(name.isidentifier() for name in kind.sizes)
    assert len(set(kind.sizes)) == len(kind.sizes)
    assert {*kind.divided, kind.tokens or kind.sizes[0]} <= set(kind.sizes)


@EVERY
def test_its_file_says_what_it_is(kind: OpKind) -> None:
    module = __import__(f"gpuwise.kernels.ops.{kind.name}", fromlist=["__all__"])
    assert module.__doc__
    assert getattr(module, kind.name.upper()) is kind


# ---------------------------------------------------------------- FLOPs


@EVERY
def test_flops_are_finite_and_grow_with_every_size(kind: OpKind) -> None:
    if kind.flops is None:
        assert not kind.is_product
        return
    for op in forms(kind):
        before = {name: np.array([value]) for name, value in usual(kind).items()}
        flops = kind.flops(op, before)
        assert np.isfinite(flops).all()
        assert flops > 0
        for size in kind.sizes:
            assert kind.flops(op, {**before, size: before[size] * 2}) >= flops, size
            assert kind.flops(op, {**before, size: np.array([0.0])}) >= 0, size


@EVERY
def test_the_share_that_no_library_saves_is_a_share(kind: OpKind) -> None:
    shares = [kind.needed(op) for op in forms(kind)]
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert kind.flops is not None or not any(shares)


def test_a_causal_mask_saves_half_of_attention() -> None:
    attention = KINDS["attention"]
    assert attention.needed(made(attention, causal=False)) == 1.0
    assert attention.needed(made(attention, causal=True)) == 0.5


# ---------------------------------------------------------------- the price


@EVERY
def test_its_columns_are_all_that_its_model_reads(kind: OpKind) -> None:
    others = [other for other in KINDS.values() if other.model is kind.model]
    own = set(columns(kind, forms(kind)[0], usual(kind)))
    assert all(set(columns(other, forms(other)[0], usual(other))) == own for other in others)
    assert not own & {"read", "written", "cold", "weights"}, "those are filled in for every op"
    for choices in (Choices(), Choices(tf32=True, nhwc=True, fused_attention=False, mode="infer")):
        for op in forms(kind):
            given = columns(kind, op, usual(kind), choices) | {"read": np.ones((1, 1)), "written": np.ones((1, 1))}
            assert all(np.isfinite(column).all() for column in given.values())
            kind.model.price(given, gpus(), load_constants())  # a missing column is a KeyError


@EVERY
def test_columns_are_filled_for_many_ops_and_points_at_once(kind: OpKind) -> None:
    ops = forms(kind) * 3
    sizes = {name: np.linspace(value, 4 * value, 5 * len(ops)).reshape(5, -1) for name, value in usual(kind).items()}
    whole = {
        name: np.broadcast_to(np.asarray(column, dtype=float), (5, len(ops)))
        for name, column in kind.columns(ops, sizes, Choices()).items()
    }
    for point, place in product(range(5), range(len(ops))):
        alone = columns(kind, ops[place], {name: float(values[point, place]) for name, values in sizes.items()})
        assert {name: float(column[point, place]) for name, column in whole.items()} == {
            name: float(column[0, 0]) for name, column in alone.items()
        }


@EVERY
def test_its_time_is_finite_and_at_least_its_floor(kind: OpKind) -> None:
    for op, moved in product(forms(kind), (0.0, 1e3, BYTES, 1e11)):
        taken = seconds(kind, op, usual(kind), moved)
        assert np.isfinite(taken).all()
        assert np.all(taken > 0)
        assert np.all(taken >= 0.999 * floors_s(group(kind, op, usual(kind), moved), gpus()))


@EVERY
def test_more_work_never_takes_less(kind: OpKind) -> None:
    """Twice any size, with twice the bytes or the same. The same may cost 1 % less: products spread over more positions fill the
    units better, as in the gradient of a convolution's input."""
    for op in forms(kind):
        base, taken = usual(kind), seconds(kind, op, usual(kind))
        for size in kind.sizes:
            larger = {**base, size: 2 * base[size]}
            assert np.all(seconds(kind, op, larger) >= 0.98 * taken), size
            assert np.all(seconds(kind, op, larger, 2 * BYTES) > taken), size


def test_every_class_of_memory_bound_ops_is_some_kind() -> None:
    names = ("batch_norm", "batch_norm_backward", "group_norm", "layer_norm", "layer_norm_backward", "max_pool2d_backward")
    own = [kind for kind in KINDS.values() if kind.model.name == "memory_bound"]
    found = set()
    settings = (Choices(), Choices(nhwc=True, mode="infer"), Choices(lays_out=True))
    for kind, name, choices in product(own, ("", "some_backward", *names), settings):
        found.add(int(columns(kind, made(kind, name=name), usual(kind), choices)["class"][0, 0]))
        found.add(int(columns(kind, made(kind, name=name, reordered="other"), usual(kind), choices)["class"][0, 0]))
    assert {CLASSES[place] for place in found} == set(CLASSES)


def test_a_product_is_aligned_where_both_its_inner_sizes_are() -> None:
    matmul = KINDS["matmul"]
    for n, k in product((64.0, 63.0), repeat=2):
        found = columns(matmul, made(matmul), {"batch": 1.0, "m": 63.0, "n": n, "k": k})["aligned"]
        assert bool(found) == (n == k == 64.0)


def test_an_optimizer_of_many_tensors_launches_several_kernels() -> None:
    optimizer = KINDS["optimizer"]
    few, many = (columns(optimizer, made(optimizer), {"elements": 1e6, "tensors": count})["launches"] for count in (30.0, 300.0))
    assert few == 1
    assert 4 <= many <= 10


# ---------------------------------------------------------------- what others ask


@EVERY
def test_compilers_and_plans_know_what_to_do_with_it(kind: OpKind) -> None:
    assert isinstance(kind.fusion, Fusion)
    assert isinstance(kind.split, Split)
    if kind.fusion is Fusion.PRODUCT:
        assert kind.is_product
    if kind.split is Split.HEADS:
        assert {"heads", "kv_heads", "kv_len"} <= set(kind.sizes)
    if kind.split is Split.MATRIX:
        assert kind.sizes == ("batch", "m", "n", "k")


@EVERY
def test_bench_has_a_case_for_it(kind: OpKind) -> None:
    measured = [kind.measured(op, usual(kind)) for op in forms(kind)]
    known = bench_cases()
    for one in measured:
        rows = next((known[name] for name in one.kinds if name in known), None)
        assert rows is not None, one.kinds
        assert kind.is_product == bool(one.sizes), "products are priced by their rate, all else by bytes"
        assert not one.sizes or len(one.sizes) in rows


@cache
def bench_cases() -> dict[str, set[int]]:
    """How many sizes each measured kind has; nothing is run, on a device without memory."""
    pytest.importorskip("torch")
    from gpuwise.live.bench.cases import cases

    found: dict[str, set[int]] = {}
    for case in cases("meta"):
        found.setdefault(case.kind, set()).add(len(case.sizes))
    return found
