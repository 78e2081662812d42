"""Published speeds at lowered power limits as input for the fit: one curve for each GPU, workload and source.

Each workload in `power.csv` is represented by one from the zoo. Workloads without such a stand-in (DeepSpeech2, gpu-burn), rows
with small batches, which reflect the host (all of NCF), points that only bound a speed, and limits above the board's own are left
out. Decoding with quantised weights is compared but not fitted, because unpacking the weights is extra work that the fp16
stand-in does not have.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import Array, Choices, Ops
from gpuwise.step.time.simulate import ops_of
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import call_counts
from gpuwise.workload.model.types import Settings
from gpuwise.workload.store import zoo

__all__ = ["Curve", "power_curves"]

# A batch of 360 in fp32 needs more than 16 GB.
_MEANT = {"V100": "V100 PCIe 32GB", "P100": "P100 PCIe 16GB"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _StandIn:
    """A model from the zoo and how it runs. Rows with fewer than `least` samples per step reflect the host."""

    model: str
    mode: str = "train"
    precision: str = "fp32"
    optimizer: str = "adamw"
    phase: str = ""
    batch: int = 32
    seq: int | None = None
    least: int = 0
    tf32: bool = False


_TRAINED: Mapping[str, _StandIn] = {
    "resnet50 / imagenet": _StandIn(model="resnet50", optimizer="adam", batch=128, least=64),
    "shufflenetv2 / cifar100": _StandIn(model="shufflenet_v2_x1_0", optimizer="adam", batch=128, least=1024),
    "bert_base_uncased / squad": _StandIn(model="bert-base-squad", batch=16, seq=384, least=12),
    "bert_base_uncased / sentiment140": _StandIn(model="bert-base-squad", batch=64, seq=128, least=32),
    "ViT-B/16 fp32 training": _StandIn(model="vit_base", optimizer="adam", batch=64),
    "ViT-B/16 tf32 training": _StandIn(model="vit_base", optimizer="adam", batch=64, tf32=True),
}
_DECODING = "LLM decode"
_DECODED = _StandIn(model="llama-2-7b", mode="infer", precision="fp16", optimizer="none", phase="decode", batch=1, seq=512)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Speed at several limits, relative to that at the highest limit, which is the last. Limits above the board's own are left
    out."""

    gpu: Gpu
    workload: str
    ops: Ops
    calls: Array
    limits_watts: tuple[float, ...]
    relative: tuple[float, ...]
    fitted: bool


def power_curves(folder: Path) -> list[Curve]:
    """The curves of `power.csv` in this folder."""
    with (folder / "power.csv").open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    points: dict[tuple[str, str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in cells:
        found = _stand_in(row["workload"])
        if found is not None and row["comparator"] == "=" and float(row["batch"] or found.least) >= found.least:
            key = (row["source"], row["gpu"], row["workload"])
            points[key][float(row["power_limit_w"])].append(float(row["relative_speed"]))
    return [curve for (_, gpu, workload), own in points.items() if (curve := _curve(gpu, workload, own)) is not None]


def _stand_in(workload: str) -> _StandIn | None:
    return _DECODED if workload.startswith(_DECODING) else _TRAINED.get(workload)


def _curve(name: str, workload: str, points: Mapping[float, list[float]]) -> Curve | None:
    gpu = load_catalog().find(_MEANT.get(name, name)).gpu
    limits = sorted(limit for limit in points if limit <= (gpu.tdp_watts or 0.0))
    found = _stand_in(workload)
    if len(limits) < 2 or found is None:
        return None
    settings = Settings(mode=found.mode, precision=found.precision, optimizer=found.optimizer)
    captured = zoo.load(found.model, Request(model=found.model, phase=found.phase, settings=settings))
    speeds = [median(points[limit]) for limit in limits]
    return Curve(
        gpu=gpu,
        workload=workload,
        ops=ops_of(captured, found.batch, found.seq, Choices(tf32=found.tf32)),
        calls=call_counts(captured).sum(axis=0),
        limits_watts=tuple(limits),
        relative=tuple(speed / speeds[-1] for speed in speeds),
        fitted=not workload.startswith(_DECODING),
    )
