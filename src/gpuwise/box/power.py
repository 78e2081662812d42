"""Checks power: what the cards, the CPU and the rest draw, compared with the power supply, its plugs and the wall socket.

The sustained load is the sum of the limits. For 100 µs, a card can draw a multiple of its limit. Cards do so independently, so
their excesses add as the root of the sum of squares (assumed).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpuwise.box.parts import efficiencies, excursions, load_shares, plugs, power_curves, psu_sizes, psu_standards
from gpuwise.box.types import Box, Cards, CheckLine, Outlet, PsuSize
from gpuwise.core.text import both, counted
from gpuwise.hardware.types import Gpu

__all__ = [
    "card_watts",
    "connector_lines",
    "continuous_watts",
    "deepest_losses",
    "efficiency",
    "failing",
    "fitting_limit",
    "highest_limit",
    "least_limit",
    "load_watts",
    "measured_losses",
    "mended",
    "outlet_lines",
    "peak_watts",
    "plugs_of",
    "power_lines",
    "smallest_psu",
    "wall_watts",
]

_STEP_WATTS = 5  # power limits are proposed in these steps
_MOST_AT_LOW_VOLTS, _HIGH_VOLTS = 1600.0, 200.0  # larger supplies need 200 V or more
_SOLD_NOW = 3  # the ATX standard of new supplies
_REAL_LIMIT = 0.97  # share of the rated power: the load that a supply can bear is not known more precisely
_LEAST_POWER = 0.2  # share of the rated power, if the lowest limit is not published


def card_watts(gpu: Gpu, limit_watts: float | None = None) -> float | None:
    """Return the sustained power of one card with all its devices, or None if its maker does not publish it."""
    if gpu.tdp_watts is None:
        return None if limit_watts is None else limit_watts * gpu.devices_per_board
    held = gpu.tdp_watts if limit_watts is None else min(gpu.tdp_watts, limit_watts)
    return held * gpu.devices_per_board


def load_watts(cards: Sequence[Cards], box: Box) -> float:
    """Return the sustained load on the supply. Cards of unknown power count as zero; `power_lines` names them."""
    gpus = sum(each.count * (card_watts(each.gpu, box.power_limit_watts) or 0.0) for each in cards)
    return gpus + box.cpu_watts + box.rest_watts


def peak_watts(cards: Sequence[Cards], box: Box) -> float:
    """Return the load on the supply for about 100 µs."""
    excess = [(each.count, (_excursion(each.gpu) - 1.0) * (card_watts(each.gpu, box.power_limit_watts) or 0.0)) for each in cards]
    return load_watts(cards, box) + math.sqrt(sum(count * watts**2 for count, watts in excess))


def _excursion(gpu: Gpu) -> float:
    known = excursions()
    return known.get(gpu.architecture.generation.lower(), known["default"]).factor


def smallest_psu(cards: Sequence[Cards], box: Box) -> float | None:
    """Return the smallest ATX 3 supply sold with which both checks pass, or None if there is none."""
    load, peak = load_watts(cards, box), peak_watts(cards, box)
    share, bears = load_shares()[0], psu_standards()[_SOLD_NOW].safe_fraction
    return next((size.watts for size in psu_sizes() if load / size.watts <= share and peak / size.watts <= bears), None)


def fitting_limit(cards: Sequence[Cards], box: Box) -> float | None:
    """Return the highest power limit per device at which the supply does not fail. None if no limit helps, or if the limit is so
    close to the rated power that the supply would still be close to failing.
    """

    def fits(held: Box) -> bool:
        psu, most = held.psu_watts or math.inf, psu_standards()[held.psu_standard].most_fraction
        return load_watts(cards, held) / psu <= load_shares()[1] and peak_watts(cards, held) / psu <= most

    limit = highest_limit(cards, box, fits)
    rated = max((each.gpu.tdp_watts or 0.0 for each in cards), default=0.0)
    return limit if limit is not None and limit <= _REAL_LIMIT * rated else None


def highest_limit(cards: Sequence[Cards], box: Box, works: Callable[[Box], bool]) -> float | None:
    """Return the highest power limit per device, in steps of 5 W, with which the box works, or None if no limit helps.

    A box that works at one limit works at every lower one.
    """
    rated = max((each.gpu.tdp_watts or 0.0 for each in cards), default=0.0)
    lowest = max((least_limit(each) for each in cards), default=0.0)
    limits = range(_STEP_WATTS * int(rated // _STEP_WATTS), max(1, math.ceil(lowest)) - 1, -_STEP_WATTS)
    place = bisect_left(limits, True, key=lambda limit: works(replace(box, power_limit_watts=float(limit))))
    return float(limits[place]) if place < len(limits) else None


def least_limit(cards: Cards) -> float:
    """Return the lowest limit that can be set on a card."""
    return cards.gpu.power_min_watts or _LEAST_POWER * (cards.gpu.tdp_watts or 0.0)


def power_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Compare sustained load and power spikes with the supply."""
    unknown = [each.gpu.name for each in cards if card_watts(each.gpu, box.power_limit_watts) is None]
    if unknown:
        text = "no power rating is published for " + " and ".join(f"the {name}" for name in unknown)
        return (_line("psu", "tight", None, box.psu_watts, text, "set one with `--power-limit 250`"),)
    size = smallest_psu(cards, box)
    psu = box.psu_watts or size
    if psu is None:
        largest, share = psu_sizes()[-1].watts, load_shares()[0]
        text = (
            f"a sustained load of {load_watts(cards, box):,.0f} W is more than {share:.0%} of the largest power supply "
            f"({largest:,.0f} W)"
        )
        remedy = "use two power supplies or two machines"
        return (_line("psu", "fail", load_watts(cards, box), share * largest, text, remedy),)
    return (_check_sustained(cards, box, psu, size), _check_transient(cards, box, psu, size))


def _check_sustained(cards: Sequence[Cards], box: Box, psu: float, size: float | None) -> CheckLine:
    load = load_watts(cards, box)
    verdict = _grade(load / psu, *load_shares())
    parts = [f"{each.count} × {card_watts(each.gpu, box.power_limit_watts):.0f} W" for each in cards]
    text = f"the sustained load of {load:,.0f} W ({' + '.join(parts)}, CPU {box.cpu_watts:.0f} W, rest {box.rest_watts:.0f} W)"
    text += f" is {load / psu:.0%} of {psu:,.0f} W" if box.psu_watts else f" needs a {psu:,.0f} W power supply"
    return _with_remedy(_line("psu", verdict, load, psu, text), cards, box, size)


def _check_transient(cards: Sequence[Cards], box: Box, psu: float, size: float | None) -> CheckLine:
    peak, standard = peak_watts(cards, box), psu_standards()[box.psu_standard]
    verdict = _grade(peak / psu, standard.safe_fraction, standard.most_fraction)
    bears = standard.safe_fraction * psu
    guaranteed = f"an ATX {box.psu_standard} supply is guaranteed to deliver {bears / psu:.0%}"
    if standard.most_fraction > standard.safe_fraction:
        guaranteed += f" and is assumed to shut down near {standard.most_fraction:.0%}"
    text = f"100 µs spikes of {peak:,.0f} W are {peak / psu:.0%} of the power supply's rating; {guaranteed}"
    return _with_remedy(_line("transients", verdict, peak, bears, text), cards, box, size)


def _with_remedy(line: CheckLine, cards: Sequence[Cards], box: Box, size: float | None) -> CheckLine:
    if line.verdict == "pass":
        return line
    bigger = f"use an ATX 3 power supply of {size:,.0f} W or more{_high_volts(size, box)}" if size else "use two power supplies"
    limit = fitting_limit(cards, box) if line.verdict == "fail" else None
    remedy = f"{bigger}, or limit {_each(cards)} to {limit:.0f} W" if limit else bigger
    return replace(line, remedy=remedy, power_limit_watts=limit)


def _high_volts(size: float, box: Box) -> str:
    return " at 230 V" if size > _MOST_AT_LOW_VOLTS and box.outlet.volts < _HIGH_VOLTS else ""


def _grade(share: float, good: float, most: float) -> str:
    return "pass" if share <= good else "tight" if share <= most else "fail"


def _line(check: str, verdict: str, value: float | None, limit: float | None, text: str, remedy: str = "") -> CheckLine:
    return CheckLine(check=check, verdict=verdict, value=value, limit=limit, unit="W", text=text, remedy=remedy)


# ---------------------------------------------------------------- plugs: those needed, and those of a typical supply

_SLOT_WATTS = 75.0  # watts that a PCIe slot delivers; a card that draws more has plugs
_ADAPTED = ("12-pin", "16-pin", "EPS")
_ADAPTER_WATTS = 150.0  # the power of each 8-pin plug that an adapter to 16-pin needs


def plugs_of(text: str) -> Mapping[str, int]:
    """Parse the plugs of a card as the catalogue lists them.

    >>> dict(plugs_of("1x 6-pin + 2x 8-pin"))
    {'6-pin': 1, '8-pin': 2}
    """
    found: Counter[str] = Counter()
    for part in text.split("+"):
        match = re.fullmatch(r"\s*(?:(\d+)x\s*)?(\d+-pin)(\s+EPS)?\s*", part)
        if match:
            found["EPS" if match[3] else match[2]] += int(match[1] or 1)
    return found


def connector_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Check that the supply has the plugs. Cards with 16-pin plugs use those of an ATX 3 supply first, then adapters."""
    watts = box.psu_watts or smallest_psu(cards, box)
    if watts is None:
        return ()
    size = _nearest(watts)
    native = size.sixteen_pin if box.psu_standard >= 3 else 0
    direct, needed, adapters = 0, 0, 0
    for each in cards:
        for plug, count in plugs_of(each.gpu.power_connectors).items():
            total = count * each.count
            if plug == "16-pin":
                straight = min(native - direct, total)
                direct, total = direct + straight, total - straight
                needed += total * max(2, math.ceil((card_watts(each.gpu) or 0.0) / _ADAPTER_WATTS))
            else:
                needed += total * plugs()[plug].eight_pin
            adapters += total if plug in _ADAPTED else 0
    return (_plug_line(cards, size, direct, needed, adapters),)


def _has_unknown_plugs(each: Cards) -> bool:
    """Return whether a card must have plugs that are not published."""
    return not each.gpu.power_connectors and (card_watts(each.gpu) or 0.0) > _SLOT_WATTS


def _nearest(watts: float) -> PsuSize:
    """Return the largest size that is not above this one."""
    return max((size for size in psu_sizes() if size.watts <= watts), key=lambda size: size.watts, default=psu_sizes()[0])


def _each(cards: Sequence[Cards]) -> str:
    return "the GPU" if sum(each.count for each in cards) == 1 else "each GPU"


def _of_plugs(used: int, has: int, kind: str) -> str:
    if used == has:
        return f"the only {kind} plug" if has == 1 else f"both {kind} plugs" if has == 2 else f"all {has} {kind} plugs"
    return f"{used} of the {has} {kind} plugs"


def _plug_line(cards: Sequence[Cards], size: PsuSize, direct: int, needed: int, adapters: int) -> CheckLine:
    has = size.eight_pin
    unknown = any(_has_unknown_plugs(each) for each in cards)
    verdict = "fail" if needed > has else "tight" if adapters or unknown else "pass"
    wants = "; ".join(f"{each.gpu.name}: {_describe_plugs(each.gpu.power_connectors)}" for each in cards)
    used = [_of_plugs(direct, size.sixteen_pin, "sixteen-pin")] if direct else []
    used += [_of_plugs(needed, has, "eight-pin")] if needed or not direct else []
    alone = sum(each.count for each in cards) == 1
    text = f"{'the card uses' if alone else 'the cards use'} {both(used)} of a typical {size.watts:,.0f} W power supply ({wants})"
    if needed > has:
        besides = f"besides {counted(direct, 'sixteen-pin plug')}, " if direct else ""
        short = f"{counted(needed, 'eight-pin plug')}, but a typical {size.watts:,.0f} W supply has {has}"
        text = f"{besides}{'the card needs' if alone else 'the cards need'} {short} ({wants})"
    remedy = {
        "pass": "",
        "tight": _remedy_for_plugs(adapters, unknown),
        "fail": "use a power supply with more plugs; never power a card above 225 W from two plugs on the same cable",
    }[verdict]
    return CheckLine(check="connectors", verdict=verdict, value=needed, limit=has, unit="8-pin", text=text, remedy=remedy)


def _remedy_for_plugs(adapters: int, unknown: bool) -> str:
    look = "check the plugs on the card, because they are not published"
    adapt = f"use {counted(adapters, 'adapter')} with separate cables, or a power supply with native plugs"
    return "; ".join(([look] if unknown else []) + ([adapt] if adapters else []))


def _describe_plugs(connectors: str) -> str:
    return connectors if plugs_of(connectors) else "none" if connectors.lower() == "none" else connectors or "not published"


# ---------------------------------------------------------------- the wall, the room and its heat

_LOADS = (0.2, 0.5, 1.0)
_GOOD = 0.9  # share of what the outlet delivers, because a screen or a lamp also uses it
_BTU_PER_H = 3.412  # for each watt
_LOSS_WATTS_PER_K_M2 = 5.0  # heat that a closed room loses through walls, door and air per m² of floor, assumed
_WARM = 5.0  # kelvins above which a room becomes uncomfortable, assumed
_HEATER_WATTS = 1500.0  # the maximum power of an electric room heater on 120 V


def continuous_watts(outlet: Outlet) -> float:
    """Return the power that an outlet delivers continuously."""
    return outlet.volts * outlet.amps * outlet.continuous_fraction


def efficiency(label: str, load_fraction: float, volts: float) -> float:
    """Return watts out per watt in, interpolated linearly between the loads of the 80 PLUS label."""
    row = efficiencies()[label]
    points = row.at_230_volts if volts >= _HIGH_VOLTS else row.at_115_volts
    load = min(max(load_fraction, _LOADS[0]), _LOADS[-1])
    upper = next(place for place in (1, 2) if load <= _LOADS[place])
    share = (load - _LOADS[upper - 1]) / (_LOADS[upper] - _LOADS[upper - 1])
    return points[upper - 1] + share * (points[upper] - points[upper - 1])


def wall_watts(cards: Sequence[Cards], box: Box) -> float:
    """Return the power that the machine draws from the wall under sustained load."""
    load = load_watts(cards, box)
    psu = box.psu_watts or smallest_psu(cards, box) or load
    return load / efficiency(box.psu_label, load / psu, box.outlet.volts)


def outlet_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Check the outlet and the room."""
    watts = wall_watts(cards, box)
    return (_outlet(cards, watts, box), _room(watts, box))


def _outlet(cards: Sequence[Cards], watts: float, box: Box) -> CheckLine:
    carries = continuous_watts(box.outlet)
    verdict = "pass" if watts <= _GOOD * carries else "tight" if watts <= carries else "fail"
    draws = f"the machine draws {watts:,.0f} W at the wall (80 PLUS {box.psu_label})"
    text = f"{draws}; a {box.outlet.name} outlet delivers {carries:,.0f} W continuously"
    line = CheckLine(check="outlet", verdict=verdict, value=watts, limit=carries, unit="W", text=text)
    if verdict != "fail":
        return replace(line, remedy="connect nothing else to this circuit" if verdict == "tight" else "")
    limit = highest_limit(cards, box, lambda held: wall_watts(cards, held) <= carries)
    circuits = math.ceil(watts / carries)
    stronger = f"use a circuit with a higher rating, or {circuits} power supplies on {circuits} circuits"
    remedy = f"{stronger}, or limit {_each(cards)} to {limit:.0f} W" if limit else stronger
    return replace(line, remedy=remedy, power_limit_watts=limit)


def _room(watts: float, box: Box) -> CheckLine:
    """Describe the heat, which never fails the check, because a window can be opened."""
    heat = (
        f"the machine gives off {watts:,.0f} W of heat under load ({watts * _BTU_PER_H:,.0f} BTU/h, "
        f"{watts * 24 / 1000:.0f} kWh per day)"
    )
    if box.room_m2 is None:
        line = CheckLine(check="heat", verdict="pass", value=watts, limit=_HEATER_WATTS, unit="W", text=heat)
        if watts <= _HEATER_WATTS:
            return line
        heaters = f"{watts / _HEATER_WATTS:.1f}"
        text = f"{heat}, as much as {'one space heater' if heaters == '1.0' else f'{heaters} space heaters'}"
        return replace(
            line,
            verdict="tight",
            text=text,
            remedy=f"{_describe_cooling(watts)}; `--room 20` shows how much a 20 m² room warms up",
        )
    rise = watts / (_LOSS_WATTS_PER_K_M2 * box.room_m2)
    verdict = "pass" if rise <= _WARM else "tight"
    text = f"{heat}; a closed room of {box.room_m2:g} m² gets about {rise:.0f} °C warmer"
    remedy = "" if verdict == "pass" else _describe_cooling(watts)
    return CheckLine(check="heat", verdict=verdict, value=rise, limit=_WARM, unit="K", text=text, remedy=remedy)


def _describe_cooling(watts: float) -> str:
    return f"open a door or window, or use {watts * _BTU_PER_H:,.0f} BTU/h of air conditioning"


# ---------------------------------------------------------------- problems that a slightly lower power limit fixes

_SLIGHT_LIMIT = 0.9  # share of the rated power at which training loses almost no speed


def failing(lines: Sequence[CheckLine], gpu: Gpu) -> list[CheckLine]:
    """Return the checks that fail and cannot be fixed by a slightly lower power limit."""
    return [line for line in lines if line.verdict == "fail" and not _is_mended(line, gpu)]


def mended(lines: Sequence[CheckLine], gpu: Gpu) -> CheckLine | None:
    """Return the check that requires the lowest of the slightly reduced power limits, or None if no limit is needed."""
    return min((line for line in lines if _is_mended(line, gpu)), key=lambda line: line.power_limit_watts or 0.0, default=None)


def _is_mended(line: CheckLine, gpu: Gpu) -> bool:
    """Return whether a power limit that hardly reduces speed fixes the failed check."""
    limit, rated = line.power_limit_watts, gpu.tdp_watts
    return line.verdict == "fail" and limit is not None and rated is not None and limit >= _SLIGHT_LIMIT * rated


# ---------------------------------------------------------------- measured losses at lower power limits


def measured_losses(share: float) -> Mapping[str, tuple[float, float]]:
    """Return the smallest and largest losses of speed measured on GeForce cards at this share of their rated power, by kind of
    work. Kinds of work that were not measured at such low limits are left out. A card whose measurements end above this limit
    loses at least as much as at its lowest one, so a lower limit never seems to cost less.
    """
    found: dict[str, list[float]] = {}
    most: dict[str, float] = {}
    for curve in power_curves():
        watts, speeds = zip(*curve.points, strict=True)
        kept = float(np.interp(share * curve.rated_watts, watts, speeds) / np.interp(curve.rated_watts, watts, speeds))
        lost = max(0.0, 1.0 - kept)
        if watts[0] <= share * curve.rated_watts:
            found.setdefault(curve.work, []).append(lost)
        most[curve.work] = max(lost, most.get(curve.work, 0.0))
    return {work: (min(lost), most[work]) for work, lost in found.items()}


def deepest_losses() -> Mapping[str, float]:
    """Return the speed lost at the lowest share of the rated power at which each kind of work was measured."""
    lowest: dict[str, float] = {}
    for curve in power_curves():
        share = curve.points[0][0] / curve.rated_watts
        lowest[curve.work] = min(share, lowest.get(curve.work, share))
    return {work: measured_losses(share)[work][0] for work, share in lowest.items()}
