# ruff: noqa: E402
"""Pools and resizes: what each value of the result takes of the image, which is no argument that happens to stand second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="captures fake tensors of torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the framework

from torch.nn import functional as F  # noqa: N812

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.step.time.setting import as_run, default_stack
from gpuwise.step.time.simulate import ops_of, simulate
from gpuwise.step.types import Setting
from gpuwise.workload.capture.process import capture as capture_model
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.step import Subject, capture
from gpuwise.workload.model.evaluate import op_bytes, product_values
from gpuwise.workload.model.symbols import Description, join
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo

BATCH, CHANNELS, SIDE = 2, 8, 16
IMAGE = BATCH * CHANNELS * SIDE * SIDE


class _Changed(torch.nn.Module):  # type: ignore[misc,name-defined]
    """One convolution, so that gradients flow, and what happens to its image."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.conv, self.change = torch.nn.Conv2d(3, CHANNELS, 1), change

    def forward(self, x: Any) -> Any:
        return self.change(self.conv(x))


def _captured(change: Callable[[Any], Any]) -> Workload:
    subject = Subject(
        build=lambda: _Changed(change),
        inputs=lambda batch, seq: torch.randn(batch, 3, SIDE, SIDE),
        forward=lambda model, x, training: model(x).square().mean(),
    )
    captures, parameters = capture(subject, Settings(optimizer="sgd"), [(BATCH, None)])
    about = Description(
        model="m", source="test", mode="train", precision="fp32", optimizer="sgd", options={}, parameters=parameters
    )
    return join(captures, about)


def _sizes(workload: Workload) -> dict[str, tuple[float, ...]]:
    values = product_values(workload)[0]
    return {op.name: tuple(values[row] for row in op.sizes) for op in workload.ops if op.kind == "pool"}


RESIZES = {
    "upsample_nearest2d": (lambda x: F.interpolate(x, scale_factor=2), 1),
    "upsample_bilinear2d": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), 4),
    "upsample_bicubic2d": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), 16),
    "_upsample_nearest_exact2d": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"), 1),
    "_upsample_bilinear2d_aa": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", antialias=True), 4),
    "upsample_linear1d": (lambda x: F.interpolate(x.flatten(2), scale_factor=4, mode="linear"), 2),
    "upsample_trilinear3d": (lambda x: F.interpolate(x[..., None, :, :], scale_factor=(1, 2, 2), mode="trilinear"), 8),
    "grid_sampler_2d": (lambda x: F.grid_sample(x, torch.zeros(BATCH, 2 * SIDE, 2 * SIDE, 2)), 4),
}


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_takes_a_few_values_of_the_image_forward_and_backward(name: str) -> None:
    change, taps = RESIZES[name]
    assert _sizes(_captured(change)) == {
        name: (IMAGE, 4 * IMAGE, taps),
        f"{name}_backward": (IMAGE, 4 * IMAGE, taps),
    }


@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_is_priced_by_its_bytes(name: str) -> None:
    workload = _captured(RESIZES[name][0])
    (memory_bound,) = (group for group in ops_of(workload).groups if group.kind == "memory_bound")
    assert not memory_bound.columns["looked"].any()
    read, written = op_bytes(workload, product_values(workload))
    moved = {op.name: float(read[0, place] + written[0, place]) for place, op in enumerate(workload.ops) if op.kind == "pool"}
    assert all(5 * 4 * IMAGE <= each <= 8 * 4 * IMAGE for each in moved.values())  # image and result, once each, and a grid


def test_an_adaptive_pools_window_follows_from_the_size_of_its_result() -> None:
    sizes = _sizes(_captured(lambda x: F.adaptive_avg_pool2d(x, (5, 4))))
    result = BATCH * CHANNELS * 5 * 4
    assert sizes["_adaptive_avg_pool2d"] == (IMAGE, result, 4 * 4)  # 16 over 5 places, rounded up, by 16 over 4
    assert sizes["_adaptive_avg_pool2d_backward"] == (IMAGE, result, 4 * 4)
    assert _sizes(_captured(lambda x: F.adaptive_avg_pool2d(x, (SIDE, SIDE))))["_adaptive_avg_pool2d"] == (IMAGE, IMAGE, 1)


def test_a_pools_window_is_its_kernel() -> None:
    sizes = _sizes(_captured(lambda x: F.max_pool2d(x, 2)))
    assert sizes["max_pool2d_with_indices"] == (IMAGE, IMAGE / 4, 4)


def test_folding_sums_as_many_columns_as_the_kernel_has_places() -> None:
    sizes = _sizes(_captured(lambda x: F.unfold(x, 3, padding=1)))
    assert sizes["im2col"] == (IMAGE, 9 * IMAGE, 1)
    assert sizes["col2im"] == (9 * IMAGE, IMAGE, 9)


def test_no_window_of_the_zoo_is_as_large_as_an_image() -> None:
    for name in ("mask_rcnn", "yolov5s", "yolov8n", "sd15_unet", "sdxl_unet", "vgg16", "alexnet", "googlenet", "inception_v3"):
        for op, (_, _, window) in _sizes(zoo.load(name)).items():
            assert window <= 25, (name, op, window)


U_NET = """
import torch
from torch import nn

def block(inside, outside):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())

class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = block(3, 32), block(32, 64), block(64, 128)
        self.up, self.down = block(128 + 64, 64), nn.MaxPool2d(2)
        self.out, self.grow = block(64 + 32, 2), nn.Upsample(scale_factor=2, mode="bilinear")

    def forward(self, x):
        high = self.first(x)
        middle = self.second(self.down(high))
        low = self.grow(self.third(self.down(middle)))
        return self.out(torch.cat([high, self.grow(self.up(torch.cat([middle, low], 1)))], 1))
"""


def _seconds(workload: Workload, *names: str) -> list[float]:
    gpus = [load_catalog().find(name).gpu for name in names]
    setting = as_run(Setting(stack=default_stack(), host=find_host("desktop")), workload)
    return [float(each) for each in simulate(workload, gpus, setting, batch=np.array([16.0])).seconds[0]]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_captures")
def test_a_u_net_of_ones_own_trains_no_slower_on_an_a100_than_on_an_rtx_3090(tmp_path: Path) -> None:
    (tmp_path / "unet.py").write_text(U_NET, encoding="utf-8")
    request = Request(model=f"{tmp_path / 'unet.py'}:UNet", batch=16, image=256, settings=Settings(optimizer="adam"))
    a100, rtx_3090 = _seconds(capture_model(request), "A100 SXM 80GB", "RTX 3090")
    assert a100 <= rtx_3090


@pytest.mark.parametrize("model", ["mask_rcnn", "yolov5s", "yolov8s", "sd15_unet", "unet"])
def test_models_that_resize_train_no_slower_on_an_a100_than_on_an_rtx_3090(model: str) -> None:
    request = Request(model=model, settings=Settings(precision="amp", optimizer=zoo.entry(model).optimizer))
    a100, rtx_3090 = _seconds(zoo.load(model, request), "A100 SXM 80GB", "RTX 3090")
    assert a100 <= rtx_3090


@pytest.mark.parametrize("model", ["mask_rcnn", "yolov5s", "yolov8s", "sdxl_unet"])
def test_the_backward_pass_of_a_resize_is_a_small_part_of_a_step(model: str) -> None:
    workload = zoo.load(model)
    setting = as_run(Setting(stack=default_stack(), host=find_host("desktop")), workload)
    steps = simulate(workload, [load_catalog().find("V100 SXM2 16GB").gpu], setting)
    (pools,) = (share for share in steps.classes if share.kind == "pool")
    assert pools.seconds[0, 0] < 0.15 * steps.lanes["gpu"][0, 0]
