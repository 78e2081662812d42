"""Which GPUs exist, and what is known about them?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, Basis, as_dicts, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import Match
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.gpu_list import listed
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face
from gpuwise.questions.gpus.ask import ask
from gpuwise.questions.gpus.options import GpusOptions

__all__ = ["GpuAnswer", "answer", "gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswer(Shown):
    """The GPUs asked for. `matches` says how each given name was understood; it is empty for a listing."""

    TEXT: ClassVar[str] = "questions.gpus.text.render"

    gpus: tuple[Gpu, ...]
    matches: tuple[tuple[str, Match], ...]
    data_date: date

    @property
    def assumptions(self) -> list[Assumption]:
        """The assumptions: how ambiguous names were interpreted, and values that were not given."""
        found = []
        for asked, match in self.matches:
            if match.others:
                others = ", ".join(gpu.name for gpu in match.others)
                found.append(assumed(f"gpu '{asked}'", match.gpu.name, f"it could also be {others}", code="gpu_name"))
        for gpu in (match.gpu for _, match in self.matches):
            for field, fact in gpu.exceptions.items():
                if fact.basis is Basis.ASSUMED:
                    effect = fact.note or fact.source.title
                    found.append(assumed(f"{gpu.name} {field}", _plain(fact.value), effect, code="gpu_fact"))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        used = {source.id: source for gpu in self.gpus for source in _sources(gpu)}
        return {
            "gpus": [_gpu_dict(gpu) for gpu in self.gpus],
            "sources": {key: {"title": s.title, "url": s.url, "basis": s.basis.value} for key, s in used.items()},
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def answer(options: GpusOptions, progress: Callable[[str], None] = lambda text: None) -> GpuAnswer:
    """The GPUs with these names, or those of the catalogue that pass the filters."""
    found, matches = listed(ask(options))
    return GpuAnswer(gpus=found, matches=matches, data_date=tables.data_date())


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _sources(gpu: Gpu) -> list[Any]:
    return [gpu.source, *(fact.source for fact in gpu.exceptions.values())]


def _gpu_dict(gpu: Gpu) -> dict[str, Any]:
    plain = {
        field: getattr(gpu, field)
        for field in (
            "name aliases vendor segment chip sm_count core_count base_clock_hz boost_clock_hz matrix_clock_hz memory_bytes "
            "usable_memory_bytes slow_memory_bytes slow_memory_bytes_per_s "
            "memory_type memory_bus_bits memory_bytes_per_s l2_bytes l3_bytes tdp_watts power_min_watts "
            "power_max_watts pcie_generation pcie_lanes nvlink_generation nvlink_bytes_per_s slots cooler power_connectors "
            "launched_on launch_usd ecc display devices_per_board curated note"
        ).split()
    }
    return plain | {
        "architecture": gpu.architecture.id,
        "generation": gpu.architecture.generation,
        "compute_capability": gpu.architecture.capability,
        "peak_dense_flops_per_s": {"matrix": {}, "vector": {}} | dict(gpu.peak_flops_per_s),
        "published_flops_per_s": {
            engine: {dtype: value / gpu.devices_per_board for dtype, value in peaks.items()}
            for engine, peaks in gpu.published_flops_per_s.items()
        },
        "sources": {"default": {"source": gpu.source.id, "basis": gpu.source.basis.value}}
        | {field: {"source": fact.source.id, "basis": fact.basis.value} for field, fact in gpu.exceptions.items()},
    }


gpus = face(GpusOptions, answer)
