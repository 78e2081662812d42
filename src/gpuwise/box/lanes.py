"""PCIe: how the CPU's lanes are cut among the cards, which of them go through the chipset, and the bytes each then moves.

A x16 slot is cut into halves: 16, 8 + 8, 8 + 4 + 4. Cards for which no piece is left are connected to the chipset and share its
link.
What that costs a training step is computed where steps are known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.hardware.machines import links
from gpuwise.hardware.types import Gpu

__all__ = ["CardLink", "card_links", "lane_lines", "split"]

_WIDEST = 16
_NVME_LANES = 4
_ENOUGH = 8  # lanes for each card, the guide's rule for several cards
_LEAST = 4  # lanes, below which a card is too slow to feed
_LISTED = 4  # cards whose widths are listed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLink:
    """The way from one card to the CPU. `shared` is how many times over its lanes are used when all cards copy."""

    gpu: Gpu
    generation: int
    lanes: int
    through: str
    bytes_per_s: float
    shared: float = 1.0


def split(lanes: int, count: int, smallest: int) -> tuple[int, ...]:
    """Widths of `count` cards on these lanes, widest first; fewer where no piece is left.

    >>> split(16, 3, 4), split(16, 3, 8), split(44, 4, 8)
    ((8, 4, 4), (8, 8), (16, 8, 8, 8))
    """
    widths = [_WIDEST] * count
    while widths and sum(widths) > lanes:
        widest = max(widths)
        if widest // 2 < smallest:
            widths.pop()
        else:
            last = max(place for place, width in enumerate(widths) if width == widest)
            widths[last] = widest // 2
    return tuple(sorted(widths, reverse=True))


def card_links(cards: Sequence[Cards], box: Box) -> tuple[CardLink, ...]:
    """The link of every card, in the order they were given; the first ones get the widest."""
    gpus = [each.gpu for each in cards for _ in range(each.count)]
    lanes = _lanes_for_cards(box)
    if box.board.switch and lanes >= _WIDEST:
        shared = max(1.0, len(gpus) * _WIDEST / lanes)
        return tuple(_link(gpu, box, box.platform.generation, _WIDEST, "a switch", shared) for gpu in gpus)
    widths = split(lanes, len(gpus), box.platform.smallest_split)
    direct = [_link(gpu, box, box.platform.generation, width, "the CPU") for gpu, width in zip(gpus, widths, strict=False)]
    rest = gpus[len(widths) :]
    if not rest or not box.platform.chipset_link:
        return tuple(direct)
    generation, width = _parse_link(box.platform.chipset_link)
    shared = max(1.0, len(rest) * _LEAST / width)
    return (*direct, *(_link(gpu, box, generation, _LEAST, "the chipset", shared) for gpu in rest))


def _lanes_for_cards(box: Box) -> int:
    """Lanes that reach slots, less those of disks without their own; small platforms connect such disks to the chipset."""
    platform = box.platform
    homeless = max(0, _NVME_LANES * box.nvme_count - platform.storage_lanes)
    return platform.slot_lanes - homeless if platform.slot_lanes - homeless >= _WIDEST else platform.slot_lanes


def _link(gpu: Gpu, box: Box, generation: int, lanes: int, through: str, shared: float = 1.0) -> CardLink:
    limits = [(generation, lanes), (gpu.pcie_generation or generation, gpu.pcie_lanes or _WIDEST)]
    limits += [_parse_link(box.riser)] if box.riser else []
    generation, lanes = min(limit[0] for limit in limits), min(limit[1] for limit in limits)
    wide = links()[f"PCIe {generation}.0 x16"]
    rate = wide.bytes_per_s_one_way * wide.achieved_fraction * lanes / _WIDEST
    return CardLink(gpu=gpu, generation=generation, lanes=lanes, through=through, bytes_per_s=rate / shared, shared=shared)


def _parse_link(link: str) -> tuple[int, int]:
    """Generation and width by the name of a PCIe link."""
    match = re.fullmatch(r"PCIe (\d)\.0 x(\d+)", links()[link].name)
    return (int(match[1]), int(match[2])) if match else (1, 1)


def lane_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Whether each card has the lanes it needs."""
    count = sum(each.count for each in cards)
    found = card_links(cards, box)
    if len(found) < count:
        text = f"{box.platform.name}: {box.platform.slot_lanes} lanes for slots reach {len(found)} of {count} cards"
        return (_line("fail", len(found), count, "cards", text, "a platform with more lanes, or a board with a switch"),)
    narrow = min(found, key=lambda link: link.bytes_per_s)
    enough = min(_ENOUGH, narrow.gpu.pcie_lanes or _WIDEST) if count > 1 else _LEAST
    effective = narrow.lanes / narrow.shared
    verdict = "pass" if effective >= enough else "tight" if narrow.lanes >= _LEAST else "fail"
    shared = ", shared with others" if narrow.shared > 1 else ""
    widths = _widths([link.lanes for link in found])
    way = f"PCIe {narrow.generation}.0 x{narrow.lanes} through {narrow.through}{shared}"
    text = f"{box.platform.name}: {widths}; the narrowest is {way}, {narrow.bytes_per_s / 1e9:.1f} GB/s"
    remedy = "" if verdict == "pass" else _remedy(narrow, box)
    return (_line(verdict, narrow.lanes, enough, "lanes", text, remedy),)


def _widths(lanes: Sequence[int]) -> str:
    if len(lanes) <= _LISTED:
        return "/".join(f"x{width}" for width in lanes)
    return ", ".join(f"{list(lanes).count(width)} at x{width}" for width in dict.fromkeys(lanes))


def _remedy(narrow: CardLink, box: Box) -> str:
    if box.riser and _parse_link(box.riser)[1] <= narrow.lanes < _ENOUGH:
        return "risers with all lanes"
    return "fewer cards, or a platform with more lanes (X299, Threadripper, EPYC)"


def _line(verdict: str, value: float, limit: float, unit: str, text: str, remedy: str) -> CheckLine:
    return CheckLine(check="lanes", verdict=verdict, value=value, limit=limit, unit=unit, text=text, remedy=remedy)
