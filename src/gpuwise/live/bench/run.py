"""Runs all cases on a device within a time limit, and builds a profile from them."""

from __future__ import annotations

import gc
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadValue, MissingExtra
from gpuwise.core.text import counted
from gpuwise.live.bench.around import around, missing_around
from gpuwise.live.bench.cases import Case, cases
from gpuwise.live.bench.timing import stable_seconds
from gpuwise.live.bench.types import VERSION, Profile, Row

__all__ = ["device_here", "device_name", "measure", "waiter"]

_CASES = 180  # the approximate number of cases, for the share of time that each may take
_LEAST_BUDGET_S = 0.02
_MOST_SHARE = 0.05  # of the remaining time, for one case
_OVER = "out of time; increase `--seconds`"
Key = tuple[str, tuple[float, ...]]


def measure(
    device: str,
    folder: Path,
    *,
    seconds: float,
    progress: Callable[[str, float], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Profile:
    """Measure within `seconds`: one case of every kind, then the other sizes, then everything again later, so that a
    disturbance of some seconds affects only one of them. What a device does not support, and what there was no time for, is
    left out and named. `clock` may be that of the process, on a CPU that others use meanwhile.
    """
    begun = time.perf_counter()
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="measuring a device") from None
    device = device_here(torch, device)
    measuring = _Measuring(device, folder, waiter(torch, device), clock, progress, begun, seconds)
    measuring.one_of_each_kind()
    measuring.the_rest()
    measuring.all_again()
    gc.collect()
    progress("done", 1.0)
    return Profile(
        version=VERSION,
        device=device,
        name=device_name(torch, device),
        day=date.today().isoformat(),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        rows=measuring.ordered(),
        missing=tuple(dict.fromkeys([*missing_around(device), *measuring.missing, *measuring.left_out()])),
    )


class _Measuring:
    """The rows so far, and the time limit for all of them."""

    def __init__(
        self,
        device: str,
        folder: Path,
        wait: Callable[[], Any],
        clock: Callable[[], float],
        progress: Callable[[str, float], None],
        begun: float,
        seconds: float,
    ) -> None:
        self._device, self._folder, self._wait, self._clock, self._progress = device, folder, wait, clock, progress
        self._begun, self._seconds = begun, seconds
        self._seen: dict[Key, None] = {}
        self._failed: set[Key] = set()
        self._rows: dict[Key, Row] = {}
        self._has_seen_all = False
        self.missing: list[str] = []

    def one_of_each_kind(self) -> None:
        kinds: set[str] = set()
        for key, case in self._cases():
            self._seen[key] = None
            if case.kind not in kinds:
                kinds.add(case.kind)
                self._time(key, case, 0.5)
        self._has_seen_all = not self._is_over()

    def the_rest(self) -> None:
        for key, case in self._cases():
            if key not in self._rows and key not in self._failed:
                self._time(key, case, 0.5)

    def all_again(self) -> None:
        done = 0
        for key, case in self._cases():
            if key not in self._failed:
                self._time(key, case, 1.0, done)
                done += 1

    def ordered(self) -> tuple[Row, ...]:
        """Return the rows grouped by kind, in the order of measurement."""
        kinds = list(dict.fromkeys(kind for kind, _ in self._seen))
        return tuple(sorted(self._rows.values(), key=lambda row: kinds.index(row.kind)))

    def left_out(self) -> list[str]:
        """Return what there was no time for."""
        counts = Counter(
            kind for kind, sizes in self._seen if (kind, sizes) not in self._rows and (kind, sizes) not in self._failed
        )
        told = [f"{counted(count, 'size')} of {kind} ({_OVER})" for kind, count in counts.items()]
        return told if self._has_seen_all else [*told, f"all kinds that are not listed ({_OVER})"]

    def _cases(self) -> Iterator[tuple[Key, Case]]:
        """Yield all cases until the time is up."""
        for source in (cases(self._device), around(self._device, self._folder)):
            for case in source:
                if self._is_over():
                    return
                yield (case.kind, tuple(map(float, case.sizes))), case

    def _is_over(self) -> bool:
        return time.perf_counter() - self._begun >= self._seconds

    def _time(self, key: Key, case: Case, until: float, done: int | None = None) -> None:
        """Time one case; the remaining time of this part is shared by the remaining cases."""
        spent = time.perf_counter() - self._begun
        left = until * self._seconds - spent
        self._progress(case.kind, min(spent / self._seconds, 1.0))
        budget = max(left / max(_CASES - (len(self._rows) if done is None else done), 5), _LEAST_BUDGET_S)
        most = max(budget, _MOST_SHARE * left)
        try:
            took, spread, runs = stable_seconds(case.call, self._wait, budget, self._clock, most_s=most)
        except (RuntimeError, NotImplementedError) as fault:  # the device lacks the type, the kernel or the memory
            self.missing.append(f"{case.kind}: {str(fault).splitlines()[0]}")
            self._failed.add(key)
            return
        before = self._rows.get(key)
        if before is None or took < before.seconds:
            self._rows[key] = Row(
                kind=case.kind, sizes=key[1], work=case.work, seconds=took, spread_fraction=spread, runs=runs, unit=case.unit
            )


def device_here(torch: Any, asked: str) -> str:
    """Return the requested device, if torch sees it, or by default the fastest it sees."""
    device = asked or _best(torch)
    _check(torch, device)
    return device


def _best(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda:0"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _check(torch: Any, device: str) -> None:
    kind, _, number = device.partition(":")
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if kind not in counts or (number and not number.isdigit()):
        raise BadValue(f"unknown device '{device}'", known="cpu, cuda:0, cuda:1, mps", hint="try `--device cpu`")
    if int(number or 0) >= counts[kind]:
        raise BadValue(
            f"torch cannot find {device} on this machine",
            hint="list the devices with `gpuwise doctor`",
        )


def waiter(torch: Any, device: str) -> Callable[[], Any]:
    """Return a function that waits until the device has finished all work."""
    if device.startswith("cuda"):
        return lambda: torch.cuda.synchronize(device)
    return torch.mps.synchronize if device == "mps" else (lambda: None)


def device_name(torch: Any, device: str) -> str:
    """Return the device's own name."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
