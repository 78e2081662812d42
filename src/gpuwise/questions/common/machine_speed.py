"""What a power limit and narrow lanes cost in speed, on three kinds of work that stand for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuwise.advise.tasks import StandIn, stand_ins
from gpuwise.box.lanes import CardLink
from gpuwise.box.power import least_limit
from gpuwise.box.types import Cards
from gpuwise.engine import Run, predict_steps
from gpuwise.engine.steps import power_curve
from gpuwise.hardware.machines import find_link
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.step import StepQuery, step_query, workload_of
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.workload.model.types import Workload

__all__ = ["KINDS", "LaneCost", "PowerLimit", "images_per_s_of", "lane_costs", "power_limits"]

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
_STEP_WATTS = 5
_WIDTHS = (1, 4, 8, 16)  # lanes


KINDS = stand_ins("machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLimit:
    """A GPU held to so many watts; its speed by kind of work, over that at its own limit."""

    gpu: str
    watts: float
    relative_speed: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCost:
    """By how much longer a training step takes than with all lanes of the card, as a fraction."""

    kind: str
    gpu_count: int
    lanes: int
    slower_fraction: float


def power_limits(cards: Cards, further: Sequence[float] = ()) -> tuple[PowerLimit, ...]:
    """The power-limit curve of one GPU, high to low, with further limits on it. Empty where its power is not known."""
    rated = cards.gpu.tdp_watts
    if rated is None:
        return ()
    rounded = {_STEP_WATTS * round(rated * share / _STEP_WATTS) for share in _SHARES[1:]}
    limits = sorted({rated, *rounded, *(limit for limit in further if limit < rated)}, reverse=True)
    kept = [limit for limit in limits if limit >= least_limit(cards)]
    speeds = {}
    for kind in KINDS:
        speeds[kind.name] = _curve(kind, cards.gpu, tuple(kept))
    return tuple(
        PowerLimit(gpu=cards.gpu.name, watts=watts, relative_speed={name: float(speed[place]) for name, speed in speeds.items()})
        for place, watts in enumerate(kept)
    )


@lru_cache(maxsize=64)
def _asked(kind: StandIn, gpu: Gpu) -> tuple[StepQuery, Workload]:
    """The work on this GPU; kept, since a page asks for the same GPU with another power supply again and again."""
    query = step_query(StepOptions(kind.model, mode=kind.mode, batch=kind.batch, phase=kind.phase), gpus=[gpu])
    return query, workload_of(query)


@lru_cache(maxsize=256)
def _curve(kind: StandIn, gpu: Gpu, limits_watts: tuple[float, ...]) -> tuple[float, ...]:
    """Speed at each power limit, over that at the card's own."""
    query, workload = _asked(kind, gpu)
    return power_curve(workload, query.gpus[0], query.run, limits_watts, query.batch)


def _step_s(workload: Workload, gpu: Gpu, run: Run, batch: int | None) -> float:
    return float(predict_steps(workload, [gpu], run, [batch or workload.batch], by_kind=False).step_s[0, 0])


def lane_costs(link: CardLink, count: int, limit_watts: float | None) -> tuple[LaneCost, ...]:
    """What this link costs training on `count` GPUs of one kind: inputs come over it, and gradients where there are several."""
    gpu = link.gpu
    own_generation, own_lanes = gpu.pcie_generation or link.generation, gpu.pcie_lanes or 16
    wide = find_link(f"PCIe {own_generation}.0 x16")
    full_rate = wide.bytes_per_s_one_way * wide.achieved_fraction * own_lanes / 16
    costs = []
    for kind in KINDS:
        if kind.mode != "train":
            continue
        query, workload = _asked(kind, gpu)

        def step_s(rate: float, generation: int, lanes: int, query: StepQuery = query, workload: Workload = workload) -> float:
            between = f"PCIe {generation}.0 x{max(width for width in _WIDTHS if width <= max(1, lanes))}"
            run = replace(
                query.run,
                setting=replace(query.run.setting, link_bytes_per_s=rate),
                gpu_count=count,
                gpu_link=between if count > 1 else "",
                power_limit_watts=limit_watts,
            )
            return _step_s(workload, gpu, run, query.batch)

        narrow = step_s(link.bytes_per_s, link.generation, int(link.lanes / link.shared))
        slower = narrow / step_s(full_rate, own_generation, own_lanes) - 1.0
        costs.append(LaneCost(kind=kind.name, gpu_count=count, lanes=link.lanes, slower_fraction=max(0.0, slower)))
    return tuple(costs)


def images_per_s_of(gpu: Gpu, limit_watts: float | None) -> float:
    """Images a second that one GPU trains on, of the CNN among the kinds."""
    query, workload = _asked(KINDS[0], gpu)
    run = replace(query.run, power_limit_watts=limit_watts)
    return KINDS[0].batch / _step_s(workload, query.gpus[0], run, query.batch)
