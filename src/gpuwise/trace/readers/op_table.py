"""The text that `key_averages().table()` of PyTorch's profiler prints: time by op, summed over the recording.

The line of dashes shows where each column begins and ends, so there can be any columns in any order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.trace.documents import as_number
from gpuwise.trace.source import as_utf8, read_whole
from gpuwise.trace.types import printable

__all__ = ["OpRow", "OpTable", "read_op_table"]

_MOST_BYTES = 1 << 28
_MOST_ROWS = 200_000
_DASHES = re.compile(r"-{3,}")
_TIME = re.compile(r"([\d.,]+)\s*(ns|us|µs|ms|s)$")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_SUM = re.compile(r"^\s*(?:Self )?(\w+) time total:\s*(\S+)", re.IGNORECASE)
_DEVICES = ("CUDA", "XPU", "HPU", "MTIA", "PrivateUse1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One op or kernel. "Self" excludes what it calls; device times are 0 for ops that ran only on the host."""

    name: str
    calls: int
    self_cpu_s: float
    cpu_s: float
    self_device_s: float
    device_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTable:
    """The rows of one table, and its totals, which are None if the table is cut off before them. `device` is empty if there is
    none.
    """

    file: str
    device: str
    rows: tuple[OpRow, ...]
    cpu_total_s: float | None
    device_total_s: float | None
    lost: int


def read_op_table(path: Path) -> OpTable:
    """Read the first table of a file."""
    data, _ = read_whole(path, _MOST_BYTES)
    lines = as_utf8(data).decode("utf-8", "replace").splitlines()
    head = next((place for place, line in enumerate(lines) if "Self CPU" in line and "Calls" in line), 0)
    spans = [match.span() for match in _DASHES.finditer(lines[head - 1])] if head else []
    titles = [lines[head][start:end].strip() for start, end in spans]
    if "Name" not in titles:
        raise BadFile(
            f"'{path.name}' looks like a profiler table but lacks the usual columns",
            looked_in="the line of dashes above its titles",
            hint="save the unchanged output of `print(profiler.key_averages().table(row_limit=-1))`",
        )
    device = next((name for name in _DEVICES if f"Self {name}" in titles or f"{name} total" in titles), "")
    rows: list[OpRow] = []
    lost = 0
    for line in lines[head + 1 : head + 1 + _MOST_ROWS]:
        if not line.strip() or _DASHES.match(line.strip()):
            if rows:
                break
            continue
        cells = dict(zip(titles, (line[start:end].strip() for start, end in spans), strict=True))
        row = _row(cells, device)
        if row is None:
            lost += 1
        else:
            rows.append(row)
    if not rows:
        raise BadFile(f"'{path.name}' is a profiler table without rows", hint="print the table after the profiler has stopped")
    sums = {match[1].lower(): _seconds(match[2]) for line in lines[head:] if (match := _SUM.match(line))}
    return OpTable(
        file=printable(path.name),
        device=device,
        rows=tuple(rows),
        cpu_total_s=sums.get("cpu"),
        device_total_s=sums.get(device.lower()) if device else None,
        lost=lost,
    )


def _row(cells: dict[str, str], device: str) -> OpRow | None:
    own, whole = _seconds(cells.get("Self CPU", cells.get("Self CPU total", ""))), _seconds(cells.get("CPU total", ""))
    calls = as_number(cells.get("# of Calls", cells.get("Number of Calls", "")))
    if not cells["Name"] or own is None or calls is None or calls < 0:
        return None
    device_s = _seconds(cells.get(f"{device} total", "")) or 0.0
    own_device = _seconds(cells.get(f"Self {device}", ""))
    return OpRow(
        name=printable(cells["Name"][:200]),
        calls=int(calls),
        self_cpu_s=own,
        cpu_s=own if whole is None else whole,
        self_device_s=device_s if own_device is None else own_device,
        device_s=device_s,
    )


def _seconds(text: str) -> float | None:
    """
    >>> _seconds("12.5ms"), _seconds("1,000us"), _seconds("--"), _seconds("")
    (0.0125, 0.001, None, None)
    """
    found = _TIME.search(text.strip())
    number = as_number(found[1].replace(",", "")) if found else None
    return number * _UNITS[found[2]] if found and number is not None else None
