"""What the terms of kernel models mean: counted by hand, on a machine where only that term costs time."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwise.hardware.catalog import load_catalog
from gpuwise.kernels.limits import moved_s, peak_of, powered, tiled_s
from gpuwise.kernels.registry import MODELS
from gpuwise.kernels.times import gpus_of, load_constants, times
from gpuwise.kernels.types import Array, Cost, Gpus, Ops
from making_ops import attention, convolution, moved, product, recurrent

NAMES = ("GTX 1070", "RTX 2080 Ti", "RTX 3090", "A100 PCIe 40GB", "H100 SXM 80GB", "MI300X")


@cache
def gpus(watts: float | None = None) -> Gpus:
    return gpus_of([load_catalog().find(name).gpu for name in NAMES], watts)


def unlimited() -> Gpus:
    """The same chips where power is no limit."""
    return replace(gpus(), watts=gpus().watts * 1e6, board=gpus().board * 1e6)


def cost(work: Ops, on: Gpus | None = None, **constants: float) -> Cost:
    group = work.groups[0]
    return MODELS[group.kind].price(group.columns, on or unlimited(), {**load_constants(), **constants})


# ---------------------------------------------------------------- bytes


def outside_cache(of_cache: Any) -> Array:
    """What share of an op's bytes comes from memory, for an op that touches so many times the cache."""
    endless = replace(unlimited(), units=gpus().units * 1e6)  # units keep up with anything: memory alone counts
    columns = {"read": of_cache * endless.cache, "written": 0.0 * endless.cache}
    spent = moved_s(columns, endless, load_constants())
    far = {"read": 1e6 * endless.cache, "written": 0.0 * endless.cache}
    return np.asarray(spent / columns["read"] / (moved_s(far, endless, load_constants()) / far["read"]))


def test_a_small_op_finds_its_share_in_the_cache_and_half_of_that_where_it_reaches_as_far_as_the_cache() -> None:
    """`cache.share` is what tiny ops find; it is halved for an op whose bytes times `cache.reach` are the cache."""
    k = load_constants()
    assert outside_cache(1e-3) == pytest.approx(1.0 - k["cache.share"], rel=1e-3)
    assert outside_cache(1.0 / k["cache.reach"]) == pytest.approx(1.0 - k["cache.share"] / 2, rel=1e-3)
    assert outside_cache(100.0) == pytest.approx(1.0, rel=1e-2)


def test_a_pool_pays_for_every_value_its_windows_look_at() -> None:
    none, few, many = (cost(moved(1e4, "pool", looked=looked)).compute_s for looked in (0.0, 4e8, 9e8))
    assert np.all(none == 0)
    assert many / few == pytest.approx(9 / 4)


def test_every_launch_of_a_call_starts_a_kernel() -> None:
    one, ten = (times(moved(1e4, launches=count), gpus(), load_constants()).seconds for count in (1, 10))
    assert ten - one == pytest.approx(9 * load_constants()["kernel.start_s"])


# ---------------------------------------------------------------- power


@pytest.mark.parametrize("watts", [60.0, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_no_product_beats_what_its_power_allows(dtype: str, watts: float) -> None:
    work, on, k = product(1, 8192, 8192, 8192, dtype), gpus(watts), load_constants()
    peak, matrix = peak_of(work.groups[0].columns, on, k)
    reached = peak * np.where(matrix > 0, k["matmul.matrix"], k["matmul.vector"])
    allowed = 2.0 * 8192.0**3 / powered(on, k, reached, matrix)
    assert np.all(cost(work, on).compute_s >= 0.999 * allowed)


def test_a_finer_process_does_more_with_the_same_watts() -> None:
    work, on = product(1, 8192, 8192, 8192, "fp16"), gpus(80.0)
    finer = replace(on, process=on.process / 2)
    assert np.all(cost(work, finer).compute_s < 0.9 * cost(work, on).compute_s)


# ---------------------------------------------------------------- products


@given(tiles=st.integers(1, 200), beyond=st.integers(1, 31), depth=st.integers(1, 4096))
@settings(max_examples=30)
def test_a_tile_that_is_begun_costs_as_much_as_a_whole_one(tiles: int, beyond: int, depth: int) -> None:
    """All tile sizes divide 256 rows, and the lowest is 32 high: between 256 n + 1 and 256 n + 32 rows nothing changes."""

    def taken(rows: int) -> Array:
        work = product(1, 256 * tiles + rows, 128, depth).groups[0].columns
        sizes = (work[name] for name in ("batch", "m", "n", "k", "dtype"))
        return tiled_s(*sizes, unlimited().vector, unlimited(), load_constants())

    assert np.allclose(taken(beyond), taken(32), rtol=1e-12)
    assert np.all(taken(0) <= taken(beyond))


# ---------------------------------------------------------------- convolutions


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_no_pass_of_a_convolution_beats_the_peak(dtype: str, which: int, stride: int) -> None:
    """Every pass has the products of the forward one, whatever the stride: of 5x5 windows, which no shortcut serves."""
    work = convolution(32, 64, 128, 28, 25, which, dtype, stride=stride)
    peak, _ = peak_of(work.groups[0].columns, unlimited(), load_constants())
    limit = 2.0 * 32 * 64 * 128 * 25 * 28**2 / peak
    found = cost(work).compute_s
    assert np.all(found >= limit)
    assert np.all(found <= 20 * limit)


def test_winograd_serves_3x3_windows_without_stride_on_the_vector_lanes() -> None:
    def per_product(taps: float, stride: float, which: int) -> Array:
        return np.asarray(cost(convolution(32, 128, 128, 28, taps, which, stride=stride)).compute_s[:, :3] / taps)

    k = load_constants()
    for which, fewer in ((0, k["conv.winograd"]), (2, k["conv.winograd_weight"])):
        straight, strided = (per_product(9, stride, which) for stride in (1, 2))
        assert np.all(straight < 0.8 * per_product(25, 1, which))
        assert strided / straight == pytest.approx(fewer, rel=0.05)


# ---------------------------------------------------------------- attention


def test_backward_attention_has_five_products_to_two_of_the_forward_pass() -> None:
    """Scores again, then the gradients of values, scores, queries and keys; each pass at the rate it was measured at."""
    k = load_constants()
    forward, backward = (
        cost(attention(8, 16, 4096, 4096, 128, backward=flag), **{"attention.block_clocks": 0.0}).compute_s[:, 1:5]
        for flag in (0, 1)
    )
    slower = k["attention.forward"] / k["attention.backward"]
    assert backward / forward == pytest.approx(5 / 2 * slower, rel=1e-3)


def test_a_causal_mask_saves_nothing_within_a_block_and_half_in_the_long_run() -> None:
    def left(length: float) -> Array:
        masked, whole = (
            cost(attention(8, 16, length, length, causal=flag), **{"attention.block_clocks": 0.0}).compute_s for flag in (1, 0)
        )
        return np.asarray(masked / whole)

    assert left(64) == pytest.approx(1.0)
    assert left(128) == pytest.approx(1.0)
    assert left(256) == pytest.approx(0.75)
    assert left(65_536) == pytest.approx(0.5, rel=0.01)


def test_scores_in_fp32_move_34_bytes_where_16_bit_ones_move_20() -> None:
    """By counting the kernels of unfused attention (`_FP32_SCORES`)."""
    halves, fulls = (cost(attention(4, 16, 4096, 4096, unfused=1, dtype=name)).memory_s for name in ("fp16", "fp32"))
    assert fulls / halves == pytest.approx(34 / 20, rel=0.02)


# ---------------------------------------------------------------- recurrent layers


def test_recurrent_weights_beyond_the_cache_are_read_at_every_step() -> None:
    """4096 units and four gates are 268 MB of fp32 weights, of which a tenth of a cache holds nearly nothing. On all cards here
    but the last, whose cache holds them all, reading takes longer than multiplying."""
    weights, steps, on = 4 * 4096.0**2 * 4, 50, unlimited().take(slice(0, 5))
    tight = replace(on, cache=on.cache / 10)
    more = cost(recurrent(steps, 1, 4096), tight).compute_s - cost(recurrent(steps, 1, 4096), on).compute_s
    missed = np.maximum(0.0, weights - tight.cache) - np.maximum(0.0, weights - on.cache)
    assert more == pytest.approx(steps * missed / on.bandwidth, rel=1e-6)


# ---------------------------------------------------------------- machines


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("P100 PCIe 16GB", 0.55, 0.8), ("V100 SXM2 16GB", 0.85, 1.0), ("A100 SXM 80GB", 0.85, 1.0), ("MI210", 0.55, 0.8)],
)
def test_a_long_copy_reaches_less_of_old_hbm_and_of_amds(name: str, low: float, high: float) -> None:
    """A P100 copies at 444 of 732 GB/s, a V100 at 869 of 900 (`_reaches_less`)."""
    gpu = load_catalog().find(name).gpu
    taken = times(moved(1e9), gpus_of([gpu]), load_constants()).seconds[0, 0]
    assert low < 8e9 / taken / gpu.memory_bytes_per_s < high


def test_an_image_laid_channels_first_is_rearranged_by_a_kernel_of_its_own_for_the_matrix_engine() -> None:
    launches = np.broadcast_to(cost(convolution(32, 64, 64, 28, 9, 0, "fp16")).launches, (1, len(NAMES)))
    assert dict(zip(NAMES, launches[0], strict=True)) == {name: 1 if name == "GTX 1070" else 2 for name in NAMES}


def test_a_1x1_convolution_is_rearranged_less_than_a_3x3_one() -> None:
    """It is a product in either layout; 3x3 windows are gathered pixel by pixel."""
    k = load_constants()
    for taps, constant in ((1, k["conv.rearranged_1x1"]), (9, k["conv.rearranged"])):
        first, last = (cost(convolution(32, 64, 64, 28, taps, 0, "fp16", nhwc=nhwc)).memory_s[0, 2] for nhwc in (0, 1))
        assert first / last == pytest.approx(1 + constant / k["conv.bytes"])
    assert k["conv.rearranged_1x1"] < k["conv.rearranged"]


def test_gradients_of_grouped_weights_are_slow_in_channels_last_unless_a_group_has_a_usual_width() -> None:
    def slower(width: int, which: int) -> float:
        first, last = (
            cost(convolution(32, 8 * width, 8 * width, 28, 9, which, "fp16", groups=8, nhwc=nhwc)).compute_s[0, 2]
            for nhwc in (0, 1)
        )
        return float(last / first)

    assert slower(56, 2) > 3.0
    assert slower(32, 2) < 1.0
    assert slower(32, 0) < 1.0


def test_channels_last_is_fast_for_groups_of_even_width_and_slow_for_others() -> None:
    def each(width: int) -> float:  # seconds per product
        work = convolution(32, 32 * width, 32 * width, 28, 9, 0, "fp16", groups=32, nhwc=1)
        return float(cost(work).compute_s[0, 2]) / width**2

    assert each(64) < 0.9 * each(56)
    assert each(64) < 0.9 * each(72)


def test_wide_groups_run_nearly_as_fast_as_one() -> None:
    def reached(width: int) -> float:
        apart, one = (cost(convolution(64, width * groups, width * groups, 28, 9, 0, "fp16", groups=groups)) for groups in (4, 1))
        return float(4.0 * one.compute_s[0, 2] / apart.compute_s[0, 2])

    assert reached(128) < 0.95 * reached(512)
    assert 0.85 < reached(512) < 1.0


def test_plain_loops_take_over_where_cudnn_has_no_depthwise_kernel() -> None:
    def each(window: int, **how: Any) -> float:  # seconds per product
        return float(cost(convolution(64, 256, 256, 28, window, 0, "fp16", groups=256, **how)).compute_s[0, 2]) / window

    assert each(49) > 1.5 * each(25)
    assert each(49, nhwc=1) < each(49)


def test_a_mask_keeps_attention_from_flash_kernels() -> None:
    plain, masked = (cost(attention(8, 16, 2048, 2048, masked=masked)).compute_s for masked in (0, 1))
    names = ["RTX 3090" in name or "A100" in name or "H100" in name for name in NAMES]
    assert all((masked > 1.1 * plain)[0][flag] for flag in np.flatnonzero(names))


def test_depthwise_convolutions_wait_for_old_libraries_and_for_other_makers() -> None:
    k, (new, old) = load_constants(), (convolution(32, 64, 64, 56, 9, 0, groups=64, old=old) for old in (0, 1))
    assert cost(old).memory_s / cost(new).memory_s == pytest.approx(k["depthwise.old"])
    nvidia = replace(unlimited(), maker=np.zeros_like(unlimited().maker))
    slower = cost(new).memory_s / cost(new, nvidia).memory_s
    assert slower[0] == pytest.approx([k["depthwise.others"] if name == "MI300X" else 1.0 for name in NAMES])
    assert k["depthwise.old"] > 1.0
    assert k["depthwise.others"] > 1.0


def test_hbm_leaves_more_of_the_power_to_the_chip_than_gddr() -> None:
    on = gpus(100.0).take(slice(0, 4))  # the others would have nothing left at 100 W
    stacked, apart = (replace(on, hbm=np.full_like(on.hbm, flag)) for flag in (1.0, 0.0))
    work = product(1, 8192, 8192, 8192, "fp16")
    assert np.all(cost(work, stacked).compute_s < cost(work, apart).compute_s)
