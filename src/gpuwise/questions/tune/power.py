"""Which power limit? Time and energy per step by power limit: predicted for any GPU, or set, measured and restored on this
card.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.core.text import the
from gpuwise.core.units import parse
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.live.sample.power_limit import Card, card_of, held
from gpuwise.live.tune.models import facts_of, run_model
from gpuwise.live.tune.types import DeviceFacts, Order, Trial
from gpuwise.prediction import predict_steps
from gpuwise.prediction.steps import power_curve
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.step import StepQuery, least_watts, step_query, workload_of
from gpuwise.questions.tune.ask import PowerQuery, buildable
from gpuwise.questions.tune.changes import start_of
from gpuwise.workload.model.types import Workload

__all__ = ["PowerAnswer", "PowerPoint", "measured_points", "tune_power"]

_POINTS = 8
_FREE = 0.99  # of the speed; a limit that keeps it is above the power that the step draws
_KEPT = 0.95
_RUN_S = 6.0  # of timed steps under each limit, because clocks and counters follow with a delay
_OFF = (
    0.5  # log error of the speed kept, times the share of the limit taken away: published curves of four unseen GPUs, rounded out
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPoint:
    """A step under one limit. `speed_fraction` is relative to the board's default limit; measured values are None if not
    measured.
    """

    limit_watts: float
    step_s: float
    speed_fraction: float
    speed_low_fraction: float
    speed_high_fraction: float
    watts: float
    joules_per_sample: float
    measured_step_s: float | None = None
    measured_watts: float | None = None
    measured_joules_per_sample: float | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAnswer(Shown):
    """One model on one GPU by power limit, low to high."""

    TEXT: ClassVar[str] = "questions.tune.power_text.render_power"

    model: str
    gpu: str
    mode: str
    precision: str
    batch: int
    rated_watts: float
    points: tuple[PowerPoint, ...]
    is_measured: bool
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def least_energy(self) -> PowerPoint:
        """The limit with the fewest joules per sample, by measured values if there are any."""
        return min(self.points, key=lambda point: (point.measured_joules_per_sample or math.inf, point.joules_per_sample))

    @property
    def cheapest_fast(self) -> PowerPoint:
        """The lowest limit that keeps 95% of the speed, rounded to whole percent as shown; the highest limit if none does."""
        return next((point for point in self.points if round(self.kept_fraction(point), 2) >= _KEPT), self.points[-1])

    def kept_fraction(self, point: PowerPoint) -> float:
        """Return the speed under this limit as a fraction: of the best measured speed if it was measured, otherwise as
        predicted.
        """
        best = min((other.measured_step_s for other in self.points if other.measured_step_s), default=None)
        return best / point.measured_step_s if best and point.measured_step_s else point.speed_fraction

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "what": "power",
            "model": self.model,
            "gpu": self.gpu,
            "mode": self.mode,
            "precision": self.precision,
            "batch": self.batch,
            "rated_watts": self.rated_watts,
            "limit_for_95_watts": self.cheapest_fast.limit_watts,
            "limit_for_least_energy_watts": self.least_energy.limit_watts,
            "measured": self.is_measured,
            "limits": [asdict(point) for point in self.points],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def tune_power(query: PowerQuery, progress: Callable[[str], None] = lambda text: None) -> PowerAnswer:
    """Return the time and energy of a step by power limit."""
    facts = _this_card(query.device) if query.apply else None
    step = step_query(replace(query.step, gpu=facts.name) if facts else query.step)
    if len(step.gpus) != 1 or step.run.gpu_count != 1:
        raise BadValue("`tune power` takes one GPU at a time", hint='try `--gpu "RTX 3090"`')
    gpu, workload = step.gpus[0], workload_of(step, progress)
    batch = step.batch or workload.batch
    card = card_of(facts.uuid) if facts else None
    points = _predicted(workload, step, batch, _limits(query.limits, gpu, card))
    if facts is not None and card is not None:
        order = _order(step, workload, batch, facts)
        with tempfile.TemporaryDirectory(prefix="gpuwise-tune-", ignore_cleanup_errors=True) as folder:
            points = measured_points(
                points,
                card,
                lambda: run_model(order, facts, timeout_s=query.step.timeout, cache=Path(folder)),
                seed=query.seed,
                progress=progress,
            )
    return PowerAnswer(
        model=workload.model,
        gpu=gpu.name,
        mode=workload.mode,
        precision=workload.precision,
        batch=batch,
        rated_watts=gpu.tdp_watts or 0.0,
        points=points,
        is_measured=query.apply,
        assumptions=(*step.assumptions, *_curve_notes(workload)),
        data_date=tables.data_date(),
    )


def _curve_notes(workload: Workload) -> tuple[Assumption, ...]:
    off = f"a factor of e^(±{_OFF:g} × the fractional reduction of the limit), based on published curves for four GPUs"
    draws = (
        "a step is assumed to draw as much as the lowest limit at which it keeps 99% of its speed, or the limit if that is lower"
    )
    told: list[Assumption] = [
        assumed("uncertainty of the remaining speed", off, "docs/accuracy.md shows the curves"),
        assumed("power draw", "read from the same curve", draws, basis="computed"),
    ]
    if workload.mode == "infer" and workload.seq is not None:
        effect = "on an RTX 3090 at low limits, text generation lost up to three times as much speed as predicted"
        told.append(assumed("language models in inference", "less certain", effect, basis="measured"))
    return tuple(told)


# ---------------------------------------------------------------- predicted


def _limits(text: str, gpu: Gpu, card: Card | None) -> tuple[float, ...]:
    """Return the requested limits, or some across the card's range, in ascending order."""
    rated = gpu.tdp_watts
    if gpu.is_cpu or rated is None:
        raise BadValue(f"the power limit of {the(gpu.name)} is unknown", hint='try `--gpu "RTX 3090"`')
    least, most = (card.least / 1e3, card.most / 1e3) if card else (least_watts(gpu), rated)
    if not text:
        ladder = np.unique(np.round(np.linspace(least, most, _POINTS) / 5.0) * 5.0)
        return tuple(sorted({float(min(max(watts, least), most)) for watts in ladder}))
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        watts = parse(f"{part} W" if part.replace(".", "", 1).isdigit() else part, "power")
        if not least <= watts <= most:
            raise BadValue(
                f"{watts:g} W is outside the power range of {the(gpu.name)} ({least:.0f} to {most:.0f} W)",
                hint=f"try `--limits {least:.0f}W,{(least + most) / 2:.0f}W`",
            )
        found.append(watts)
    if not found:
        raise BadValue(f"--limits '{text}' contains no power limit", hint="try `--limits 200W,250W`")
    return tuple(sorted(set(found)))


def _predicted(workload: Workload, step: StepQuery, batch: int, limits: tuple[float, ...]) -> tuple[PowerPoint, ...]:
    gpu = step.gpus[0]
    rated = gpu.tdp_watts or limits[-1]
    finer = np.arange(least_watts(gpu), rated + 1.0)
    kept = power_curve(workload, gpu, step.run, [*limits, *finer], batch)
    draws = next((watts for watts, share in zip(finer, kept[len(limits) :], strict=True) if share >= _FREE), rated)
    sold = predict_steps(workload, [gpu], replace(step.run, power_limit_watts=None), [batch], by_kind=False)
    sold_s = float(sold.step_s[0, 0])
    points = []
    for limit, share in zip(limits, kept, strict=False):
        watts, off = min(limit, float(draws)), math.exp(_OFF * max(0.0, 1.0 - limit / rated))
        points.append(
            PowerPoint(
                limit_watts=limit,
                step_s=sold_s / share,
                speed_fraction=share,
                speed_low_fraction=share / off,
                speed_high_fraction=min(1.0, share * off),
                watts=watts,
                joules_per_sample=watts * sold_s / share / batch,
            )
        )
    return tuple(points)


# ---------------------------------------------------------------- measured


def _this_card(device: str) -> DeviceFacts:
    facts = facts_of(device)
    if not facts.device.startswith("cuda") or not facts.uuid:
        raise BadValue(
            f"the power limit of the {facts.name} ({facts.device}) cannot be set",
            hint="leave out `--apply` to get a prediction for `--gpu NAME`; power limits can be set only on NVIDIA cards",
        )
    return facts


def _order(step: StepQuery, workload: Workload, batch: int, facts: DeviceFacts) -> Order:
    request = step.capture.request
    settings = replace(request.settings, implementation=start_of(facts)) if workload.mode == "train" else request.settings
    request = msgspec.structs.replace(request, model=buildable(request.model), batch=batch, seq=workload.seq, settings=settings)
    return Order(request=request, device=facts.device, compiled=step.capture.compiled, seconds=_RUN_S)


def measured_points(
    points: Sequence[PowerPoint],
    card: Card,
    run: Callable[[], Trial],
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[PowerPoint, ...]:
    """Measure the points under each limit in a random order, and restore the previous limit afterwards."""
    order = list(range(len(points)))
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    found = list(points)
    with held(card) as keeper:
        for place in order:
            point = points[place]
            progress(f"measuring at {point.limit_watts:g} W")
            keeper.set(round(point.limit_watts * 1000))
            found[place] = _with(point, run())
    return tuple(found)


def _with(point: PowerPoint, trial: Trial) -> PowerPoint:
    if trial.fault:
        return replace(point, fault=trial.fault)
    return replace(
        point,
        measured_step_s=trial.step_s,
        measured_watts=trial.watts or None,
        measured_joules_per_sample=trial.watts * trial.step_s / trial.batch if trial.watts else None,
    )
