"""`xplane.pb`, the profile of TensorFlow, JAX and Keras, read without TensorFlow.

Message numbers: tensorflow/tsl `xplane.proto`. A space holds planes (a host or a device), a plane holds lines (threads, streams,
"Steps"), and a line holds events with an offset and a duration in picoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.trace import tensorflow_names
from gpuwise.trace.protobuf import Cut, Value, as_double, as_text, fields
from gpuwise.trace.source import ByteSource, ends_early
from gpuwise.trace.table import Interner, TableBuilder
from gpuwise.trace.types import CutOff, Device, Kind, Loss, Trace, printable

__all__ = ["looks_like_xplane", "read_xplane"]

_LARGEST_BYTES = 2 << 30
_PIECE_BYTES = 8 << 20
_SIZE = re.compile(r"(?:size|num_bytes):(\d{1,18})")
_GRID = re.compile(r"grid:(\d{1,18}),(\d{1,18}),(\d{1,18})")
_COPIES = {
    "memcpyh2d": "Memcpy HtoD",
    "memcpyd2h": "Memcpy DtoH",
    "memcpyd2d": "Memcpy DtoD",
    "memcpyp2p": "Memcpy PtoP",
}


@dataclass(slots=True)
class _Plane:
    """The components of a plane: its tables of names, its properties, and its lines, which are still bytes."""

    title: str = ""
    lines: list[memoryview] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: list[memoryview] = field(default_factory=list)


@dataclass(slots=True)
class _Rows:
    """Columns of one line."""

    kind: list[int] = field(default_factory=list)
    name: list[int] = field(default_factory=list)
    start_ns: list[int] = field(default_factory=list)
    duration_ns: list[int] = field(default_factory=list)
    correlation: list[int] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)
    blocks_per_sm: list[float] = field(default_factory=list)


def looks_like_xplane(head: bytes) -> bool:
    """Return whether a file begins like a space whose first plane has an id or a name."""
    try:
        for number, value in fields(memoryview(head)):
            return number == 1 and not isinstance(value, int)
    except Cut:
        return _first_plane_is_longer(head)
    return False


def _first_plane_is_longer(head: bytes) -> bool:
    """Judge by the beginning of the first plane if it extends beyond the part that was read."""
    if not head.startswith(b"\x0a"):
        return False
    at = next((place for place in range(1, min(len(head), 11)) if head[place] < 128), None)
    inner = head[at + 1 : at + 40] if at is not None else b""
    return inner[:1] in (b"\x08", b"\x12") and (b"/host:" in inner or b"/device:" in inner or b"Task" in inner or b"/" in inner)


def read_xplane(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One `xplane.pb`."""
    with ByteSource(path, progress) as source:
        if source.size_bytes > _LARGEST_BYTES:
            raise BadFile(f"'{path.name}' is larger than {_LARGEST_BYTES >> 30} GB", hint="record fewer steps")
        pieces = []
        while piece := source.read(_PIECE_BYTES):
            pieces.append(piece)
            if source.given_bytes > _LARGEST_BYTES:
                raise BadFile(f"'{path.name}' decompresses to more than {_LARGEST_BYTES >> 30} GB", hint="record fewer steps")
        data = memoryview(b"".join(pieces))
    planes, damaged, cut = _planes(data, source.cut)
    if not planes and cut is not None:
        least = len(data) / (cut.read_fraction or 1.0)
        raise ends_early(path.name, cut.where, "its first plane is incomplete", f"{len(data):,} of at least {least:,.0f} bytes")
    if not planes:
        raise BadFile(
            f"'{path.name}' contains no TensorFlow or JAX profile",
            hint="pass the *.xplane.pb file that the profiler wrote",
        )
    reader = _Reader()
    for plane in planes:
        reader.add(plane)
    lost = (("damaged planes", damaged), ("incomplete events", reader.faulty))
    return Trace(
        file=printable(path.name),
        format="xplane",
        events=reader.table.build(),
        names=tuple(reader.names),
        devices=tuple(reader.devices),
        framework="TensorFlow or JAX",
        losses=tuple(Loss(what=what, count=count) for what, count in lost if count),
        cut=cut,
    )


def _planes(data: memoryview, cut: str) -> tuple[list[_Plane], int, CutOff | None]:
    """Return the complete planes, the number of incomplete ones, and whether the file ends early, in which case part of a plane
    is missing.
    """
    planes, damaged, missing = [], 0, 0
    try:
        for number, value in fields(data):
            if number == 1 and not isinstance(value, int):
                try:
                    planes.append(_plane(value))
                except Cut:
                    damaged += 1
    except Cut as fault:
        cut = cut or "in the middle of a plane, or damaged at that point"
        missing = min(fault.missing_bytes, _LARGEST_BYTES)
    told = len(data) / (len(data) + missing) if missing > 0 else None
    return planes, damaged, CutOff(where=cut, ragged=False, read_fraction=told) if cut else None


def _plane(message: memoryview) -> _Plane:
    plane = _Plane()
    for number, value in fields(message):
        if isinstance(value, int):
            continue
        if number == 2:
            plane.title = as_text(value)
        elif number == 3:
            plane.lines.append(value)
        elif number in (4, 5):
            _note_name(value, plane.names if number == 4 else plane.stat_names)
        elif number == 6:
            plane.stats.append(value)
    return plane


def _note_name(entry: memoryview, names: dict[int, str]) -> None:
    """Read an entry of a map from number to metadata: field 2 of the metadata is its name, and field 4 a shorter display name."""
    key, text, shown = 0, "", ""
    for number, value in fields(entry):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and not isinstance(value, int):
            for inner, content in fields(value):
                if inner == 2:
                    text = as_text(content)
                elif inner == 4 and not isinstance(content, int):
                    shown = as_text(content)
    names[key] = text or shown


class _Reader:
    """Planes become rows of one table."""

    def __init__(self) -> None:
        self.table = TableBuilder()
        self.names = Interner()
        self.devices: list[Device] = []
        self.faulty = 0
        self._threads = 0
        self._processes = 0

    def add(self, plane: _Plane) -> None:
        """All lines of one plane."""
        device = tensorflow_names.device_index(plane.title)
        if device is not None:
            self.devices.append(_device(device, plane))
        titles = [_line_title(line) for line in plane.lines]
        streams = any(tensorflow_names.line_kind(title) is Kind.KERNEL for title in titles)
        for title, line in zip(titles, plane.lines, strict=True):
            kind = Kind.OP if device is None else tensorflow_names.line_kind(title)
            if kind is Kind.DEVICE_MARK and not streams:
                kind = Kind.KERNEL  # a TPU has no streams, so its ops are the work
            if kind is not None:
                try:
                    self._add_line(plane, line, kind, -1 if device is None else device)
                except Cut:
                    self.faulty += 1
            self._threads += 1
        self._processes += 1

    def _add_line(self, plane: _Plane, line: memoryview, kind: Kind, device: int) -> None:
        rows, base_ns = _Rows(), 0
        for number, value in fields(line):
            if number == 3 and isinstance(value, int):
                base_ns = value
        for number, value in fields(line):
            if number == 4 and not isinstance(value, int):
                try:
                    self._add_event(plane, value, kind, base_ns, rows)
                except Cut:
                    self.faulty += 1
        count = len(rows.kind)
        if count:
            same = {"process": self._processes, "thread": self._threads, "device": device, "stream": self._threads}
            columns = {name: getattr(rows, name) for name in _Rows.__slots__}
            self.table.add(count, **columns, **{name: [value] * count for name, value in same.items()})

    def _add_event(self, plane: _Plane, event: memoryview, kind: Kind, base_ns: int, rows: _Rows) -> None:
        metadata = offset_ps = duration_ps = 0
        stats = []
        for number, value in fields(event):
            if number == 4 and not isinstance(value, int):
                stats.append(value)
            elif isinstance(value, int):
                if number == 1:
                    metadata = value
                elif number == 2:
                    offset_ps = value
                elif number == 3:
                    duration_ps = value
        if offset_ps >= 2**62 or duration_ps >= 2**62 or base_ns >= 2**62:
            self.faulty += 1
            return
        if kind is Kind.STEP and duration_ps < 1000:  # a step without a duration is not a step
            self.faulty += 1
            return
        name = plane.names.get(metadata, "")
        found = tensorflow_names.event_kind(name, kind)
        details = _details(plane, stats) if kind is Kind.KERNEL else {}
        size = _SIZE.search(str(details.get("memcpy_details", "")) + str(details.get("memset_details", "")))
        grid = _GRID.search(str(details.get("kernel_details", "")))
        correlation = details.get("correlation_id", -1)
        rows.kind.append(int(found))
        rows.name.append(self.names[_COPIES.get(name.lower(), name)])
        rows.start_ns.append(base_ns + (offset_ps + 500) // 1000)
        rows.duration_ns.append((duration_ps + 500) // 1000)
        rows.correlation.append(correlation if isinstance(correlation, int) and correlation < 2**62 else -1)
        rows.size_bytes.append(min(int(size[1]), 2**62) if size else -1)
        rows.blocks_per_sm.append(-float(int(grid[1]) * int(grid[2]) * int(grid[3])) if grid else float("nan"))


def _line_title(line: memoryview) -> str:
    try:
        return next((as_text(value) for number, value in fields(line) if number == 2), "")
    except Cut:
        return ""


def _details(plane: _Plane, stats: list[memoryview]) -> dict[str, int | str | float]:
    """Return properties of an event or a plane by name. Field numbers: 2 double, 3 and 4 integers, 5 text, 7 a reference to a
    name.
    """
    found: dict[str, int | str | float] = {}
    for stat in stats:
        entries: dict[int, Value] = dict(fields(stat))
        key = entries.get(1, 0)
        name = plane.stat_names.get(key, "") if isinstance(key, int) else ""
        for number, value in entries.items():
            if number in (3, 4) and isinstance(value, int):
                found[name] = value
            elif number == 2:
                found[name] = as_double(value)
            elif number == 5:
                found[name] = as_text(value)
            elif number == 7 and isinstance(value, int):
                found[name] = plane.stat_names.get(value, "")
    return found


def _device(index: int, plane: _Plane) -> Device:
    try:
        said = _details(plane, plane.stats)
    except Cut:
        said = {}

    def number(name: str) -> float | None:
        value = said.get(name)
        return float(value) if isinstance(value, (int, float)) else None

    major, minor = number("compute_cap_major"), number("compute_cap_minor")
    cores = number("core_count")
    return Device(
        index=index,
        name=printable(str(said.get("device_type_string", ""))[:100]),
        vendor=str(said.get("device_vendor", "NVIDIA" if major else ""))[:20],
        sm_count=int(cores) if cores else None,
        memory_bytes=number("memory_size"),
        capability=(int(major), int(minor)) if major is not None and minor is not None else None,
        memory_bytes_per_s=number("memory_bandwidth"),
    )
