"""Runs all cases on a device within a time, and makes a profile of them."""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.errors import BadValue, MissingExtra
from gpuwise.watch.bench.around import around, missing_around
from gpuwise.watch.bench.cases import cases
from gpuwise.watch.bench.timing import stable_seconds
from gpuwise.watch.bench.types import VERSION, Profile, Row

__all__ = ["device_here", "device_name", "measure", "waiter"]

_CASES = 125  # about how many there are, for the share of time that each may take
_LEAST_BUDGET_S = 0.02
_ROUNDS = 2  # apart in time: what disturbs for seconds disturbs one of them


def measure(
    device: str,
    folder: Path,
    *,
    seconds: float,
    progress: Callable[[str, float], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Profile:
    """Measure within `seconds`. What a device cannot do is left out and named. `clock` may be that of the process, on a CPU that
    others use meanwhile."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="measuring a device") from None
    device = device_here(torch, device)
    wait = waiter(torch, device)
    rows: dict[tuple[str, tuple[float, ...]], Row] = {}
    missing = missing_around(device)
    for turn in range(_ROUNDS):
        end = time.perf_counter() + seconds / _ROUNDS

        def told(text: str, share: float, turn: int = turn) -> None:
            progress(text, (turn + share) / _ROUNDS)

        for row in _round(device, folder, end, seconds / _ROUNDS, wait, clock, told, missing):
            before = rows.get((row.kind, row.sizes))
            rows[row.kind, row.sizes] = row if before is None or row.seconds < before.seconds else before
    gc.collect()
    progress("done", 1.0)
    return Profile(
        version=VERSION,
        device=device,
        name=device_name(torch, device),
        day=date.today().isoformat(),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        rows=tuple(rows.values()),
        missing=tuple(dict.fromkeys(missing)),
    )


def _round(
    device: str,
    folder: Path,
    end: float,
    seconds: float,
    wait: Callable[[], Any],
    clock: Callable[[], float],
    progress: Callable[[str, float], None],
    missing: list[str],
) -> Iterator[Row]:
    """Every case once; the time that is left is shared by those that are left."""
    done = 0
    for source in (cases(device), around(device, folder)):
        for case in source:
            left = end - time.perf_counter()
            progress(case.kind, min(max(1.0 - left / seconds, 0.0), 1.0))
            try:
                took, spread, runs = stable_seconds(case.call, wait, max(left / max(_CASES - done, 5), _LEAST_BUDGET_S), clock)
            except (RuntimeError, NotImplementedError) as fault:  # a type or kernel that the device does not have, or no memory
                missing.append(f"{case.kind}: {str(fault).splitlines()[0]}")
                continue
            done += 1
            sizes = tuple(map(float, case.sizes))
            yield Row(
                kind=case.kind, sizes=sizes, work=case.work, seconds=took, spread_fraction=spread, runs=runs, unit=case.unit
            )


def device_here(torch: Any, asked: str) -> str:
    """The device asked for, if torch sees it; the fastest it sees where none is."""
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
        raise BadValue(f"'{device}' is no device", looked_in="cpu, cuda:0, cuda:1, mps", hint="for example `--device cpu`")
    if int(number or 0) >= counts[kind]:
        raise BadValue(
            f"torch sees no {device} here",
            looked_in=f"{counts[kind]} of kind {kind}",
            hint="`gpuwise doctor` shows what there is",
        )


def waiter(torch: Any, device: str) -> Callable[[], Any]:
    """What waits until all that was issued to the device is done."""
    if device.startswith("cuda"):
        return lambda: torch.cuda.synchronize(device)
    return torch.mps.synchronize if device == "mps" else (lambda: None)


def device_name(torch: Any, device: str) -> str:
    """What the device calls itself."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
