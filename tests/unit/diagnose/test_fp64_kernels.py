"""Double precision is told from the share and the kernel length that the page states, and only where names leave no doubt.

Steps last 100 ms, so that a share in percent is as many milliseconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.diagnose.checks import fp64_kernels
from gpuwise.diagnose.scene import make_scene
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import make_view
from gpuwise.trace.read import read_trace
from making_traces import GPU, HGEMM, Run

STEP_US = 100_000.0
PIECE_US = 100.0
DOUBLES = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<double, double, double, MulFunctor<double>>>"
)
FUSED_ADAM = (
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>, float const*, double, double, double>"
)
GEFORCE = GPU | {"name": "NVIDIA GeForce RTX 4090", "computeMajor": 8, "computeMinor": 9, "numSms": 128}


def made(folder: Path, share: float, name: str = DOUBLES, piece_us: float = PIECE_US, gpu: dict[str, Any] = GPU) -> Path:
    """A run in which kernels of this name take this share of each step, 16-bit products the rest."""
    run = Run(gpu=dict(gpu), free_us={7: 0.0})
    for number in range(4):
        begin = run.host_us
        for _ in range(10):
            run.launch(HGEMM, (1.0 - share) * STEP_US / 10, call=0.5)
        for _ in range(round(share * STEP_US / piece_us)):
            run.launch(name, piece_us, call=0.5)
        run.sync()  # the host waits for the device, so a replay with shorter kernels ends earlier
        run.mark(f"ProfilerStep#{number}", begin, run.host_us)
    return run.write(folder / "made.json")


def finding(folder: Path, share: float, *arguments: Any, **options: Any) -> Finding | None:
    answer = gpuwise.why([str(made(folder, share, *arguments, **options))])
    return next((one for one in answer.findings if one.code == fp64_kernels.CODE), None)


def test_doubles_are_told_from_the_share_that_the_page_states(tmp_path: Path) -> None:
    threshold = fp64_kernels._THRESHOLD
    assert f"take at least {threshold * 100:.0f}% of the step" in " ".join((fp64_kernels.__doc__ or "").split())
    assert finding(tmp_path, 0.95 * threshold) is None
    told = finding(tmp_path, 1.05 * threshold)
    assert told is not None
    assert told.share_fraction == pytest.approx(1.05 * threshold, rel=0.03)


def test_kernels_too_short_to_gain_from_another_type_do_not_count(tmp_path: Path) -> None:
    long_us = fp64_kernels._LONG_NS * 1e-3
    assert f"run for more than {long_us:.0f} µs" in (fp64_kernels.__doc__ or "")
    assert finding(tmp_path, 0.2, piece_us=0.95 * long_us) is None
    assert finding(tmp_path, 0.2, piece_us=1.05 * long_us) is not None


@pytest.mark.parametrize(
    ("name", "double"),
    [
        (DOUBLES, True),
        ("volta_dgemm_128x64_nn", True),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_tn_align1", True),
        ("sm80_xmma_gemm_f64f64_f64f64_f64_tn_n_tilesize32x32x16", True),
        ("Cijk_Ailk_Bljk_DB_MT64x32x16_SE_K1", True),
        ("void gemv2N_kernel<int, int, double, double, double, double, 128>", True),
        (FUSED_ADAM, False),
        ("void convert<double, c10::Half>", False),
        ("ampere_sgemm_128x64_nn", False),
        ("Cijk_Ailk_Bljk_SB_MT64x32x16_SE_K1", False),
        ("double_buffered_copy<int>", False),
    ],
)
def test_a_name_counts_only_where_it_leaves_no_doubt(name: str, double: bool, tmp_path: Path) -> None:
    assert (finding(tmp_path, 0.3, name) is not None) is double


def test_element_wise_work_gains_at_least_its_bytes_and_at_most_the_ratio_of_rates(tmp_path: Path) -> None:
    datacenter, desktop = finding(tmp_path, 0.4), finding(tmp_path, 0.4, gpu=GEFORCE)
    assert datacenter is not None
    assert desktop is not None
    halved = 1.0 / (1.0 - 0.4 / 2)
    assert datacenter.gain.low == pytest.approx(halved, rel=0.01)
    assert datacenter.gain.high == pytest.approx(halved, rel=0.01)  # a V100 does fp64 at half its fp32 rate
    assert desktop.gain.low == pytest.approx(halved, rel=0.01)
    assert desktop.gain.high == pytest.approx(1.0 / (1.0 - 0.4 * 63 / 64), rel=0.01)
    assert "1/64" in desktop.evidence[1]


def test_products_gain_most_where_fp64_is_slowest(tmp_path: Path) -> None:
    datacenter, desktop = (finding(tmp_path, 0.5, "volta_dgemm_128x64_nn", gpu=gpu) for gpu in (GPU, GEFORCE))
    assert datacenter is not None
    assert desktop is not None
    assert 1.0 <= datacenter.gain.low <= datacenter.gain.high < desktop.gain.low <= desktop.gain.high <= 2.0


def test_an_unknown_gpu_widens_the_range_and_is_said(tmp_path: Path) -> None:
    told = fp64_kernels.check(make_view(make_scene(read_trace(made(tmp_path, 0.5, "volta_dgemm_128x64_nn"))), None))
    assert told is not None
    assert told.gain.low == pytest.approx(1.0, abs=0.005)
    assert 1.9 < told.gain.high <= 2.0
    assert "--gpu" in told.evidence[1]
