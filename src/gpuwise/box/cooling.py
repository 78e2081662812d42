"""Heat at the cards: coolers that draw in their neighbours' hot air. Says which cards are at risk, not how much they throttle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuwise.box.power import card_watts
from gpuwise.box.slots import placed, thickness
from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.hardware.types import Gpu

__all__ = ["cooler_of", "cooling_lines"]

_KINDS = {"open": "open-air", "liquid": "water", "blower": "blower", "passive": "passive"}
_RADIATOR_WATTS = 150.0  # for each 120 mm of radiator, assumed
_HOT_BLOWER_WATTS = 300.0  # blowers above this are loud and hot side by side, assumed
_MANY = 3  # open-air cards without a gap: one in the middle has hot air on both sides
_HINT = "a gap would cool them by 10 to 30 °C; they throttle at 80 °C"


def cooler_of(gpu: Gpu, box: Box) -> str:
    """The cooler of the card: the user's, else the one it is sold with."""
    return box.cooler or _KINDS.get(gpu.cooler, "open-air")


def cooling_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """One line for cards that need a duct, one for the rest."""
    passive = [each for each in cards if cooler_of(each.gpu, box) == "passive"]
    others = [each for each in cards if each not in passive]
    return (*(_passive(each, box) for each in passive), *([_beside(others, cards, box)] if others else []))


def _passive(cards: Cards, box: Box) -> CheckLine:
    watts = card_watts(cards.gpu, box.power_limit_watts)
    text = f"{cards.gpu.name} has no fan of its own" + (f": {watts:.0f} W need forced air" if watts else "")
    return _line("fail", 0, 1, text, "a server case, or a duct with a strong fan before each card")


def _beside(cards: Sequence[Cards], everything: Sequence[Cards], box: Box) -> CheckLine:
    kinds = {cooler_of(each.gpu, box) for each in cards}
    count = sum(each.count for each in cards)
    if kinds == {"water"}:
        watts = sum(each.count * (card_watts(each.gpu, box.power_limit_watts) or 0.0) for each in cards)
        return _line("pass", None, None, f"water: about {math.ceil(watts / _RADIATOR_WATTS)} x 120 mm of radiator", "")
    if box.riser:
        return _line("pass", 1, 1, "risers leave air around each card", "")
    if count == 1:
        return _line("pass", None, None, "a single card gets all the air of the case", "")
    widths = [thickness(each.gpu, box.cooler) for each in everything for _ in range(each.count)]
    found = placed(widths, box.board, box.case_slots)
    gap = found.gap if found and found.gap is not None else 0
    if gap >= 1:
        return _line("pass", gap, 1, f"{gap} free {'position' if gap == 1 else 'positions'} between cards", "")
    return _touching(cards, kinds, count, box)


def _touching(cards: Sequence[Cards], kinds: set[str], count: int, box: Box) -> CheckLine:
    hottest = max(card_watts(each.gpu, box.power_limit_watts) or 0.0 for each in cards)
    if "open-air" not in kinds:
        verdict = "pass" if hottest <= _HOT_BLOWER_WATTS else "tight"
        text = f"{count} blowers of up to {hottest:.0f} W without a gap push their air out of the case"
        return _line(verdict, 0, 1, text, "" if verdict == "pass" else "a power limit of 300 W, or a free position between cards")
    verdict = "fail" if count >= _MANY else "tight"
    text = f"{count} open-air cards without a gap: {_HINT}"
    return _line(verdict, 0, 1, text, "blowers, a free position between cards, risers, water, or a lower power limit")


def _line(verdict: str, value: float | None, limit: float | None, text: str, remedy: str) -> CheckLine:
    return CheckLine(
        check="cooling", verdict=verdict, value=value, limit=limit, unit="slots between cards", text=text, remedy=remedy
    )
