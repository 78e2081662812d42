"""Writes `docs/accuracy-published.md`: predictions next to figures that others publish for well-known models.

    python -m tools.build_published

Needs timm and torchvision, to capture the models of small benchmarks that are not in the zoo.

Only the H100 figures are part of the fit; the time that cloud CPUs need per call was derived from some of the latencies.
Each prediction is what `gpuwise predict` prints, with the default software.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import gpuwise
from gpuwise.evidence.e2e import questions
from gpuwise.evidence.score import score
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual

PAGE = Path(gpuwise.__file__).parents[2] / "docs" / "accuracy-published.md"
_EXAMPLES = "https://github.com/NVIDIA/DeepLearningExamples/blob/master/PyTorch"
_RESNET = f"[NVIDIA]({_EXAMPLES}/Classification/ConvNets/resnet50v1.5/README.md)"
_LAMBDA = "[Lambda](https://github.com/lambdal/deeplearning-benchmark)"
_MASK = f"[NVIDIA]({_EXAMPLES}/Segmentation/MaskRCNN/README.md)"
_MOSAIC = "[MosaicML](https://github.com/mosaicml/diffusion), one GPU of eight"
_YOLO = "[Ultralytics](https://github.com/ultralytics/yolov5/issues/9373), 300 epochs in two days"
_HUGGING_FACE = "[Hugging Face](https://github.com/huggingface/transformers/blob/v4.40.0/docs/source/en/perf_torch_compile.md)"
_KERNL = "[ELS-RD](https://github.com/ELS-RD/kernl/pull/134)"
BENCHMARKS = Path(gpuwise.__file__).parents[2] / "tests" / "accuracy" / "published_steps.csv"
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

At batch size 1, the host usually limits the step. Hugging Face measured these models with PyTorch 2.0, with and without
torch.compile ([source](https://github.com/huggingface/transformers/blob/v4.40.0/docs/source/en/perf_torch_compile.md)),
and ELS-RD measured BERT with mixed precision ([source](https://github.com/ELS-RD/kernl/pull/134)). Neither
source names the CPU. We assume that Hugging Face used cloud machines. The table contains every row that Hugging Face
published for these three models. None of the rows is part of the fit, but the marked ones were used to derive the time
per call ([decision 38](decisions/0038-what-a-launch-costs-the-host.md)).

{summary}

{latencies}

SegFormer is predicted to be too fast at every batch size. One reason is that transformers computed attention in
separate kernels in 2023, while the prediction assumes fused attention. We do not know the other reasons.

## Small benchmarks

People publish small benchmarks of a few models on the GPUs that they own. In November 2026, we collected {count} rows
from {sources} of their tables and read each script: what it times, whether its data is already on the GPU, and which flags it
sets. Nothing was ever fitted to these rows, except that the time per call was derived from some rows of the table above,
which are also here. The rows show how accurate predictions are for a program that nobody has measured. To repeat the
test, run `gpuwise validate --held-out tests/accuracy/published_steps.csv`. The file says where each row was found.

{kinds}

{benchmarks}

Keep the following in mind:

- Predicted times are too short for most of these programs. Some programs do work that the prediction does not contain,
  such as the scheduler between the steps of image generation. Some ran on slow hosts, or on GPUs at reduced clocks.
- Programs that also time loading or their first steps are listed separately, because such times are not steps.
- Sources of one to three rows say little by themselves.
- In the rows for "hf_diffusers_torch2", one iteration of Stable Diffusion's U-Net is timed inside a complete program.
  Predictions for complete programs of this kind have [their own test](accuracy.md).
- ConvNeXt's training is predicted to be 1.4 to 1.8 times too fast in three sources. The gradients of its 7x7 depthwise
  convolutions appear to be slower than our model of them. BERT in pure fp16 with long sequences and unfused attention is
  predicted to be up to 1.6 times too slow.
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
    """A published time of one inference step in milliseconds. `derived` if the time per call was derived from it."""

    model: str
    gpu: str
    batch: int
    published_ms: float
    compiled: bool = False
    derived: bool = False
    seq: int | None = None
    precision: str = "fp32"
    cpu: str = "cloud vCPU"

    @property
    def name(self) -> str:
        return self.model.removeprefix("hf:") + (", compiled" if self.compiled else "")


_VIT, _SEGFORMER = "hf:google/vit-base-patch16-224", "hf:nvidia/segformer-b0-finetuned-ade-512-512"
_A100, _V100 = "A100 SXM 40GB", "V100 SXM 16GB"
_PUBLISHED_MS = {  # eager and compiled, at batch 1, 4 and 16
    ("resnet50", _A100): ((6.531, 4.124), (6.657, 4.268), (7.018, 5.024)),
    ("resnet50", _V100): ((6.484, 3.820), (6.109, 4.731), (14.857, 12.089)),
    ("resnet50", "T4"): ((6.031, 4.321), (13.039, 11.388), (44.114, 37.604)),
    (_VIT, _A100): ((9.325, 7.584), (14.832, 14.499), (40.944, 40.010)),
    (_VIT, _V100): ((10.495, 6.000), (15.181, 14.501), (52.209, 51.633)),
    (_VIT, "T4"): ((16.520, 15.786), (43.653, 43.626), (163.914, 160.907)),
    (_SEGFORMER, _A100): ((11.759, 10.500), (18.838, 16.476), (37.005, 31.144)),
    (_SEGFORMER, _V100): ((13.321, 5.862), (16.787, 16.188), (61.013, 55.499)),
    (_SEGFORMER, "T4"): ((16.116, 14.205), (45.327, 42.445), (192.412, 163.620)),
}
_DERIVED = {("resnet50", False), (_VIT, False), ("resnet50", True)}  # model, compiled; at batch 1
LATENCIES = (
    *(
        Latency(model, gpu, batch, ms, compiled, batch == 1 and (model, compiled) in _DERIVED)
        for (model, gpu), rows in _PUBLISHED_MS.items()
        for batch, row in zip((1, 4, 16), rows, strict=True)
        for ms, compiled in zip(row, (False, True), strict=True)
    ),
    Latency("bert-base-uncased", "RTX 3090", 1, 8.104, False, True, 128, "amp", "desktop"),
    Latency("bert-base-uncased", "RTX 3090", 32, 19.983, False, False, 128, "amp", "desktop"),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A published time and its prediction."""

    figure: Latency
    ms: float
    low_ms: float
    high_ms: float
    by_host: bool

    @property
    def error(self) -> float:
        return self.ms / self.figure.published_ms - 1

    @property
    def held(self) -> bool:
        return self.low_ms <= self.figure.published_ms <= self.high_ms


def compared(figure: Latency) -> Compared:
    """Predict a published time."""
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
    return Compared(figure=figure, ms=ms, low_ms=low, high_ms=high, by_host=result.bound == "launch")


def latency_line(row: Compared) -> str:
    """A row of the second table."""
    figure = row.figure
    used = "derived from it" if figure.derived else ""
    return (
        f"| {figure.name} | {figure.gpu} | {figure.batch} | {figure.published_ms:,.3g} | {row.ms:,.3g} "
        f"| {row.low_ms:,.3g} to {row.high_ms:,.3g} | {row.error:+.0%} | {'yes' if row.held else 'no'} "
        f"| {'host' if row.by_host else 'GPU'} | {used} |"
    )


def summary(rows: Sequence[Compared]) -> str:
    """How many rows are in range, and the median error: of all, and of those that test the time per call."""
    groups = {
        "all rows": rows,
        "limited by the host, not used to derive anything": [row for row in rows if row.by_host and not row.figure.derived],
        "limited by the GPU": [row for row in rows if not row.by_host],
    }
    lines = [
        f"| {name} | {len(group)} | {median(abs(row.error) for row in group):.0%} | {sum(row.held for row in group)} |"
        for name, group in groups.items()
    ]
    return "\n".join(["| group | rows | median error | in range |", "|---|---|---|---|", *lines])


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


def benchmark_rows() -> list[tuple[Mapping[str, str], Residual]]:
    """Every row of the small benchmarks with its prediction."""
    asked, _ = questions(read_table(BENCHMARKS))
    cells = {question.row: question.cells for question in asked}
    return [(cells[row.row], row) for row in score(asked)]


def benchmark_table(found: Sequence[tuple[Mapping[str, str], Residual]], column: str) -> str:
    """One line for each value of a column: the rows, the median error, the bias and the rows in range."""
    lines = []
    for name in sorted({cells[column] for cells, _ in found}):
        rows = [row for cells, row in found if cells[column] == name]
        off = [row.predicted_s / row.measured_s - 1 for row in rows]
        held = sum(row.low_s <= row.measured_s <= row.high_s for row in rows)
        gpus = ", ".join(sorted({row.gpu for row in rows})) if column == "source" else f"{len({row.gpu for row in rows})}"
        middle = f"{median(map(abs, off)):.1%} | {quantile(sorted(map(abs, off)), 0.9):.1%} | {median(off):+.1%}"
        lines.append(f"| {name} | {gpus} | {len(rows)} | {middle} | {held} |")
    head = f"| {column} | GPUs | rows | median error | 90% | bias | in range |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines])


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile of sorted values, between neighbours."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def main() -> None:
    """Write the page."""
    head = "| model | GPU | precision | batch | published images/s | predicted | range | error | in range | source |"
    table = "\n".join([head, "|---|---|---|---|---|---|---|---|---|---|", *map(line, FIGURES)])
    rows = [compared(figure) for figure in LATENCIES]
    head = "| model | GPU | batch | published ms | predicted | range | error | in range | limited by | use |"
    latencies = "\n".join([head, "|---|---|---|---|---|---|---|---|---|---|", *map(latency_line, rows)])
    small = benchmark_rows()
    text = _TEXT.format(
        table=table,
        latencies=latencies,
        summary=summary(rows),
        count=len(small),
        sources=len({cells["source"] for cells, _ in small}),
        kinds=benchmark_table(small, "timed"),
        benchmarks=benchmark_table(small, "source"),
    )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
