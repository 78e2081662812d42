"""Whether a GPU is a card at all: laptop parts, modules and chips of whole machines cannot be put into a slot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gpuwise.box.types import Cards, CheckLine
from gpuwise.hardware.tables import curated_gpus
from gpuwise.hardware.types import Gpu

__all__ = ["form_lines", "is_card", "sibling"]

_WHOLE = {
    "laptop": "is soldered into laptops",
    "soc": "is part of a whole computer",
    "embedded": "is part of a module with its own CPU",
    "tpu": "is rented, not sold as a card",
    "cpu": "is a CPU, not a card",
}


def is_card(gpu: Gpu) -> bool:
    """Whether it goes into a PCIe slot."""
    return gpu.segment not in _WHOLE and gpu.cooler != "module"


@cache
def sibling(gpu: Gpu) -> Gpu | None:
    """The card most similar to a GPU that is not a card: the same chip, else the same architecture; then by units and memory."""
    cards = [other for other in curated_gpus() if is_card(other) and other.vendor == gpu.vendor]
    same = [other for other in cards if gpu.chip and other.chip == gpu.chip]
    near = same or [other for other in cards if other.architecture.id == gpu.architecture.id]
    return min(near, key=lambda other: _distance(gpu, other), default=None)


def _distance(gpu: Gpu, other: Gpu) -> float:
    return abs(other.sm_count / gpu.sm_count - 1) + abs(other.memory_bytes / gpu.memory_bytes - 1)


def form_lines(cards: Sequence[Cards]) -> tuple[CheckLine, ...]:
    """A line for each GPU that is not a card, and one where no card drives a screen."""
    lines = [_not_a_card(each) for each in cards if not is_card(each.gpu)]
    real = [each.gpu for each in cards if is_card(each.gpu)]
    if real and all(gpu.display is False for gpu in real):
        text = f"{', '.join(dict.fromkeys(gpu.name for gpu in real))}: no video output"
        remedy = "a CPU with graphics, a small card for the screen, or no screen at all"
        lines.append(CheckLine(check="display", verdict="tight", value=0, limit=1, unit="outputs", text=text, remedy=remedy))
    return tuple(lines)


def _not_a_card(each: Cards) -> CheckLine:
    gpu = each.gpu
    what = _WHOLE.get(gpu.segment, "is a module for server boards (SXM, OAM), not a card")
    other = sibling(gpu)
    remedy = f"the most similar card is {other.name}" if other else "buy a machine that contains it"
    return CheckLine(check="form", verdict="fail", value=0, limit=1, unit="cards", text=f"{gpu.name} {what}", remedy=remedy)
