"""What a card reaches of its rated peak and bandwidth: engines at half rate, error correction, image layouts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuwise.hardware.catalog import load_catalog
from gpuwise.kernels.limits import moved_s, peak_of
from gpuwise.kernels.ops.conv import conv
from gpuwise.kernels.times import gpus_of, load_constants
from gpuwise.kernels.types import Gpus, dtype_code

BYTES = {"read": np.array([[1e9]]), "written": np.array([[1e9]])}
HALF = {"dtype": np.array([[float(dtype_code("fp16"))]])}


def card(name: str) -> Gpus:
    return gpus_of([load_catalog().find(name).gpu])


def test_error_correction_costs_bandwidth_of_gddr() -> None:
    k, gpu = load_constants(), card("T4")
    without = replace(gpu, ecc=np.zeros_like(gpu.ecc))
    assert gpu.ecc.all()
    assert moved_s(BYTES, gpu, k)[0, 0] > 1.02 * moved_s(BYTES, without, k)[0, 0]


@pytest.mark.parametrize("name", ["A100 SXM 80GB", "RTX 3090"])
def test_hbm_and_cards_without_error_correction_lose_nothing(name: str) -> None:
    k = dict(load_constants())
    plain = moved_s(BYTES, card(name), k)
    assert moved_s(BYTES, card(name), {**k, "memory.ecc": 0.5}) == pytest.approx(plain)


def test_an_engine_at_half_rate_reaches_more_of_it() -> None:
    k = load_constants()
    shares = {}
    for name in ("RTX 3090", "RTX A6000"):  # the same chip: only the workstation card runs at its whole rate
        gpu = card(name)
        reached, _ = peak_of(HALF, gpu, k)
        shares[name] = reached[0, 0] / gpu.peak[dtype_code("fp16"), 0]
    assert shares["RTX 3090"] == pytest.approx(shares["RTX A6000"] * k["engine.halved"])
    assert k["engine.halved"] > 1.0


def test_channels_last_makes_large_convolutions_faster_on_a_matrix_engine() -> None:
    sizes = {"n": 64, "c_in": 256, "c_out": 256, "kernel": 9, "out_positions": 784, "in_positions": 784, "groups": 1, "pass": 0}
    sizes |= {"strided": 0, "depthwise": 0, "old": 0, "dtype": dtype_code("fp16"), "read": 1e6, "written": 1e6}
    seconds = [
        conv(
            {name: np.array([[float(value)]]) for name, value in (sizes | {"nhwc": nhwc}).items()},
            card("RTX 3090"),
            load_constants(),
        )
        for nhwc in (0, 1)
    ]
    assert seconds[1].compute_s[0, 0] < seconds[0].compute_s[0, 0]
