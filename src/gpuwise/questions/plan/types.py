"""The types of an answer about plans."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.advise.types import Rung
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.evidence.ranges import Range
from gpuwise.questions.common.options import Shown
from gpuwise.scale.cluster.shape import Cluster
from gpuwise.scale.plans.recipes import Recipe
from gpuwise.scale.plans.scaling import FasterLink, ScalePoint
from gpuwise.scale.plans.types import Estimate

__all__ = ["BY_SPEED", "CHEAPEST", "FASTEST", "ON_ALL", "PLAIN", "SIMPLEST", "PlanAnswer", "PlanEntry", "SeparateJobs"]

# Labels of plans, as people and the JSON read them.
FASTEST = "fastest"
ON_ALL = "fastest on all GPUs"  # where a plan on fewer GPUs is faster
PLAIN = "plain data parallel"
SIMPLEST = "simplest within 5%"
CHEAPEST = "fewest GPU-hours"
BY_SPEED = "samples in proportion to speed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """One plan worth knowing and why (`labels`). `width` is the range of measured over predicted time that contains 8 of 10
    measurements; `shares` are the samples of each kind of GPU if they differ; `fits` means that nine in ten such jobs run.
    `gpu` is the only kind that a plan uses of several.
    """

    estimate: Estimate
    gpu_count: int
    samples: int
    labels: tuple[str, ...]
    width: Range
    mfu_fraction: float
    bound: str
    recipes: tuple[Recipe, ...]
    shares: tuple[tuple[str, int], ...] = ()
    fits: bool = True
    gpu: str = ""

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.estimate.step_s

    @property
    def low_s(self) -> float:
        return self.estimate.step_s * self.width.low

    @property
    def high_s(self) -> float:
        return self.estimate.step_s * self.width.high

    @property
    def range_basis(self) -> str:
        """Assumed where no measurement supports the range."""
        return "measured" if self.width.rows else "assumed"

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        one, mesh = self.estimate, self.estimate.plan.mesh
        return {
            "data": mesh.data,
            "tensor": mesh.tensor,
            "pipeline": mesh.pipeline,
            "expert": mesh.expert,
            "sequence": mesh.sequence,
            "zero_stage": one.plan.zero_stage,
            "micro_batch": one.plan.micro_batch,
            "recompute": one.plan.recompute,
            "step_s": one.step_s,
            "step_low_s": self.low_s,
            "step_high_s": self.high_s,
            "range_basis": self.range_basis,
            "fits": self.fits,
            "samples_per_s": self.samples_per_s,
            "mfu_fraction": self.mfu_fraction,
            "memory": asdict(one.memory) | {"total_bytes": one.memory.total_bytes},
            "exposed_comm_s": one.exposed_comm_s,
            "bubble_fraction": one.bubble_s / one.step_s,
            "bound": self.bound,
            "labels": list(self.labels),
            "gpu_count": self.gpu_count,
            "gpu": self.gpu or None,
            "chunks": mesh.chunks,
            "micro_count": one.plan.micro_count,
            "short": one.plan.short,
            "offload": one.plan.offload,
            "schedule": one.plan.schedule,
            "sequence_parallel": mesh.degrees.tokens,
            "stages": list(one.stages),
            "compute_s": one.compute_s,
            "recompute_s": one.recompute_s,
            "update_s": one.update_s,
            "hidden_comm_s": one.hidden_comm_s,
            "bubble_s": one.bubble_s,
            "wait_s": one.wait_s,
            "collectives": [asdict(message) for message in one.collectives],
            "shares": [{"gpu": name, "samples": samples} for name, samples in self.shares],
            "recipes": [{"framework": recipe.framework, "lines": list(recipe.lines)} for recipe in self.recipes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateJobs:
    """As many jobs as possible, each on the fewest GPUs that hold it, compared with one job on all GPUs with as many samples
    per GPU. That job has the recommended plan, or else the fastest that uses all GPUs.
    """

    jobs: int
    gpus_each: int
    batch_each: int
    samples_per_s: float
    one_job_samples_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer(Shown):
    """Plans, fastest first. `plain` only divides the samples, whether or not it fits; `points` show how throughput grows with the
    number of GPUs; `alone` has one GPU of each kind in a mixed cluster, and how many there are of that kind. Where nothing fits,
    `smallest` is a cluster that would do, with everything that was `fixed`, and `remedies` are the changes from `fit` after which
    the model fits on this one."""

    TEXT: ClassVar[str] = "questions.plan.text.render"
    FIGURE: ClassVar[str] = "questions.plan.figure.plans_figure"

    model: str
    cluster: Cluster
    batch: int
    seq: int | None
    precision: str
    optimizer: str
    method: str
    entries: tuple[PlanEntry, ...]
    plain: PlanEntry | None
    tried: int
    fitting: int
    rejected: Counter[str]
    points: tuple[ScalePoint, ...]
    alone: tuple[tuple[int, ScalePoint], ...]
    stops_at: int | None
    links: tuple[FasterLink, ...]
    separate: SeparateJobs | None
    smallest: tuple[str, int] | None
    fixed: tuple[str, ...]
    least_bytes: float
    remedies: tuple[Rung, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def fits(self) -> bool:
        return bool(self.entries)

    @property
    def says_no(self) -> bool:
        return not self.fits

    @property
    def fastest(self) -> PlanEntry:
        """The fastest plan, on however many GPUs."""
        return min(self.entries, key=lambda entry: entry.estimate.step_s / entry.samples)

    @property
    def recommended(self) -> PlanEntry:
        """The simplest plan that is nearly as fast as the fastest."""
        return next((entry for entry in self.entries if SIMPLEST in entry.labels), self.fastest)

    @property
    def on_all(self) -> PlanEntry | None:
        """The plan to use if all GPUs work on one job; None where none fits."""
        whole = [entry for entry in self.entries if entry.gpu_count == self.cluster.gpu_count]
        return self.recommended if self.recommended in whole else whole[0] if whole else None

    @property
    def shown(self) -> tuple[PlanEntry, ...]:
        """The best plans, and the plain one if it is not among them."""
        if self.plain is None or any(PLAIN in entry.labels for entry in self.entries):
            return self.entries
        return (*self.entries, self.plain)

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "model": self.model,
            "cluster": {
                "name": self.cluster.name,
                "gpu": self.cluster.gpu.name,
                "gpu_count": self.cluster.gpu_count,
                "gpus_per_node": self.cluster.gpus_per_node,
                "node_count": self.cluster.node_count,
                "link": self.cluster.wires.gpu_link.name,
                "network": self.cluster.network.name if self.cluster.network else None,
                "network_bytes_per_s": self.cluster.network_bytes_per_s,
            },
            "batch": self.batch,
            "seq": self.seq,
            "precision": self.precision,
            "optimizer": self.optimizer,
            "method": self.method,
            "fits": self.fits,
            "recommended": self.entries.index(self.recommended) if self.entries else None,
            "plans": [entry.to_dict() for entry in self.entries],
            "plain_data_parallel": self.plain.to_dict() if self.plain else None,
            "plans_tried": self.tried,
            "plans_fitting": self.fitting,
            "rejected": [{"reason": reason, "count": count} for reason, count in self.rejected.most_common()],
            "scaling": self.scaling(),
            "stops_at_gpu_count": self.stops_at,
            "faster_links": [asdict(link) for link in self.links],
            "separate_jobs": asdict(self.separate) if self.separate else None,
            "smallest_cluster": {"cluster": self.smallest[0], "gpu_count": self.smallest[1]} if self.smallest else None,
            "remedies": [{"name": rung.name, "title": rung.title, "how": rung.how} for rung in self.remedies],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }

    def scaling(self) -> list[dict[str, Any]]:
        """Samples per second and the fraction of perfect scaling, at a fixed batch and at one that grows with the GPUs."""
        return [
            {
                "gpu_count": point.gpu_count,
                "gpu": point.gpu or None,
                "samples_per_s": _rate(point.strong),
                "efficiency_fraction": _share(_rate(point.strong), self._ideal(point, "strong")),
                "weak_samples_per_s": _rate(point.weak),
                "weak_efficiency_fraction": _share(_rate(point.weak), self._ideal(point, "weak")),
            }
            for point in self.points
        ]

    def _ideal(self, point: ScalePoint, batch: str) -> float | None:
        """Samples per second if each GPU were as fast as alone, or as among the fewest that hold the model."""
        if not self.alone:
            known = [(one.gpu_count, _rate(getattr(one, batch))) for one in self.points]
            return next((rate / count * point.gpu_count for count, rate in known if rate), None)
        rates = [(count, one.gpu, _rate(getattr(one, batch))) for count, one in self.alone]
        if point.gpu:
            return next((rate * point.gpu_count for _, gpu, rate in rates if rate and gpu == point.gpu), None)
        return sum(count * (rate or 0.0) for count, _, rate in rates) if all(rate for _, _, rate in rates) else None


def _rate(one: Estimate | None) -> float | None:
    return one.samples / one.step_s if one is not None else None


def _share(rate: float | None, ideal: float | None) -> float | None:
    return rate / ideal if rate and ideal else None
