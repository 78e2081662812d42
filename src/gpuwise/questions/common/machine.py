"""Cards in a machine, checked, with what each remedy costs in speed: for `build`, and for the options of `which`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.box.checks import check_cards
from gpuwise.box.form import is_card
from gpuwise.box.lanes import CardLink, card_links
from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.hardware.machines import find_host, loaders
from gpuwise.questions.common.machine_speed import KINDS, LaneCost, PowerLimit, images_per_s_of, lane_costs, power_limits
from gpuwise.step.time.setting import images_per_s

__all__ = ["CheckedMachine", "check_machine"]

_NOTICED, _MUCH = 0.005, 0.1  # of a step
_FEW_CORES = 8  # of a desktop; a machine with more is a workstation


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMachine:
    """A line for each check, the speed of its cards by power limit, and what narrow lanes cost. `real` are the parts that are
    cards: a module has a machine of its own."""

    lines: tuple[CheckLine, ...]
    limits: tuple[PowerLimit, ...]
    lane_costs: tuple[LaneCost, ...]
    real: tuple[Cards, ...]


def check_machine(cards: Sequence[Cards], box: Box) -> CheckedMachine:
    """The checks, with what their remedies cost in speed."""
    lines = check_cards(tuple(cards), box)
    real = tuple(each for each in cards if is_card(each.gpu))
    wanted = {line.power_limit_watts for line in lines} | {box.power_limit_watts}
    named = [watts for watts in wanted if watts is not None]
    limits = tuple(point for each in real for point in power_limits(each, named))
    costs = _lane_costs(box, real)
    if real:
        lines = (*(_with_cost(line, limits, costs) for line in lines), _loader(box, real))
    return CheckedMachine(lines=lines, limits=limits, lane_costs=costs, real=real)


def _lane_costs(box: Box, real: Sequence[Cards]) -> tuple[LaneCost, ...]:
    """Of the narrowest link; not where cards differ, for then the slowest card holds the others up as well."""
    links = card_links(real, box) if real else ()
    if len(real) != 1 or len(links) < real[0].count:
        return ()
    narrow: CardLink = min(links, key=lambda link: link.bytes_per_s)
    return lane_costs(narrow, len(links), box.power_limit_watts)


def _with_cost(line: CheckLine, limits: Sequence[PowerLimit], costs: Sequence[LaneCost]) -> CheckLine:
    """The line with what its remedy costs in speed."""
    if line.check == "lanes" and costs:
        return _priced_lanes(line, costs)
    if line.power_limit_watts is None:
        return line
    return replace(line, remedy=f"{line.remedy}, which costs {_speed_cost(limits, line.power_limit_watts)}")


def _priced_lanes(line: CheckLine, costs: Sequence[LaneCost]) -> CheckLine:
    """Lanes so narrow that a step takes much longer do not pass."""
    most = max(cost.slower_fraction for cost in costs)
    if most < _NOTICED:
        return replace(line, text=f"{line.text}; training is as fast as at the full width of the card")
    noticed = [cost for cost in costs if cost.slower_fraction >= _NOTICED]
    shown = " and ".join(f"{_title(cost.kind)} {_longer(cost.slower_fraction)}" for cost in noticed)
    line = replace(line, text=f"{line.text}; compared with the full width of the card {shown}")
    if line.verdict != "pass" or most <= _MUCH:
        return line
    return replace(line, verdict="tight", remedy="larger batches or accumulated gradients; or a platform with more lanes")


def _speed_cost(limits: Sequence[PowerLimit], watts: float) -> str:
    """What a power limit costs, as a range over kinds of work and cards."""
    speeds = [speed for point in limits if point.watts == watts for speed in point.relative_speed.values()]
    if not speeds:
        return "nothing: the cards draw less"
    if 1 - min(speeds) < _NOTICED:
        return "little speed according to the power law"
    least, most = _percent(1 - max(speeds)), _percent(1 - min(speeds))
    return (
        f"at least {most} of speed"
        if least == most
        else f"{least.removesuffix(' %')} to {most} of speed (GeForce cards perhaps more)"
    )


def _percent(fraction: float) -> str:
    return f"{100 * max(0.0, fraction):.0f} %"


def _longer(fraction: float) -> str:
    return f"takes {1 + fraction:.1f} times as long" if fraction >= 1 else f"takes {_percent(fraction)} longer"


def _title(name: str) -> str:
    return next(kind.title for kind in KINDS if kind.name == name)


def _loader(box: Box, real: Sequence[Cards]) -> CheckLine:
    """Whether the cores decode images as fast as the GPUs train on them. Only tight: other data needs less."""
    processes = sum(each.count * each.gpu.devices_per_board for each in real)  # each GPU has one, and its share of cores
    wanted = sum(each.count * each.gpu.devices_per_board * images_per_s_of(each.gpu, box.power_limit_watts) for each in real)
    host = find_host("desktop" if box.core_count <= _FEW_CORES else "workstation")
    rate = processes * images_per_s(loaders()["pillow"], host, box.core_count / processes)
    text = f"{box.core_count} cores decode {rate:,.0f} JPEG images/s; the GPUs train resnet50 on {wanted:,.0f}/s"
    remedy = "" if rate >= wanted else "smaller images on disk, decoding on the GPU, or more cores; text and tokens need far less"
    verdict = "pass" if rate >= wanted else "tight"
    return CheckLine(check="loader", verdict=verdict, value=rate, limit=wanted, unit="images/s", text=text, remedy=remedy)
