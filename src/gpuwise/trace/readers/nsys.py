"""The SQLite export of Nsight Systems (`nsys export --type sqlite`).

An export lacks tables that its capture did not fill, so only existing tables are read. A CUDA graph that is traced as a whole is
one row of `CUPTI_ACTIVITY_KIND_GRAPH_TRACE` without its kernels, so it counts as one kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from gpuwise.trace.database import Tables, cut_off, text, whole
from gpuwise.trace.table import Interner, TableBuilder
from gpuwise.trace.types import Device, Kind, Loss, Trace, printable

__all__ = ["read_nsys"]

_VERSION = re.compile(r"_v\d+$")
_NVTX_RANGES = (59, 60)  # push-pop and start-end ranges in ENUM_NSYS_EVENT_TYPE
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}  # ENUM_CUDA_MEMCPY_OPER
_MEMORIES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}  # ENUM_CUDA_MEM_KIND
_ON_HOST = 2**31 - 1  # the device of a graph that begins with work of the host
_MOST_CORRELATIONS = 2**40  # the bits above it identify the process
_MOST_BLOCKS = 1e30  # more than any grid has, but less than a 32-bit float can hold


def read_nsys(path: Path, tables: Tables, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """Read one export, whose tables are open."""
    reader = _Reader(tables)
    reader.read(progress)
    return reader.trace(path)


class _Reader:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._table = TableBuilder()
        self._names = Interner()
        self._processes = Interner()
        self._threads = Interner()
        self._texts: dict[int, str] = tables.texts("StringIds", "id", "value")
        self._launched: set[tuple[int, int]] = set()
        self._devices_of: dict[int, int] = {}

    def read(self, progress: Callable[[float], None]) -> None:
        """Read every table that exists."""
        parts = (self._kernels, self._graphs, self._copies, self._fills, self._calls, self._ranges)
        for done, part in enumerate(parts, start=1):
            part()
            progress(done / len(parts))

    def _text(self, *numbers: Any) -> str:
        """Return the first of these numbered texts that exists."""
        return next((found for number in numbers if (found := self._texts.get(whole(number)))), "")

    def _kernels(self) -> None:
        columns = "start end deviceId streamId correlationId globalPid demangledName shortName gridX gridY gridZ"
        replayed = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in self._tables.columns
        for rows in self._tables.spans("CUPTI_ACTIVITY_KIND_KERNEL", columns):
            if replayed:
                self._launched.update((whole(row[5]), whole(row[4])) for row in rows)
                self._devices_of.update({whole(row[5]): whole(row[2], _ON_HOST) for row in rows})
            self._add(
                rows, Kind.KERNEL, [self._text(row[6], row[7]) for row in rows], blocks_per_sm=[_blocks(row) for row in rows]
            )

    def _graphs(self) -> None:
        """Read graphs as a whole, except those whose kernels are also recorded. Rows without a length have no times and are
        lost.
        """
        columns = "start end deviceId streamId correlationId globalPid graphId"
        for rows in self._tables.spans("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns):
            timed = [row for row in rows if row[1] > row[0]]
            self._tables.malformed += len(rows) - len(timed)
            kept = [
                row if row[2] != _ON_HOST else (*row[:2], max(self._devices_of.get(whole(row[5]), 0), 0), *row[3:])
                for row in timed
                if (whole(row[5]), whole(row[4])) not in self._launched
            ]
            if kept:
                self._add(
                    kept, Kind.KERNEL, [f"CUDA graph {whole(row[6])}" if row[6] is not None else "CUDA graph" for row in kept]
                )

    def _copies(self) -> None:
        columns = "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind"
        for rows in self._tables.spans("CUPTI_ACTIVITY_KIND_MEMCPY", columns):
            self._add(rows, Kind.MEMCPY, [_copy_name(*row[7:10]) for row in rows], size_bytes=[whole(row[6]) for row in rows])

    def _fills(self) -> None:
        for rows in self._tables.spans("CUPTI_ACTIVITY_KIND_MEMSET", "start end deviceId streamId correlationId globalPid bytes"):
            self._add(rows, Kind.MEMSET, ["Memset (Device)"] * len(rows), size_bytes=[whole(row[6]) for row in rows])

    def _calls(self) -> None:
        columns = "start end deviceId streamId correlationId globalTid nameId"
        for rows in self._tables.spans("CUPTI_ACTIVITY_KIND_RUNTIME", columns):
            self._add(rows, Kind.RUNTIME, [_VERSION.sub("", self._text(row[6])) for row in rows])

    def _ranges(self) -> None:
        for rows in self._tables.spans("NVTX_EVENTS", "start end eventType rangeId rangeId globalTid text textId"):
            kept = [(*row[:2], None, None, None, *row[5:]) for row in rows if row[2] in _NVTX_RANGES]
            names = [(text(row[6]) or self._text(row[7])).split(", op_id")[0].split(", seq =")[0] for row in kept]
            for kind, chosen in ((Kind.OP, True), (Kind.MARK, False)):
                picked = [place for place, name in enumerate(names) if ("::" in name) is chosen]
                if picked:
                    self._add([kept[place] for place in picked], kind, [names[place] for place in picked])

    def _add(self, rows: list[tuple[Any, ...]], kind: Kind, names: Iterable[str], **columns: Any) -> None:
        """Add rows whose first six columns are start, end, device, stream, correlation and the process or thread."""
        count = len(rows)
        process = self._processes.many([whole(row[5]) >> 24 for row in rows], count)
        correlation = [whole(row[4], _MOST_CORRELATIONS) for row in rows]
        self._table.add(
            count,
            kind=[int(kind)] * count,
            name=self._names.many(names, count),
            start_ns=[row[0] for row in rows],
            duration_ns=[row[1] - row[0] for row in rows],
            process=process,
            thread=self._threads.many([whole(row[5]) for row in rows], count),
            device=[whole(row[2], 2**31) for row in rows],
            stream=[whole(row[3]) for row in rows],
            # ids are unique only within a process
            correlation=[
                number + (int(owner) << 40) if number >= 0 else -1 for number, owner in zip(correlation, process, strict=True)
            ],
            **columns,
        )

    def trace(self, path: Path) -> Trace:
        """Return what was read."""
        lost = self._tables.malformed
        return Trace(
            file=printable(path.name),
            format="nsys sqlite",
            events=self._table.build(),
            names=tuple(self._names),
            devices=tuple(self._devices()),
            losses=(Loss(what="rows without a valid start and end", count=lost),) if lost else (),
            cut=cut_off(path),
        )

    def _devices(self) -> Iterator[Device]:
        wanted = "id name totalMemory smCount computeMajor computeMinor memoryBandwidth"
        for rows in self._tables.rows("TARGET_INFO_GPU", wanted, needed="id name"):
            for row in rows:
                memory, sms, major, minor, rate = (whole(cell, 2**50) for cell in row[2:7])
                yield Device(
                    index=whole(row[0], 2**31),
                    name=printable(text(row[1])[:100]),
                    vendor="NVIDIA",
                    memory_bytes=float(memory) if memory > 0 else None,
                    sm_count=sms if sms > 0 else None,
                    capability=(major, minor) if major >= 0 and minor >= 0 else None,
                    memory_bytes_per_s=float(rate) if rate > 0 else None,
                )


def _blocks(row: tuple[Any, ...]) -> float:
    """Return the negative number of blocks, because the number of multiprocessors is not known here."""
    grid = [max(whole(cell, 2**31), 1) for cell in row[8:11]]
    return -min(float(grid[0]) * grid[1] * grid[2], _MOST_BLOCKS)


def _copy_name(direction: Any, origin: Any, target: Any) -> str:
    ends = f"{_MEMORIES.get(origin, 'Unknown')} -> {_MEMORIES.get(target, 'Unknown')}"
    return f"Memcpy {_DIRECTIONS.get(direction, 'other')} ({ends})"
