"""How throughput grows with the batch: one model on one GPU at many batches, predicted together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware import tables
from gpuwise.prediction import predict_steps
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.predictions import sized
from gpuwise.questions.common.step import StepQuery, workload_of

__all__ = ["SweepAnswer", "SweepPoint", "sweep"]

_MOST = 64  # batches that one request may ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A step at one batch, whether or not it fits."""

    batch: int
    step_s: float
    samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer(Shown):
    """The points in the requested order; none for a model that was captured at only one batch."""

    TEXT: ClassVar[str] = "questions.predict.batches_text.render_batches"
    FIGURE: ClassVar[str] = "questions.predict.batches_figure.swept_figure"

    model: str
    gpu: str
    points: tuple[SweepPoint, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "model": self.model,
            "gpu": self.gpu,
            "points": [asdict(point) for point in self.points],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def sweep(query: StepQuery, batches: Sequence[int], progress: Callable[[str], None] = lambda text: None) -> SweepAnswer:
    """Predict the step on the first GPU of the question at each of these batches."""
    if not 0 < len(batches) <= _MOST or min(batches) < 1:
        raise BadValue(
            f"invalid list of {len(batches)} batch sizes", hint=f"give between 1 and {_MOST} batch sizes, each at least 1"
        )
    workload = workload_of(query, progress)
    gpu = query.gpus[0]
    points: tuple[SweepPoint, ...] = ()
    if "batch" in workload.symbols:
        run, _ = sized(workload, query)
        seconds = predict_steps(workload, [gpu], run, batches, by_kind=False).step_s[:, 0].tolist()
        points = tuple(
            SweepPoint(batch=batch, step_s=step_s, samples_per_s=batch * run.gpu_count / step_s)
            for batch, step_s in zip(batches, seconds, strict=True)
        )
    return SweepAnswer(
        model=workload.model, gpu=gpu.name, points=points, assumptions=query.assumptions, data_date=tables.data_date()
    )
