"""Laws that hold for any GPU, checked on made-up ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.core.errors import GpuwiseError
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
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


def _is_answered(ask: Callable[[], object]) -> None:
    """Either an answer, or an error that says what happened and what to do; anything else propagates."""
    problem = None
    try:
        assert ask()
    except GpuwiseError as error:
        problem = error
    assert problem is None or (problem.message and problem.hint)
