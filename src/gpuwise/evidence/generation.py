"""Compares measured text-generation speeds of language models, as people report them, with predictions.

A row is the sum of several passes: a number of tokens decoded one after another, and a prompt read first if its time is
included. Rows that are not described well enough are left out with a reason.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.units import GIB
from gpuwise.evidence.doubts import asked_doubt, speed_doubt
from gpuwise.evidence.engine_names import Unusable, engine_of, format_of, version_of
from gpuwise.evidence.types import Residual
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.scale.split.data_parallel import all_reduce_s
from gpuwise.step.memory.generation import GenerationMemory, held_memory
from gpuwise.step.time.engines import PIPELINED, Engine, engine_range, engine_stack, prompt_gain, weights_in
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Array, Setting, Stack
from gpuwise.workload.language.build import generation_pass
from gpuwise.workload.language.find import find_shape
from gpuwise.workload.language.shape import LanguageShape
from gpuwise.workload.language.weight_formats import FORMATS, Format
from gpuwise.workload.model.types import Workload
from gpuwise.workload.transform.chunks import in_chunks
from gpuwise.workload.transform.share import split

__all__ = [
    "GenerationRow",
    "Pass",
    "StackOf",
    "Unusable",
    "generation_residuals",
    "generation_row",
    "predicted_bytes",
    "predicted_s",
    "predicted_value",
]

_SAME_SIZE = 1.2  # ratio: a file whose size is further off holds another model or format
_MEMORY_RANGE = 1.05  # ratio: 8 of 10 rows with transformers are within 5 %
_SHORT = 64  # tokens of a prompt or answer that is only described as short


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass at this batch and length, and the number of times it runs."""

    phase: str
    batch: int
    seq: int
    times: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRow:
    """A parsed row. Its time is the sum of the `passes`. If it states a rate, the rate counts `counted` tokens in that time; if
    it states milliseconds, the time is divided by `counted`.
    """

    row: int
    cells: Mapping[str, str]
    shape: LanguageShape
    engine: Engine
    version: str
    format_name: str
    cache: str
    gpu: Gpu
    gpu_count: int
    split: str
    prompt: int
    context: int
    passes: tuple[Pass, ...]
    counted: float
    value: float
    unit: str

    @property
    def weights(self) -> Format:
        return weights_in(self.engine, self.format_name)


StackOf = Callable[[Engine, str, str, str], Stack]


def generation_row(number: int, cells: Mapping[str, str], gpu: Gpu) -> GenerationRow:
    """Return the row as passes of an engine."""
    unit, mode, note = cells["unit"], cells["mode"], cells.get("note", "")
    if mode not in ("decode", "prefill"):
        raise Unusable(f"unknown generation mode: {mode}")
    if unit not in ("tokens_per_s", "ms_per_step", "GiB"):
        raise Unusable(f"unknown unit: {unit}")
    engine = engine_of(cells["stack"])
    if unit == "GiB" and engine.reserves_fraction:
        raise Unusable(f"{engine.title} reserves most of the GPU memory regardless of need")
    name = format_of(cells, engine)
    try:
        shape = find_shape(cells["model"])
    except GpuwiseError as fault:
        raise Unusable(fault.message) from fault
    _check_size(shape, name, note)
    batch, count = _whole(cells["batch"], "batch"), _whole(cells["gpu_count"] or "1", "number of GPUs")
    if unit != "GiB" and (doubt := asked_doubt(cells, engine, batch)):
        raise Unusable(doubt)
    if shape.parameters * FORMATS[name].bytes_a_weight > count * gpu.memory_bytes:
        raise Unusable(f"weights that do not fit on {count} x {gpu.name}, so some of them must have been elsewhere")
    prompt, output = _lengths(cells["size"], mode, note)
    passes = _passes(mode, batch, prompt, output, whole=bool(re.search(r"total time|incl\. prefill", note)))
    counted = float(batch * (prompt if mode == "prefill" else output))
    if unit == "ms_per_step":
        counted = 1.0 if mode == "prefill" else float(output)
    elif "per GPU" in note:
        counted /= count
    row = GenerationRow(
        row=number,
        cells=cells,
        shape=shape,
        engine=engine,
        version=version_of(cells["stack"], gpu, count),
        format_name=name,
        cache="fp8" if name == "fp8" and "KV" in cells["quantisation"] else "fp16",
        gpu=gpu,
        gpu_count=count,
        split=engine.splits[0] if count > 1 and engine.splits else "",
        prompt=prompt,
        context=prompt + output,
        passes=passes,
        counted=counted,
        value=float(cells["value"]),
        unit=unit,
    )
    if mode == "decode" and unit != "GiB":
        seconds = row.counted / row.value if unit == "tokens_per_s" else row.value * row.counted / 1e3
        if doubt := speed_doubt(shape, row.weights, gpu, count, _held(row), passes[-1].times / seconds):
            raise Unusable(doubt)
    return row


def _check_size(shape: LanguageShape, name: str, note: str) -> None:
    """Refuse a row whose file size does not match its model: file names do not always match model names."""
    said = re.search(r"weights (\d+(?:\.\d+)?) GiB", note)
    if said:
        expected = shape.parameters * FORMATS[name].bytes_a_weight / 2**30
        if not 1 / _SAME_SIZE < float(said[1]) / expected < _SAME_SIZE:
            raise Unusable(f"weights of {said[1]} GiB, which do not match {shape.name} in {name}")


def _whole(text: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text) or not int(text):
        raise Unusable(f"no {what}" if not text else f"a {what} that is not a number: {text}")
    return int(text)


def _lengths(size: str, mode: str, note: str) -> tuple[int, int]:
    """Return the tokens in the prompt and in the answer: `64+128` is both; a single number is the context, or the number
    generated.
    """
    found = [int(part) for part in re.findall(r"\d{1,9}", size)]
    if not found:
        if size != "short":
            raise Unusable("no sequence length")
        found = [_SHORT]
    if mode == "prefill":
        if not found[0]:
            raise Unusable("no prompt")
        return found[0], 0
    if len(found) > 1:
        return found[0], max(1, found[1])
    if "empty context" in note or size == "short":
        return 0, max(1, found[0])
    tokens = re.search(r"\btg(\d+)|(\d+) tokens after", note)
    return found[0], int(tokens[1] or tokens[2]) if tokens else 1


def _passes(mode: str, batch: int, prompt: int, output: int, *, whole: bool) -> tuple[Pass, ...]:
    read = Pass("prefill", batch, max(1, prompt), 1.0)
    if mode == "prefill":
        return (read,)
    decoded = Pass("decode", batch, max(1, prompt + output // 2), float(output))
    return (read, decoded) if whole and prompt > 1 else (decoded,)


# ---------------------------------------------------------------- predictions


def predicted_value(row: GenerationRow, seconds: float) -> float:
    """Return the value, in the row's own unit, for passes that take this long."""
    return row.counted / seconds if row.unit == "tokens_per_s" else seconds / row.counted * 1e3


def predicted_bytes(row: GenerationRow) -> float:
    """Return the memory of all GPUs together: for transformers, whose rows use its own counter, what tensors take; otherwise
    everything.
    """
    return _held(row).allocated_bytes if row.engine.name == "transformers" else _held(row).total_bytes


def _held(row: GenerationRow) -> GenerationMemory:
    return held_memory(
        row.shape,
        row.weights,
        row.engine,
        cache=row.cache,
        users=row.passes[0].batch,
        prompt=row.prompt,
        context=row.context,
    )


def predicted_s(rows: Sequence[GenerationRow], stack_of: StackOf = engine_stack) -> Array:
    """Return the seconds for every row. Passes of one model in one format are predicted together."""
    found = np.zeros(len(rows))
    for alike, members in _alike(rows).items():
        first = rows[members[0][0]]
        stack = stack_of(first.engine, alike.phase, first.weights.family, first.version)
        gpus = list({rows[place].gpu.name: rows[place].gpu for place, _ in members}.values())
        columns = {gpu.name: place for place, gpu in enumerate(gpus)}
        points = list(dict.fromkeys((one.batch, one.seq) for _, one in members))
        times = _pass_s(first, alike, gpus, points, stack)
        for place, one in members:
            seconds = times[points.index((one.batch, one.seq)), columns[rows[place].gpu.name]]
            found[place] += one.times * seconds / _gain(rows[place], one, stack)
    return found


def generation_residuals(rows: Sequence[GenerationRow]) -> list[Residual]:
    """Return every row with its prediction, in its own unit."""
    timed = [row for row in rows if row.unit != "GiB"]
    found = (
        [_speed_residual(row, float(seconds)) for row, seconds in zip(timed, predicted_s(timed), strict=True)] if timed else []
    )
    return [*found, *(_memory_residual(row) for row in rows if row.unit == "GiB")]


def _speed_residual(row: GenerationRow, seconds: float) -> Residual:
    low, high, _ = engine_range(row.engine, row.cells["mode"])
    is_rate = row.unit == "tokens_per_s"
    return Residual(
        row=row.row,
        gpu=row.gpu.name,
        measured_s=row.counted / row.value if is_rate else row.value * row.counted / 1e3,
        predicted_s=seconds,
        low_s=seconds * low,
        high_s=seconds * high,
        labels=_labels(row),
        setup=(row.cells["source"], row.cells["model"], row.cells["stack"], row.cells["quantisation"], row.cells["size"]),
        group=(row.cells["source"], row.cells["model"]),
        unit=row.unit,
        scale=row.counted if is_rate else 1e3 / row.counted,
        is_rate=is_rate,
    )


def _memory_residual(row: GenerationRow) -> Residual:
    predicted = predicted_bytes(row)
    return Residual(
        row=row.row,
        gpu=row.gpu.name,
        measured_s=row.value * GIB,
        predicted_s=predicted,
        low_s=predicted / _MEMORY_RANGE,
        high_s=predicted * _MEMORY_RANGE,
        labels=_labels(row),
        group=(row.cells["source"], row.cells["model"]),
        unit="GiB",
        scale=1.0 / GIB,
    )


def _labels(row: GenerationRow) -> dict[str, str]:
    return {"gpu": row.gpu.name, "model": row.cells["model"], "family": row.engine.name, "source": row.cells["source"]}


class _Alike(NamedTuple):
    """Values that all passes predicted together have in common. `length` is 0 unless a window is not full."""

    engine: str
    version: str
    phase: str
    shape: LanguageShape
    format_name: str
    cache: str
    parts: int
    length: int


def _alike(rows: Sequence[GenerationRow]) -> dict[_Alike, list[tuple[int, Pass]]]:
    found: dict[_Alike, list[tuple[int, Pass]]] = defaultdict(list)
    for place, row in enumerate(rows):
        parts = row.gpu_count if row.split == "tensor" else 1
        for one in row.passes:
            length = one.seq if one.seq <= row.shape.window else 0
            key = _Alike(row.engine.name, row.version, one.phase, row.shape, row.format_name, row.cache, parts, length)
            found[key].append((place, one))
    return found


def _pass_s(row: GenerationRow, alike: _Alike, gpus: Sequence[Gpu], points: Sequence[tuple[int, int]], stack: Stack) -> Array:
    """Return the seconds for passes at these batches and lengths, (points, gpus)."""
    shape, parts = row.shape, alike.parts
    workload = _workload(shape, alike.phase, row.weights, row.cache, parts, alike.length or max(shape.window + 1, 2048))
    batch, seq = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    if alike.phase == "prefill" and not stack.fused_attention and seq.min() >= row.engine.chunk:
        workload = in_chunks(workload, row.engine.chunk)
    setting = Setting(stack=stack, host=find_host("server"))
    found: Array = simulate(workload, gpus, setting, batch=batch, seq=seq, by_kind=False).seconds
    if parts > 1:
        found = found + np.array([[_sums_s(shape, alike.phase, point, gpu, parts) for gpu in gpus] for point in points])
    return found


def _sums_s(shape: LanguageShape, phase: str, point: tuple[int, int], gpu: Gpu, parts: int) -> float:
    """Return the time of two sums over the GPUs for each layer with divided matrices."""
    tokens = point[0] * (point[1] if phase == "prefill" else 1)
    return 2 * shape.layers * float(all_reduce_s(tokens * shape.hidden * 2.0, gpu, parts))


def _gain(row: GenerationRow, one: Pass, stack: Stack) -> float:
    """Return how much faster layers on several GPUs read a prompt that is long enough to keep them all busy."""
    if one.phase != "prefill" or row.split != "layers":
        return 1.0
    return prompt_gain(row.engine, one.seq, row.gpu_count, stack.constants.get(PIPELINED, 0.0))


@lru_cache(maxsize=512)
def _workload(shape: LanguageShape, phase: str, weights: Format, cache: str, parts: int, seq: int) -> Workload:
    whole = generation_pass(shape, phase, weights=weights, cache=cache, seq=seq)
    return split(whole, parts, matrices=True) if parts > 1 else whole
