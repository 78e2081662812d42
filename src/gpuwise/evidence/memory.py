"""Compares measured memory from published tables with predictions.

The comparison depends on what a row counts: a driver's figure is compared with the device's bytes, and a framework's peak with
allocated bytes. Rows that cannot be predicted are counted by reason. Units are bytes, even in fields of `Residual` named for
seconds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.memory_language import causal_masks_bytes, counted_bytes
from gpuwise.evidence.types import Residual, Skipped, Table
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.step.memory.lifetimes import MemoryData, memory_data
from gpuwise.step.memory.peak import memory_of
from gpuwise.workload.capture.many import capture_many
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import call_counts, peak_memory, product_values
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo

__all__ = ["MemoryQuestion", "fitted_half", "memory_baselines", "memory_questions", "predicted_bytes", "score_memory"]

MIB = 2**20
# GPUMemNet states neither optimizer nor precision. Inferred from the families used in the fit: fp32, and SGD with momentum; plain
# SGD predicts 17% too little for large models, Adam 9% too much.
_GPUMEMNET = Settings(mode="train", precision="fp32", optimizer="momentum")
_HUGGING_FACE = {"pythia-410m-deduped": "hf:EleutherAI/pythia-410m", "bert-base-uncased": "hf:bert-base-uncased"}
# Bytes per attention score that the backward pass keeps without a fused kernel: after softmax in fp32 and again in fp16
# (GPT-NeoX); after softmax, the dropout mask, and after dropout (BERT).
_SCORE_BYTES = {"pythia-410m-deduped": 6, "bert-base-uncased": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuestion:
    """A parsed row: a workload at a size, or bytes counted from the shape of a language model."""

    row: int
    cells: Mapping[str, str]
    gpu: Gpu | None
    measured_bytes: float
    on_device: bool
    batch: float = 1.0
    seq: float | None = None
    request: Request | None = None
    workload: Workload | None = None
    counted_bytes: float = 0.0


class _Unusable(Exception):
    """Why a row cannot be predicted."""


def fitted_half(family: str) -> bool:
    """Return whether constants may be fitted on this family of models: about half of all names, chosen by a fixed hash."""
    return hashlib.sha256(family.encode()).digest()[0] % 2 == 0


# ---------------------------------------------------------------- rows


def memory_questions(
    table: Table, progress: Callable[[str], None] = lambda text: None, *, zoo_only: bool = False
) -> tuple[list[MemoryQuestion], Skipped]:
    """Return the rows that can be predicted, and why the others cannot. Models are captured once and cached. With `zoo_only`, or
    without timm, models come from the zoo if it has them.
    """
    stored = zoo_only or find_spec("timm") is None
    reasons = Skipped()
    begun: list[MemoryQuestion] = []
    for number in table.usable(reasons):
        cells = {name: "" if value is None else str(value) for name, value in table.row(number).items()}
        try:
            begun.append(_question(number, cells, stored))
        except _Unusable as reason:
            reasons.add(number, str(reason))
        except (ValueError, OverflowError):
            reasons.add(number, "a field that is not a number")
    workloads = _workloads([entry.request for entry in begun if entry.request is not None], progress)
    found = []
    for entry in begun:
        answer = workloads.get(entry.request) if entry.request is not None else None
        if isinstance(answer, str):
            reasons.add(entry.row, answer, entry.cells["model"])
        elif answer is None:
            found.append(entry)
        else:
            found.append(replace(entry, workload=answer, seq=entry.seq if answer.seq is not None else None))
    return found, reasons


def _question(number: int, cells: Mapping[str, str], stored: bool) -> MemoryQuestion:
    """Return the question for a row, before its model is captured."""
    question = MemoryQuestion(
        row=number,
        cells=cells,
        gpu=_gpu(cells["gpu"]),
        measured_bytes=_number(cells["memory_mib"]) * MIB,
        on_device="device memory" in cells["kind"],
    )
    if cells["source"] == "diffusers_amused":
        raise _Unusable("a diffusion model that gpuwise cannot build")
    if cells["source"] == "litgpt" or cells["task"] == "generate":
        counted = counted_bytes(cells)
        if isinstance(counted, str):
            raise _Unusable(counted)
        return replace(question, counted_bytes=counted)
    if _number(cells["gpu_count"] or "1") > 1:
        raise _Unusable("several GPUs")
    text = cells["image_or_seq"]
    batch, seq = _number(cells["batch_per_gpu"]), _number(text) if text.isdigit() else None
    return replace(question, batch=batch, seq=seq, request=_request(cells, stored))


def _request(cells: Mapping[str, str], stored: bool) -> Request:
    if cells["source"] == "hf_transformers_docs":
        name = _HUGGING_FACE.get(cells["model"], f"hf:{cells['model']}")
        mode = "train" if cells["task"] == "train" else "infer"
        return Request(model=name, settings=Settings(mode=mode, precision="fp16", optimizer="none"))
    if cells["task"] != "train":
        raise _Unusable(f"unknown task {cells['task']}")
    held = stored and zoo.has(cells["model"])
    return Request(model=zoo.entry(cells["model"]).name if held else f"timm:{cells['model']}", settings=_GPUMEMNET)


def _gpu(name: str) -> Gpu | None:
    """Return the row's GPU. Rows without one do not need it, because they count what a framework allocates."""
    try:
        return load_catalog().find(name).gpu
    except GpuwiseError:
        return None


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < 2**31:
        raise _Unusable("no memory, batch or number of GPUs")
    return found


def _workloads(requests: Sequence[Request], progress: Callable[[str], None]) -> dict[Request, Workload | str]:
    found: dict[Request, Workload | str] = {}
    for request in dict.fromkeys(requests):
        if zoo.has(request.model):
            try:
                found[request] = zoo.load(request.model, request)
            except GpuwiseError:
                found[request] = f"the zoo has no such workload for {request.model}"
    distinct = [request for request in dict.fromkeys(requests) if request not in found]
    for number, (request, answer) in enumerate(capture_many(distinct, timeout_s=180.0)):
        progress(f"capturing {number + 1} of {len(distinct)}: {request.model}")
        kind = request.model.partition(":")[0]
        found[request] = answer if isinstance(answer, Workload) else f"no workload for {kind} models"
    return found


# ---------------------------------------------------------------- predictions


def score_memory(asked: Sequence[MemoryQuestion], data: MemoryData | None = None) -> list[Residual]:
    """Predict every question and pair it with its measurement, with the shipped constants or others."""
    return [_residual(question, data or memory_data()) for question in asked]


def predicted_bytes(question: MemoryQuestion, data: MemoryData | None = None) -> float:
    """Return the bytes that the row would have counted."""
    workload = question.workload
    if workload is None:
        return question.counted_bytes
    batch = question.batch if "batch" in workload.symbols else None
    seq = question.seq if "seq" in workload.symbols else None
    found = memory_of(workload, batch, seq, gpu=question.gpu, data=data)
    kept = _scores(question, workload, batch, seq) if "eager" in question.cells["method"] else 0.0
    kept += causal_masks_bytes(question.cells)
    return (found.total_bytes if question.on_device else found.allocated_bytes) + kept


def _scores(question: MemoryQuestion, workload: Workload, batch: float | None, seq: float | None) -> float:
    """Return the extra memory that attention without a fused kernel keeps in training: its scores."""
    width = _SCORE_BYTES.get(question.cells["model"], 0) if workload.mode == "train" else 0
    values, counts = product_values(workload, batch, seq)[0], call_counts(workload)[0]
    places = [KINDS["attention"].sizes.index(name) for name in ("batch", "heads", "q_len", "kv_len")]
    scores = [
        count * float(np.prod([values[op.sizes[place]] for place in places]))
        for op, count in zip(workload.ops, counts, strict=True)
        if op.kind == "attention" and count
    ]
    return width * float(sum(scores))


def _residual(question: MemoryQuestion, data: MemoryData) -> Residual:
    cells, predicted = question.cells, predicted_bytes(question, data)
    known = data.ranges["device" if question.on_device else "allocated"]
    low, high = (float(np.interp(at, known.probability, known.ratio)) for at in (0.1, 0.9))
    labels = {name: cells.get(name, "") for name in ("gpu", "model", "family", "source", "method")}
    return Residual(
        row=question.row,
        gpu=cells["gpu"],
        measured_s=question.measured_bytes,
        predicted_s=predicted,
        low_s=predicted * low,
        high_s=predicted * high,
        labels=labels,
        unit="B",
        group=(cells["source"], cells["model"]),
        samples=question.batch,
    )


def memory_baselines(asked: Sequence[MemoryQuestion]) -> dict[str, dict[str, float]]:
    """Return the predictions of simple rules for rows with a workload: weights only; weights, gradients and optimizer; and those
    plus all tensors that are live at once, without allocator or context.
    """
    rules: dict[str, Callable[[MemoryQuestion, Workload], float]] = {
        "weights": lambda question, workload: workload.parameters * _width(workload),
        "weights_gradients_optimizer": lambda question, workload: workload.parameters * _width(workload) * _copies(workload),
        "live_tensors": lambda question, workload: (
            peak_memory(
                workload,
                question.batch if "batch" in workload.symbols else None,
                question.seq if "seq" in workload.symbols else None,
            ).total_bytes
        ),
    }
    pairs = [(question, question.workload) for question in asked if question.workload is not None]
    if not pairs:
        return {}
    found = {}
    for name, rule in rules.items():
        errors = np.abs([rule(question, workload) / question.measured_bytes - 1 for question, workload in pairs])
        found[name] = {"median_ape": float(np.median(errors)), "p90_ape": float(np.quantile(errors, 0.9))}
    return found


def _width(workload: Workload) -> float:
    return 2.0 if workload.precision in ("fp16", "bf16") else 4.0


def _copies(workload: Workload) -> int:
    """Return the copies of each weight: itself and, in training, its gradient and the optimizer's state."""
    if workload.mode != "train":
        return 1
    return 2 + {"momentum": 1, "adam": 2, "adamw": 2}.get(workload.optimizer, 0)
