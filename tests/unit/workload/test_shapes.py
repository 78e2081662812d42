# ruff: noqa: E402
"""Remembering the outputs of ops makes a capture faster and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures fake tensors of torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the framework

from torch._subclasses.fake_tensor import FakeTensorMode

from gpuwise.workload.capture.torch.recorder import Recorder
from gpuwise.workload.capture.torch.shapes import Memo
from gpuwise.workload.capture.torch.step import Subject, capture
from gpuwise.workload.model.types import Settings


class _Block(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, x: Any) -> Any:
        left, right = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(
            torch.cat([left * 2, torch.nn.functional.dropout(right, 0.1)], dim=-1).transpose(0, 1).transpose(0, 1)
        )


def _subject() -> Subject:
    return Subject(
        build=lambda: torch.nn.Sequential(*(_Block() for _ in range(4))),
        inputs=lambda batch, seq: torch.randn(batch, 8, 16),
        forward=lambda model, x, training: model(x).square().mean(),
    )


@pytest.mark.parametrize("optimizer", ["momentum", "adamw", "lion"])
def test_a_capture_is_the_same_with_and_without_remembered_shapes(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(precision="amp", optimizer=optimizer, clip=True, accumulate=2)
    points = [(2, None), (3, None)]
    quick = capture(_subject(), settings, points)
    monkeypatch.setattr(Memo, "run", lambda self, func, args, kwargs: func(*args, **kwargs))
    assert capture(_subject(), settings, points) == quick


def test_a_view_shares_the_storage_and_a_result_does_not() -> None:
    with FakeTensorMode(), Recorder():
        kept = []
        for _ in range(2):
            x = torch.randn(4, 6)
            view, new, same = x[1:, 2:], x + 1, x.mul_(2)
            assert view.untyped_storage()._cdata == x.untyped_storage()._cdata
            assert (view.shape, view.stride(), view.storage_offset()) == ((3, 4), (6, 1), 8)
            assert new.untyped_storage()._cdata != x.untyped_storage()._cdata
            assert same is x
            kept.append((view, new))
        assert kept[0][1].untyped_storage()._cdata != kept[1][1].untyped_storage()._cdata


def test_a_number_and_a_float_of_one_value_are_told_apart() -> None:
    with FakeTensorMode(), Recorder():
        whole = torch.zeros(3, dtype=torch.int64)
        assert [(whole * factor).dtype for factor in (2, 2.0, 2, 2.0)] == [torch.int64, torch.float32] * 2
