"""Checks cards in a machine, with the cost of each remedy in speed, for `build` and for the options of `which`.

The cost of a power limit and of narrow lanes is computed for three kinds of work that represent the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuwise.advise.jobs import StandIn, stand_ins
from gpuwise.box.checks import CardLink, card_links, check_cards, cooler_of, placed, thickness
from gpuwise.box.parts import is_card
from gpuwise.box.power import deepest_losses, least_limit, measured_losses
from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.core.text import both
from gpuwise.hardware.machines import find_host, find_link, loaders
from gpuwise.hardware.types import Gpu
from gpuwise.prediction import Run, predict_steps
from gpuwise.prediction.steps import power_curve
from gpuwise.questions.common.step import StepQuery, step_query, workload_of
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.step.time.setting import images_per_s
from gpuwise.workload.model.types import Workload

__all__ = [
    "KINDS",
    "CheckedMachine",
    "LaneCost",
    "PowerLimit",
    "check_machine",
    "images_per_s_of",
    "is_geforce",
    "lane_costs",
    "power_limits",
    "speed_cost",
]

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
_STEP_WATTS = 5
_WIDTHS = (1, 4, 8, 16)  # lanes


KINDS = stand_ins("machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLimit:
    """A GPU with a power limit in watts; its speed by kind of work, relative to that at its own limit; for GeForce cards, also
    the lowest and highest share of their speed that such cards were measured to keep, over all kinds of work.
    """

    gpu: str
    watts: float
    relative_speed: Mapping[str, float]
    measured_speed: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCost:
    """How much longer a training step takes than with all lanes of the card, as a fraction."""

    kind: str
    gpu_count: int
    lanes: int
    slower_fraction: float


def power_limits(cards: Cards, further: Sequence[float] = ()) -> tuple[PowerLimit, ...]:
    """Return the power-limit curve of one GPU, high to low, including further limits. Empty if its power is not known."""
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
        PowerLimit(
            gpu=cards.gpu.name,
            watts=watts,
            relative_speed={name: float(speed[place]) for name, speed in speeds.items()},
            measured_speed=_measured_speed(cards.gpu, watts / rated),
        )
        for place, watts in enumerate(kept)
    )


def _measured_speed(gpu: Gpu, share: float) -> tuple[float, float] | None:
    lost = measured_losses(share) if is_geforce(gpu) else {}
    return (1 - max(most for _, most in lost.values()), 1 - min(least for least, _ in lost.values())) if lost else None


@lru_cache(maxsize=64)
def _asked(kind: StandIn, gpu: Gpu) -> tuple[StepQuery, Workload]:
    """The work on this GPU; cached, because a page repeatedly asks about the same GPU with another power supply."""
    query = step_query(StepOptions(kind.model, mode=kind.mode, batch=kind.batch, phase=kind.phase), gpus=[gpu])
    return query, workload_of(query)


@lru_cache(maxsize=256)
def _curve(kind: StandIn, gpu: Gpu, limits_watts: tuple[float, ...]) -> tuple[float, ...]:
    """Speed at each power limit, over that at the card's own."""
    query, workload = _asked(kind, gpu)
    return power_curve(workload, query.gpus[0], query.run, limits_watts, query.batch)


def _step_s(workload: Workload, gpu: Gpu, run: Run, batch: int | None) -> float:
    return float(predict_steps(workload, [gpu], run, [batch or workload.batch], by_kind=False).step_s[0, 0])


@lru_cache(maxsize=256)
def lane_costs(link: CardLink, count: int, limit_watts: float | None) -> tuple[LaneCost, ...]:
    """Return the cost of this link for training on `count` GPUs of one kind: it carries inputs and, with several GPUs,
    gradients.
    """
    gpu = link.gpu
    own_generation, own_lanes = gpu.pcie_generation or link.generation, gpu.pcie_lanes or 16
    if (link.generation, link.lanes, link.shared) == (own_generation, own_lanes, 1.0):  # the same step twice
        kinds = [kind.name for kind in KINDS if kind.mode == "train"]
        return tuple(LaneCost(kind=kind, gpu_count=count, lanes=link.lanes, slower_fraction=0.0) for kind in kinds)
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


@lru_cache(maxsize=256)
def images_per_s_of(gpu: Gpu, limit_watts: float | None) -> float:
    """Return the images per second that one GPU trains on, for the CNN among the kinds."""
    query, workload = _asked(KINDS[0], gpu)
    run = replace(query.run, power_limit_watts=limit_watts)
    return KINDS[0].batch / _step_s(workload, query.gpus[0], run, query.batch)


# ---------------------------------------------------------------- the checks, with what their remedies cost

_NOTICED, _MUCH = 0.005, 0.1  # of a step
_HARDLY = 0.02  # of the speed: less is hardly any
_THICKEST = 4  # slots that an air-cooled card takes
_WORDS = {2: "two", 3: "three", 4: "four"}
_LARGE_WATTS = 300.0  # above which partners use larger coolers than the launch model, assumed
_FEW_CORES = 8  # of a desktop; a machine with more is a workstation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMachine:
    """A line for each check, the speed of its cards by power limit, and the cost of narrow lanes. `real` are the parts that
    are cards: a module has its own machine.
    """

    lines: tuple[CheckLine, ...]
    limits: tuple[PowerLimit, ...]
    lane_costs: tuple[LaneCost, ...]
    real: tuple[Cards, ...]


def check_machine(cards: Sequence[Cards], box: Box, *, curve: bool = True) -> CheckedMachine:
    """Return the checks, with the cost of their remedies in speed; without `curve`, only power limits that a check names."""
    lines = check_cards(tuple(cards), box)
    real = tuple(each for each in cards if is_card(each.gpu))
    wanted = {line.power_limit_watts for line in lines} | {box.power_limit_watts}
    named = [watts for watts in wanted if watts is not None]
    limits = tuple(point for each in real for point in power_limits(each, named)) if curve or named else ()
    costs = _lane_costs(box, real)
    if real:
        lines = tuple(_with_thicker(line, box, real) if line.check == "slots" else line for line in lines)
        lines = (*(_with_cost(line, limits, costs, real) for line in lines), _loader(box, real))
    return CheckedMachine(lines=lines, limits=limits, lane_costs=costs, real=real)


def _with_thicker(line: CheckLine, box: Box, real: Sequence[Cards]) -> CheckLine:
    """Say how thick the cards may be, because partner cards are often thicker than the launch model in the catalogue. With cards
    that draw much power, for which most partners use larger coolers, the line is tight if those would not fit.
    """
    if box.card_slots or box.cooler or box.riser or line.verdict != "pass":
        return line
    open_air = [each.gpu for each in real if cooler_of(each.gpu, box) == "open-air" and each.gpu.segment == "desktop"]
    widths = [(each.gpu, thickness(each.gpu, None)) for each in real for _ in range(each.count)]
    for slots in range(1 + max((width for gpu, width in widths if gpu in open_air), default=_THICKEST), 1 + _THICKEST):
        if placed([max(width, slots) if gpu in open_air else width for gpu, width in widths], box.board, box.case_slots) is None:
            thicker = f"{_WORDS[slots]}-slot cards would not fit"
            text = f"{line.text}; partner cards are often thicker than the launch model, and {thicker}"
            if max(gpu.tdp_watts or 0.0 for gpu in open_air) < _LARGE_WATTS:
                return replace(line, text=text)
            remedy = "check how thick your cards are, or use risers or a frame"
            return replace(line, verdict="tight", text=text, remedy=remedy)
    return line


def _lane_costs(box: Box, real: Sequence[Cards]) -> tuple[LaneCost, ...]:
    """Return the cost of the narrowest link, unless cards differ, because then the slowest card also delays the others."""
    links = card_links(real, box) if real else ()
    if len(real) != 1 or len(links) < real[0].count:
        return ()
    narrow: CardLink = min(links, key=lambda link: link.bytes_per_s)
    return lane_costs(narrow, len(links), box.power_limit_watts)


def is_geforce(gpu: Gpu) -> bool:
    """Whether this is a card for games, whose losses at power limits differ from those of cards for work."""
    return gpu.vendor == "NVIDIA" and gpu.segment in ("desktop", "laptop")


def _with_cost(line: CheckLine, limits: Sequence[PowerLimit], costs: Sequence[LaneCost], real: Sequence[Cards]) -> CheckLine:
    """Return the line with the cost of its remedy in speed."""
    if line.check == "lanes" and costs:
        return _priced_lanes(line, costs)
    if line.power_limit_watts is None:
        return line
    return replace(line, remedy=f"{line.remedy}, which costs {_speed_cost(limits, line.power_limit_watts, real)}")


def _priced_lanes(line: CheckLine, costs: Sequence[LaneCost]) -> CheckLine:
    """Fail lanes so narrow that a step takes much longer."""
    most = max(cost.slower_fraction for cost in costs)
    if most < _NOTICED:
        return replace(line, text=f"{line.text}; training is as fast as at full link width")
    noticed = [cost for cost in costs if cost.slower_fraction >= _NOTICED]
    shown = " and ".join(f"{_title(cost.kind)} {_longer(cost.slower_fraction)}" for cost in noticed)
    line = replace(line, text=f"{line.text}; compared with the full link width, {shown}")
    if line.verdict != "pass" or most <= _MUCH:
        return line
    return replace(line, verdict="tight", remedy="use larger batches, accumulate gradients, or use a platform with more lanes")


def speed_cost(cards: Sequence[Cards], watts: float) -> str:
    """Return what a power limit for each of these cards costs, in words."""
    return _speed_cost([point for each in cards for point in power_limits(each, [watts])], watts, cards)


def _speed_cost(limits: Sequence[PowerLimit], watts: float, real: Sequence[Cards]) -> str:
    """Return the cost of a power limit: what GeForce cards were measured to lose, or for other cards and lower limits, what the
    model predicts, as a range over kinds of work and cards.
    """
    speeds = [speed for point in limits if point.watts == watts for speed in point.relative_speed.values()]
    if not speeds:
        return "no speed, because the cards draw less power"
    shares = [watts / each.gpu.tdp_watts for each in real if is_geforce(each.gpu) and each.gpu.tdp_watts]
    lost = measured_losses(min(shares)) if shares else {}
    if lost:
        return _measured_cost(lost)
    predicted = (
        "hardly any speed (predicted"
        if 1 - min(speeds) < _HARDLY
        else f"{_span(1 - max(speeds), 1 - min(speeds))} of the speed (predicted"
    )
    return f"{predicted}; GeForce cards lose more, but none was measured at so low a limit)" if shares else f"{predicted})"


def _measured_cost(lost: Mapping[str, tuple[float, float]]) -> str:
    """Return the loss of speed by kind of work, and a lower bound for kinds that were not measured at limits so low."""
    beyond = {work: loss for work, loss in deepest_losses().items() if work not in lost}
    if not beyond and max(most for _, most in lost.values()) < _HARDLY:
        return "hardly any speed (measured on GeForce cards)"
    told = [(_span(least, most), work) for work, (least, most) in lost.items()]
    told += [(f"more than {_percent(loss)}", work) for work, loss in beyond.items()]
    (much, work), *others = told
    losses = both([f"{much} of the speed in {work}", *(f"{much} in {work}" for much, work in others)])
    return f"{losses} (measured on GeForce cards)"


def _span(least: float, most: float) -> str:
    low, high = _percent(least), _percent(most)
    return high if low == high else f"{low.removesuffix('%')} to {high}"


def _percent(fraction: float) -> str:
    return f"{max(0.0, fraction):.0%}"


def _longer(fraction: float) -> str:
    return f"takes {1 + fraction:.1f} times as long" if fraction >= 1 else f"takes {_percent(fraction)} longer"


def _title(name: str) -> str:
    return next(kind.title for kind in KINDS if kind.name == name)


def _loader(box: Box, real: Sequence[Cards]) -> CheckLine:
    """Check whether the cores decode images as fast as the GPUs train on them. At worst the result is tight: other data needs
    less.
    """
    processes = sum(each.count * each.gpu.devices_per_board for each in real)  # each GPU has one, and its share of cores
    wanted = sum(each.count * each.gpu.devices_per_board * images_per_s_of(each.gpu, box.power_limit_watts) for each in real)
    host = find_host(box.host or ("desktop" if box.core_count <= _FEW_CORES else "workstation"))
    rate = processes * images_per_s(loaders()["pillow"], host, box.core_count / processes)
    users = "one training process" if processes == 1 else f"{processes} training processes"
    cores = "one core can" if box.core_count == 1 else f"{box.core_count} cores can"
    text = f"{cores} decode {rate:,.0f} JPEG images/s for {users}; training resnet50 needs {wanted:,.0f} images/s"
    if rate < wanted:
        text += f", so training takes {wanted / rate:.1f} times as long"
    remedy = (
        "" if rate >= wanted else "store smaller images, decode on the GPU, or use more cores; text data needs far less CPU time"
    )
    verdict = "pass" if rate >= wanted else "tight"
    return CheckLine(check="loader", verdict=verdict, value=rate, limit=wanted, unit="images/s", text=text, remedy=remedy)
