"""The sqlite export of Nsight Systems (`nsys export --type sqlite`), opened read-only.

Only tables that exist are read: an export lacks those that its capture did not fill.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile
from gpuwise.trace.source import ends_early
from gpuwise.trace.table import Interner, TableBuilder
from gpuwise.trace.types import CutOff, Device, Kind, Loss, Trace, printable

__all__ = ["read_nsys"]

_BATCH = 50_000
_VERSION = re.compile(r"_v\d+$")
_NVTX_RANGES = (59, 60)  # push-pop and start-end ranges in ENUM_NSYS_EVENT_TYPE
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}  # ENUM_CUDA_MEMCPY_OPER
_MEMORIES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}  # ENUM_CUDA_MEM_KIND
_LARGEST = 2**62
_HEADER_BYTES = 100


def read_nsys(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One export."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            reader = _Reader(database)
            reader.read(progress)
            return reader.trace(path)
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as fault:
        if (cut := _cut(path)) is not None:
            read = f"{cut.read_fraction:.1%} of the bytes declared in its header"
            raise ends_early(path.name, cut.where, "partial tables cannot be read", read) from None
        raise BadFile(
            f"'{path.name}' cannot be read as an SQLite database: {fault}",
            hint="export it again with `nsys export --type sqlite`",
        ) from None


def _cut(path: Path) -> CutOff | None:
    """Whether a database is shorter than its header tells: the size of a page at byte 16, their number at byte 28, which counts
    if the numbers at bytes 24 and 92 are the same (https://www.sqlite.org/fileformat2.html#the_database_header)."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    size, count = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    told = (65_536 if size == 1 else size) * count
    if len(header) < _HEADER_BYTES:
        told = _HEADER_BYTES
    elif header[24:28] != header[92:96]:
        return None
    here = path.stat().st_size
    return CutOff(where="in the middle of its tables", read_fraction=here / told) if here < told else None


class _Reader:
    def __init__(self, database: sqlite3.Connection) -> None:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._database = database
        self._table = TableBuilder()
        self._names = Interner()
        self._processes = Interner()
        self._threads = Interner()
        self._malformed = 0
        self._tables = {
            name: {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if '"' not in name
        }
        self._texts: dict[int, str] = {}

    def read(self, progress: Callable[[float], None]) -> None:
        """Every table there is."""
        if not any(name.startswith("CUPTI_ACTIVITY_KIND") or name == "NVTX_EVENTS" for name in self._tables):
            raise BadFile(
                "the database contains no Nsight Systems tables",
                looked_in=f"the tables {', '.join(sorted(self._tables)[:8])}" if self._tables else "a database with no tables",
                hint="export a report with `nsys export --type sqlite`",
            )
        if "StringIds" in self._tables:
            self._texts = dict(self._database.execute("SELECT id, value FROM StringIds"))
        for done, part in enumerate((self._kernels, self._copies, self._fills, self._calls, self._ranges), start=1):
            part()
            progress(done / 5)

    def _rows(self, table: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        wanted = columns.split()
        if not {"start", "end"} <= self._tables.get(table, set()):
            return
        listed = ", ".join(f'"{column}"' if column in self._tables[table] else "NULL" for column in wanted)
        cursor = self._database.execute(f'SELECT {listed} FROM "{table}"')  # noqa: S608 (names from the list above)
        while rows := cursor.fetchmany(_BATCH):
            kept = [row for row in rows if _is_span(row[0], row[1])]
            self._malformed += len(rows) - len(kept)
            if kept:
                yield kept

    def _kernels(self) -> None:
        columns = "start end deviceId streamId correlationId globalPid demangledName shortName gridX gridY gridZ"
        for rows in self._rows("CUPTI_ACTIVITY_KIND_KERNEL", columns):
            names = [self._texts.get(row[6]) or self._texts.get(row[7], "") for row in rows]
            blocks = [-float((row[8] or 1) * (row[9] or 1) * (row[10] or 1)) for row in rows]
            self._add(rows, Kind.KERNEL, names, blocks_per_sm=blocks)

    def _copies(self) -> None:
        columns = "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind"
        for rows in self._rows("CUPTI_ACTIVITY_KIND_MEMCPY", columns):
            self._add(rows, Kind.MEMCPY, [_copy_name(*row[7:10]) for row in rows], size_bytes=[_whole(row[6]) for row in rows])

    def _fills(self) -> None:
        for rows in self._rows("CUPTI_ACTIVITY_KIND_MEMSET", "start end deviceId streamId correlationId globalPid bytes"):
            self._add(rows, Kind.MEMSET, ["Memset (Device)"] * len(rows), size_bytes=[_whole(row[6]) for row in rows])

    def _calls(self) -> None:
        for rows in self._rows("CUPTI_ACTIVITY_KIND_RUNTIME", "start end deviceId streamId correlationId globalTid nameId"):
            self._add(rows, Kind.RUNTIME, [_VERSION.sub("", self._texts.get(row[6], "")) for row in rows])

    def _ranges(self) -> None:
        for rows in self._rows("NVTX_EVENTS", "start end eventType rangeId rangeId globalTid text textId"):
            kept = [(*row[:2], None, None, None, *row[5:]) for row in rows if row[2] in _NVTX_RANGES]
            names = [str(row[6] or self._texts.get(row[7], "")).split(", op_id")[0].split(", seq =")[0] for row in kept]
            for kind, chosen in ((Kind.OP, True), (Kind.MARK, False)):
                picked = [place for place, name in enumerate(names) if ("::" in name) is chosen]
                if picked:
                    self._add([kept[place] for place in picked], kind, [names[place] for place in picked])

    def _add(self, rows: list[tuple[Any, ...]], kind: Kind, names: Iterable[str], **columns: Any) -> None:
        """Rows whose first six columns are start, end, device, stream, correlation and the process or thread."""
        count = len(rows)
        process = self._processes.many([_whole(row[5]) >> 24 for row in rows], count)
        correlation = [_whole(row[4]) for row in rows]
        self._table.add(
            count,
            kind=[int(kind)] * count,
            name=self._names.many(names, count),
            start_ns=[row[0] for row in rows],
            duration_ns=[row[1] - row[0] for row in rows],
            process=process,
            thread=self._threads.many([row[5] for row in rows], count),
            device=[_whole(row[2]) % 2**31 if row[2] is not None else -1 for row in rows],
            stream=[_whole(row[3]) for row in rows],
            # ids are unique within a process only
            correlation=[
                number + (int(owner) << 40) if number >= 0 else -1 for number, owner in zip(correlation, process, strict=True)
            ],
            **columns,
        )

    def trace(self, path: Path) -> Trace:
        """What was read."""
        losses = [Loss(what="rows without a start and a later end", count=self._malformed)] if self._malformed else []
        return Trace(
            file=printable(path.name),
            format="nsys sqlite",
            events=self._table.build(),
            names=tuple(self._names),
            devices=tuple(self._devices()),
            losses=tuple(losses),
            cut=_cut(path),
        )

    def _devices(self) -> Iterator[Device]:
        has = self._tables.get("TARGET_INFO_GPU", set())
        if not {"id", "name"} <= has:
            return
        wanted = ("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "memoryBandwidth")
        listed = ", ".join(f'"{column}"' if column in has else "NULL" for column in wanted)
        for row in self._database.execute(f"SELECT {listed} FROM TARGET_INFO_GPU"):  # noqa: S608 (names from the list above)
            yield Device(
                index=_whole(row[0]),
                name=printable(str(row[1] or "")[:100]),
                vendor="NVIDIA",
                memory_bytes=float(_whole(row[2])) if row[2] else None,
                sm_count=_whole(row[3]) if row[3] else None,
                capability=(_whole(row[4]), _whole(row[5])) if row[4] is not None and row[5] is not None else None,
                memory_bytes_per_s=float(_whole(row[6])) if row[6] else None,
            )


def _is_span(start: Any, end: Any) -> bool:
    return isinstance(start, int) and isinstance(end, int) and abs(start) < _LARGEST and start <= end < _LARGEST


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and abs(value) < _LARGEST else -1


def _copy_name(direction: Any, origin: Any, target: Any) -> str:
    ends = f"{_MEMORIES.get(origin, 'Unknown')} -> {_MEMORIES.get(target, 'Unknown')}"
    return f"Memcpy {_DIRECTIONS.get(direction, 'other')} ({ends})"
