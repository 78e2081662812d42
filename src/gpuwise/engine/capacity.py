"""What a GPU's memory holds: how much of it a program gets, the largest batch that stays within it, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuwise.hardware.types import Gpu
from gpuwise.step.memory.peak import upper_ratio

__all__ = ["LARGEST_BATCH", "Room", "largest", "room_of", "safe_bytes"]

LARGEST_BATCH = 2**31 - 1
_SHARED_SEGMENTS = ("soc", "embedded", "cpu")
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
        whole = gpu.usable_memory_bytes + gpu.slow_memory_bytes
        return Room(usable_bytes=whole, nominal_bytes=gpu.memory_bytes, shared=False)
    usable = gpu.usable_memory_bytes
    remark = "the share that Metal recommends as a working set"
    if gpu.vendor != "Apple":
        usable = min(usable, gpu.memory_bytes * (1.0 - _SYSTEM_FRACTION))
        remark = f"{_SYSTEM_FRACTION:.0%} is left to the system and the program's own data"
    return Room(usable_bytes=usable, nominal_bytes=gpu.memory_bytes, shared=True, remark=remark)


def safe_bytes(gpu: Gpu) -> float:
    """What a step may be predicted to need on this GPU so that nine in ten stay within its room."""
    return room_of(gpu).usable_bytes / upper_ratio()


def largest(
    need: Callable[[int], float], room_bytes: float, *, top: int = LARGEST_BATCH, known: Mapping[int, float] | None = None
) -> int:
    """The largest whole number up to `top` whose need stays within the room; 0 if none does. Needs already `known` save looking.

    Need grows with its argument, nearly in straight lines, so guesses follow the line through the ends of the bracket, and every
    fourth takes its middle. The answer fits and the next does not, whatever the shape.
    """
    low, least, high, most = _bracket(need, room_bytes, top, known or {})
    turn = 0
    while high - low > 1:
        slope = (most - least) / (high - low)
        turn += 1
        by_line = turn % 4 and 0 < slope < math.inf
        guess = low + int((room_bytes - least) / slope) if by_line else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        found = need(guess)
        if found <= room_bytes:
            low, least = guess, found
        else:
            high, most = guess, found
    return low


def _bracket(
    need: Callable[[int], float], room_bytes: float, top: int, known: Mapping[int, float]
) -> tuple[int, float, int, float]:
    """A number that fits (0 if 1 does not) and what it needs, one above it that does not and what that needs."""
    first = known[1] if 1 in known else need(1)
    if first > room_bytes:
        return 0, 0.0, 1, first
    low, least = max(((size, bytes_) for size, bytes_ in known.items() if bytes_ <= room_bytes), default=(1, first))
    above = [(size, bytes_) for size, bytes_ in known.items() if bytes_ > room_bytes and size > low]
    if above:
        return low, least, *min(above)
    step = max(1, low)
    while low < top:
        high = min(top, low + step)
        most = need(high)
        if most > room_bytes:
            return low, least, high, most
        slope = (most - least) / (high - low)
        low, least = high, most
        step = min(int((room_bytes - most) / slope) + 1, 64 * high) if slope > 0 else high
    return top, least, top + 1, math.inf
