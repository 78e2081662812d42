"""What must hold of every kernel model, whatever its constants: limits, monotony, finiteness."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.hardware.catalog import load_catalog
from gpuwise.kernels.registry import MODELS
from gpuwise.kernels.times import gpus_of, load_constants, times
from gpuwise.kernels.types import DTYPES, Gpus, Ops
from making_ops import attention, convolution, held, moved, product, recurrent

NAMES = (
    "GTX 960M",
    "GTX 1070",
    "Titan Xp",
    "RTX 2080 Ti",
    "T4",
    "RTX 3090",
    "RTX 4090",
    "L4",
    "A100 PCIe 40GB",
    "H100 SXM 80GB",
    "RX 6800",
    "MI300X",
)
SIZES = st.integers(1, 4096)


@cache
def gpus() -> Gpus:
    return gpus_of([load_catalog().find(name).gpu for name in NAMES])


SAMPLES = [
    product(1, 512, 512, 512),
    product(64, 128, 128, 64, "fp16"),
    product(1, 4096, 4096, 4096, "fp16"),
    convolution(32, 64, 64, 56, 9, 0),
    convolution(32, 64, 64, 56, 9, 2, "fp16"),
    convolution(32, 96, 96, 28, 9, 1, "fp16", groups=96),
    attention(8, 16, 512, 512),
    attention(8, 16, 512, 512, masked=1),
    attention(8, 16, 512, 512, unfused=1, backward=1),
    attention(8, 32, 1, 4096, 128),
    moved(1e6),
    moved(1e8, "batch_norm_backward"),
    recurrent(50, 32, 512),
    held(1),
    held(512, width=0.6, experts=8, chosen=2),
]


def seconds(work: Ops, on: Gpus | None = None) -> Any:
    return times(work, on or gpus(), load_constants()).seconds


def test_every_kind_of_op_has_a_sample() -> None:
    assert {work.groups[0].kind for work in SAMPLES} == set(MODELS)


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@given(batch=st.integers(1, 64), m=SIZES, n=SIZES, k=SIZES)
@settings(max_examples=60, deadline=None)
def test_no_product_beats_the_peak_of_its_engine(dtype: str, batch: int, m: int, n: int, k: int) -> None:
    limit = 2.0 * batch * m * n * k / gpus().peak[DTYPES.index(dtype)]
    assert np.all(seconds(product(batch, m, n, k, dtype)) >= limit)


@given(elements=st.floats(1, 1e10))
@settings(max_examples=60, deadline=None)
def test_no_stream_larger_than_the_cache_beats_the_memory(elements: float) -> None:
    beyond = np.maximum(8 * elements - 2 * gpus().cache, 0.0)
    assert np.all(seconds(moved(elements)) >= beyond / gpus().bandwidth * 0.999)


@pytest.mark.parametrize("field", ["units", "clock", "bandwidth", "cache"])
@pytest.mark.parametrize("work", SAMPLES, ids=lambda work: work.groups[0].kind)
@given(more=st.floats(1.01, 4.0))
@settings(max_examples=10, deadline=None)
def test_more_of_anything_is_never_slower(work: Ops, field: str, more: float) -> None:
    """The same chip with more units, clock, bandwidth or cache; peaks and lanes grow with units and clock."""
    base = gpus()
    changes: dict[str, Any] = {field: getattr(base, field) * more}
    if field in ("units", "clock"):
        changes |= {"peak": base.peak * more, "vector": base.vector * more}
    if field == "units":
        changes["lanes"] = base.lanes * more
    assert np.all(seconds(work, replace(base, **changes)) <= seconds(work) * (1 + 1e-9))


@given(m=SIZES, n=SIZES, k=SIZES, more=st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_a_larger_product_never_takes_less(m: int, n: int, k: int, more: int) -> None:
    assert np.all(seconds(product(1, m + more, n, k)) >= seconds(product(1, m, n, k)) * 0.999)


@pytest.mark.parametrize("work", SAMPLES, ids=lambda work: work.groups[0].kind)
def test_sizes_of_zero_and_one_are_finite(work: Ops) -> None:
    group = work.groups[0]
    sizes = {"batch", "m", "n", "k", "read", "written", "q_len", "kv_len", "steps", "out_positions", "in_positions"}
    for value in (0.0, 1.0):
        columns = {name: np.full_like(column, value) if name in sizes else column for name, column in group.columns.items()}
        empty = Ops(count=work.count, groups=(replace(group, columns=columns),))
        assert np.all(np.isfinite(seconds(empty)))
        assert np.all(seconds(empty) >= 0)


def test_half_precision_pays_where_there_are_tensor_cores_and_not_on_gtx_10() -> None:
    ratio = (seconds(product(1, 4096, 4096, 4096)) / seconds(product(1, 4096, 4096, 4096, "fp16")))[0]
    by_name = dict(zip(gpus().names, ratio, strict=True))
    assert all(by_name[name] > 1.3 for name in ("RTX 2080 Ti", "T4", "RTX 3090", "RTX 4090", "A100 PCIe 40GB", "H100 SXM 80GB"))
    for name in ("GTX 1070", "Titan Xp"):  # fp16 runs at 1/64 there, so libraries store in it and compute in fp32
        assert 0.6 < by_name[name] < 1.15


def _in(work: Ops, dtype: str) -> Ops:
    (group,) = work.groups
    columns = {**group.columns, "dtype": np.full_like(group.columns["dtype"], DTYPES.index(dtype))}
    return replace(work, groups=(replace(group, columns=columns),))


@pytest.mark.parametrize(
    "work", [work for work in SAMPLES if "dtype" in work.groups[0].columns], ids=lambda work: work.groups[0].kind
)
def test_nothing_is_slower_in_tf32_than_in_fp32(work: Ops) -> None:
    assert np.all(seconds(_in(work, "tf32")) <= seconds(_in(work, "fp32")) * (1 + 1e-9))


@given(batch=st.integers(1, 8), m=SIZES, n=SIZES, k=SIZES)
@settings(max_examples=60, deadline=None)
def test_no_product_is_slower_in_tf32_than_in_fp32(batch: int, m: int, n: int, k: int) -> None:
    assert np.all(seconds(product(batch, m, n, k, "tf32")) <= seconds(product(batch, m, n, k)) * (1 + 1e-9))


def test_tf32_pays_where_its_engine_is_wider() -> None:
    wide, narrow = seconds(product(1, 8192, 8192, 8192)), seconds(product(1, 8192, 8192, 8192, "tf32"))
    assert narrow[0, NAMES.index("A100 PCIe 40GB")] < 0.3 * wide[0, NAMES.index("A100 PCIe 40GB")]


def test_a_lower_power_limit_is_never_faster() -> None:
    gpu = [load_catalog().find("RTX 3090").gpu]
    work = product(1, 8192, 8192, 8192, "fp16")
    taken = [seconds(work, gpus_of(gpu, watts))[0, 0] for watts in (350, 300, 250, 200, 150, 100)]
    assert taken == sorted(taken)
    assert taken[-1] > 1.2 * taken[0]


def test_every_constant_of_the_file_is_used() -> None:
    used = {"overlap", "kernel.start_s", "start.amd", "start.intel", "start.apple", "start.soc"}  # by `times` itself

    class Spy(dict[str, float]):
        def __getitem__(self, name: str) -> float:
            used.add(name)
            return super().__getitem__(name)

        def get(self, name: str, default: Any = None) -> Any:
            used.add(name)
            return super().get(name, default)

    for group in (group for work in SAMPLES for group in work.groups):
        MODELS[group.kind].price(group.columns, gpus(), Spy(load_constants()))
    assert sorted(name for name in set(load_constants()) - used if not name.startswith("host.")) == []


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_times_stay_in_the_precision_they_are_asked_in(kind: type) -> None:
    asked = gpus_of([load_catalog().find(name).gpu for name in ("RTX 3090", "GTX 1070", "MI300X")], dtype=kind)
    for work in SAMPLES:
        for group in work.groups:
            columns = {name: column.astype(kind) for name, column in group.columns.items()}
            cost = MODELS[group.kind].price(columns, asked, {name: kind(value) for name, value in load_constants().items()})
            assert {cost.compute_s.dtype, cost.memory_s.dtype} == {np.dtype(kind)}, group.kind


def test_a_wide_7x7_convolution_is_bound_by_compute_on_every_card() -> None:
    cards = [gpu for gpu in load_catalog().curated if gpu.peak_flops_per_s.get("vector", {}).get("fp32")]
    found = times(convolution(32, 512, 512, 14, 49, 0), gpus_of(cards), load_constants())
    slower = [gpu.name for gpu, ratio in zip(cards, (found.compute_s / found.memory_s)[0], strict=True) if ratio < 1]
    assert slower == []


def test_without_a_matrix_engine_nvidia_gains_nothing_from_fp16() -> None:
    """A P100 does 8.4 TFLOP/s in fp16 and 8.6 in fp32; a GTX 1660 Ti 0.6 and 5.2; AMD's lanes do two in fp16 at a time."""
    cards = gpus_of([load_catalog().find(name).gpu for name in ("P100 PCIe 16GB", "GTX 1660 Ti", "RX 6800")])
    single, half = (seconds(product(1, 8192, 8192, 8192, dtype), cards)[0] for dtype in ("fp32", "fp16"))
    pascal, small, amd = half / single
    assert 0.9 < pascal < 1.4
    assert small > 4
    assert amd < 0.7
