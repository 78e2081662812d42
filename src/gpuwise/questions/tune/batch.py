"""Which batch? Predicted for any GPU, or from what `gpuwise bench` measured here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.core.text import the
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.live.bench import store
from gpuwise.live.bench.price import price
from gpuwise.prediction import predict_steps
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.predictions import sized
from gpuwise.questions.common.step import StepQuery, workload_of
from gpuwise.step.memory.peak import largest_batch
from gpuwise.workload.model.types import Workload

__all__ = ["BatchPoint", "TuneAnswer", "tune_batch"]

_LARGEST = 2**16  # beyond it throughput no longer changes
_PAYS = 1.05  # doubling the batch gives at least this many times the samples per second
_SHARES = (0.90, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """A step at one batch."""

    batch: int
    step_s: float

    @property
    def samples_per_s(self) -> float:
        return self.batch / self.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneAnswer(Shown):
    """One model on one GPU, by batch."""

    TEXT: ClassVar[str] = "questions.tune.text.render"
    FIGURE: ClassVar[str] = "questions.tune.figure.tuned_figure"

    what: str
    model: str
    gpu: str
    mode: str
    precision: str
    batches: tuple[BatchPoint, ...]
    largest_batch: int
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def best(self) -> BatchPoint:
        """The batch with the most samples per second, among those that fit."""
        return max(self.batches, key=lambda point: point.samples_per_s)

    def enough(self, share: float) -> BatchPoint:
        """The smallest batch that gives this share of the best."""
        return next(point for point in self.batches if point.samples_per_s >= share * self.best.samples_per_s)

    @property
    def stops_paying(self) -> BatchPoint:
        """The batch above which doubling gives less than 5% more."""
        for point, doubled in zip(self.batches, self.batches[1:], strict=False):
            if doubled.batch == 2 * point.batch and doubled.samples_per_s < _PAYS * point.samples_per_s:
                return point
        return self.batches[-1]

    def to_dict(self) -> dict[str, Any]:
        """Everything, with the chosen points by name."""
        chosen = {f"batch_for_{share:.0%}".rstrip("%"): self.enough(share).batch for share in _SHARES}
        chosen |= {"batch_where_doubling_stops_paying": self.stops_paying.batch, "largest_batch": self.largest_batch}
        return {
            "what": self.what,
            "model": self.model,
            "gpu": self.gpu,
            "mode": self.mode,
            "precision": self.precision,
            **chosen,
            "batches": [asdict(point) | {"samples_per_s": point.samples_per_s} for point in self.batches],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def tune_batch(query: StepQuery, progress: Callable[[str], None] = lambda text: None) -> TuneAnswer:
    """Return the step by batch, on the one GPU of the query."""
    if len(query.gpus) != 1 or query.run.gpu_count != 1:
        raise BadValue("`tune batch` takes one GPU at a time", hint='try `--gpu "RTX 3090"`')
    workload, gpu = workload_of(query, progress), query.gpus[0]
    most = largest_batch(workload, gpu.usable_memory_bytes, gpu=gpu)
    return TuneAnswer(
        what="batch",
        model=workload.model,
        gpu=gpu.name,
        mode=workload.mode,
        precision=workload.precision,
        batches=_batches(workload, query, gpu, most),
        largest_batch=most,
        assumptions=(*query.assumptions, *_profile_note(query)),
        data_date=tables.data_date(),
    )


def _profile_note(query: StepQuery) -> tuple[Assumption, ...]:
    if not query.on_this_machine:
        return ()
    profile = store.latest()
    return (assumed("this machine", profile.name, f"measured by `gpuwise bench` on {profile.day}", basis="measured"),)


def _batches(workload: Workload, query: StepQuery, gpu: Gpu, most: int) -> tuple[BatchPoint, ...]:
    if "batch" not in workload.symbols:
        raise BadValue(
            f"the workload of {workload.model} was captured only at batch {workload.batch}",
            hint="name the model itself or its source file instead of the workload",
        )
    if most < 1:
        raise BadValue(
            f"not even a batch of 1 fits on {the(gpu.name)}", hint=f"see `gpuwise fit {workload.model} --gpu '{gpu.name}'`"
        )
    sizes = [2**power for power in range(17) if 2**power <= min(most, _LARGEST)]
    if query.on_this_machine:
        profile = store.latest()
        return tuple(BatchPoint(batch=size, step_s=price(workload, profile, float(size)).seconds) for size in sizes)
    steps = predict_steps(workload, [gpu], sized(workload, query)[0], sizes, by_kind=False)
    return tuple(BatchPoint(batch=size, step_s=seconds) for size, seconds in zip(sizes, steps.step_s[:, 0].tolist(), strict=True))
