"""Writes `docs/accuracy-published.md`: predictions next to figures that others publish for well-known models.

    python -m tools.build_published

Only the H100 figures are part of the fit; the time that cloud CPUs need per call was derived from some of the latencies.
Each prediction is what `gpuwise predict` prints, with the default software.
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
_HUGGING_FACE = "[Hugging Face](https://github.com/huggingface/transformers/blob/v4.40.0/docs/source/en/perf_torch_compile.md)"
_KERNL = "[ELS-RD](https://github.com/ELS-RD/kernl/pull/134)"
_COCO_IMAGES, _DAY_S = 118_287, 86_400

_TEXT = """# Published speeds

`python -m tools.build_published` writes this page. It compares `gpuwise predict` with figures that others published.

## Training

These are figures that vendors publish for their own training scripts. Only the figures for the H100 are part of the
fit. The predictions assume the default software, as predictions for an unknown program always do.

{table}

Keep the following in mind:

- Lambda's figures are the lowest and highest speeds in three containers. They include the time to load ImageNet, which
  the prediction does not. Lambda does not state the layout, so we predict one row with channels-last and one without.
- NVIDIA's script for Mask R-CNN dates from 2019 and loads images during the step. With mixed precision, the script runs
  only 1.4 times as fast as in fp32, because much of the step does not use the matrix engine. We predict a larger gain.
- The training time of YOLOv5s is rounded to days and includes loading and augmenting images.
- For YOLOv8, DeepLab, SDXL and the sizes of 2-D U-Nets in the zoo, we found no published training speed that states the
  GPU, batch size and precision.

## Inference with small batches

At small batch sizes, the host limits the step. Hugging Face measured these models with PyTorch 2.0, with and without
torch.compile, and ELS-RD measured BERT. Neither names the CPU. We assume that Hugging Face used cloud machines. None of
these rows is part of the fit. However, [decision 38](decisions/0038-what-a-launch-costs-the-host.md) derives the time
per call from some of them (ResNet-50, ViT and BERT at batch 1), so those rows are not an independent test.

{latencies}

SegFormer reshapes its tensors far more often than the other models. Views run no kernel, so gpuwise does not count
them.
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


@dataclass(frozen=True, slots=True)
class Latency:
    """A published time of one inference step in milliseconds."""

    model: str
    gpu: str
    batch: int
    published_ms: float
    compiled: bool = False
    seq: int | None = None
    precision: str = "fp32"
    cpu: str = "cloud vCPU"
    source: str = _HUGGING_FACE


_VIT, _SEGFORMER = "hf:google/vit-base-patch16-224", "hf:nvidia/segformer-b0-finetuned-ade-512-512"
_A100, _V100 = "A100 SXM 40GB", "V100 SXM 16GB"
LATENCIES = (
    Latency("resnet50", _A100, 1, 6.531),
    Latency("resnet50", _V100, 1, 6.484),
    Latency("resnet50", "T4", 1, 6.031),
    Latency("resnet50", _A100, 16, 7.018),
    Latency("resnet50", _V100, 16, 14.857),
    Latency("resnet50", "T4", 16, 44.114),
    Latency("resnet50", _A100, 1, 4.124, compiled=True),
    Latency("resnet50", _V100, 1, 3.820, compiled=True),
    Latency("resnet50", _A100, 16, 5.024, compiled=True),
    Latency(_VIT, _A100, 1, 9.325),
    Latency(_VIT, _V100, 1, 10.495),
    Latency(_VIT, "T4", 1, 16.520),
    Latency(_VIT, _A100, 16, 40.944),
    Latency(_VIT, _V100, 1, 6.00, compiled=True),
    Latency(_SEGFORMER, _A100, 1, 11.759),
    Latency(_SEGFORMER, _V100, 1, 13.321),
    Latency(_SEGFORMER, _V100, 1, 5.862, compiled=True),
    Latency("bert-base-uncased", "RTX 3090", 1, 8.104, seq=128, precision="amp", cpu="desktop", source=_KERNL),
    Latency("bert-base-uncased", "RTX 3090", 32, 19.983, seq=128, precision="amp", cpu="desktop", source=_KERNL),
)


def latency_line(figure: Latency) -> str:
    """A row of the second table."""
    answer = gpuwise.predict(
        model=figure.model,
        gpu=(figure.gpu,),
        mode="infer",
        precision=figure.precision,
        batch=figure.batch,
        seq=figure.seq,
        compile=figure.compiled,
        cpu=figure.cpu,
    )
    (result,) = answer.results
    ms, low, high = (1e3 * value for value in (result.step_s, result.step_low_s, result.step_high_s))
    held = "yes" if low <= figure.published_ms <= high else "no"
    name = figure.model.removeprefix("hf:") + (", compiled" if figure.compiled else "")
    return (
        f"| {name} | {figure.gpu} | {figure.precision} | {figure.batch} | {figure.published_ms:,.3g} | {ms:,.3g} "
        f"| {low:,.3g} to {high:,.3g} | {100 * (ms / figure.published_ms - 1):+.0f}% | {held} | {figure.source} |"
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
    head = "| model | GPU | precision | batch | published ms | predicted | range | error | in range | source |"
    latencies = "\n".join([head, "|---|---|---|---|---|---|---|---|---|---|", *map(latency_line, LATENCIES)])
    PAGE.write_text(_TEXT.format(table=table, latencies=latencies), encoding="utf-8")


if __name__ == "__main__":
    main()
