"""The wall and the room: power drawn with the supply's losses, what the outlet delivers continuously, and the heat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpuwise.box.parts import efficiencies
from gpuwise.box.power import highest_limit, load_watts, smallest_psu
from gpuwise.box.types import Box, Cards, CheckLine

__all__ = ["efficiency", "outlet_lines", "wall_watts"]

_LOADS = (0.2, 0.5, 1.0)
_HIGH_VOLTS = 200.0
_GOOD = 0.9  # of what the outlet delivers: a screen or a lamp uses it too
_BTU_PER_H = 3.412  # for each watt
_LOSS_WATTS_PER_K_M2 = 5.0  # what a closed room loses through walls, door and air for each m² of floor, assumed
_WARM = 5.0  # kelvins above which a room becomes uncomfortable, assumed
_HEATER_WATTS = 1500.0  # what an electric heater for a room draws at most on 120 V


def efficiency(label: str, load_fraction: float, volts: float) -> float:
    """Watts out for each watt in, on straight lines between the loads of the 80 PLUS label."""
    row = efficiencies()[label]
    points = row.at_230_volts if volts >= _HIGH_VOLTS else row.at_115_volts
    load = min(max(load_fraction, _LOADS[0]), _LOADS[-1])
    upper = next(place for place in (1, 2) if load <= _LOADS[place])
    share = (load - _LOADS[upper - 1]) / (_LOADS[upper] - _LOADS[upper - 1])
    return points[upper - 1] + share * (points[upper] - points[upper - 1])


def wall_watts(cards: Sequence[Cards], box: Box) -> float:
    """What the machine draws from the wall under sustained load."""
    load = load_watts(cards, box)
    psu = box.psu_watts or smallest_psu(cards, box) or load
    return load / efficiency(box.psu_label, load / psu, box.outlet.volts)


def outlet_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """The outlet, and the room."""
    watts = wall_watts(cards, box)
    return (_outlet(cards, watts, box), _room(watts, box))


def _outlet(cards: Sequence[Cards], watts: float, box: Box) -> CheckLine:
    carries = box.outlet.continuous_watts
    verdict = "pass" if watts <= _GOOD * carries else "tight" if watts <= carries else "fail"
    text = f"{watts:,.0f} W at the wall (80 PLUS {box.psu_label}); {box.outlet.name} delivers {carries:,.0f} W continuously"
    line = CheckLine(check="outlet", verdict=verdict, value=watts, limit=carries, unit="W", text=text)
    if verdict != "fail":
        return replace(line, remedy="connect nothing else to this circuit" if verdict == "tight" else "")
    limit = highest_limit(cards, box, lambda held: wall_watts(cards, held) <= carries)
    circuits = math.ceil(watts / carries)
    stronger = f"a stronger circuit, or {circuits} supplies on {circuits} circuits"
    remedy = f"{stronger}, or a power limit of {limit:.0f} W per GPU" if limit else stronger
    return replace(line, remedy=remedy, power_limit_watts=limit)


def _room(watts: float, box: Box) -> CheckLine:
    """Heat alone never fails: a window can be opened."""
    heat = f"{watts:,.0f} W of heat under load: {watts * _BTU_PER_H:,.0f} BTU/h, {watts * 24 / 1000:.0f} kWh a day"
    if box.room_m2 is None:
        line = CheckLine(check="heat", verdict="pass", value=watts, limit=_HEATER_WATTS, unit="W", text=heat)
        if watts <= _HEATER_WATTS:
            return line
        text = f"{heat}, like {watts / _HEATER_WATTS:.1f} electric heaters"
        return replace(
            line, verdict="tight", text=text, remedy=f"{_describe_cooling(watts)}; `--room 20` computes it for a room of 20 m²"
        )
    rise = watts / (_LOSS_WATTS_PER_K_M2 * box.room_m2)
    verdict = "pass" if rise <= _WARM else "tight"
    text = f"{heat}; a closed room of {box.room_m2:g} m² becomes about {rise:.0f} °C warmer"
    remedy = "" if verdict == "pass" else _describe_cooling(watts)
    return CheckLine(check="heat", verdict=verdict, value=rise, limit=_WARM, unit="K", text=text, remedy=remedy)


def _describe_cooling(watts: float) -> str:
    return f"an open door or window, or {watts * _BTU_PER_H:,.0f} BTU/h of air conditioning"
