"""Compares published steps of language models on many GPUs with predictions.

A row states how the work was divided; its model is built from its sizes. Values specific to a source (its software and hosts)
were fitted on some sizes of its models (`data/parallel.json`, written by `tools/fit_parallel.py`); the rest is as for any plan.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.language import LanguageModel, language_parts, repeated
from gpuwise.evidence.ranges import Range
from gpuwise.evidence.types import Residual, Skipped, Table
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import load_constants
from gpuwise.kernels.types import Constants
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.cluster.shape import MOST_GPUS, Cluster, most_in_a_node
from gpuwise.scale.plans.costs import Costs
from gpuwise.scale.plans.estimate import Variants, passage
from gpuwise.scale.plans.types import RECOMPUTE, Mesh
from gpuwise.scale.plans.unit_times import Sizes
from gpuwise.scale.split.habits import Habits
from gpuwise.scale.split.share import Degrees
from gpuwise.step.time.setting import as_run, default_stack
from gpuwise.step.types import Setting
from gpuwise.workload.transform.low_precision import in_low
from gpuwise.workload.transform.parts import Parts, parts_of

__all__ = [
    "ParallelQuestion",
    "SourceFit",
    "fit_of",
    "parallel_fits",
    "parallel_questions",
    "score_parallel",
    "unknown_range",
]

_SHARDED = {"FULL_SHARD": 3, "HYBRID_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
# prefix of the row's precision -> the type of large products; scaling recipes (fp8-cs, fp8-mx, ...) are not distinguished
_PRECISIONS = {"fp16": "bf16", "bf16": "bf16", "fp8": "fp8", "mxfp8": "fp8", "nvfp4": "fp4", "fp4": "fp4"}
_VOCABULARY = {"llm_foundry": 50368}
_USUAL_VOCABULARY = 51200
_WITHOUT_DROPOUT = ("llm_foundry",)  # its MPT configurations set none
_PER_NODE, _RACK = 8, 64
_WIDEST, _DEEPEST = 2**20, 2**12  # more than any model has


class SourceFit(msgspec.Struct, frozen=True, kw_only=True):
    """Values specific to a source: the `factor` of its kernels by GPU generation ("" for any other), and `attention`, the time of
    its attention kernels relative to newer software. `low` and `high` hold eight in ten ratios of measured to predicted time,
    on models left out of the fit.
    """

    launch_s: float = 36e-6
    neighbour_s: float = 2e-5
    message_s: float = 0.0
    step_s: float = 0.0
    overlap_fraction: float = 0.9
    contention_fraction: float = 0.5
    factor: dict[str, float] = {}
    attention: dict[str, float] = {}
    fused_attention: bool = True
    even_stages: bool = False
    tokens: bool = True
    zero_stage: int = 0
    low: float = 0.8
    high: float = 1.25

    def factor_of(self, gpu: Gpu) -> float:
        """Return the factor for this GPU's architecture, or else the general one."""
        return self.factor.get(gpu.architecture.generation, self.factor.get("", 1.0))

    @property
    def habits(self) -> Habits:
        return Habits(
            overlap_fraction=self.overlap_fraction,
            contention_fraction=self.contention_fraction,
            message_s=self.message_s,
            neighbour_s=self.neighbour_s,
            step_s=self.step_s,
            even_stages=self.even_stages,
        )


class _Model(msgspec.Struct, frozen=True, kw_only=True):
    hidden: int
    heads: int
    layers: int
    vocabulary: int
    kv_heads: int = 0
    inner: int = 0
    head_dim: int = 0
    gated: bool = False
    experts: int = 0
    chosen: int = 0
    source: str = ""


class _File(msgspec.Struct, frozen=True):
    """`unknown` is the range of eight in ten ratios of measured to predicted time for a source whose software is unknown."""

    fitted_on: str
    unknown: Range
    sources: dict[str, SourceFit]
    models: dict[str, _Model]


@cache
def _file() -> _File:
    return msgspec.json.decode((files("gpuwise.evidence") / "data" / "parallel.json").read_bytes(), type=_File)


def parallel_fits() -> Mapping[str, SourceFit]:
    """Return the values fitted for each source."""
    return _file().sources


def fit_of(source: str, fits: Mapping[str, SourceFit] | None = None) -> SourceFit:
    """Return the fit for this source, or for one with the same prefix: vtrain_multi is run like vtrain_single."""
    fits = parallel_fits() if fits is None else fits
    family = source.partition("_")[0]
    alike = [fit for name, fit in fits.items() if name.partition("_")[0] == family]
    return fits.get(source) or (alike[0] if alike else SourceFit())


def unknown_range() -> Range:
    """Return the range that holds eight in ten ratios of measured to predicted time if the software and hosts were never
    measured.
    """
    return _file().unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelQuestion:
    """One row that can be predicted: the model, the GPU, how many, the mesh, and the micro-batches per step."""

    row: int
    cells: Mapping[str, str]
    model: LanguageModel
    gpu: Gpu
    mesh: Mesh
    micro_batch: int
    micro_count: float
    seq: int
    zero: int
    recompute: str
    offload: bool
    dtype: str
    measured_s: float

    @property
    def source(self) -> str:
        return self.cells["source"]

    @property
    def samples(self) -> float:
        return self.micro_batch * self.micro_count * self.mesh.data


class _Unusable(Exception):
    """Why a row cannot be predicted."""


def parallel_questions(table: Table) -> tuple[list[ParallelQuestion], Skipped]:
    """Return the rows that can be predicted, and why others cannot."""
    found, reasons = [], Skipped()
    for number in table.usable(reasons):
        try:
            found.append(_question(number, table.row(number)))
        except _Unusable as reason:
            reasons.add(number, str(reason))
        except (ValueError, OverflowError):
            reasons.add(number, "a field that is not a number")
    return found, reasons


def _question(number: int, cells: Mapping[str, str]) -> ParallelQuestion:
    if cells.get("task") not in ("", "pretrain", "sft", None):
        raise _Unusable(f"{cells['task']} trains only part of the weights")
    ranks = {name: _whole(cells, name, 1) for name in ("gpu_count", "tp", "pp", "cp", "vp", "ep")}
    measured = float(cells.get("iteration_ms") or 0) / 1e3
    batch, micro = (_whole(cells, name, 0) for name in ("global_batch", "micro_batch"))
    if not (0 < measured < math.inf and batch > 0 and micro > 0 and min(ranks.values()) > 0 and max(ranks.values()) <= MOST_GPUS):
        raise _Unusable("no step time or batch")
    shared = ranks["tp"] * ranks["pp"] * ranks["cp"]
    if ranks["gpu_count"] % shared:
        raise _Unusable("the number of GPUs does not match the plan")
    data = ranks["gpu_count"] // shared
    dtype = next((found for start, found in _PRECISIONS.items() if cells["precision"].lower().startswith(start)), None)
    if dtype is None:
        raise _Unusable(f"{cells['precision']} matrix products are not modelled")
    fit = fit_of(cells["source"])
    mesh = Mesh(
        data=data,
        tensor=ranks["tp"],
        pipeline=ranks["pp"],
        sequence=ranks["cp"],
        expert=ranks["ep"],
        chunks=ranks["vp"],
        tokens=fit.tokens,
    )
    return ParallelQuestion(
        row=number,
        cells=cells,
        model=_model(cells),
        gpu=_gpu(cells),
        mesh=mesh,
        micro_batch=micro,
        micro_count=batch / data / micro,
        seq=_whole(cells, "seq", 0),
        zero=_zero(cells, fit, data),
        recompute="full" if cells.get("recompute") == "True" else "none",
        offload=cells.get("cpu_offload") == "True",
        dtype=dtype,
        measured_s=measured,
    )


def _whole(cells: Mapping[str, str], name: str, default: int) -> int:
    """Return the number in a field; raise ValueError or OverflowError if there is none."""
    found = int(float(cells.get(name) or default))
    if not 0 <= found < 2**31:
        raise ValueError(f"{name} is {found:g}")
    return found


def _zero(cells: Mapping[str, str], fit: SourceFit, data: int) -> int:
    if data == 1:
        return 0
    if cells.get("sharding") in _SHARDED:
        return _SHARDED[cells["sharding"]]
    return 3 if _whole(cells, "fsdp", 0) > 1 else fit.zero_stage


def _model(cells: Mapping[str, str]) -> LanguageModel:
    known = {_plain(name): model for name, model in _file().models.items()}.get(_plain(cells["model"]))
    if known is not None:
        sizes: dict[str, Any] = msgspec.structs.asdict(known)
        return LanguageModel(**{name: value for name, value in sizes.items() if name != "source"})
    if not all(cells.get(name) for name in ("hidden", "heads", "layers")):
        raise _Unusable(f"the sizes of {cells['model']} are unknown")
    hidden, heads, layers, seq = (_whole(cells, name, 0) for name in ("hidden", "heads", "layers", "seq"))
    if not (1 <= hidden <= _WIDEST and 1 <= layers <= _DEEPEST and heads >= 1 and seq >= 1):
        raise _Unusable("sizes that no model has")
    if hidden % heads:
        raise _Unusable("the width is not divisible by the number of heads")
    vocabulary = _VOCABULARY.get(cells["source"], _USUAL_VOCABULARY)
    return LanguageModel(
        hidden=hidden,
        heads=heads,
        layers=layers,
        vocabulary=vocabulary,
        positions=seq,
        dropout=cells["source"] not in _WITHOUT_DROPOUT,
    )


def _plain(name: str) -> str:
    """Return the text in one spelling, without case, spaces and punctuation."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def _gpu(cells: Mapping[str, str]) -> Gpu:
    name = cells["gpu"] if cells["gpu"] != "A100" else "A100 SXM 80GB"
    try:
        return load_catalog().find(name).gpu
    except GpuwiseError:
        raise _Unusable(f"unknown GPU {cells['gpu']}") from None


# ---------------------------------------------------------------- predictions


def score_parallel(
    asked: Sequence[ParallelQuestion], fits: Mapping[str, SourceFit] | None = None, refused: dict[int, str] | None = None
) -> list[Residual]:
    """Predict every question, in row order. Questions with one model, GPU and mesh are predicted together. Reasons for rows that
    could not be predicted go into `refused`.
    """
    refused = {} if refused is None else refused
    groups: dict[tuple[Any, ...], list[ParallelQuestion]] = defaultdict(list)
    for question in asked:
        key = (question.source, replace(question.model, layers=0), question.gpu.name, question.seq, question.dtype)
        groups[key].append(question)
    found: list[Residual] = []
    for members in groups.values():
        found += _scored(members, fit_of(members[0].source, fits), refused)
    return sorted(found, key=lambda row: row.row)


def _scored(members: Sequence[ParallelQuestion], fit: SourceFit, refused: dict[int, str]) -> list[Residual]:
    """Predict questions about models that differ only in the number of layers."""
    first = members[0]
    batches = np.array(sorted({float(question.micro_batch) for question in members}))
    parts = language_parts(first.model, compiled=True)
    if first.dtype != "bf16":
        parts = parts_of(in_low(parts.workload, first.dtype))
    costs = _costs(parts, first, fit, batches)
    meshes: dict[tuple[Mesh, int], list[ParallelQuestion]] = defaultdict(list)
    for question in members:
        meshes[question.mesh, question.model.layers].append(question)
    found = []
    for (mesh, layers), rows in meshes.items():
        mine = replace(costs, parts=repeated(parts, layers))
        try:
            cluster = _cluster(first.gpu, mesh.ranks)
            step = passage(mine, cluster, mesh, _variants(rows, batches), fit.habits)
        except GpuwiseError as fault:
            refused.update(dict.fromkeys((question.row for question in rows), fault.message))
            continue
        each = mine.counts @ mine.times(Degrees()).flops[:, -1] / batches[-1] / mesh.ranks
        found += [
            replace(_residual(question, float(seconds), fit), work=(float(each * question.samples), 0.0))
            for question, seconds in zip(rows, step.step_s, strict=True)
        ]
    return found


def _costs(parts: Parts, question: ParallelQuestion, fit: SourceFit, batches: Any) -> Costs:
    host = replace(find_host("server"), launch_s=fit.launch_s)
    stack = replace(default_stack(), factor=fit.factor_of(question.gpu), fused_attention=fit.fused_attention)
    setting = as_run(Setting(stack=stack, host=host), parts.workload)
    sizes = Sizes(batches=batches, seq=float(question.seq))
    return Costs(parts=parts, gpu=question.gpu, setting=setting, sizes=sizes, constants=_constants(fit, question.gpu))


def _constants(fit: SourceFit, gpu: Gpu) -> Constants:
    """Return the kernel models' constants, with attention as slow as this source's."""
    slower = fit.attention.get(gpu.architecture.generation, 1.0)
    known = load_constants()
    return {**known, **{name: known[name] / slower for name in ("attention.forward", "attention.backward")}}


@cache
def _cluster(gpu: Gpu, count: int) -> Cluster:
    """Return nodes of eight GPUs, or the largest number joined by one switch that divides the GPUs evenly."""
    most = max(_PER_NODE, min(_RACK, most_in_a_node(gpu)))
    size = next(size for size in (most, _PER_NODE, 1) if count % size == 0 or size == 1)
    text = f"{count}x{gpu.name}" if count <= most else f"{count // size}x{size}x{gpu.name}"
    return parse_cluster(text)[0]


def _variants(rows: Sequence[ParallelQuestion], batches: Any) -> Variants:
    return Variants(
        point=np.searchsorted(batches, [float(question.micro_batch) for question in rows]),
        micro_count=np.array([question.micro_count for question in rows]),
        zero=np.array([question.zero for question in rows]),
        recompute=np.array([RECOMPUTE.index(question.recompute) for question in rows]),
        offload=np.array([question.offload for question in rows]),
    )


def _residual(question: ParallelQuestion, seconds: float, fit: SourceFit) -> Residual:
    cells, gpu = question.cells, question.gpu
    keys = (
        "source",
        "model",
        "hidden",
        "layers",
        "seq",
        "gpu_count",
        "tp",
        "pp",
        "cp",
        "global_batch",
        "micro_batch",
        "precision",
    )
    model = cells["model"] if cells["model"] != "gpt" else f"gpt {cells['hidden']} x {cells['layers']}"
    return Residual(
        row=question.row,
        gpu=gpu.name,
        measured_s=question.measured_s,
        predicted_s=seconds,
        low_s=seconds * fit.low,
        high_s=seconds * fit.high,
        labels={"gpu": gpu.name, "family": model, "source": question.source},
        setup=tuple(cells.get(key, "") for key in keys),
        group=(question.source, model),
        samples=question.samples,
        known=question.source in parallel_fits(),
        rates=(gpu.best_peak(question.dtype) or 1.0, gpu.memory_bytes_per_s),
    )
