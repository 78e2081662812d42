# ruff: noqa: E402
"""Fourier transforms are recognised in a model, with their points and FLOPs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="captures fake tensors of torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the framework

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.step.time.setting import default_stack
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting
from gpuwise.workload.capture.torch.step import Subject, capture
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.coverage import coverage
from gpuwise.workload.model.evaluate import op_flops, product_values
from gpuwise.workload.model.symbols import Description, join
from gpuwise.workload.model.types import Settings, Workload

BATCH, TOKENS, WIDTH = 4, 32, 64


class _Mixing(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A layer, so that gradients flow, and a transform of its result."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layer, self.change = torch.nn.Linear(WIDTH, WIDTH), change

    def forward(self, x: Any) -> Any:
        return self.change(self.layer(x))


def captured(change: Callable[[Any], Any]) -> Workload:
    subject = Subject(
        build=lambda: _Mixing(change),
        inputs=lambda batch, seq: torch.randn(batch, TOKENS, WIDTH),
        forward=lambda model, x, training: model(x).square().mean(),
    )
    sizes = [(BATCH, None), (2 * BATCH, None), (3 * BATCH, None)]
    captures, parameters = capture(subject, Settings(optimizer="sgd"), sizes)
    about = Description(
        model="m", source="test", mode="train", precision="fp32", optimizer="sgd", options={}, parameters=parameters
    )
    return join(captures, about)


# What a model does, the points of one transform, and FLOPs for each point and doubling: 5, or half of it for real values.
WAYS: dict[str, tuple[Callable[[Any], Any], int, float]] = {
    "along rows": (lambda x: torch.fft.fft(x).real, WIDTH, 2.5),  # of a real tensor, so by its real form
    "of complex values": (lambda x: torch.fft.ifft(torch.complex(x, x)).abs(), WIDTH, 5.0),
    "along tokens": (lambda x: torch.fft.fft(torch.complex(x, x), dim=1).abs(), TOKENS, 5.0),
    "over both": (lambda x: torch.fft.fft2(torch.complex(x, x)).abs(), TOKENS * WIDTH, 5.0),
    "there and back": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=WIDTH), WIDTH, 2.5),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_transform_is_known_with_its_points_and_flops(way: str) -> None:
    change, points, each = WAYS[way]
    workload = captured(change)
    assert coverage(workload).unknown == {}
    phases = {call.phase for call in workload.calls if workload.ops[call.op].kind == "fft"}
    assert phases == {0, 1}, "forward and its gradient"
    for batch in (BATCH, 7.0):
        values = product_values(workload, batch)
        flops = op_flops(workload, values)[0]
        forward = {call.op for call in workload.calls if call.phase == 0 and workload.ops[call.op].kind == "fft"}
        for place in forward:
            assert values[0, workload.ops[place].sizes[1]] == points
            assert flops[place] == pytest.approx(each * batch * TOKENS * WIDTH * np.log2(points))


def test_a_transform_is_priced_and_stays_apart_when_compiled() -> None:
    workload = captured(WAYS["of complex values"][0])
    setting = Setting(stack=default_stack(), host=find_host("desktop"))
    gpus = [load_catalog().find(name).gpu for name in ("RTX 3090", "H100 SXM 80GB")]
    one, many = simulate(workload, gpus, setting, batch=np.array([1e5, 1e6])).lanes["gpu"]
    assert np.all(np.isfinite(one))
    assert np.all((8 * one < many) & (many < 12 * one))
    compiled = fused(workload)
    assert [op.name for op in compiled.ops if op.kind == "fft"] == [op.name for op in workload.ops if op.kind == "fft"]
