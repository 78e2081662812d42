"""Turns rows of published step times into questions for gpuwise.

A row names a model, sizes, precision and software. `procedures.json` describes how each source measured: what its terms mean and
what else its steps contain. Rows that cannot be predicted are counted by reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.procedures import Procedure, procedure_of
from gpuwise.evidence.types import Residual, Skipped, Table
from gpuwise.hardware.catalog import Catalog, load_catalog
from gpuwise.hardware.types import Gpu, supported
from gpuwise.scale.cluster.shape import MOST_GPUS
from gpuwise.workload.capture.many import capture_many
from gpuwise.workload.capture.request import Request
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.prefill import scoring_every_token

__all__ = ["Part", "Question", "questions", "residual"]

_PRECISIONS = {"fp32": "fp32", "tf32": "fp32", "fp16": "amp", "amp": "amp", "bf16": "bf16", "amp-bf16": "amp-bf16"}
_OPTIMIZERS = {"sgd": "momentum", "adam": "adam", "adamw": "adamw", "lamb": "adam"}
_NOT_STATED = "not stated"
_COMPILED = ("compile", "xla")
_SAMPLES = ("", "images/s", "sequences/s", "samples/s")  # what a rate may count


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Work that a program does besides the model of a question: a workload at a batch, and the share of it per step."""

    workload: Workload
    batch: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A parsed row, with everything that a prediction needs. `around` lists what its step runs besides its own workload,
    `moved_bytes` are weights that a program moves to the GPU for it, and `call_fraction` is its share of a whole call.
    """

    row: int
    cells: Mapping[str, str]
    gpu: Gpu
    gpu_count: int
    request: Request
    workload: Workload
    batch: float
    seq: float | None
    measured_s: float
    procedure: Procedure
    around: tuple[Part, ...] = ()
    call_fraction: float = 0.0
    moved_bytes: float = 0.0


def questions(
    table: Table, progress: Callable[[str], None] = lambda text: None, *, zoo_only: bool = False
) -> tuple[list[Question], Skipped]:
    """Return the rows that can be predicted, and why the others cannot. With `zoo_only`, nothing is captured."""
    catalog, reasons = load_catalog(), Skipped()
    begun = []
    for number in table.usable(reasons):
        cells = {name: "" if value is None else str(value) for name, value in table.row(number).items()}
        try:
            gpu, figures = _gpu(catalog, cells), _numbers(cells)
            request = _request(cells, zoo_only)
            _check_precision(gpu, cells["precision"])
            begun.append((number, cells, gpu, request, figures))
        except _Unusable as reason:
            reasons.add(number, str(reason))
        except (ValueError, OverflowError):
            reasons.add(number, "a field that cannot be read")
    workloads = _workloads([request for _, _, _, request, _ in begun], progress)
    found = []
    run = cache(_run)
    for number, cells, gpu, request, (batch, size, measured, count) in begun:
        answer = workloads[request]
        if isinstance(answer, str):
            reasons.add(number, answer, cells["model"])
            continue
        workload = run(answer, procedure_of(cells).every_token, cells.get("stack") in _COMPILED)
        found.append(
            Question(
                row=number,
                cells=cells,
                gpu=gpu,
                gpu_count=count,
                request=request,
                workload=workload,
                batch=batch,
                seq=size if workload.seq is not None else None,
                measured_s=measured,
                procedure=procedure_of(cells),
            )
        )
    return found, reasons


def _run(captured: Workload, every_token: bool, compiled: bool) -> Workload:
    """A captured step as a source ran it."""
    workload = scoring_every_token(captured) if every_token else captured
    return fused(workload) if compiled else workload


class _Unusable(Exception):
    """Why a row cannot be predicted."""


def _gpu(catalog: Catalog, cells: Mapping[str, str]) -> Gpu:
    try:
        return catalog.find(cells["gpu"]).gpu
    except GpuwiseError:
        raise _Unusable(f"unknown GPU {cells['gpu']}") from None


def _numbers(cells: Mapping[str, str]) -> tuple[float, float, float, int]:
    """Return the batch per GPU, pixels or tokens, seconds per step, and number of GPUs."""
    if "accumulation" in cells.get("note", ""):
        raise _Unusable("gradients accumulated over an unknown number of passes")
    count = _number(cells, "gpu_count", "1", "a number of GPUs")
    if not 1 <= count <= MOST_GPUS:
        raise _Unusable(f"a number of GPUs that is not between 1 and {MOST_GPUS:,}")
    batch = _number(cells, "batch_per_gpu", "", "a batch")
    if not 1 <= batch < 2**31:
        raise _Unusable("a batch that cannot be run")
    size = _number(cells, "image_or_seq", "0", "an image size or sequence length")
    if not 0 <= size < 2**31:
        raise _Unusable("an image size or sequence length that cannot be run")
    counted = batch * int(count) * _in_a_sample(cells, size)
    return batch, size, _step_s(cells, counted), int(count)


def _in_a_sample(cells: Mapping[str, str], size: float) -> float:
    """Return how many of the units counted by `samples_per_s` are in one sample; `unit` says what it counts."""
    unit = cells.get("unit", "").strip().lower().replace("_per_", "/")
    if unit in _SAMPLES or cells.get("step_ms", "").strip():
        return 1.0
    if unit == "tokens/s" and size:
        return size
    raise _Unusable(f"a rate in {cells['unit']}, which is not understood")


def _number(cells: Mapping[str, str], name: str, default: str, what: str) -> float:
    text = cells.get(name, "").strip() or default
    if not text:
        raise _Unusable(f"no {what.partition(' ')[2]}")
    try:
        return float(text)
    except ValueError:
        raise _Unusable(f"{what} that is not a number") from None


def _step_s(cells: Mapping[str, str], samples: float) -> float:
    """Return the seconds per step, as given or from the total rate of all GPUs."""
    if cells.get("step_ms", "").strip():
        seconds = _number(cells, "step_ms", "", "a step time") / 1e3
    elif cells.get("samples_per_s", "").strip():
        rate = _number(cells, "samples_per_s", "", "a rate")
        seconds = samples / rate if rate else math.inf
    else:
        raise _Unusable("no step time")
    if not 0 < seconds < math.inf:
        raise _Unusable("a step time that is not positive")
    return seconds


def _check_precision(gpu: Gpu, precision: str) -> None:
    """Refuse the precisions that `predict` also refuses."""
    if precision not in supported(gpu):
        raise _Unusable(f"the {gpu.name} does not support {precision}")


def _request(cells: Mapping[str, str], zoo_only: bool) -> Request:
    """Return the request to capture or load for a row."""
    procedure = procedure_of(cells)
    precision = "fp16" if cells["precision"] == "fp16" and procedure.pure_half else _PRECISIONS.get(cells["precision"])
    if precision is None or cells["mode"] not in ("train", "infer"):
        raise _Unusable(f"unknown precision or mode {cells['precision']} {cells['mode']}")
    optimizer = _optimizer(cells) if cells["mode"] == "train" else "none"
    size = int(float(cells["image_or_seq"] or 0)) or None
    last = cells.get("layout") == "nhwc"
    settings = Settings(mode=cells["mode"], precision=precision, optimizer=optimizer, channels_last=last)
    if procedure.fast_norm and cells["mode"] == "infer" and not zoo_only and find_spec("timm") is not None:
        return Request(model=f"timm:{cells['model']}", image=size, variant="fast-norm", settings=settings)
    return Request(model=_name(cells, size, procedure), image=None if _is_text(cells) else size, settings=settings)


def _optimizer(cells: Mapping[str, str]) -> str:
    """Return the optimizer that a row names, or the usual one for its model if it names none."""
    said = cells.get("optimizer", "").strip()
    if said in ("", _NOT_STATED):
        return zoo.entry(cells["model"]).optimizer if zoo.has(cells["model"]) else "momentum"
    return _OPTIMIZERS.get(said, "none")


def _is_text(cells: Mapping[str, str]) -> bool:
    return zoo.has(cells["model"]) and zoo.entry(cells["model"]).seq is not None


def _name(cells: Mapping[str, str], size: int | None, procedure: Procedure) -> str:
    """Return the zoo's model if it has this one at this size, otherwise a name in the library that the source used."""
    model = cells["model"]
    renamed = procedure.renamed.get(f"{cells['mode']} {model}", procedure.renamed.get(model, model))
    if zoo.has(renamed):
        entry = zoo.entry(renamed)
        if entry.seq is not None or entry.image == size:
            return entry.name
    return renamed if ":" in renamed else f"{procedure.library}:{renamed}"


def _workloads(requests: Sequence[Request], progress: Callable[[str], None]) -> dict[Request, Workload | str]:
    """Return each distinct request with its workload, or with the reason why there is none."""
    found: dict[Request, Workload | str] = {}
    missing = []
    for request in dict.fromkeys(requests):
        if zoo.has(request.model):
            try:
                found[request] = zoo.load(request.model, _plain(request))
            except GpuwiseError:
                found[request] = f"the zoo has no such workload for {request.model}"
        else:
            missing.append(request)
    for number, (request, answer) in enumerate(capture_many(missing)):
        progress(f"capturing {number + 1} of {len(missing)}: {request.model}")
        found[request] = answer if isinstance(answer, Workload) else f"no workload for {request.model.partition(':')[0]} models"
    return found


def _plain(request: Request) -> Request:
    return Request(model=request.model, settings=request.settings)


def residual(question: Question, seconds: float, low: float, high: float, bound: str) -> Residual:
    """Return a prediction together with its measurement."""
    cells, gpu = question.cells, question.gpu
    dtype = {"fp32": "fp32", "tf32": "tf32"}.get(cells["precision"], "fp16")
    keys = ("source", "model", "mode", "precision", "image_or_seq", "stack", "layout", "framework_version", "gpu_count")
    return Residual(
        row=question.row,
        gpu=gpu.name,
        measured_s=question.measured_s,
        predicted_s=seconds,
        low_s=low,
        high_s=high,
        bound=bound,
        labels={
            "gpu": gpu.name,
            "model": cells["model"],
            "family": cells.get("family", ""),
            "source": cells["source"],
            "stack": cells.get("stack", ""),
        },
        setup=tuple(cells.get(key, "") for key in keys),
        group=(cells["source"], cells["model"]),
        samples=question.batch,
        rates=(gpu.best_peak(dtype) or gpu.best_peak("fp32") or 1.0, gpu.memory_bytes_per_s),
    )
