"""The types of an answer about memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.advise.ladder import Advice
from gpuwise.advise.serving import Serving
from gpuwise.advise.types import Rung
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.ways import Room
from gpuwise.questions.common.options import Shown
from gpuwise.step.memory.peak import Memory

__all__ = ["Fit", "FitAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One model on one GPU. `safe_batch` is the largest batch that fits even at the upper end of the range; a model that does not
    fit may still run, slowly (`survives`)."""

    gpu: Gpu
    gpu_count: int
    mode: str
    precision: str
    optimizer: str
    batch: int
    seq: int | None
    memory: Memory
    room: Room
    fits: bool
    survives: bool
    probability: float
    max_batch: int
    safe_batch: int
    step_s: float
    advice: Advice
    serving: Serving | None
    assumptions: tuple[Assumption, ...]
    method: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "gpu": self.gpu.name,
            "gpu_count": self.gpu_count,
            "mode": self.mode,
            **({"method": self.method} if self.method else {}),
            "precision": self.precision,
            "optimizer": self.optimizer,
            "batch": self.batch,
            "seq": self.seq,
            "memory": _memory(self.memory),
            "usable_memory_bytes": self.room.usable_bytes,
            "shared_memory": self.room.shared,
            "fits": self.fits,
            "survives": self.survives,
            "fits_probability_fraction": self.probability,
            "max_batch": self.max_batch,
            "safe_batch": self.safe_batch,
            "step_s": self.step_s,
            "remedies": [_rung(rung) for rung in self.advice.remedies],
            "not_applicable": [{"name": name, "reason": reason} for name, reason in self.advice.not_applicable],
            "ladder": [_rung(rung) for rung in self.advice.ladder],
            "serving": asdict(self.serving) if self.serving else None,
            "assumptions": as_dicts(self.assumptions),
        }


def _memory(memory: Memory) -> dict[str, Any]:
    return asdict(memory) | {"total_bytes": memory.total_bytes}


def _rung(rung: Rung) -> dict[str, Any]:
    return {
        "name": rung.name,
        "title": rung.title,
        "effect": rung.effect,
        "how": rung.how,
        "gpu": rung.gpu,
        "gpu_count": rung.gpu_count,
        "batch": rung.batch,
        "memory_bytes": rung.memory.total_bytes,
        "memory": _memory(rung.memory),
        "fits": rung.fits,
        "max_batch": rung.max_batch,
        "step_s": rung.step_s,
        "cost": rung.cost,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAnswer(Shown):
    """One result for each GPU, in the order requested."""

    TEXT: ClassVar[str] = "questions.fit.text.render"
    FIGURE: ClassVar[str] = "questions.fit.figure.memory_figure"

    model: str
    results: tuple[Fit, ...]
    notes: tuple[str, ...]
    data_date: date

    @property
    def fits(self) -> bool:
        return all(result.fits for result in self.results)

    @property
    def says_no(self) -> bool:
        return not self.fits

    def to_dict(self) -> dict[str, Any]:
        """The keys of the JSON contract, for the first GPU at the top level and for several GPUs also under `results`."""
        first = {"model": self.model, **self.results[0].to_dict(), "notes": list(self.notes)}
        several = {"results": [result.to_dict() for result in self.results]} if len(self.results) > 1 else {}
        return first | several | {"data_date": self.data_date.isoformat()}
