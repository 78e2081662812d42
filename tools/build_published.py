"""Writes `docs/accuracy-published.md`: predictions next to figures that vendors publish for well-known models.

    python -m tools.build_published

Only the H100 figures are part of the fit. Each prediction is what `gpuwise predict` prints, with the default software.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gpuwise

PAGE = Path(gpuwise.__file__).parents[2] / "docs" / "accuracy-published.md"
_EXAMPLES = "https://github.com/NVIDIA/DeepLearningExamples/blob/master/PyTorch"
_RESNET = f"[NVIDIA]({_EXAMPLES}/Classification/ConvNets/resnet50v1.5/README.md)"
_LAMBDA = "[Lambda](https://github.com/lambdal/deeplearning-benchmark)"
_MASK = f"[NVIDIA]({_EXAMPLES}/Segmentation/MaskRCNN/README.md)"
_MOSAIC = "[MosaicML](https://github.com/mosaicml/diffusion), one GPU of eight"
_YOLO = "[Ultralytics](https://github.com/ultralytics/yolov5/issues/9373), 300 epochs in two days"
_COCO_IMAGES, _DAY_S = 118_287, 86_400

_TEXT = """# Published training speeds

`python -m tools.build_published` writes this page. It compares `gpuwise predict` with figures that vendors publish for
their own training scripts. Only the figures for the H100 are part of the fit. The predictions assume the default
software, as predictions for an unknown program always do.

{table}

Keep the following in mind:

- Lambda's figures are the lowest and highest speeds in three containers. They include the time to load ImageNet, which
  the prediction does not. Lambda does not state the layout, so we predict one row with channels-last and one without.
- NVIDIA's script for Mask R-CNN dates from 2019 and loads images during the step. With mixed precision, the script runs
  only 1.4 times as fast as in fp32, because much of the step does not use the matrix engine. We predict a larger gain.
- The training time of YOLOv5s is rounded to days and includes loading and augmenting images.
- For YOLOv8, DeepLab, SDXL and the sizes of 2-D U-Nets in the zoo, we found no published training speed that states the
  GPU, batch size and precision.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A published training speed in images per second, from `low` to `high`."""

    model: str
    gpu: str
    precision: str
    batch: int
    low: float
    high: float
    source: str
    channels_last: bool = False


FIGURES = (
    Figure("resnet50", "H100 SXM 80GB", "amp", 1280, 2616, 2790, _LAMBDA),
    Figure("resnet50", "H100 SXM 80GB", "amp", 1280, 2616, 2790, _LAMBDA, True),
    Figure("resnet50", "A100 SXM 80GB", "amp", 256, 2470, 2470, _RESNET, True),
    Figure("resnet50", "V100 SXM 16GB", "amp", 256, 1200, 1200, _RESNET, True),
    Figure("resnet50", "V100 SXM 16GB", "fp32", 128, 367, 367, _RESNET),
    Figure("mask_rcnn", "V100 SXM 16GB", "fp32", 2, 8.47, 8.47, _MASK),
    Figure("mask_rcnn", "V100 SXM 16GB", "fp32", 4, 9.29, 9.29, _MASK),
    Figure("mask_rcnn", "V100 SXM 16GB", "amp", 4, 12.73, 12.73, _MASK),
    Figure("sd2_unet_256", "A100 SXM 80GB", "amp", 64, 1100 / 8, 1100 / 8, _MOSAIC),
    Figure("sd2_unet", "A100 SXM 80GB", "amp", 16, 290 / 8, 290 / 8, _MOSAIC),
    Figure("yolov5s", "V100 SXM 16GB", "amp", 64, 300 * _COCO_IMAGES / (2 * _DAY_S), 300 * _COCO_IMAGES / (2 * _DAY_S), _YOLO),
)


def line(figure: Figure) -> str:
    """A row of the table."""
    answer = gpuwise.predict(
        model=figure.model,
        gpu=(figure.gpu,),
        mode="train",
        precision=figure.precision,
        batch=figure.batch,
        channels_last=figure.channels_last,
    )
    (result,) = answer.results
    seconds = result.step_s
    speed, slow, fast = (figure.batch / value for value in (seconds, result.step_high_s, result.step_low_s))
    nearest = min(max(speed, figure.low), figure.high)
    published = f"{figure.low:,.4g}" if figure.low == figure.high else f"{figure.low:,g} to {figure.high:,g}"
    held = "yes" if slow <= figure.high and fast >= figure.low else "no"
    return (
        f"| {figure.model}{', channels-last' if figure.channels_last else ''} | {figure.gpu} | {figure.precision} "
        f"| {figure.batch:,} | {published} | {speed:,.4g} "
        f"| {slow:,.4g} to {fast:,.4g} | {100 * (speed / nearest - 1):+.0f}% | {held} | {figure.source} |"
    )


def main() -> None:
    """Write the page."""
    head = "| model | GPU | precision | batch | published images/s | predicted | range | error | in range | source |"
    table = "\n".join([head, "|---|---|---|---|---|---|---|---|---|---|", *map(line, FIGURES)])
    PAGE.write_text(_TEXT.format(table=table), encoding="utf-8")


if __name__ == "__main__":
    main()
