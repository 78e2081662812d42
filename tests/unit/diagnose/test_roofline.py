"""Ops of known size and known time: each is set against what the kernel models and the limits of the GPU say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gpuwise
from gpuwise.diagnose.roofline.op_time import OpTime
from gpuwise.diagnose.roofline.pricing import op_times
from gpuwise.hardware.catalog import load_catalog
from making_traces import HGEMM, RELU, SGEMM, Run

V100 = load_catalog().find("V100 SXM2 32GB").gpu
HALF = "c10::Half"
CONV = "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::half_t>>"
Call = tuple[str, list[Any], list[str], list[Any], str]
PRODUCT: Call = ("aten::mm", [[4096, 4096], [4096, 4096]], [HALF, HALF], [], HGEMM)
CALLS: dict[str, Call] = {
    "mm": PRODUCT,
    "addmm": ("aten::addmm", [[2048], [8192, 1024], [1024, 2048], [], []], [HALF, HALF, HALF, "Scalar", "Scalar"], [], HGEMM),
    "bmm": ("aten::bmm", [[64, 512, 64], [64, 64, 512]], [HALF, HALF], [], HGEMM),
    "convolution": (
        "aten::convolution",
        [[64, 256, 56, 56], [512, 256, 3, 3], [], [], [], [], [], [], []],
        [HALF, HALF, "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
        CONV,
    ),
    "convolution_backward": (
        "aten::convolution_backward",
        [[64, 512, 28, 28], [64, 256, 56, 56], [512, 256, 3, 3], [], [], [], [], [], [], [], []],
        [HALF, HALF, HALF, *["ScalarList"] * 8],
        [*[""] * 10, "[True, True, False]"],
        CONV,
    ),
    "_scaled_dot_product_flash_attention": (
        "aten::_scaled_dot_product_flash_attention",
        [[16, 16, 1024, 64]] * 3,
        [HALF] * 3,
        ["", "", "", "0.", "True"],
        FLASH,
    ),
    "add": ("aten::add", [[8192, 32768], [8192, 32768]], ["float", "float"], [], RELU),
    "copy_": ("aten::copy_", [[8192, 32768], [8192, 32768]], [HALF, "float"], [], RELU),
    "native_layer_norm": (
        "aten::native_layer_norm",
        [[65536, 1024], [], [1024], [1024], []],
        [HALF, "", HALF, HALF, ""],
        [],
        RELU,
    ),
}


def made(calls: list[tuple[Call, float]], steps: int = 4) -> Run:
    """Steps of ops, each with one kernel that takes so many seconds."""
    run = Run(free_us={7: 0.0})
    for step in range(steps):
        begin = run.host_us
        for (name, dims, types, given, kernel), seconds in calls:
            run.op(name, 6.0, dims, types)
            if given:
                run.events[-1]["args"]["Concrete Inputs"] = given
            run.launch(kernel, seconds * 1e6)
            run.think(2.0)
        run.sync()
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    return run


def row_of(call: Call, seconds: float, folder: Path) -> OpTime:
    (row,) = op_times(gpuwise.why([str(made([(call, seconds)] * 2).write(folder / "made.json"))]).view)
    return row


@pytest.mark.parametrize("name", CALLS)
def test_every_kind_of_op_is_priced_and_counted(name: str, tmp_path: Path) -> None:
    row = row_of(CALLS[name], 5e-3, tmp_path)
    assert row.op.startswith(name)
    assert row.count == 2
    assert row.measured_s == pytest.approx(2 * 5e-3, rel=1e-3)
    assert 0 < row.floor_s <= row.expected_s


def test_the_floor_of_a_product_is_its_flops_at_95_percent_of_the_peak(tmp_path: Path) -> None:
    least = 2 * 4096**3 / (0.95 * V100.peak_flops_per_s["matrix"]["fp16"])
    assert row_of(PRODUCT, 5e-3, tmp_path).floor_s == pytest.approx(2 * least, rel=1e-3)


def test_the_floor_of_a_copy_is_its_bytes_at_95_percent_of_the_bandwidth(tmp_path: Path) -> None:
    moved = 6 * 8192 * 32768 - (V100.l2_bytes or 0)  # four read, two written
    assert row_of(CALLS["copy_"], 5e-3, tmp_path).floor_s == pytest.approx(2 * moved / (0.95 * V100.memory_bytes_per_s), rel=1e-3)


def test_strides_count_and_so_do_the_gradients_asked_for(tmp_path: Path) -> None:
    name, dims, types, given, kernel = CALLS["convolution"]
    forward = row_of(CALLS["convolution"], 5e-3, tmp_path)
    whole = row_of((name, dims, types, [*given[:3], "[1, 1]", *given[4:]], kernel), 5e-3, tmp_path)
    assert whole.expected_s == pytest.approx(4 * forward.expected_s, rel=0.35)
    backward = CALLS["convolution_backward"]
    one = row_of((*backward[:3], [*[""] * 10, "[False, True, False]"], backward[4]), 5e-3, tmp_path)
    assert one.floor_s < row_of(backward, 5e-3, tmp_path).floor_s


def test_a_convolution_without_settings_is_sized_by_its_backward_pass(tmp_path: Path) -> None:
    name, dims, types, _, kernel = CALLS["convolution"]
    told = gpuwise.why(
        [str(made([((name, dims, types, [], kernel), 5e-3), (CALLS["convolution_backward"], 5e-3)]).write(tmp_path / "a.json"))]
    )
    alone = gpuwise.why([str(made([((name, dims, types, [], kernel), 5e-3)]).write(tmp_path / "b.json"))])
    forward = next(row for row in op_times(told.view) if row.op.startswith("convolution 64"))
    assert forward.expected_s == pytest.approx(row_of(CALLS["convolution"], 5e-3, tmp_path).expected_s / 2, rel=1e-6)
    assert op_times(alone.view) == ()


def test_products_in_fp32_are_priced_on_the_unit_that_they_ran_on(tmp_path: Path) -> None:
    single: Call = ("aten::mm", [[4096, 4096], [4096, 4096]], ["float", "float"], [], SGEMM)
    assert row_of(single, 12e-3, tmp_path).expected_s > 4 * row_of(PRODUCT, 12e-3, tmp_path).expected_s


@pytest.mark.parametrize(("reached", "fires"), [(0.3, True), (0.45, True), (0.55, False), (1.0, False)])
def test_slow_ops_are_told_from_half_the_speed_on(reached: float, fires: bool, tmp_path: Path) -> None:
    should = row_of(PRODUCT, 5e-3, tmp_path).expected_s / 2
    layer = row_of(CALLS["native_layer_norm"], 5e-3, tmp_path).expected_s / 2
    run = made([(PRODUCT, should / reached)] * 4 + [(CALLS["native_layer_norm"], layer)] * 4)
    answer = gpuwise.why([str(run.write(tmp_path / "made.json"))])
    found = next((finding for finding in answer.findings if finding.code == "slow_ops"), None)
    assert (found is not None) is fires
    if found is not None:
        assert [row.op for row in found.ops] == ["mm 4096×4096, 4096×4096"]
        assert found.seconds_per_step == pytest.approx(4 * should * (1 / reached - 1), rel=0.02)
        realised = answer.view.step_s / (answer.view.step_s - found.seconds_per_step)
        assert found.gain.low < realised <= found.gain.high * 1.01
        assert f"{reached:.0%} of the speed" in found.title


def test_ops_are_ranked_by_the_time_they_lose(tmp_path: Path) -> None:
    rows = [(CALLS["addmm"], 1e-3), (PRODUCT, 6e-3), (CALLS["bmm"], 2e-3)]
    told = gpuwise.why([str(made(rows).write(tmp_path / "made.json"))]).to_dict()["ops"]
    lost = [row["measured_s"] - row["expected_s"] for row in told]
    assert len(told) == 3
    assert lost == sorted(lost, reverse=True)
    assert {"op", "measured_s", "expected_s", "floor_s"} <= set(told[0])


def test_without_shapes_or_a_known_gpu_nothing_is_priced(tmp_path: Path) -> None:
    run = made([(PRODUCT, 5e-3)])
    run.gpu |= {"name": "no such GPU", "numSms": 7}
    assert op_times(gpuwise.why([str(run.write(tmp_path / "made.json"))]).view) == ()
    bare = made([(("aten::mm", [], [], [], HGEMM), 5e-3)])
    assert op_times(gpuwise.why([str(bare.write(tmp_path / "bare.json"))]).view) == ()


def test_only_the_outermost_op_counts(tmp_path: Path) -> None:
    run = Run(free_us={7: 0.0})
    for step in range(4):
        begin = run.host_us
        name, dims, types, given, kernel = CALLS["convolution"]
        run.op(name, 40.0, dims, types)
        run.events[-1]["args"]["Concrete Inputs"] = given
        run.think(5.0)
        run.op("aten::copy_", 10.0, [[64, 256, 56, 56], [64, 256, 56, 56]], [HALF, HALF])
        run.launch(RELU, 1000.0)
        run.think(10.0)
        run.launch(kernel, 4000.0)
        run.think(40.0)
        run.sync()
        run.mark(f"ProfilerStep#{step}", begin, run.host_us)
    (row,) = op_times(gpuwise.why([str(run.write(tmp_path / "made.json"))]).view)
    assert row.measured_s == pytest.approx(5e-3, rel=1e-3)
