"""Which GPUs of the catalogue can hold a model? Tensors need the same memory everywhere, so GPUs of one size share one search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, ClassVar

import numpy as np

from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu, supported
from gpuwise.prediction import predict_steps
from gpuwise.prediction.ways import Needs, as_computed, room_of
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.rewriting import step_of
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.step.memory.peak import Memory, MemorySetting

__all__ = ["CatalogueFit", "CatalogueRow", "catalogue_query", "fit_catalogue"]

_ANY_MODERN_GPU = "A100 PCIe 40GB"  # the GPU that defaults are chosen for


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRow:
    """One GPU: what the step needs there, the largest batch, and the time of a step if the GPU supports the precision."""

    gpu: Gpu
    memory: Memory
    usable_bytes: float
    max_batch: int
    step_s: float | None

    @property
    def fits(self) -> bool:
        return self.memory.total_bytes <= self.usable_bytes

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "gpu": self.gpu.name,
            "memory": asdict(self.memory) | {"total_bytes": self.memory.total_bytes},
            "usable_memory_bytes": self.usable_bytes,
            "fits": self.fits,
            "max_batch": self.max_batch,
            "step_s": self.step_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueFit(Shown):
    """Every curated GPU, in the order of the catalogue."""

    TEXT: ClassVar[str] = "questions.fit.text.render_catalogue"

    model: str
    mode: str
    precision: str
    batch: int
    seq: int | None
    results: tuple[CatalogueRow, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date
    method: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "model": self.model,
            "mode": self.mode,
            **({"method": self.method} if self.method else {}),
            "precision": self.precision,
            "batch": self.batch,
            "seq": self.seq,
            "results": [row.to_dict() for row in self.results],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def catalogue_query(options: StepOptions) -> StepQuery:
    """The question for every curated GPU."""
    query = step_query(options, gpus=[load_catalog().find(_ANY_MODERN_GPU).gpu])
    return replace(query, gpus=load_catalog().curated)


def fit_catalogue(query: StepQuery, progress: Callable[[str], None] = lambda text: None) -> CatalogueFit:
    """The step on every GPU of the query."""
    workload = as_computed(step_of(query.capture, query.tuning, query.run, progress))
    batch = query.batch or workload.batch
    needs = Needs(workload, MemorySetting(gpu_count=query.run.gpu_count))
    steps = predict_steps(workload, query.gpus, query.run, [batch], needs=needs, dtype=np.float32, by_kind=False)
    rows = []
    for gpu, seconds in zip(query.gpus, steps.step_s[0].tolist(), strict=True):
        usable = room_of(gpu).usable_bytes
        able = workload.precision in supported(gpu)
        rows.append(
            CatalogueRow(
                gpu=gpu,
                memory=needs.memory(gpu, batch),
                usable_bytes=usable,
                max_batch=needs.largest(gpu, usable),
                step_s=seconds if able else None,
            )
        )
    notes = [assumed("batch", str(batch), "the usual batch for this model")] if query.batch is None else []
    return CatalogueFit(
        model=workload.model,
        mode=workload.mode,
        precision=workload.precision,
        batch=batch,
        seq=workload.seq,
        results=tuple(rows),
        assumptions=(*query.assumptions, *notes),
        data_date=tables.data_date(),
        method=query.tuning.title(workload.precision) if query.tuning else "",
    )
