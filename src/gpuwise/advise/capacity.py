"""What a GPU's memory holds: how much of it a program gets, the largest batch that stays within it, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpuwise.hardware.types import Gpu
from gpuwise.step.memory import Memory

__all__ = ["LARGEST_BATCH", "Room", "chance", "high_bytes", "largest", "low_bytes", "room_of"]

LARGEST_BATCH = 2**31 - 1
_SHARED_SEGMENTS = ("soc", "embedded")
_SYSTEM_FRACTION = 0.2  # of memory shared with the CPU, for the system and the program's own data


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes a step may need on one GPU. Shared memory belongs to the CPU too."""

    usable_bytes: float
    nominal_bytes: float
    shared: bool
    remark: str = ""


def room_of(gpu: Gpu) -> Room:
    """The memory of this GPU that one program can have."""
    if gpu.segment not in _SHARED_SEGMENTS or gpu.memory_type.startswith(("GDDR", "HBM")):
        return Room(usable_bytes=gpu.usable_memory_bytes, nominal_bytes=gpu.memory_bytes, shared=False)
    usable = gpu.usable_memory_bytes
    remark = "the share that Metal recommends as a working set"
    if gpu.vendor != "Apple":
        usable = min(usable, gpu.memory_bytes * (1.0 - _SYSTEM_FRACTION))
        remark = f"{_SYSTEM_FRACTION:.0%} is left to the system and the program's own data"
    return Room(usable_bytes=usable, nominal_bytes=gpu.memory_bytes, shared=True, remark=remark)


def largest(need: Callable[[int], float], room_bytes: float, *, top: int = LARGEST_BATCH) -> int:
    """The largest whole number up to `top` whose need stays within the room; 0 if none does.

    Need grows with its argument, nearly in straight lines: guesses by the line through the ends of the bracket alternate with its
    middle, so that few sizes are looked at. The answer fits and the next does not, whatever the shape.
    """
    fits = _growing(need, room_bytes, top)
    if fits is None:
        return 0
    low, high, least, most = fits
    by_line = True
    while high - low > 1:
        slope = (most - least) / (high - low)
        guess = low + int((room_bytes - least) / slope) if by_line and slope > 0 else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        found = need(guess)
        by_line = not by_line
        if found <= room_bytes:
            low, least = guess, found
        else:
            high, most = guess, found
    return low


def _growing(need: Callable[[int], float], room_bytes: float, top: int) -> tuple[int, int, float, float] | None:
    """A number that fits, one above it that does not, and what both need; None if 1 does not fit."""
    low, least = 1, need(1)
    if least > room_bytes:
        return None
    high = 2
    while high <= top:
        most = need(high)
        if most > room_bytes:
            return low, high, least, most
        slope = (most - least) / (high - low)
        low, least = high, most
        jump = int((room_bytes - most) / slope) + 1 if slope > 0 else high
        high = high + min(max(jump, 1), 64 * high)
        if high > top > low:
            high = top
    return top, top + 1, least, float("inf")


_SPREAD = 0.1  # TEMP


def low_bytes(memory: Memory) -> float:
    return memory.total_bytes * (1 - _SPREAD)


def high_bytes(memory: Memory) -> float:
    return memory.total_bytes * (1 + _SPREAD)


def chance(memory: Memory, room_bytes: float) -> float:
    return 1 / (1 + math.exp(-math.log(room_bytes / memory.total_bytes) / (_SPREAD / 2.2)))
