"""Runs all checks on a box. Space, airflow, lanes and the host are checked here, power in `power.py`. The functions are pure:
the same cards and box give the same lines.

An x16 slot is divided into halves: 16, 8 + 8, 8 + 4 + 4. Cards without their own part are connected to the chipset and share
its link. The cost for a training step is computed where steps are predicted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuwise.box.parts import form_lines, is_card
from gpuwise.box.power import card_watts, connector_lines, outlet_lines, power_lines
from gpuwise.box.types import VERDICTS, Board, Box, Cards, CheckLine
from gpuwise.core.text import both, counted, either
from gpuwise.core.units import GIB
from gpuwise.hardware.machines import links
from gpuwise.hardware.types import Gpu

__all__ = [
    "CardLink",
    "CardPlacement",
    "card_links",
    "check_build",
    "check_cards",
    "cooler_of",
    "cooling_lines",
    "gpu_memory_bytes",
    "host_lines",
    "lane_lines",
    "placed",
    "slot_lines",
    "split",
    "thickness",
    "usual_ram_bytes",
    "worst",
]

# ---------------------------------------------------------------- space: how thick cards are, and where they sit

_USUAL_SLOTS = 2.0  # used if a card's thickness is not published
_BLOWER_SLOTS = 2.0  # blower cards are sold two slots thick, even if the standard version takes three
_MOST_LONG_SLOTS = 7  # the number of slot positions on an ATX board
_WATER_SLOTS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlacement:
    """The positions of the cards. `gap` is the smallest number of free positions between two cards; None with fewer than two."""

    positions: tuple[int, ...]
    gap: int | None


def thickness(gpu: Gpu, cooler: str | None, slots: int | None = None) -> int:
    """Return the number of positions that a card takes up with this cooler; `slots` is the thickness of the user's card."""
    own = slots or gpu.slots or _USUAL_SLOTS
    taken = {"water": min(own, _WATER_SLOTS), "blower": min(own, _BLOWER_SLOTS)}.get(cooler or "", own)
    return math.ceil(taken)


def placed(widths: Sequence[int], board: Board, case_slots: int) -> CardPlacement | None:
    """Return the placement with the most air between cards, or None if there is not enough room. The thickest card goes last."""
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
    """Check whether the cards fit next to each other on the board and in the case."""
    widths = [thickness(each.gpu, box.cooler, box.card_slots) for each in cards for _ in range(each.count)]
    total, count = sum(widths), len(widths)
    long = "1 long slot" if box.board.x16 == 1 else f"{box.board.x16} long slots"
    board = f"the {box.board.name} board" if box.board.name else "your board"
    where = f"{board} with {long} in a case with {box.case_slots} openings"
    if box.riser:
        return (_on_risers(total, count, box),)
    found = placed(widths, box.board, box.case_slots)
    if found:
        at = ("position " if count == 1 else "positions ") + both(str(position) for position in found.positions)
        text = f"{_cards(widths)} {'fits' if count == 1 else 'fit'} in {at} of {where}"
        return (_slot_line("pass", total, box.case_slots, text, ""),)
    fitting = max((n for n in range(1, count) if placed(sorted(widths)[:n], box.board, box.case_slots)), default=0)
    room = f"only {fitting}" if fitting else "none"
    text = f"{_cards(widths)} {'needs' if count == 1 else 'need'} {_many(total)}, but {where} has room for {room} of them"
    return (_slot_line("fail", total, box.case_slots, text, _more_room(widths, box)),)


def _on_risers(total: int, count: int, box: Box) -> CheckLine:
    if count > box.board.x16:
        text = f"{count} cards on risers need {count} long slots, but the board has {box.board.x16}"
        return _slot_line("fail", count, box.board.x16, text, f"use {_longer(count)}")
    verdict = "pass" if total <= box.case_slots else "tight"
    takes = "takes" if count == 1 else "take"
    text = f"{counted(count, 'card')} on risers {takes} up {_many(total)}, and the case has {box.case_slots}"
    remedy = "" if verdict == "pass" else "use an open frame, or mount the cards vertically in the case"
    return _slot_line(verdict, total, box.case_slots, text, remedy)


def _more_room(widths: Sequence[int], box: Box) -> str:
    ways = []
    narrow = [min(width, int(_BLOWER_SLOTS)) for width in widths]
    if narrow != list(widths) and placed(narrow, box.board, box.case_slots):
        ways.append("two-slot blower cards")
    if placed([1] * len(widths), box.board, box.case_slots):
        ways.append("one-slot water blocks")
    last = "risers" if len(widths) <= box.board.x16 else _longer(len(widths))
    return f"use {either([*ways, last])}"


def _longer(count: int) -> str:
    several = "several machines, because no board has that many long slots"
    return "a board with more long slots" if count <= _MOST_LONG_SLOTS else several


def _cards(widths: Sequence[int]) -> str:
    counts = [(list(widths).count(width), width) for width in sorted(set(widths))]
    return " and ".join(f"{count} {_words(width)}-slot {'card' if count == 1 else 'cards'}" for count, width in counts)


def _words(number: int) -> str:
    words = ("zero", "one", "two", "three", "four", "five")
    return words[number] if number < len(words) else str(number)


def _many(slots: int) -> str:
    return "1 slot" if slots == 1 else f"{slots} slots"


def _slot_line(verdict: str, value: float, limit: float, text: str, remedy: str) -> CheckLine:
    return CheckLine(check="slots", verdict=verdict, value=value, limit=limit, unit="slots", text=text, remedy=remedy)


# ---------------------------------------------------------------- air: which cards draw in hot air from their neighbours

_KINDS = {"open": "open-air", "liquid": "water", "blower": "blower", "passive": "passive"}
_RADIATOR_WATTS = 150.0  # for each 120 mm of radiator, assumed
_HOT_BLOWER_WATTS = 300.0  # blower cards above this power are loud and hot side by side, assumed
_MANY = 3  # open-air cards without a gap: a card in the middle has hot air on both sides
_HINT = "with a gap, they would stay 10 to 30 °C cooler (they throttle at 80 °C)"


def cooler_of(gpu: Gpu, box: Box) -> str:
    """Return the card's cooler: the user's choice, or the one it is sold with."""
    return box.cooler or _KINDS.get(gpu.cooler, "open-air")


def cooling_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Return one line for cards that need a duct and one for the rest."""
    passive = [each for each in cards if cooler_of(each.gpu, box) == "passive"]
    others = [each for each in cards if each not in passive]
    return (*(_passive(each, box) for each in passive), *([_beside(others, cards, box)] if others else []))


def _passive(cards: Cards, box: Box) -> CheckLine:
    watts = card_watts(cards.gpu, box.power_limit_watts)
    text = f"the {cards.gpu.name} has no fan" + (f", so its {watts:.0f} W of heat require forced airflow" if watts else "")
    return _air_line("fail", 0, 1, text, "use a server case, or a duct with a strong fan in front of each card")


def _beside(cards: Sequence[Cards], everything: Sequence[Cards], box: Box) -> CheckLine:
    kinds = {cooler_of(each.gpu, box) for each in cards}
    count = sum(each.count for each in cards)
    if kinds == {"water"}:
        watts = sum(each.count * (card_watts(each.gpu, box.power_limit_watts) or 0.0) for each in cards)
        return _air_line(
            "pass", None, None, f"water cooling needs about {math.ceil(watts / _RADIATOR_WATTS)} x 120 mm of radiator space", ""
        )
    if box.riser:
        return _air_line("pass", 1, 1, "risers leave space for air around each card", "")
    if count == 1:
        return _air_line("pass", None, None, "a single card gets all the airflow in the case", "")
    widths = [thickness(each.gpu, box.cooler, box.card_slots) for each in everything for _ in range(each.count)]
    found = placed(widths, box.board, box.case_slots)
    gap = found.gap if found and found.gap is not None else 0
    if gap >= 1:
        free = f"is {gap} free slot position" if gap == 1 else f"are {gap} free slot positions"
        return _air_line("pass", gap, 1, f"there {free} between cards", "")
    return _touching(cards, kinds, count, box)


def _touching(cards: Sequence[Cards], kinds: set[str], count: int, box: Box) -> CheckLine:
    hottest = max(card_watts(each.gpu, box.power_limit_watts) or 0.0 for each in cards)
    if "open-air" not in kinds:
        verdict = "pass" if hottest <= _HOT_BLOWER_WATTS else "tight"
        text = f"{count} blower cards of up to {hottest:.0f} W blow their heat out of the case, even without a gap"
        return _air_line(
            verdict,
            0,
            1,
            text,
            "" if verdict == "pass" else "set a power limit of 300 W, or leave a free slot position between cards",
        )
    verdict = "fail" if count >= _MANY else "tight"
    text = f"{count} open-air cards have no gap between them; {_HINT}"
    remedy = "use blower cards, risers or water cooling, leave gaps, or limit the power"
    return _air_line(verdict, 0, 1, text, remedy)


def _air_line(verdict: str, value: float | None, limit: float | None, text: str, remedy: str) -> CheckLine:
    return CheckLine(
        check="cooling", verdict=verdict, value=value, limit=limit, unit="slots between cards", text=text, remedy=remedy
    )


# ---------------------------------------------------------------- PCIe: how the CPU's lanes are divided among the cards

_WIDEST = 16
_NVME_LANES = 4
_ENOUGH = 8  # lanes per card, the guide's rule for several cards
_LEAST = 4  # lanes below which a card cannot be fed fast enough
_LISTED = 4  # cards whose widths are listed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLink:
    """The connection from one card to the CPU. `shared` is how many times its lanes are oversubscribed when all cards copy."""

    gpu: Gpu
    generation: int
    lanes: int
    through: str
    bytes_per_s: float
    shared: float = 1.0


def split(lanes: int, count: int, smallest: int) -> tuple[int, ...]:
    """Return the widths of `count` cards on these lanes, widest first; fewer if no lanes are left.

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
    """Return the link of every card, in the given order; the first ones get the widest."""
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
    """Return lanes that reach slots, minus those of disks; small platforms connect disks without lanes to the chipset."""
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
    """Return the generation and width in the name of a PCIe link."""
    match = re.fullmatch(r"PCIe (\d)\.0 x(\d+)", links()[link].name)
    return (int(match[1]), int(match[2])) if match else (1, 1)


def lane_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Check whether each card has the lanes it needs."""
    count = sum(each.count for each in cards)
    found = card_links(cards, box)
    if len(found) < count:
        text = (
            f"{box.platform.name} has {box.platform.slot_lanes} lanes for slots, which reach only {len(found)} of {count} cards"
        )
        remedy = "use a platform with more lanes, or a board with a PCIe switch"
        return (_lane_line("fail", len(found), count, "cards", text, remedy),)
    narrow = min(found, key=lambda link: link.bytes_per_s)
    enough = min(_ENOUGH, narrow.gpu.pcie_lanes or _WIDEST) if count > 1 else _LEAST
    effective = narrow.lanes / narrow.shared
    verdict = "pass" if effective >= enough else "tight" if narrow.lanes >= _LEAST else "fail"
    shared = ", shared with others" if narrow.shared > 1 else ""
    widths = _widths([link.lanes for link in found])
    way = f"PCIe {narrow.generation}.0 x{narrow.lanes} through {narrow.through}{shared} ({narrow.bytes_per_s / 1e9:.1f} GB/s)"
    card, over = ("card", "over") if len(found) == 1 else ("cards", "and the narrowest link is")
    text = f"{box.platform.name} runs the {card} at {widths}, {over} {way}"
    remedy = "" if verdict == "pass" else _more_lanes(narrow, box)
    return (_lane_line(verdict, narrow.lanes, enough, "lanes", text, remedy),)


def _widths(lanes: Sequence[int]) -> str:
    if len(lanes) <= _LISTED:
        return "/".join(f"x{width}" for width in lanes)
    return ", ".join(f"x{width} ({list(lanes).count(width)} cards)" for width in dict.fromkeys(lanes))


def _more_lanes(narrow: CardLink, box: Box) -> str:
    if box.riser and _parse_link(box.riser)[1] <= narrow.lanes < _ENOUGH:
        return "use risers that support all lanes"
    return "use fewer cards, or a platform with more lanes (X299, Threadripper, EPYC)"


def _lane_line(verdict: str, value: float, limit: float, unit: str, text: str, remedy: str) -> CheckLine:
    return CheckLine(check="lanes", verdict=verdict, value=value, limit=limit, unit=unit, text=text, remedy=remedy)


# ---------------------------------------------------------------- host: rules of thumb from a 2018 guide

_SIZES_GIB = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_THREADS_EACH = 2  # threads of the CPU for each GPU


def gpu_memory_bytes(cards: Sequence[Cards]) -> tuple[float, float]:
    """Return the memory of all devices together, and of the largest one."""
    each = [(entry.count * entry.gpu.devices_per_board, entry.gpu.memory_bytes) for entry in cards]
    return sum(count * size for count, size in each), max(size for _, size in each)


def usual_ram_bytes(cards: Sequence[Cards]) -> float:
    """Return the smallest size on sale that is at least the memory of all GPUs together."""
    total, _ = gpu_memory_bytes(cards)
    return next((size * GIB for size in _SIZES_GIB if size * GIB >= total), total)


def host_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Compare RAM with the GPUs' memory, and threads with the number of GPUs."""
    return (_ram(cards, box), _threads(cards, box))


def _ram(cards: Sequence[Cards], box: Box) -> CheckLine:
    total, largest = gpu_memory_bytes(cards)
    has = box.ram_bytes or usual_ram_bytes(cards)
    verdict = "pass" if has >= total else "tight" if has >= largest / 2 else "fail"
    short = f"you have {has / GIB:.0f} GiB of RAM" if box.ram_bytes else f"get {has / GIB:.0f} GiB of RAM"
    alone = f"; the largest GPU alone has {largest / GIB:.0f} GiB" if total != largest else ""
    whose = "the GPUs have in total" if alone else "the GPU has"
    text = f"{short}; we recommend at least as much as {whose} ({total / GIB:.0f} GiB){alone}"
    remedy = "" if verdict == "pass" else f"get {usual_ram_bytes(cards) / GIB:.0f} GiB, or less if you read the data in pieces"
    return CheckLine(check="ram", verdict=verdict, value=has, limit=total, unit="bytes", text=text, remedy=remedy)


def _threads(cards: Sequence[Cards], box: Box) -> CheckLine:
    devices = sum(entry.count * entry.gpu.devices_per_board for entry in cards)
    has, wanted = box.threads_per_core * box.core_count, _THREADS_EACH * devices
    verdict = "pass" if has >= wanted else "tight" if has >= devices else "fail"
    text = (
        f"the CPU has {has} threads for {devices} {'GPU' if devices == 1 else 'GPUs'}; at least {wanted} are "
        f"recommended ({_THREADS_EACH} per GPU)"
    )
    remedy = "" if verdict == "pass" else f"use a CPU with {-(-wanted // box.threads_per_core)} cores or more"
    return CheckLine(check="cpu", verdict=verdict, value=has, limit=wanted, unit="threads", text=text, remedy=remedy)


# ---------------------------------------------------------------- all checks in one order

_CHECKS = (power_lines, connector_lines, slot_lines, cooling_lines, lane_lines, host_lines, outlet_lines)


def check_build(gpu: Gpu, count: int, box: Box) -> tuple[CheckLine, ...]:
    """Return whether this many cards of one kind work in this box."""
    return check_cards((Cards(gpu=gpu, count=count),), box)


def check_cards(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Check whether these cards work in this box. A GPU that is not a card gets one line and skips the other checks."""
    real = [each for each in cards if is_card(each.gpu)]
    further = [line for check in _CHECKS for line in check(real, box)] if real else []
    return (*form_lines(cards), *further)


def worst(lines: Iterable[CheckLine]) -> str:
    """Return the worst verdict."""
    return max((line.verdict for line in lines), key=VERDICTS.index, default=VERDICTS[0])
