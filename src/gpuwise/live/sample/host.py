"""Samples the host: cores, memory, and a process with everything it started. Linux only; on other systems it reports that
nothing is available.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from gpuwise.live.sample.types import HostSample

__all__ = ["HostSampler", "tree_of"]

_PROC = Path("/proc")
_KIB = 1024.0


def tree_of(pid: int, proc: Path = _PROC) -> list[int]:
    """Return a process and its descendants, as far as the system shows them."""
    found, waiting = list[int](), [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        try:
            tasks = list((proc / str(one) / "task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                waiting += [int(child) for child in (task / "children").read_text(encoding="ascii").split()]
            except OSError:
                continue
    return found


class HostSampler:
    """Computes differences of the kernel's counters since the previous sample."""

    def __init__(self, pid: int, proc: Path = _PROC) -> None:
        self._pid, self._proc = pid, proc
        self._tick_s = 1.0 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01
        self._cores: list[tuple[int, int]] = []
        self._own_s: dict[int, float] = {}
        self._delayed_s: dict[int, float] = {}
        self._at = 0.0
        self.pids: set[int] = {pid}
        self.faults: list[str] = []
        if not (proc / "stat").exists():
            self.faults.append("the CPU load is read from /proc, which exists only on Linux")

    def sample(self) -> HostSample | None:
        """Return a sample of the host since the last call; the first call only starts the counters."""
        if self.faults:
            return None
        try:
            cores, (used, total) = self._core_counters(), self._memory()
        except (OSError, ValueError, KeyError):
            self.faults.append("the CPU load could not be read")
            return None
        now = time.monotonic()
        elapsed, self._at = now - self._at, now
        tree = tree_of(self._pid, self._proc)
        self.pids.update(tree)
        own, delayed, resident = self._own(tree, elapsed)
        before, self._cores = self._cores, cores
        if len(before) != len(cores):
            return None
        shares = tuple(_share(old, new) for old, new in zip(before, cores, strict=True))
        return HostSample(
            core_fractions=shares,
            ram_used_bytes=used,
            ram_bytes=total,
            own_cores=own,
            own_processes=len(tree),
            own_ram_bytes=resident,
            delayed_fraction=delayed,
        )

    def _core_counters(self) -> list[tuple[int, int]]:
        """Return the busy and total ticks of each core."""
        counters = []
        for line in (self._proc / "stat").read_text(encoding="ascii").splitlines():
            name, *fields = line.split()
            if name.startswith("cpu") and name != "cpu":
                ticks = [int(field) for field in fields[:8]]
                counters.append((sum(ticks) - ticks[3] - ticks[4], sum(ticks)))
        return counters

    def _memory(self) -> tuple[float, float]:
        rows = (line.split() for line in (self._proc / "meminfo").read_text(encoding="ascii").splitlines())
        sizes = {row[0].rstrip(":"): float(row[1]) * _KIB for row in rows if len(row) > 1}
        return sizes["MemTotal"] - sizes["MemAvailable"], sizes["MemTotal"]

    def _own(self, tree: list[int], elapsed_s: float) -> tuple[float | None, float | None, float]:
        """Return the cores that the run used, the largest share of time that one of its main threads waited for a core, and its
        memory.
        """
        used_s: dict[int, float] = {}
        delayed_s: dict[int, float] = {}
        resident = 0.0
        for pid in tree:
            folder = self._proc / str(pid)
            try:
                fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                used_s[pid] = (int(fields[11]) + int(fields[12])) * self._tick_s
                resident += int(fields[21]) * 4096.0
                delayed_s[pid] = int((folder / "schedstat").read_text(encoding="ascii").split()[1]) * 1e-9
            except (OSError, IndexError, ValueError):  # the process has ended, or the kernel has no schedstat
                continue
        own = [used_s[pid] - self._own_s[pid] for pid in used_s if pid in self._own_s]
        late = [delayed_s[pid] - self._delayed_s[pid] for pid in delayed_s if pid in self._delayed_s]
        self._own_s, self._delayed_s = used_s, delayed_s
        if not own or elapsed_s <= 0:
            return None, None, resident
        return sum(own) / elapsed_s, min(max(late) / elapsed_s, 1.0) if late else None, resident


def _share(old: tuple[int, int], new: tuple[int, int]) -> float:
    total = new[1] - old[1]
    return min(max((new[0] - old[0]) / total, 0.0), 1.0) if total > 0 else 0.0
