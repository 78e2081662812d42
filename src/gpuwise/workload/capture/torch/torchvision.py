"""`torchvision:NAME`: classification and segmentation models from torchvision, without weights or downloads."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from gpuwise.core.errors import BadValue, MissingExtra, UnknownName
from gpuwise.core.text import either
from gpuwise.workload.capture.request import Request

__all__ = ["import_torchvision", "subject"]


def import_torchvision() -> Any:
    """Import torchvision, even if its compiled operators do not match torch: a capture only needs shapes."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="capturing a PyTorch model") from None
    try:
        import torchvision
    except ImportError:
        raise MissingExtra("torchvision", extra="torchvision", needed_for="capturing a torchvision model") from None
    except RuntimeError:  # its operators are not registered: declare the two that its import expects
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision


def subject(request: Request) -> Any:
    """Return the model with that name on images of its default size."""
    from gpuwise.workload.capture.torch.images import image_subject

    torchvision = import_torchvision()
    name = request.model.partition(":")[2]
    known = torchvision.models.list_models()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        meant = either(f"`torchvision:{other}`" for other in near)
        hint = f"did you mean {meant}?" if near else "list all models with torchvision.models.list_models()"
        raise UnknownName(f"torchvision has no model '{name}'", looked_in=f"{len(known)} models", hint=hint)
    _refuse_detectors(torchvision, name)
    size = request.image or (299 if name == "inception_v3" else 224)
    return image_subject(lambda: _unweighted(torchvision, name), size)


def _refuse_detectors(torchvision: Any, name: str) -> None:
    """Refuse detectors: they select boxes by their scores, so the ops that run next depend on values."""
    if ".detection" in torchvision.models.get_model_builder(name).__module__:
        raise BadValue(
            f"torchvision:{name} selects boxes by tensor values, which are not available during a capture",
            hint="use a built-in detector with a fixed number of boxes: `mask_rcnn`, `ssd300`, `yolov8s`",
        )


def _unweighted(torchvision: Any, name: str) -> Any:
    """Return the model with random weights. Builders of detection and segmentation models download the backbone's weights by
    default.
    """
    takes = inspect.signature(torchvision.models.get_model_builder(name)).parameters
    none = {key: None for key in ("weights", "weights_backbone") if key in takes}
    return torchvision.models.get_model(name, **none)
