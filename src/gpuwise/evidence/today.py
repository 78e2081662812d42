"""Reports about current workloads: rows with a `value` in a `unit`, and models, software and sizes as people write them.

Each row becomes a question for `predict`: a step of a model, its memory, or the best of many square products. Rows that
`predict` does not support (serving engines, packed weights, partly tuned models) are left out with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.e2e import Question
from gpuwise.evidence.generation import GenerationRow, Unusable, generation_residuals, generation_row
from gpuwise.evidence.images import around, call_fraction, moved_bytes, program_of, unlike
from gpuwise.evidence.masked import has_small_tiles, within_ampere
from gpuwise.evidence.procedures import Procedure, procedure_of
from gpuwise.evidence.score import score
from gpuwise.evidence.today_others import memory_residual, products_residual
from gpuwise.evidence.tuned import Tuned, request_of, tuned_row, tuned_workload
from gpuwise.evidence.types import Residual, Skipped, Table
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu, supported
from gpuwise.scale.cluster.shape import MOST_GPUS
from gpuwise.workload.capture.many import capture_many
from gpuwise.workload.capture.request import Request
from gpuwise.workload.compile.fuse import fused
from gpuwise.workload.find import resolved
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.targets import linear_modules

__all__ = ["TodayQuestion", "score_today", "today_questions"]

_PRECISIONS = {"amp fp16": "amp", "amp bf16": "amp-bf16", "fp32 (TF32 allowed)": "tf32", "amp fp16 + XLA": "amp"}
_KNOWN = ("fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16", "fp8")
_ENGINES = re.compile(
    r"llama[.-]?cpp|vllm|lmdeploy|exllama|tensorrt|_trt\b|onnx|awq|optimum|mlx|zluda|sglang|oneflow|onediff|openvino"
    r"|stable[ -]fast|minsdxl",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(r"lora|accumulation|checkpointing", re.IGNORECASE)  # training methods other than plain steps
_VERSION = re.compile(r"(tensorflow|pytorch|torch)\s*v?(\d+\.\d+)", re.IGNORECASE)
_RATES = ("samples_per_s", "tokens_per_s", "it_per_s")
_GUIDED = 2  # denoiser passes per image, with and without the prompt
_TUNED = re.compile(r"[\s-](instruct|chat)$| \(End-to-end\) Benchmarks$", re.IGNORECASE)  # the same shapes
_WHOLE_BATCH = re.compile(r"global batch (\d{1,7})")
_FROM_LIBRARIES = ("torchvision", "timm")
_TOP_TRAINED = re.compile(r"(\w+) \(top block and head trained\)")
_IDENTIFIER = re.compile(r"[a-z]+\d*[a-z]*(_[a-z0-9]+)+")  # as timm writes names
_KEPT = 64  # steps of fine-tuning
_SMALL = 64  # pixels; images below are loaded more slowly than a GPU trains on them


class _Unusable(Exception):
    """Why a row cannot be predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TodayQuestion:
    """A parsed row. `counted` is the number of units per step that its rate counts; products and generated text have no workload.
    A fine-tuning row is predicted for one micro-batch of its step.
    """

    question: Question | None
    row: int
    cells: Mapping[str, str]
    gpu: Gpu
    precision: str
    value: float
    unit: str
    counted: float = 1.0
    generation: GenerationRow | None = None
    tuned: Tuned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """The batch and sequence of a step, and how many of the units counted by its rate it produces."""

    batch: float
    seq: float | None
    counted: float


def today_questions(table: Table, progress: Callable[[str], None] = lambda text: None) -> tuple[list[TodayQuestion], Skipped]:
    """Return the rows that can be predicted, and why each of the others cannot."""
    reasons = Skipped()
    begun: list[tuple[TodayQuestion, Request | None]] = []
    for number in table.usable(reasons):
        cells = {name: "" if value is None else str(value).strip() for name, value in table.row(number).items()}
        try:
            if cells["mode"] in ("prefill", "decode"):
                begun.append((_text_row(number, cells), None))
                continue
            row = _row(number, cells)
            begun.append((row, _request_of(row) if cells["unit"] != "TFLOP_per_s" else None))
        except _Unusable as reason:
            reasons.add(number, str(reason))
        except (ValueError, OverflowError):
            reasons.add(number, "a field that cannot be read")
    workloads = _workloads([request for _, request in begun if request], progress)
    found = []
    for row, request in begun:
        answer = workloads[request] if request else None
        if isinstance(answer, str):
            reasons.add(row.row, answer, row.cells["model"])
            continue
        try:
            found.append(row if answer is None or request is None else _with_workload(row, request, answer))
        except _Unusable as reason:
            reasons.add(row.row, str(reason))
    return found, reasons


def _text_row(number: int, cells: Mapping[str, str]) -> TodayQuestion:
    """Return a row about text generation, which runs on an engine."""
    _check_doubts(cells)
    value, gpu = _number(cells["value"], "a value"), _gpu(cells)
    try:
        row = generation_row(number, cells, gpu)
    except Unusable as reason:
        raise _Unusable(str(reason)) from reason
    return TodayQuestion(
        question=None, row=number, cells=cells, gpu=gpu, precision="fp16", value=value, unit=cells["unit"], generation=row
    )


def _check_doubts(cells: Mapping[str, str]) -> None:
    said = f"{cells['stack']} {cells.get('note', '')}"
    if ("DO NOT USE" in said and cells["model"] not in procedure_of(cells).scores) or "suspect" in said:
        raise _Unusable("the note in the row questions its value")


def _row(number: int, cells: Mapping[str, str]) -> TodayQuestion:
    """Return the parts of a row that can be determined without a workload."""
    said = f"{cells['stack']} {cells.get('note', '')}"
    _check_doubts(cells)
    value = _number(cells["value"], "a value")
    precision = _precision(cells)
    if precision not in _KNOWN:
        raise _Unusable(f"unknown precision: {cells['precision']}")
    tuned = tuned_row(cells)
    if isinstance(tuned, str):
        raise _Unusable(tuned)
    if cells["quantisation"] and not tuned:
        raise _Unusable(f"weights in {cells['quantisation']} are not predicted")
    engine = _ENGINES.search(cells["stack"])
    if engine:
        raise _Unusable(f"{engine[0].strip('_')} is not predicted by gpuwise")
    if cells["mode"] == "train" and not tuned and _OTHERWISE.search(said):
        raise _Unusable("adapters, accumulated gradients or recomputation, which the row does not fully describe")
    gpu = _gpu(cells)
    tuned = replace(tuned, small=has_small_tiles(gpu), reached=within_ampere(gpu)) if tuned else None
    if "allowed" in cells["precision"] and precision not in supported(gpu):
        precision = "fp32"
    if precision not in supported(gpu):
        raise _Unusable(f"the {gpu.name} does not support {precision}")
    return TodayQuestion(
        question=None, row=number, cells=cells, gpu=gpu, precision=precision, value=value, unit=cells["unit"], tuned=tuned
    )


def _precision(cells: Mapping[str, str]) -> str:
    said = _PRECISIONS.get(cells["precision"], cells["precision"])
    return procedure_of(cells).half or said if said == "fp16" else said


def _gpu(cells: Mapping[str, str]) -> Gpu:
    for name in (cells["gpu"], cells.get("gpu_as_written", "")):
        try:
            return load_catalog().find(name).gpu
        except GpuwiseError:
            continue
    raise _Unusable(f"unknown GPU {cells['gpu']}")


def _number(text: str, what: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise _Unusable(f"{what} that is not a number" if text else f"no {what.partition(' ')[2]}") from None
    if not 0 < found < 2**40:
        raise _Unusable(f"{what} that is not positive")
    return found


def _request_of(row: TodayQuestion) -> Request:
    """Return the request to load or capture for a row; for fine-tuning, the plain step of its model."""
    if row.tuned is None:
        return _request(row.cells)
    try:
        return request_of(row.cells, row.tuned)
    except GpuwiseError:
        raise _Unusable(f"unknown model {row.cells['model']}") from None


def _request(cells: Mapping[str, str]) -> Request:
    """Return the request to load or capture for a row."""
    mode = "train" if cells["mode"] == "train" else "infer"
    phase = cells["mode"] if cells["mode"] in ("prefill", "decode") else ""
    if cells["mode"] not in ("train", "infer", "prefill", "decode"):
        raise _Unusable(f"unknown mode: {cells['mode']}")
    precision = _precision(cells)
    settings = Settings(mode=mode, precision="fp32" if precision == "tf32" else precision, optimizer=_optimizer(cells, mode))
    library, _, rest = cells["model"].partition(" ")
    name = _TUNED.sub("", rest if library in _FROM_LIBRARIES else cells["model"])
    size = _first(cells["size"])
    if "with loading" in cells.get("note", "") and size is not None and size < _SMALL:
        raise _Unusable("small images loaded during the step, by a CPU that the row does not name")
    if zoo.has(name) and zoo.entry(name).seq is None and zoo.has(f"{zoo.entry(name).name}_{size}"):
        name = f"{zoo.entry(name).name}_{size}"
    if zoo.has(name):
        found = zoo.at_its_size(Request(model=zoo.entry(name).name, image=size, settings=settings))
        image = zoo.entry(name).image
        if found.model == zoo.entry(name).name and zoo.entry(name).seq is None and image not in (size, None):
            raise _Unusable(f"the zoo has {found.model} at {image} pixels, not at {size or 'an unknown size'}")
        return found if ":" in found.model else Request(model=found.model, phase=phase, settings=settings)
    if library in _FROM_LIBRARIES:
        return Request(model=f"{library}:{name}", image=size, settings=settings)
    if top := _TOP_TRAINED.fullmatch(name):
        base = resolved(Request(model=f"{top[1].lower()}-base-uncased")).model
        return Request(model=base if ":" in base else f"hf:{base}", variant="top", settings=settings)
    found = resolved(Request(model=name, settings=settings))
    if found.model == name and not _IDENTIFIER.fullmatch(name):
        raise _Unusable(f"unknown model {cells['model']}")
    return found if found.model != name else Request(model=f"timm:{name}", image=size, settings=settings)


def _optimizer(cells: Mapping[str, str], mode: str) -> str:
    if mode != "train":
        return "none"
    if procedure_of(cells).optimizer:
        return procedure_of(cells).optimizer
    return zoo.entry(cells["model"]).optimizer if zoo.has(cells["model"]) else "momentum"


def _first(size: str) -> int | None:
    """Return the first number in `512 (default, not stated)`, `64+128` or `COCO 800`."""
    found = re.search(r"\d{1,9}", size)
    return int(found[0]) if found else None


def _workloads(requests: Sequence[Request], progress: Callable[[str], None]) -> dict[Request, Workload | str]:
    """Return each distinct request with its workload, or with the reason why there is none."""
    found: dict[Request, Workload | str] = {}
    missing = []
    for request in dict.fromkeys(requests):
        if not zoo.has(request.model):
            missing.append(request)
            continue
        try:
            found[request] = zoo.load(request.model, request)
        except GpuwiseError as fault:
            found[request] = fault.message
    for number, (request, answer) in enumerate(capture_many(missing)):
        progress(f"capturing {number + 1} of {len(missing)}: {request.model}")
        found[request] = answer if isinstance(answer, Workload) else f"{request.model} could not be captured"
    return found


def _with_workload(row: TodayQuestion, request: Request, workload: Workload) -> TodayQuestion:
    cells = row.cells
    count = int(_number(cells["gpu_count"] or "1", "a number of GPUs"))
    if not 1 <= count <= MOST_GPUS or (count > 1 and cells["mode"] not in ("train", "infer")):
        raise _Unusable("a model divided across several GPUs in a way that the row does not describe")
    if reason := unlike(cells, row.gpu, request):
        raise _Unusable(reason)
    sizes = _sizes(cells, workload, count)
    if row.tuned:
        if row.tuned.method != "full" and not linear_modules(workload):
            raise _Unusable("adapters are added to linear layers in repeated blocks, and the model has none")
        workload = _tuned_workload(workload, row.tuned)
    framework, version, how = _software(cells)
    told = {**cells, "precision": row.precision, "framework": framework, "framework_version": version, "stack": how}
    told["program"] = program_of(cells)
    in_nhwc = "channels last" in cells["stack"].lower() or cells["model"] in procedure_of(cells).channels_last
    told["layout"] = "nhwc" if in_nhwc else cells.get("layout", "")
    told["counter"] = row.tuned.practice.counter if row.tuned else ""
    question = Question(
        row=row.row,
        cells={**told, "image_or_seq": str(_first(cells["size"]) or "")},
        gpu=row.gpu,
        gpu_count=count,
        request=request,
        workload=fused(workload) if how in ("compile", "xla") else workload,
        batch=sizes.batch,
        seq=sizes.seq,
        measured_s=_seconds(row, sizes.counted),
        procedure=Procedure(),
        around=around(cells, request, sizes.batch),
        call_fraction=call_fraction(cells),
        moved_bytes=moved_bytes(cells, row.gpu, request),
    )
    return replace(row, question=question, counted=sizes.counted)


@lru_cache(maxsize=_KEPT)
def _tuned_workload(plain: Workload, tuned: Tuned) -> Workload:
    """Built once for all GPUs and sizes, so that they are predicted together."""
    return tuned_workload(plain, tuned)


def _sizes(cells: Mapping[str, str], workload: Workload, count: int) -> _Sizes:
    whole = _WHOLE_BATCH.search(cells.get("note", ""))
    batch = int(whole[1]) / count if whole and not cells["batch"] else _number(cells["batch"], "a batch")
    if batch < 1:
        raise _Unusable("a batch below one")
    seq = None if workload.seq is None else _positions(cells)
    unit = cells["unit"]
    if unit == "it_per_s":
        counted = batch if "steps x batch" in cells.get("note", "") else 1.0
        return _Sizes(batch=_GUIDED * batch, seq=seq, counted=counted)
    if unit == "tokens_per_s":
        each = 1.0 if cells["mode"] == "decode" else seq
        if each is None or cells["mode"] == "infer":
            raise _Unusable("tokens of whole outputs, which the row does not fully describe")
        return _Sizes(batch=batch, seq=seq, counted=batch * count * each)
    return _Sizes(batch=batch, seq=seq, counted=batch * count / procedure_of(cells).scores.get(cells["model"], 1.0))


def _positions(cells: Mapping[str, str]) -> float:
    """Return the tokens in a sequence; for a decoding step, the mean number it attends to: `64+128` is a prompt and its
    continuation.
    """
    parts = [float(part) for part in re.findall(r"\d{1,9}", cells["size"])[:2]]
    if not parts or not parts[0]:
        raise _Unusable("no sequence length")
    if cells["mode"] != "decode" or len(parts) == 1:
        return parts[0]
    return parts[0] + parts[1] / 2


def _software(cells: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the framework, version and way of running from what people write."""
    text = cells["stack"].lower()
    found = _VERSION.search(text)
    framework = "tf" if "tensorflow" in text else "torch"
    if framework == "tf":
        how = "xla" if "xla" in f"{text} {cells['precision'].lower()}" else "graph"
    else:
        compiled = "torch.compile" in text or "compiled" in text or "compile inductor" in text
        eager = procedure_of(cells).eager
        how = "eager" if not compiled or (eager and eager in cells.get("note", "")) else "compile"
    said = found[2] if found and (found[1] == "tensorflow") == (framework == "tf") else procedure_of(cells).version
    return framework, said, how


def _seconds(row: TodayQuestion, counted: float) -> float:
    if row.unit == "ms_per_step":
        return row.value / 1e3 / (row.tuned.passes if row.tuned else 1)
    if row.unit in _RATES:
        return counted / row.value
    if row.unit == "GiB":
        return 1.0  # not a step: memory is compared
    raise _Unusable(f"unknown unit: {row.unit}")


# ---------------------------------------------------------------- predictions


def score_today(asked: Sequence[TodayQuestion], refused: dict[int, str] | None = None) -> list[Residual]:
    """Predict every question, in row order, each in its own unit."""
    refused = {} if refused is None else refused
    steps = {row.row: row for row in asked if row.question is not None and row.unit != "GiB"}
    answered = score([row.question for row in steps.values() if row.question is not None], refused=refused)
    found = [_in_unit(entry, steps[entry.row]) for entry in answered]
    text = generation_residuals([row.generation for row in asked if row.generation is not None])
    return sorted([*found, *text, *_others(asked, refused)], key=lambda entry: entry.row)


def _others(asked: Sequence[TodayQuestion], refused: dict[int, str]) -> Iterator[Residual]:
    """Predict memory and products."""
    for row in asked:
        try:
            if row.unit == "TFLOP_per_s":
                yield products_residual(row.row, row.cells, row.gpu, row.precision, row.value)
            elif row.question is not None and row.unit == "GiB":
                yield memory_residual(row.question, row.value)
        except GpuwiseError as fault:
            refused[row.row] = fault.message


def _in_unit(entry: Residual, row: TodayQuestion) -> Residual:
    if row.unit == "ms_per_step":
        return replace(entry, unit=row.unit, scale=1e3 * (row.tuned.passes if row.tuned else 1))
    return replace(entry, unit=row.unit, scale=row.counted, is_rate=True)
