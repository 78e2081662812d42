"""Watts: what the cards, the CPU and the rest draw, for hours and for 100 µs, against what a power supply gives.

Lasting load is the sum of the limits. For 100 µs a card draws a multiple of its limit; cards do so independently, so their
excesses add as the root of the sum of squares (assumed).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuwise.box.parts import excursions, load_shares, psu_sizes, psu_standards
from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.hardware.types import Gpu

__all__ = [
    "card_watts",
    "fitting_limit",
    "highest_limit",
    "least_limit",
    "load_watts",
    "peak_watts",
    "power_lines",
    "smallest_psu",
]

_STEP_WATTS = 5  # power limits are proposed in these steps
_MOST_AT_LOW_VOLTS, _HIGH_VOLTS = 1600.0, 200.0  # larger supplies are made for 200 V and more
_SOLD_NOW = 3  # the ATX standard of supplies that one would buy
_LEAST_POWER = 0.2  # of the rated power, where the lowest limit is not published


def card_watts(gpu: Gpu, limit_watts: float | None = None) -> float | None:
    """Sustained power of one card with all its devices; None where its maker does not publish it."""
    if gpu.tdp_watts is None:
        return None if limit_watts is None else limit_watts * gpu.devices_per_board
    held = gpu.tdp_watts if limit_watts is None else min(gpu.tdp_watts, limit_watts)
    return held * gpu.devices_per_board


def load_watts(cards: Sequence[Cards], box: Box) -> float:
    """Sustained load of the supply. Cards of unknown power count as zero; `power_lines` names them."""
    gpus = sum(each.count * (card_watts(each.gpu, box.power_limit_watts) or 0.0) for each in cards)
    return gpus + box.cpu_watts + box.rest_watts


def peak_watts(cards: Sequence[Cards], box: Box) -> float:
    """Load of the supply for about 100 µs."""
    excess = [(each.count, (_excursion(each.gpu) - 1.0) * (card_watts(each.gpu, box.power_limit_watts) or 0.0)) for each in cards]
    return load_watts(cards, box) + math.sqrt(sum(count * watts**2 for count, watts in excess))


def _excursion(gpu: Gpu) -> float:
    known = excursions()
    return known.get(gpu.architecture.generation.lower(), known["default"]).factor


def smallest_psu(cards: Sequence[Cards], box: Box) -> float | None:
    """The smallest ATX 3 supply sold with which both checks pass, or None where there is none."""
    load, peak = load_watts(cards, box), peak_watts(cards, box)
    return next((size.watts for size in psu_sizes() if _worst(load, peak, size.watts, _SOLD_NOW) == "pass"), None)


def fitting_limit(cards: Sequence[Cards], box: Box) -> float | None:
    """The highest power limit for each device with which the supply does not fail; None where none helps."""

    def fits(held: Box) -> bool:
        return _worst(load_watts(cards, held), peak_watts(cards, held), held.psu_watts or math.inf, held.psu_standard) != "fail"

    return highest_limit(cards, box, fits)


def highest_limit(cards: Sequence[Cards], box: Box, works: Callable[[Box], bool]) -> float | None:
    """The highest power limit for each device, in steps of 5 W, with which the box works; None where none helps.

    What works at one limit works at every lower one.
    """
    rated = max((each.gpu.tdp_watts or 0.0 for each in cards), default=0.0)
    lowest = max((least_limit(each) for each in cards), default=0.0)
    limits = range(_STEP_WATTS * int(rated // _STEP_WATTS), max(1, math.ceil(lowest)) - 1, -_STEP_WATTS)
    place = bisect_left(limits, True, key=lambda limit: works(replace(box, power_limit_watts=float(limit))))
    return float(limits[place]) if place < len(limits) else None


def least_limit(cards: Cards) -> float:
    """The lowest limit that a card can be set to."""
    return cards.gpu.power_min_watts or _LEAST_POWER * (cards.gpu.tdp_watts or 0.0)


def power_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Sustained load and power spikes against the supply."""
    unknown = [each.gpu.name for each in cards if card_watts(each.gpu, box.power_limit_watts) is None]
    if unknown:
        text = f"the power of {', '.join(unknown)} is not published"
        return (_line("psu", "tight", None, box.psu_watts, text, "give it with `--power-limit`, such as `--power-limit 250`"),)
    size = smallest_psu(cards, box)
    psu = box.psu_watts or size
    if psu is None:
        text = (
            f"{load_watts(cards, box):,.0f} W sustained is more than any supply on sale delivers ({psu_sizes()[-1].watts:,.0f} W)"
        )
        return (_line("psu", "fail", load_watts(cards, box), psu_sizes()[-1].watts, text, "two supplies, or two machines"),)
    return (_check_sustained(cards, box, psu, size), _check_transient(cards, box, psu, size))


def _check_sustained(cards: Sequence[Cards], box: Box, psu: float, size: float | None) -> CheckLine:
    load = load_watts(cards, box)
    verdict = _grade(load / psu, *load_shares())
    parts = [f"{each.count} x {card_watts(each.gpu, box.power_limit_watts):.0f} W" for each in cards]
    text = f"{load:,.0f} W sustained ({' + '.join(parts)}, CPU {box.cpu_watts:.0f} W, rest {box.rest_watts:.0f} W)"
    text += f": {100 * load / psu:.0f} % of {psu:,.0f} W" if box.psu_watts else f": take {psu:,.0f} W"
    return _with_remedy(_line("psu", verdict, load, psu, text), cards, box, size)


def _check_transient(cards: Sequence[Cards], box: Box, psu: float, size: float | None) -> CheckLine:
    peak, standard = peak_watts(cards, box), psu_standards()[box.psu_standard]
    verdict = _grade(peak / psu, standard.safe_fraction, standard.most_fraction)
    bears = standard.safe_fraction * psu
    guaranteed = f"ATX {box.psu_standard} guarantees {100 * bears / psu:.0f} %"
    text = f"{peak:,.0f} W for 100 µs: {100 * peak / psu:.0f} % of the supply; {guaranteed}"
    return _with_remedy(_line("transients", verdict, peak, bears, text), cards, box, size)


def _with_remedy(line: CheckLine, cards: Sequence[Cards], box: Box, size: float | None) -> CheckLine:
    if line.verdict == "pass":
        return line
    bigger = f"an ATX 3 supply of {size:,.0f} W or more{_high_volts(size, box)}" if size else "two supplies"
    limit = fitting_limit(cards, box) if line.verdict == "fail" else None
    remedy = f"{bigger}, or a power limit of {limit:.0f} W per GPU" if limit else bigger
    return replace(line, remedy=remedy, power_limit_watts=limit)


def _high_volts(size: float, box: Box) -> str:
    return " at 230 V" if size > _MOST_AT_LOW_VOLTS and box.outlet.volts < _HIGH_VOLTS else ""


def _worst(load: float, peak: float, psu: float, standard: int) -> str:
    bears = psu_standards()[standard]
    verdicts = {_grade(load / psu, *load_shares()), _grade(peak / psu, bears.safe_fraction, bears.most_fraction)}
    return next(verdict for verdict in ("fail", "tight", "pass") if verdict in verdicts)


def _grade(share: float, good: float, most: float) -> str:
    return "pass" if share <= good else "tight" if share <= most else "fail"


def _line(check: str, verdict: str, value: float | None, limit: float | None, text: str, remedy: str = "") -> CheckLine:
    return CheckLine(check=check, verdict=verdict, value=value, limit=limit, unit="W", text=text, remedy=remedy)
