"""Memory and cores of the host beside the GPUs: rules of thumb from a guide of 2018, with their figures."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.box.types import Box, Cards, CheckLine
from gpuwise.core.units import GIB

__all__ = ["gpu_memory_bytes", "host_lines", "usual_ram_bytes"]

_SIZES_GIB = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
_THREADS_EACH = 2  # threads of the CPU for each GPU
_THREADS_PER_CORE = 2


def gpu_memory_bytes(cards: Sequence[Cards]) -> tuple[float, float]:
    """Memory of all devices together, and of the largest one."""
    each = [(entry.count * entry.gpu.devices_per_board, entry.gpu.memory_bytes) for entry in cards]
    return sum(count * size for count, size in each), max(size for _, size in each)


def usual_ram_bytes(cards: Sequence[Cards]) -> float:
    """The smallest size on sale that is at least the memory of all GPUs together."""
    total, _ = gpu_memory_bytes(cards)
    return next((size * GIB for size in _SIZES_GIB if size * GIB >= total), total)


def host_lines(cards: Sequence[Cards], box: Box) -> tuple[CheckLine, ...]:
    """RAM against the GPUs' memory, threads against the number of GPUs."""
    return (_ram(cards, box), _threads(cards, box))


def _ram(cards: Sequence[Cards], box: Box) -> CheckLine:
    total, largest = gpu_memory_bytes(cards)
    has = box.ram_bytes or usual_ram_bytes(cards)
    verdict = "pass" if has >= total else "tight" if has >= largest / 2 else "fail"
    short = f"{has / GIB:.0f} GiB" if box.ram_bytes else f"take {has / GIB:.0f} GiB"
    text = (
        f"{short}; recommended is the memory of all GPUs together, {total / GIB:.0f} GiB; the largest has {largest / GIB:.0f} GiB"
    )
    remedy = "" if verdict == "pass" else f"{usual_ram_bytes(cards) / GIB:.0f} GiB; less works if data is read in pieces"
    return CheckLine(check="ram", verdict=verdict, value=has, limit=total, unit="bytes", text=text, remedy=remedy)


def _threads(cards: Sequence[Cards], box: Box) -> CheckLine:
    devices = sum(entry.count * entry.gpu.devices_per_board for entry in cards)
    has, wanted = _THREADS_PER_CORE * box.core_count, _THREADS_EACH * devices
    verdict = "pass" if has >= wanted else "tight" if has >= devices else "fail"
    text = f"{has} threads for {devices} {'GPU' if devices == 1 else 'GPUs'}, {wanted} recommended ({_THREADS_EACH} each)"
    remedy = "" if verdict == "pass" else f"a CPU with {-(-wanted // _THREADS_PER_CORE)} cores or more"
    return CheckLine(check="cpu", verdict=verdict, value=has, limit=wanted, unit="threads", text=text, remedy=remedy)
