"""All checks of a box in one order. Pure: the same cards and box give the same lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwise.box.connectors import connector_lines
from gpuwise.box.cooling import cooling_lines
from gpuwise.box.form import form_lines, is_card
from gpuwise.box.host import host_lines
from gpuwise.box.lanes import lane_lines
from gpuwise.box.outlet import outlet_lines
from gpuwise.box.power import power_lines
from gpuwise.box.slots import slot_lines
from gpuwise.box.types import VERDICTS, Box, Cards, CheckLine
from gpuwise.hardware.types import Gpu

__all__ = ["check_build", "check_cards", "worst"]

_CHECKS = (power_lines, connector_lines, slot_lines, cooling_lines, lane_lines, host_lines, outlet_lines)


def check_build(gpu: Gpu, count: int, box: Box) -> tuple[CheckLine, ...]:
    """Whether this many cards of one kind work in this box."""
    return check_cards((Cards(gpu=gpu, count=count),), box)


def check_cards(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """Whether these cards work in this box. A GPU that is not a card gets one line of its own and skips the other checks."""
    real = [each for each in cards if is_card(each.gpu)]
    further = [line for check in _CHECKS for line in check(real, box)] if real else []
    return (*form_lines(cards), *further)


def worst(lines: Iterable[CheckLine]) -> str:
    """The worst verdict among them."""
    return max((line.verdict for line in lines), key=VERDICTS.index, default=VERDICTS[0])
