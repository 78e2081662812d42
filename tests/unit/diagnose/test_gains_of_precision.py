"""Pairs of runs, before and after a change of precision, with a known gain: it lies in the range that was promised before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.diagnose.types import Finding
from making_traces import GPU, RELU, SGEMM, Run

AMPERE = GPU | {"name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108, "totalGlobalMem": 85e9}
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>(int)"
CONV_FP32 = "volta_scudnn_128x64_relu_medium_nn_v1"


def made(
    product: str, product_us: float, rest_us: float, casts_us: float = 0.0, gpu: dict[str, Any] = GPU, pieces: int = 40
) -> Run:
    """Steps of products, of casts before each, and of kernels that no precision changes. The host is ahead of the device."""
    run = Run(gpu={**gpu, "totalGlobalMem": int(gpu["totalGlobalMem"])}, free_us={7: 0.0})
    for step in range(4):
        begin = max(run.free_us[7], run.host_us)
        run.host_us = begin
        for _ in range(pieces):
            if casts_us:
                run.launch(CAST, casts_us / pieces, call=1.0)
            run.launch(product, product_us / pieces, call=1.0)
            run.launch(RELU, rest_us / pieces, call=1.0)
        run.sync()
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    return run


def promised(run: Run, folder: Path, code: str) -> tuple[Finding, float]:
    answer = gpuwise.why([str(run.write(folder / "made.json"))])
    return next(finding for finding in answer.findings if finding.code == code), answer.view.step_s


def step_s(run: Run, folder: Path) -> float:
    return gpuwise.why([str(run.write(folder / "after.json"))]).view.step_s


@pytest.mark.parametrize(
    ("share", "faster", "casts"),
    [
        (0.27, 1.7, 0.02),  # a quarter of the step in products: 1.09 times as fast
        (0.27, 2.0, 0.02),
        (0.66, 2.7, 0.05),  # convolutions of a large batch
        (0.90, 4.0, 0.03),
    ],
)
def test_what_16_bits_gained_lies_in_what_was_promised(share: float, faster: float, casts: float, tmp_path: Path) -> None:
    before, after = (
        made(SGEMM, share * 20_000, (1 - share) * 20_000),
        made("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", share * 20_000 / faster, (1 - share) * 20_000, casts * 20_000),
    )
    finding, step = promised(before, tmp_path, "fp32_matmul")
    realised = step / step_s(after, tmp_path)
    assert finding.gain.low <= realised <= finding.gain.high
    assert finding.gain.high <= 1 / (1 - share) * 1.01


@pytest.mark.parametrize(("share", "faster"), [(0.25, 1.6), (0.25, 1.85), (0.7, 4.0)])
def test_what_tf32_gained_lies_in_what_was_promised(share: float, faster: float, tmp_path: Path) -> None:
    before = made("ampere_sgemm_128x64_nn", share * 20_000, (1 - share) * 20_000, gpu=AMPERE)
    after = made("ampere_tf32_s1688gemm_128x64", share * 20_000 / faster, (1 - share) * 20_000, gpu=AMPERE)
    finding, step = promised(before, tmp_path, "tf32_off")
    assert finding.gain.low <= step / step_s(after, tmp_path) * 1.001
    assert step / step_s(after, tmp_path) <= finding.gain.high


def test_short_products_promise_nothing_at_the_lower_end(tmp_path: Path) -> None:
    short, _ = promised(made(SGEMM, 1000.0, 1000.0, pieces=100), tmp_path, "fp32_matmul")  # 10 µs each
    long, _ = promised(made(SGEMM, 20_000.0, 20_000.0, pieces=100), tmp_path, "fp32_matmul")
    assert short.gain.low < 1.01
    assert long.gain.low > 1.1


def test_the_lower_end_counts_the_casts(tmp_path: Path) -> None:
    run = made(SGEMM, 10_000.0, 10_000.0)
    finding, _ = promised(run, tmp_path, "fp32_matmul")
    same = made("ampere_sgemm_128x64_nn", 10_000.0, 10_000.0, gpu=AMPERE)
    half, _ = promised(same, tmp_path, "fp32_matmul")
    tf32, _ = promised(same, tmp_path, "tf32_off")
    assert half.gain.low < tf32.gain.low  # TF32 needs none
    assert any("casts to fp16 would take 10%" in line for line in finding.evidence)


def test_convolutions_count_as_products(tmp_path: Path) -> None:
    finding, _ = promised(made(CONV_FP32, 10_000.0, 10_000.0), tmp_path, "fp32_matmul")
    assert finding.share_fraction == pytest.approx(0.5, abs=0.02)
