"""GPU readings over time as text: `nvidia-smi dmon`, `nvidia-smi --query-gpu … --format=csv`, `dcgmi dmon`, and the system
metrics of Weights & Biases as CSV.

Columns are recognised by name, in any order; unknown ones are ignored. A dash or N/A is not a reading.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile
from gpuwise.trace.documents import as_number, as_text
from gpuwise.trace.source import as_utf8, read_whole
from gpuwise.trace.types import printable

__all__ = ["Reading", "Telemetry", "read_telemetry"]

_MOST_BYTES = 1 << 28
_MOST_READINGS = 2_000_000
_MOST_GPUS = 4096
_LEAST, _MOST = 1e-6, 1e15  # of a reading in the unit of its column; values outside this range are not readings
_MIB = 2.0**20
_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?")
_MEANS = {  # column in lower case, without its unit -> field and factor to SI
    # nvidia-smi dmon
    "sm": ("busy_fraction", 0.01),
    "mem": ("memory_busy_fraction", 0.01),
    "pwr": ("power_watts", 1.0),
    "gtemp": ("temperature_c", 1.0),
    "pclk": ("clock_hz", 1e6),
    "fb": ("memory_used_bytes", _MIB),
    "rxpci": ("received_bytes_per_s", 1e6),
    "txpci": ("sent_bytes_per_s", 1e6),
    "pviol": ("power_violation", 1.0),
    "tviol": ("thermal_violation", 1.0),
    # dcgmi dmon
    "gputl": ("busy_fraction", 0.01),
    "gract": ("busy_fraction", 1.0),
    "smact": ("busy_fraction", 1.0),
    "mcutl": ("memory_busy_fraction", 0.01),
    "drama": ("memory_busy_fraction", 1.0),
    "power": ("power_watts", 1.0),
    "tmptr": ("temperature_c", 1.0),
    "smclk": ("clock_hz", 1e6),
    "fbusd": ("memory_used_bytes", _MIB),
    "fbttl": ("memory_bytes", _MIB),
    "pcitx": ("sent_bytes_per_s", 1.0),
    "pcirx": ("received_bytes_per_s", 1.0),
    # nvidia-smi --query-gpu
    "utilization.gpu": ("busy_fraction", 0.01),
    "utilization.memory": ("memory_busy_fraction", 0.01),
    "power.draw": ("power_watts", 1.0),
    "power.draw.average": ("power_watts", 1.0),
    "power.limit": ("power_limit_watts", 1.0),
    "enforced.power.limit": ("power_limit_watts", 1.0),
    "power.default_limit": ("power_default_watts", 1.0),
    "temperature.gpu": ("temperature_c", 1.0),
    "clocks.sm": ("clock_hz", 1e6),
    "clocks.current.sm": ("clock_hz", 1e6),
    "clocks.max.sm": ("clock_max_hz", 1e6),
    "memory.used": ("memory_used_bytes", _MIB),
    "memory.total": ("memory_bytes", _MIB),
    "pcie.link.gen.current": ("pcie_generation", 1.0),
    "pcie.link.gen.gpucurrent": ("pcie_generation", 1.0),
    "pcie.link.gen.max": ("pcie_generation_max", 1.0),
    "pcie.link.width.current": ("pcie_lanes", 1.0),
    "pcie.link.width.max": ("pcie_lanes_max", 1.0),
    # Weights & Biases, after the number of the GPU
    "gpu": ("busy_fraction", 0.01),
    "memory": ("memory_busy_fraction", 0.01),
    "memoryallocated": ("memory_used_fraction", 0.01),
    "memoryallocatedbytes": ("memory_used_bytes", 1.0),
    "temp": ("temperature_c", 1.0),
    "powerwatts": ("power_watts", 1.0),
    "enforcedpowerlimitwatts": ("power_limit_watts", 1.0),
    "smclock": ("clock_hz", 1e6),
    "pcielinkgen": ("pcie_generation", 1.0),
    "pcielinkwidth": ("pcie_lanes", 1.0),
}
_REASONS = {  # columns of nvidia-smi that say "Active" or "Not Active"
    "sw_thermal_slowdown": "thermal (software)",
    "hw_thermal_slowdown": "thermal (hardware)",
    "hw_power_brake_slowdown": "power brake",
    "hw_slowdown": "hardware slowdown",
    "sw_power_cap": "power cap",
}
_OF_GPU = re.compile(r"gpu\.(\d{1,4})\.(\w+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One GPU at one moment; None for values that the file does not have. `reason_bits` are NVML's reasons for a lower clock."""

    index: int
    name: str = ""
    busy_fraction: float | None = None
    memory_busy_fraction: float | None = None
    clock_hz: float | None = None
    clock_max_hz: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    temperature_c: float | None = None
    memory_used_bytes: float | None = None
    memory_used_fraction: float | None = None
    memory_bytes: float | None = None
    received_bytes_per_s: float | None = None
    sent_bytes_per_s: float | None = None
    pcie_generation: float | None = None
    pcie_generation_max: float | None = None
    pcie_lanes: float | None = None
    pcie_lanes_max: float | None = None
    power_violation: float | None = None
    thermal_violation: float | None = None
    reasons: tuple[str, ...] | None = None
    reason_bits: int | None = None


_FIELDS = {one.name for one in fields(Reading)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The readings of one file, in its order, and how many of its lines could not be used."""

    file: str
    source: str
    readings: tuple[Reading, ...]
    lost: int


def read_telemetry(path: Path) -> Telemetry:
    """One file."""
    data, _ = read_whole(path, _MOST_BYTES)
    lines = as_utf8(data).decode("utf-8", "replace").splitlines()
    head = next((line for line in lines if line.strip()), "")
    if "," in head:
        source, found, lost = _csv(lines)
    else:
        source, found, lost = _columns(lines)
    if not found:
        raise BadFile(
            f"'{path.name}' has the columns of a table of GPU readings, but no readings",
            looked_in=f"its {len(lines):,} lines",
            hint="record with `nvidia-smi dmon -s pucvmet -o T > readings.txt` while the job runs",
        )
    return Telemetry(file=printable(path.name), source=source, readings=tuple(found[:_MOST_READINGS]), lost=lost)


def _columns(lines: Sequence[str]) -> tuple[str, list[Reading], int]:
    """Read columns under a header that begins with `#` and may be repeated; a second such line gives the units."""
    titles: list[str] = []
    source, lost = "nvidia-smi dmon", 0
    found: list[Reading] = []
    for line in lines:
        words = line.replace("#", " ").split()
        lowered = [word.lower() for word in words]
        if "gpu" in lowered and line.lstrip().startswith("#"):
            titles = lowered
        elif lowered[:1] == ["entity"]:
            titles, source = lowered, "dcgmi dmon"
        elif titles and words and not line.lstrip().startswith("#"):
            reading = _row(titles, words, source)
            if reading is not None:
                found.append(reading)
            elif lowered[0] != "id":
                lost += 1
    return source, _with_violations(found, counting=source == "dcgmi dmon"), lost


def _row(titles: list[str], words: list[str], source: str) -> Reading | None:
    """Read one line; dcgmi writes the kind of entity and its number as two words."""
    if source == "dcgmi dmon":
        words = [words[1] if len(words) > 1 else "", *words[2:]] if words[0].upper() == "GPU" else []
    if len(words) != len(titles):
        return None
    cells = dict(zip(titles, words, strict=True))
    index = as_number(cells.pop("entity", cells.pop("gpu", "")))
    if index is None or not 0 <= index < _MOST_GPUS:
        return None
    return _reading(int(index), cells)


def _reading(index: int, cells: dict[str, str], name: str = "", **more: Any) -> Reading | None:
    """Return a reading of known columns; None if none of them has a value."""
    values: dict[str, Any] = {}
    for title, cell in cells.items():
        known = _MEANS.get(title)
        number = _amount(cell) if known else None
        if known and number is not None and known[0] in _FIELDS:
            values.setdefault(known[0], number * known[1])
    if not values and not any(more.values()):
        return None
    for key in ("busy_fraction", "memory_busy_fraction", "memory_used_fraction"):
        if key in values:
            values[key] = min(max(values[key], 0.0), 1.0)
    return Reading(index=index, name=name, **values, **more)


def _amount(cell: str) -> float | None:
    found = _NUMBER.search(cell)
    number = as_number(found[0].replace(",", "")) if found else None
    if number is None or not 0 <= number <= _MOST:
        return None
    return number if number >= _LEAST else 0.0


def _with_violations(readings: list[Reading], *, counting: bool) -> list[Reading]:
    """Convert violations to reasons: nvidia-smi reports a share or yes and no, and DCGM a growing time."""
    if all(one.power_violation is None and one.thermal_violation is None for one in readings):
        return readings
    last: dict[int, Reading] = {}
    found = []
    for one in readings:
        before = last.get(one.index) if counting else None
        last[one.index] = one
        said = [
            reason
            for reason, key in (("thermal", "thermal_violation"), ("power cap", "power_violation"))
            if (getattr(one, key) or 0.0) > ((getattr(before, key) or 0.0) if before else (float("inf") if counting else 0.0))
        ]
        values = {name: getattr(one, name) for name in _FIELDS if name != "reasons"}
        found.append(Reading(**values, reasons=tuple(said)))
    return found


def _csv(lines: Sequence[str]) -> tuple[str, list[Reading], int]:
    rows = csv.reader(_short(lines))
    try:
        titles = [title.strip() for title in next(rows)]
        if any(_OF_GPU.search(title) for title in titles):
            return ("Weights & Biases", *_wandb(titles, rows))
        return ("nvidia-smi", *_query(titles, rows))
    except (csv.Error, StopIteration):
        return "CSV", [], len(lines)


def _short(lines: Sequence[str]) -> Iterator[str]:
    """Return the lines that are not empty, without characters that `csv` cannot handle."""
    return (line.replace("\0", "")[:100_000] for line in lines if line.strip())


def _wandb(titles: list[str], rows: Iterator[list[str]]) -> tuple[list[Reading], int]:
    """Read a row for each moment, with columns such as `system.gpu.0.powerWatts`, possibly after the name of a run."""
    columns: dict[int, dict[int, str]] = {}
    for place, title in enumerate(titles):
        match = _OF_GPU.search(title)
        if match:
            columns.setdefault(int(match[1]), {}).setdefault(place, match[2].lower())
    found: list[Reading] = []
    lost = 0
    for row in rows:
        if len(row) != len(titles):
            lost += 1
            continue
        for index, places in columns.items():
            reading = _reading(index, {title: row[place] for place, title in places.items()})
            if reading is not None:
                found.append(reading)
        if len(found) > _MOST_READINGS:
            break
    return found, lost


def _query(titles: list[str], rows: Iterator[list[str]]) -> tuple[list[Reading], int]:
    """Read a row for each GPU and moment; without their numbers, GPUs are distinguished by name or bus."""
    keys = [title.partition(" [")[0].strip().lower() for title in titles]
    numbers: dict[str, int] = {}
    found: list[Reading] = []
    lost = 0
    for row in rows:
        if len(row) != len(keys):
            lost += 1
            continue
        cells = {key: cell.strip() for key, cell in zip(keys, row, strict=True)}
        who = next((cells[key] for key in ("index", "uuid", "pci.bus_id", "gpu_bus_id", "name") if cells.get(key)), "0")
        if len(numbers) < _MOST_GPUS:
            index = int(who) if who.isascii() and who.isdigit() and len(who) < 5 else numbers.setdefault(who, len(numbers))
            reading = _reading(index, cells, as_text(cells.get("name", ""), 100), **_told(cells))
            if reading is not None:
                found.append(reading)
    return found[:_MOST_READINGS], lost


def _told(cells: dict[str, str]) -> dict[str, Any]:
    """Read the reasons for a lower clock, given as a bit field or as separate columns."""
    for key in ("clocks_throttle_reasons.active", "clocks_event_reasons.active"):
        try:
            return {"reason_bits": int(cells[key][:20], 16)}
        except (KeyError, ValueError):
            continue
    named = {key.rpartition(".")[2]: cell.lower() for key, cell in cells.items() if "_reasons." in key}
    if not named.keys() & _REASONS.keys():
        return {}
    return {"reasons": tuple(reason for key, reason in _REASONS.items() if named.get(key) == "active")}
