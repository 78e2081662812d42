"""Laws that hold for any GPU, checked on made-up ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.units import GIB
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.physics import faults
from gpuwise.hardware.specs import gpu_from_text

ARCHITECTURES = [key for key, a in tables.architectures().items() if "vector" in a.ops_per_unit_per_clock]


@given(arch=st.sampled_from(ARCHITECTURES), sm=st.integers(1, 500), ghz=st.floats(0.3, 3.5))
def test_peak_is_proportional_to_units_and_clock(arch: str, sm: int, ghz: float) -> None:
    base = replace(load_catalog().find("RTX 3090").gpu, architecture=tables.architectures()[arch], half_accumulate=False)
    one = replace(base, sm_count=1, boost_clock_hz=1e9, matrix_clock_hz=1e9)
    many = replace(base, sm_count=sm, boost_clock_hz=ghz * 1e9, matrix_clock_hz=ghz * 1e9)
    for engine, by_dtype in one.peak_flops_per_s.items():
        for dtype, peak in by_dtype.items():
            assert abs(many.peak_flops_per_s[engine][dtype] / (peak * sm * ghz) - 1) < 1e-9


@pytest.mark.slow
@given(text=st.text(max_size=60))
def test_any_text_is_a_gpu_or_a_clear_error(text: str) -> None:
    _is_answered(lambda: load_catalog().find(text).gpu.name)


@given(
    pairs=st.lists(
        st.tuples(
            st.sampled_from(["arch", "sm", "boost", "mem", "bw", "tdp", "l2", "name", "zzz"]),
            st.sampled_from(["ada", "60", "-1", "2.5GHz", "16GB", "500GB/s", "1e400 W", "nan", "", "9" * 400, "١٢"]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_typed_spec_is_a_gpu_or_a_clear_error(pairs: list[tuple[str, str]]) -> None:
    _is_answered(lambda: gpu_from_text(",".join(f"{key}={value}" for key, value in pairs)).sm_count > 0)


BASE = load_catalog().find("RTX 3090").gpu
PEAK = BASE.peak_flops_per_s["vector"]["fp32"]
BORN = BASE.architecture.introduced_on


@pytest.mark.parametrize(
    ("within", "beyond", "field"),
    [
        (  # peaks that follow from units, clock and rate within 3 %
            {"published_flops_per_s": {"vector": {"fp32": 1.025 * PEAK}}},
            {"published_flops_per_s": {"vector": {"fp32": 1.035 * PEAK}}},
            "vector.fp32",
        ),
        (  # bandwidth that follows from bus and pins within 3 %
            {"memory_bytes_per_s": 1.025 * BASE.memory_bytes_per_s},
            {"memory_bytes_per_s": 1.035 * BASE.memory_bytes_per_s},
            "memory_bytes_per_s",
        ),
        (  # at most a year before its architecture, a few days of grace
            {"launched_on": BORN - timedelta(days=365)},
            {"launched_on": BORN - timedelta(days=380)},
            "launched_on",
        ),
        (  # at most eight years after it
            {"launched_on": BORN + timedelta(days=2919)},
            {"launched_on": BORN + timedelta(days=2925)},
            "launched_on",
        ),
        (  # one or two chips of at most 4 GiB for each 32 of 384 bits
            {"memory_bytes": 12 * 4 * GIB},
            {"memory_bytes": 12 * 2 * 4.1 * GIB},
            "memory_bytes",
        ),
        ({"power_min_watts": BASE.tdp_watts}, {"power_min_watts": (BASE.tdp_watts or 0.0) + 1}, "power_min_watts"),
    ],
)
def test_a_figure_is_refused_from_where_it_contradicts_the_others(
    within: dict[str, Any], beyond: dict[str, Any], field: str
) -> None:
    later = BORN + timedelta(days=4000)
    assert faults(replace(BASE, **within), today=later) == ()
    assert field in [fault.field for fault in faults(replace(BASE, **beyond), today=later)]


def _is_answered(ask: Callable[[], object]) -> None:
    """Either an answer, or an error that says what happened and what to do; anything else propagates."""
    problem = None
    try:
        assert ask()
    except GpuwiseError as error:
        problem = error
    assert problem is None or (problem.message and problem.hint)


def test_a_framework_gets_the_matrix_engine_where_there_is_one() -> None:
    assert BASE.best_peak("fp16") == BASE.peak_flops_per_s["matrix"]["fp16"]
    assert BASE.best_peak("fp32") == PEAK
    assert load_catalog().find("GTX 1080").gpu.best_peak("bf16") is None
