"""Attention with a mask: what its kernel is known to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuwise.evidence.masked import MaskedRates, has_small_tiles, masked, within_ampere
from gpuwise.hardware.catalog import load_catalog
from gpuwise.workload.model.types import Op, Workload
from gpuwise.workload.store import zoo

RATES = MaskedRates(half=0.5, tf32=0.4, small=0.3)


def attention(workload: Workload) -> list[Op]:
    return [op for op in workload.ops if op.kind == "attention"]


def with_heads(width: float, dtype: str = "bf16") -> Workload:
    """A language model whose heads have this width."""
    found = zoo.load("gpt2")
    (rows,) = {found.products[op.sizes[5]] for op in attention(found)}
    dims = found.dims.copy()
    dims[list(rows), 0] = width
    ops = tuple(replace(op, dtype=dtype) if op.kind == "attention" else op for op in found.ops)
    return replace(found, dims=dims, ops=ops)


@pytest.mark.parametrize(("gpu", "small", "reached"), [("A100", False, 1), ("H100", False, 0.5), ("RTX 4090", True, 1)])
def test_what_matters_about_a_gpu(gpu: str, small: bool, reached: float) -> None:
    found = load_catalog().find(gpu).gpu
    assert has_small_tiles(found) == small
    assert within_ampere(found) == reached


def test_all_pairs_are_computed() -> None:
    assert all(op.attrs["causal"] is False and op.attrs["mask"] for op in attention(masked(with_heads(64), RATES)))


@pytest.mark.parametrize(("width", "share"), [(64, 1.0), (96, 0.75), (128, 1.0)])
def test_narrow_heads_are_padded(width: float, share: float) -> None:
    assert {op.attrs["rate"] for op in attention(masked(with_heads(width), RATES))} == {0.5 * share}


def test_wide_heads_are_slower_in_16_bits_alone() -> None:
    half = {str(op.attrs["pass"]): op.attrs["rate"] for op in attention(masked(with_heads(256), RATES))}
    assert half["backward"] < half["forward"] < 0.5
    full = {op.attrs["rate"] for op in attention(masked(with_heads(256, "fp32"), RATES))}
    assert full == {0.4}


def test_fp32_runs_as_tf32() -> None:
    found = masked(with_heads(64, "fp32"), RATES)
    assert {op.dtype for op in attention(found)} == {"tf32"}
    assert attention(masked(found, RATES)) == attention(found)  # and asking again changes nothing


def test_small_tiles_and_unreached_engines_are_slower() -> None:
    (rate,) = {op.attrs["rate"] for op in attention(masked(with_heads(64), RATES, small=True, reached=0.5))}
    assert rate == pytest.approx(0.5 * 0.3 * 0.5)
