# ruff: noqa: E402
"""Models of torchvision are built without weights, whole or of a backbone: a capture downloads nothing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures fake tensors of torch")
if find_spec("torchvision") is None:
    pytest.skip("captures models of torchvision", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the framework

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.process import capture
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.torchvision import _unweighted, import_torchvision, subject
from gpuwise.workload.model.types import Settings


def _names(folder: str) -> list[str]:
    models = import_torchvision().models
    return [name for name in models.list_models() if folder in models.get_model_builder(name).__module__]


def _refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError(f"downloads {args}")


@pytest.mark.parametrize("name", [*_names(".detection"), *_names(".segmentation")])
def test_no_weights_of_a_backbone_are_fetched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", _refuse)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", _refuse)
    with torch.device("meta"):
        assert _unweighted(import_torchvision(), name) is not None


@pytest.mark.parametrize("name", _names(".detection")[:3])
def test_a_detector_is_refused_with_those_of_the_zoo(name: str) -> None:
    with pytest.raises(BadValue, match="selects boxes by tensor values") as caught:
        subject(Request(model=f"torchvision:{name}"))
    assert "`mask_rcnn`" in caught.value.hint


@pytest.mark.slow
def test_a_segmentation_model_trains_on_a_label_for_each_place() -> None:
    request = Request(model="torchvision:lraspp_mobilenet_v3_large", batch=2, image=64, settings=Settings(optimizer="sgd"))
    workload = capture(request)
    assert workload.parameters == 3_221_538
    assert {"upsample_bilinear2d_backward", "nll_loss2d_backward"} <= {op.name for op in workload.ops}
