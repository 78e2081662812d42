"""Will these GPUs work in that machine? Every part that was not named is assumed, and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from gpuwise.api.building_parts import BuildQuery, build_query
from gpuwise.api.building_speed import KINDS, LaneCost, PowerLimit, images_per_s_of, lane_costs, power_limits
from gpuwise.api.showing import Shown
from gpuwise.box.checks import check_cards, worst
from gpuwise.box.form import is_card
from gpuwise.box.lanes import CardLink, card_links
from gpuwise.box.power import card_watts
from gpuwise.box.types import Cards, Line
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.machines import find_host, loaders
from gpuwise.step.time.loading import images_per_s

__all__ = ["BuildAnswer", "build", "build_query"]

_FELT, _MUCH = 0.005, 0.1  # of a step
_FEW_CORES = 8  # of a desktop; a machine with more is a workstation


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildAnswer(Shown):
    """All checks, the worst of their verdicts, and what holding the GPUs back would cost."""

    cards: tuple[Cards, ...]
    lines: tuple[Line, ...]
    verdict: str
    power_limits: tuple[PowerLimit, ...]
    lane_costs: tuple[LaneCost, ...]
    power_limit_watts: float | None
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "gpus": [
                {"gpu": each.gpu.name, "count": each.count, "card_watts": card_watts(each.gpu, self.power_limit_watts)}
                for each in self.cards
            ],
            "lines": [asdict(line) for line in self.lines],
            "verdict": self.verdict,
            "power_limits": [asdict(limit) for limit in self.power_limits],
            "lane_costs": [asdict(cost) for cost in self.lane_costs],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def build(query: BuildQuery) -> BuildAnswer:
    """The checks, with what their remedies cost in speed."""
    lines = check_cards(query.cards, query.box)
    real = [(typed, cards) for typed, cards in zip(query.typed, query.cards, strict=True) if is_card(cards.gpu)]
    wanted = {line.power_limit_watts for line in lines} | {query.box.power_limit_watts}
    named = [watts for watts in wanted if watts is not None]
    limits = tuple(point for typed, cards in dict(real).items() for point in power_limits(typed, cards, named))
    costs = _lane_costs(query, real)
    if real:
        lines = (*(_told(line, limits, costs) for line in lines), _loader(query, real))
    return BuildAnswer(
        cards=query.cards,
        lines=lines,
        verdict=worst(lines),
        power_limits=limits,
        lane_costs=costs,
        power_limit_watts=query.box.power_limit_watts,
        assumptions=(*query.assumptions, *_speed_notes()) if real else _names_only(query.assumptions),
        data_date=tables.data_date(),
    )


def _lane_costs(query: BuildQuery, real: Sequence[tuple[str, Cards]]) -> tuple[LaneCost, ...]:
    """Of the narrowest link; not where cards differ, for then the slowest card holds the others up as well."""
    links = card_links([cards for _, cards in real], query.box) if real else ()
    if len(real) != 1 or len(links) < real[0][1].count:
        return ()
    narrow: CardLink = min(links, key=lambda link: link.bytes_per_s)
    return lane_costs(real[0][0], narrow, len(links), query.box.power_limit_watts)


def _told(line: Line, limits: Sequence[PowerLimit], costs: Sequence[LaneCost]) -> Line:
    """A line with the price of what it says."""
    if line.check == "lanes" and costs:
        return _priced_lanes(line, costs)
    if line.power_limit_watts is None:
        return line
    return replace(line, remedy=f"{line.remedy}, which costs {_speed_cost(limits, line.power_limit_watts)}")


def _priced_lanes(line: Line, costs: Sequence[LaneCost]) -> Line:
    """A step that narrow lanes make much longer is no pass."""
    most = max(cost.slower_fraction for cost in costs)
    if most < _FELT:
        return replace(line, text=f"{line.text}; training is as fast as with all lanes of the card")
    felt = [cost for cost in costs if cost.slower_fraction >= _FELT]
    shown = " and ".join(f"{_title(cost.kind)} {_longer(cost.slower_fraction)}" for cost in felt)
    line = replace(line, text=f"{line.text}; against all lanes of the card {shown}")
    if line.verdict != "pass" or most <= _MUCH:
        return line
    return replace(line, verdict="tight", remedy="larger batches or accumulated gradients; or a platform with more lanes")


def _speed_cost(limits: Sequence[PowerLimit], watts: float) -> str:
    """What a limit costs, as a range over kinds of work and cards."""
    speeds = [speed for point in limits if point.watts == watts for speed in point.relative_speed.values()]
    if not speeds:
        return "nothing: the cards draw less"
    if 1 - min(speeds) < _FELT:
        return "little speed, as far as the power law tells"
    least, most = _percent(1 - max(speeds)), _percent(1 - min(speeds))
    return (
        f"at least {most} of speed"
        if least == most
        else f"{least.removesuffix(' %')} to {most} of speed, GeForce cards perhaps more"
    )


def _percent(fraction: float) -> str:
    return f"{100 * max(0.0, fraction):.0f} %"


def _longer(fraction: float) -> str:
    return f"takes {1 + fraction:.1f} times as long" if fraction >= 1 else f"takes {_percent(fraction)} longer"


def _title(name: str) -> str:
    return next(kind.title for kind in KINDS if kind.name == name)


def _loader(query: BuildQuery, real: Sequence[tuple[str, Cards]]) -> Line:
    """Whether the cores decode images as fast as the GPUs train on them. Only tight: other data needs less."""
    box = query.box
    processes = sum(cards.count * cards.gpu.devices_per_board for _, cards in real)  # each GPU has one, and its share of cores
    wanted = sum(
        cards.count * cards.gpu.devices_per_board * images_per_s_of(typed, box.power_limit_watts) for typed, cards in real
    )
    host = find_host("desktop" if box.core_count <= _FEW_CORES else "workstation")
    rate = processes * images_per_s(loaders()["pillow"], host, box.core_count / processes)
    text = f"{box.core_count} cores decode {rate:,.0f} JPEG images/s; the GPUs train resnet50 on {wanted:,.0f}/s"
    remedy = "" if rate >= wanted else "smaller images on disk, decoding on the GPU, or more cores; text and tokens need far less"
    verdict = "pass" if rate >= wanted else "tight"
    return Line(check="loader", verdict=verdict, value=rate, limit=wanted, unit="images/s", text=text, remedy=remedy)


def _names_only(notes: Sequence[Assumption]) -> tuple[Assumption, ...]:
    """What matters where nothing could be put into the box."""
    return tuple(note for note in notes if note.code == "gpu_name")


def _speed_notes() -> tuple[Assumption, ...]:
    kinds = "; ".join(f"{kind.title}: {kind.model}, batch {kind.batch}" for kind in KINDS)
    return (
        assumed("kinds of work", kinds, "speeds at power limits and with fewer lanes are of these"),
        assumed("bridges", "no NVLink bridge", "a bridge is bought apart; gradients of several GPUs go over PCIe"),
        assumed("power law", "fitted on V100, P100 and Quadro RTX 6000", "GeForce cards were measured to lose up to 12 % more"),
    )
