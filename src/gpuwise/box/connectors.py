"""Plugs: what the cards need against what a supply of that size usually has."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from gpuwise.box.parts import plugs, psu_sizes
from gpuwise.box.power import card_watts, smallest_psu
from gpuwise.box.types import Box, Cards, CheckLine, PsuSize

__all__ = ["connector_lines", "plugs_of"]

_SLOT_WATTS = 75.0  # a PCIe slot delivers; a card that draws more has plugs
_ADAPTED = ("12-pin", "16-pin", "EPS")
_ADAPTER_WATTS = 150.0  # of each 8-pin that an adapter to 16-pin takes


def plugs_of(text: str) -> Mapping[str, int]:
    """Plugs of a card as the catalogue writes them.

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
    """Whether the supply has the plugs. 16-pin plugs first go to those of an ATX 3 supply, then to adapters."""
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
    return (_line(cards, size, direct, needed, adapters),)


def _has_unknown_plugs(each: Cards) -> bool:
    """Whether a card must have plugs that are not published."""
    return not each.gpu.power_connectors and (card_watts(each.gpu) or 0.0) > _SLOT_WATTS


def _nearest(watts: float) -> PsuSize:
    """The largest size not above this one."""
    return max((size for size in psu_sizes() if size.watts <= watts), key=lambda size: size.watts, default=psu_sizes()[0])


def _line(cards: Sequence[Cards], size: PsuSize, direct: int, needed: int, adapters: int) -> CheckLine:
    has = size.eight_pin
    unknown = any(_has_unknown_plugs(each) for each in cards)
    verdict = "fail" if needed > has else "tight" if adapters or unknown else "pass"
    wants = "; ".join(f"{each.gpu.name}: {_words(each.gpu.power_connectors)}" for each in cards)
    used = [f"{direct} of {size.sixteen_pin} with 16 pins"] if direct else []
    used += [f"{needed} of {has} with 8 pins"] if needed or not direct else []
    text = f"of the plugs of a usual {size.watts:,.0f} W supply it uses {' and '.join(used)} ({wants})"
    remedy = {
        "pass": "",
        "tight": _tight(adapters, unknown),
        "fail": "a supply with more plugs (count them); never use two plugs of one cable for a card above 225 W",
    }[verdict]
    return CheckLine(check="connectors", verdict=verdict, value=needed, limit=has, unit="8-pin", text=text, remedy=remedy)


def _tight(adapters: int, unknown: bool) -> str:
    look = "check the card itself: its plugs are not published"
    adapt = f"adapters on {adapters} of the plugs, each with its own cable; or a supply with native plugs"
    return "; ".join(([look] if unknown else []) + ([adapt] if adapters else []))


def _words(connectors: str) -> str:
    return connectors if plugs_of(connectors) else "none" if connectors.lower() == "none" else connectors or "not published"
