"""What software chooses for the kernels: the layout of images, and which libraries."""

from __future__ import annotations

import pytest

from gpuwise.hardware.machines import find_host
from gpuwise.kernels.limits import CLASSES
from gpuwise.kernels.types import Choices
from gpuwise.questions.capture.answer import capture
from gpuwise.step.time.setting import find_stack
from gpuwise.step.time.simulate import choices_of, lays_channels_last, ops_of
from gpuwise.step.types import Setting
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import Workload


def _workload(model: str, mode: str, *, compiled: bool = False) -> Workload:
    return capture(model, mode=mode, precision="amp", compile=compiled).workload


@pytest.mark.parametrize(
    ("model", "mode", "expected"),
    [
        ("resnet50", "infer", True),
        ("resnet50", "train", True),
        ("mobilenet_v2", "train", True),  # depthwise convolutions gain
        ("resnext50_32x4d", "train", False),  # a single grouped convolution forbids it
        ("densenet121", "train", False),  # so does one that makes few channels of many
        ("mnist_cnn", "train", False),  # nothing but small convolutions
        ("bert-base-uncased", "infer", False),  # no convolutions
    ],
)
def test_the_rule_of_the_compiler(model: str, mode: str, expected: bool) -> None:
    workload = _workload(model, mode)
    assert lays_channels_last(workload, product_values(workload)[0]) is expected


def test_only_compiled_steps_change_their_layout() -> None:
    def layouts(compiled: bool) -> set[float]:
        ops = ops_of(_workload("resnet50", "infer", compiled=compiled), choices=Choices(lays_out=compiled))
        return {float(value) for group in ops.groups if group.kind == "conv" for value in group.columns["nhwc"].ravel()}

    assert layouts(compiled=False) == {0.0}
    assert layouts(compiled=True) == {1.0}


def test_only_eager_group_norm_is_rearranged_in_channels_last() -> None:
    rearranged = float(CLASSES.index("group_norm_nhwc"))
    workload = _workload("sd15_unet", "infer")
    for compiled in (False, True):
        ops = ops_of(workload, choices=Choices(nhwc=True, lays_out=compiled))
        classes = {float(value) for group in ops.groups if "class" in group.columns for value in group.columns["class"].ravel()}
        assert (rearranged in classes) is not compiled


@pytest.mark.parametrize(("stack", "old"), [("torch-1.4", True), ("torch-2.4", False), ("tf-2.2 graph", False)])
def test_old_pytorch_has_slow_depthwise_convolutions(stack: str, old: bool) -> None:
    setting = Setting(stack=find_stack(stack)[0], host=find_host("desktop"))
    assert choices_of(setting).old_depthwise is old
