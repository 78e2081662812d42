"""Which GPUs of the catalogue hold a model? Tensors need the same everywhere, so one search serves all GPUs of one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from gpuwise.advise.capacity import largest, room_of
from gpuwise.api.question import Assumption, StepQuery, assumed, step_query, supported
from gpuwise.api.workloads import capture
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.step.device_memory import framework_bytes, library_buffers
from gpuwise.step.memory import Memory, memory_of
from gpuwise.step.simulate import simulate
from gpuwise.step.stacks import as_run
from gpuwise.workload.types import Workload

__all__ = ["CatalogueFit", "CatalogueRow", "catalogue_query", "fit_catalogue"]

_ANY_MODERN_GPU = "A100 PCIe 40GB"  # defaults are chosen as for it


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueRow:
    """One GPU: what the step needs there, the largest batch, the time of a step where the GPU has the precision."""

    gpu: Gpu
    memory: Memory
    usable_bytes: float
    max_batch: int
    step_s: float | None

    @property
    def fits(self) -> bool:
        return self.memory.total_bytes <= self.usable_bytes

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "gpu": self.gpu.name,
            "memory": asdict(self.memory) | {"total_bytes": self.memory.total_bytes},
            "usable_memory_bytes": self.usable_bytes,
            "fits": self.fits,
            "max_batch": self.max_batch,
            "step_s": self.step_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueFit:
    """Every curated GPU, in the order of the catalogue."""

    model: str
    mode: str
    precision: str
    batch: int
    seq: int | None
    results: tuple[CatalogueRow, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "model": self.model,
            "mode": self.mode,
            "precision": self.precision,
            "batch": self.batch,
            "seq": self.seq,
            "results": [row.to_dict() for row in self.results],
            "assumptions": list(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def catalogue_query(**asked: Any) -> StepQuery:
    """The question as typed, for every curated GPU."""
    query = step_query(**{**asked, "gpu": (_ANY_MODERN_GPU,)})
    return replace(query, gpus=load_catalog().curated)


def fit_catalogue(query: StepQuery, progress: Callable[[str], None] = lambda text: None) -> CatalogueFit:
    """The step on every GPU of the query."""
    workload = capture(query.capture, progress).workload
    batch = query.batch or workload.batch
    needs = _Needs(workload)
    times = _times(workload, query, batch)
    rows = []
    for gpu, seconds in zip(query.gpus, times, strict=True):
        usable = room_of(gpu).usable_bytes
        able = workload.precision in supported(gpu)
        rows.append(
            CatalogueRow(
                gpu=gpu,
                memory=needs.memory(gpu, batch),
                usable_bytes=usable,
                max_batch=needs.largest(gpu, usable),
                step_s=float(seconds) if able else None,
            )
        )
    notes = [assumed("batch", str(batch), "the usual one for this model")] if query.batch is None else []
    return CatalogueFit(
        model=workload.model,
        mode=workload.mode,
        precision=workload.precision,
        batch=batch,
        seq=workload.seq,
        results=tuple(rows),
        assumptions=(*query.assumptions, *notes),
        data_date=tables.data_date(),
    )


class _Needs:
    """What the step needs at a batch, and the largest batch in a room, each worked out once.

    A GPU changes what the framework takes, and what libraries keep; GPUs alike in the latter share a search.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._memories: dict[tuple[object, int], Memory] = {}
        self._known: dict[object, dict[int, float]] = {}
        self._largest: dict[tuple[object, float], int] = {}

    def memory(self, gpu: Gpu, batch: int) -> Memory:
        """As for this GPU."""
        return self._memory(gpu, batch, (framework_bytes(gpu), self._libraries(gpu)))

    def _libraries(self, gpu: Gpu) -> object:
        return library_buffers(gpu, products=True, training=self._workload.mode == "train")

    def _memory(self, gpu: Gpu, batch: int, key: object) -> Memory:
        if (key, batch) not in self._memories:
            size = batch if "batch" in self._workload.symbols else None
            self._memories[key, batch] = memory_of(self._workload, size, gpu=gpu)
        return self._memories[key, batch]

    def largest(self, gpu: Gpu, usable: float) -> int:
        """The search starts from what is known of smaller and larger rooms."""
        if "batch" not in self._workload.symbols:
            return self._workload.batch if self.memory(gpu, self._workload.batch).total_bytes <= usable else 0
        kept, room = self._libraries(gpu), usable - framework_bytes(gpu)
        known = self._known.setdefault(kept, {})

        def need(batch: int) -> float:
            known.setdefault(batch, self._memory(gpu, batch, kept).reserved_bytes)
            return known[batch]

        if (kept, room) not in self._largest:
            self._largest[kept, room] = largest(need, room, known=known)
        return self._largest[kept, room]


def _times(workload: Workload, query: StepQuery, batch: int) -> Any:
    """Seconds of a step on every GPU, in one go."""
    size = np.array([float(batch)]) if "batch" in workload.symbols else None
    steps = simulate(
        workload,
        query.gpus,
        as_run(query.setting, workload),
        batch=size,
        power_limit_watts=query.power_limit_watts,
        dtype=np.float32,
    )
    return steps.seconds[0]
