"""Two-part detectors with fixed numbers of boxes: SSD300 and Mask R-CNN, on torchvision's networks.

Real detectors match, sort and drop boxes by their values, which a capture does not have. Their networks are recorded in full,
with the number of boxes that training samples, and losses on those boxes. Everything that depends on values (matching,
suppression) is left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, smooth_l1_loss

from gpuwise.workload.capture.torch.step import Subject
from gpuwise.workload.capture.torch.torchvision import import_torchvision
from zoo.model import Model, plain

__all__ = ["models"]

_LEFT_OUT = "box matching and non-maximum suppression are not included"


def _ssd() -> Subject:
    from torchvision.models.detection import ssd300_vgg16

    def inputs(batch: int, seq: int | None) -> Any:
        return torch.randn(batch, 3, 300, 300), torch.zeros(batch, 8732, dtype=torch.int64), torch.zeros(batch, 8732, 4)

    def forward(model: Any, batch: Any, training: bool) -> Any:
        images, classes, boxes = batch
        found = model.head(list(model.backbone(images).values()))
        scores, offsets = found["cls_logits"], found["bbox_regression"]
        if not training:
            return scores.softmax(-1), offsets
        losses = cross_entropy(scores.flatten(0, 1), classes.flatten(), reduction="none").view_as(classes)
        hard = losses.detach().sort(1, descending=True)[1].sort(1)[1] < 100  # three negatives per object
        positive = (classes > 0).unsqueeze(-1)
        near = smooth_l1_loss(offsets, boxes, reduction="none") * positive
        return ((losses * hard).sum() + near.sum()) / classes.shape[0]

    return Subject(
        build=lambda: ssd300_vgg16(weights=None, weights_backbone=None), inputs=inputs, forward=forward, notes=(_LEFT_OUT,)
    )


# ---------------------------------------------------------------- Mask R-CNN

_HEIGHT, _WIDTH = 800, 1344
_SAMPLED, _BOXES, _MASKS, _TOP = 256, 512, 128, 1000
_CLASSES = 91


def _declare_roi_align() -> None:
    """Declare the shapes of torchvision's compiled operators if they are missing."""
    if hasattr(torch.ops.torchvision, "roi_align"):
        return

    @torch.library.custom_op("torchvision::roi_align", mutates_args=())
    def align(
        input: torch.Tensor, rois: torch.Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool
    ) -> torch.Tensor:
        raise NotImplementedError("recorded, never computed")

    @torch.library.custom_op("torchvision::_roi_align_backward", mutates_args=())
    def back(
        grad: torch.Tensor,
        rois: torch.Tensor,
        scale: float,
        height: int,
        width: int,
        batch: int,
        channels: int,
        rows: int,
        columns: int,
        ratio: int,
        aligned: bool,
    ) -> torch.Tensor:
        raise NotImplementedError("recorded, never computed")

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])
        ctx.shape, ctx.rest = inputs[0].shape, inputs[2:]

    def gradient(ctx: Any, grad: Any) -> Any:
        scale, height, width, ratio, aligned = ctx.rest
        found = back(grad, *ctx.saved_tensors, scale, height, width, *ctx.shape, ratio, aligned)
        return found, *(None,) * 6

    align.register_fake(
        lambda x, rois, scale, height, width, ratio, aligned: x.new_empty(rois.shape[0], x.shape[1], height, width)
    )
    back.register_fake(lambda grad, rois, scale, height, width, *rest: grad.new_empty(rest[:4]))
    align.register_autograd(gradient, setup_context=remember)


def _pooled(maps: list[Any], boxes: Any, size: int) -> Any:
    """Boxes spread evenly over the four levels of the pyramid."""
    align = torch.ops.torchvision.roi_align
    return torch.cat([align(x, part, 0.25, size, size, 2, False) for x, part in zip(maps, boxes.chunk(4), strict=True)])


def _build_mask_rcnn() -> nn.Module:
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    from torchvision.ops.misc import FrozenBatchNorm2d

    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, norm_layer=FrozenBatchNorm2d, trainable_layers=3)
    return MaskRCNN(backbone, num_classes=_CLASSES)


def _mask_rcnn() -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        boxes = {count: torch.randn(batch * count, 5) for count in (_BOXES, _MASKS, _TOP, 100)}
        chosen = torch.zeros(batch, _SAMPLED, dtype=torch.int64)
        classes = torch.zeros(batch * _BOXES, dtype=torch.int64)
        return torch.randn(batch, 3, _HEIGHT, _WIDTH), boxes, chosen, classes, torch.zeros(batch * _MASKS, 28, 28)

    def forward(model: Any, batch: Any, training: bool) -> Any:
        images, boxes, chosen, classes, masks = batch
        maps = list(model.backbone(images).values())
        scores, offsets = _proposals(model, maps)
        heads = model.roi_heads
        seen = heads.box_head(_pooled(maps[:4], boxes[_BOXES if training else _TOP], 7))
        kinds, corrections = heads.box_predictor(seen)
        drawn = heads.mask_predictor(heads.mask_head(_pooled(maps[:4], boxes[_MASKS if training else 100], 14)))
        if not training:
            return kinds.softmax(-1), corrections, drawn.sigmoid()
        first = _first_losses(scores, offsets, chosen)
        second = cross_entropy(kinds, classes) + smooth_l1_loss(corrections, torch.zeros_like(corrections))
        return first + second + binary_cross_entropy_with_logits(drawn[:, 1], masks)

    note = f"{_BOXES} boxes and {_MASKS} masks per image are assumed in training, and {_TOP:,} and 100 in inference; {_LEFT_OUT}"
    return Subject(build=_build_mask_rcnn, inputs=inputs, forward=forward, notes=(note,))


def _proposals(model: Any, maps: list[Any]) -> tuple[Any, Any]:
    """Scores and offsets of all anchors. The best ones on each level are chosen by score, in training and in inference."""
    scores, offsets = model.rpn.head(maps)
    for level in scores:
        flat = level.detach().flatten(1)
        flat.topk(min(_TOP, flat.shape[1]), dim=1)
    scores = torch.cat([level.permute(0, 2, 3, 1).flatten(1) for level in scores], 1)
    return scores, torch.cat([level.permute(0, 2, 3, 1).reshape(level.shape[0], -1, 4) for level in offsets], 1)


def _first_losses(scores: Any, offsets: Any, chosen: Any) -> Any:
    picked = scores.gather(1, chosen)
    near = offsets.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 4))
    return binary_cross_entropy_with_logits(picked, torch.zeros_like(picked)) + smooth_l1_loss(near, torch.zeros_like(near))


def models() -> list[Model]:
    """At the papers' image sizes."""
    import_torchvision()
    _declare_roi_align()
    return [
        Model(
            name="ssd300",
            title="SSD300 (VGG-16)",
            family="ssd",
            source="torchvision:ssd300_vgg16, arXiv:1512.02325",
            subject=plain(_ssd),
            aliases=("ssd", "ssd300_vgg16"),
            published=35_641_826,
            batch=32,
            image=300,
        ),
        Model(
            name="mask_rcnn",
            title="Mask R-CNN R50-FPN",
            family="mask_rcnn",
            source="torchvision:maskrcnn_resnet50_fpn, arXiv:1703.06870",
            subject=plain(_mask_rcnn),
            aliases=("maskrcnn", "maskrcnn_resnet50_fpn", "mask_rcnn_r50_fpn", "mask_rcnn_r_50_fpn_1x", "mask_rcnn_r_50_fpn_3x"),
            published=44_401_393,
            batch=2,
            options={"height": _HEIGHT, "width": _WIDTH},
        ),
    ]
