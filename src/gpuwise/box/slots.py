"""Space: how thick cards are, where they sit on the board, and how much air is left between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuwise.box.types import Board, Box, Cards, CheckLine
from gpuwise.hardware.types import Gpu

__all__ = ["CardPlacement", "placed", "slot_lines", "thickness"]

_USUAL_SLOTS = 2.0  # where a card's thickness is not published
_BLOWER_SLOTS = 2.0  # cards with a blower are sold two slots thick, even where the usual one takes three
_MOST_LONG_SLOTS = 7  # of the positions an ATX board has
_WATER_SLOTS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlacement:
    """Where cards sit. `gap` is the least number of free positions between two of them, None with fewer than two."""

    positions: tuple[int, ...]
    gap: int | None


def thickness(gpu: Gpu, cooler: str | None) -> int:
    """Positions a card takes with this cooler."""
    own = gpu.slots or _USUAL_SLOTS
    taken = {"water": min(own, _WATER_SLOTS), "blower": min(own, _BLOWER_SLOTS)}.get(cooler or "", own)
    return math.ceil(taken)


def placed(widths: Sequence[int], board: Board, case_slots: int) -> CardPlacement | None:
    """The way to place cards with the most air between them, or None where they have no room. The thickest stands last."""
    ordered = sorted(widths)
    starts = [1 + board.spacing * number for number in range(board.x16) if 1 + board.spacing * number <= board.slots]
    best: CardPlacement | None = None
    for chosen in combinations(starts, len(ordered)):
        ends = [start + width for start, width in zip(chosen, ordered, strict=True)]
        gaps = [later - end for end, later in zip(ends, chosen[1:], strict=False)]
        if ends[-1] - 1 > case_slots or any(gap < 0 for gap in gaps):
            continue
        if best is None or (gaps and min(gaps) > (best.gap or 0)):
            best = CardPlacement(positions=chosen, gap=min(gaps) if gaps else None)
    return best


def slot_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Whether the cards fit beside each other on the board and in the case."""
    widths = [thickness(each.gpu, box.cooler) for each in cards for _ in range(each.count)]
    total, count = sum(widths), len(widths)
    long = "1 long slot" if box.board.x16 == 1 else f"{box.board.x16} long slots"
    where = f"{box.board.name} with {long} and {box.case_slots} openings"
    if box.riser:
        return (_on_risers(total, count, box),)
    found = placed(widths, box.board, box.case_slots)
    if found:
        at = ", ".join(str(position) for position in found.positions)
        return (
            _line(
                "pass",
                total,
                box.case_slots,
                f"{_cards(widths)}: {'position' if count == 1 else 'positions'} {at} of {where}",
                "",
            ),
        )
    fitting = max((n for n in range(1, count) if placed(sorted(widths)[:n], box.board, box.case_slots)), default=0)
    text = f"{_cards(widths)} need {_many(total)}; {where} takes {fitting or 'none'}"
    return (_line("fail", total, box.case_slots, text, _remedy(widths, box)),)


def _on_risers(total: int, count: int, box: Box) -> CheckLine:
    if count > box.board.x16:
        text = f"{count} cards on risers, {box.board.x16} long slots"
        return _line("fail", count, box.board.x16, text, _longer(count))
    verdict = "pass" if total <= box.case_slots else "tight"
    text = f"{count} cards on risers; they take {_many(total)} where the case has {box.case_slots}"
    return _line(verdict, total, box.case_slots, text, "" if verdict == "pass" else "an open frame, or cards upright in the case")


def _remedy(widths: Sequence[int], box: Box) -> str:
    ways = []
    narrow = [min(width, int(_BLOWER_SLOTS)) for width in widths]
    if narrow != list(widths) and placed(narrow, box.board, box.case_slots):
        ways.append("cards two slots thick with a blower")
    if placed([1] * len(widths), box.board, box.case_slots):
        ways.append("water blocks, one slot thick")
    return ", or ".join([*ways, "risers and an open frame" if len(widths) <= box.board.x16 else _longer(len(widths))])


def _longer(count: int) -> str:
    return "a board with more long slots" if count <= _MOST_LONG_SLOTS else "several machines: no board has that many long slots"


def _cards(widths: Sequence[int]) -> str:
    counts = [(list(widths).count(width), width) for width in sorted(set(widths))]
    return " and ".join(f"{count} {'card' if count == 1 else 'cards'} {_many(width)} thick" for count, width in counts)


def _many(slots: int) -> str:
    return "1 slot" if slots == 1 else f"{slots} slots"


def _line(verdict: str, value: float, limit: float, text: str, remedy: str) -> CheckLine:
    return CheckLine(check="slots", verdict=verdict, value=value, limit=limit, unit="slots", text=text, remedy=remedy)
