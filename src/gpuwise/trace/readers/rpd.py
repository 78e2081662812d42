"""`.rpd`, the SQLite database of rocmProfileData: what ran on AMD GPUs, and the host's calls and markers.

Tables: `rocpd_op` (GPU work), `rocpd_api` (host calls, and markers, whose text is their argument), `rocpd_api_ops` (which call
launched which work) and `rocpd_string`. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuwise.trace.database import Tables, cut_off, whole
from gpuwise.trace.table import Interner, TableBuilder
from gpuwise.trace.types import Kind, Loss, Trace, printable

__all__ = ["read_rpd"]

_MARKS = ("usermarker", "roctx", "marker")
_CALLS = ("hip", "__hip", "hsa", "nccl", "rccl")
_COPIES = {"hosttodevice": "HtoD", "devicetohost": "DtoH", "devicetodevice": "DtoD", "peertopeer": "PtoP"}


def read_rpd(path: Path, tables: Tables, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """Read one database, whose tables are open."""
    reader = _Reader(tables)
    reader.work()
    progress(0.5)
    reader.calls()
    progress(1.0)
    lost = tables.malformed
    return Trace(
        file=printable(path.name),
        format="rocmProfileData",
        events=reader.table.build(),
        names=tuple(reader.names),
        losses=(Loss(what="rows without a valid start and end", count=lost),) if lost else (),
        cut=cut_off(path),
    )


class _Reader:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._texts = tables.texts("rocpd_string", "id", "string")
        self._launches = _numbers(tables, "rocpd_api_ops", "op_id api_id")
        self._kernels = _numbers(tables, "rocpd_kernelop", "op_ptr_id kernelName_id")
        self.table = TableBuilder()
        self.names = Interner()
        self._threads = Interner()

    def _text(self, number: Any) -> str:
        return self._texts.get(whole(number), "")

    def work(self) -> None:
        """Read what ran on the GPUs. Barriers and markers do not occupy a GPU."""
        for rows in self._tables.spans("rocpd_op", "start end id gpuId queueId description_id opType_id"):
            told = [self._work(row) for row in rows]
            kept = [(row, kind, name) for row, (kind, name) in zip(rows, told, strict=True) if kind is not None]
            if not kept:
                continue
            self.table.add(
                len(kept),
                kind=[int(kind) for _, kind, _ in kept],
                name=self.names.many([name for _, _, name in kept], len(kept)),
                start_ns=[row[0] for row, _, _ in kept],
                duration_ns=[row[1] - row[0] for row, _, _ in kept],
                device=[whole(row[3], 2**31) for row, _, _ in kept],
                stream=[whole(row[4]) for row, _, _ in kept],
                correlation=[self._launches.get(whole(row[2]), -1) for row, _, _ in kept],
            )

    def _work(self, row: tuple[Any, ...]) -> tuple[Kind | None, str]:
        what, name = self._text(row[6]), self._text(row[5])
        lowered = what.lower()
        if "copy" in lowered:
            way = next((short for long, short in _COPIES.items() if long in lowered), "other")
            return Kind.MEMCPY, f"Memcpy {way}"
        if "fill" in lowered or "memset" in lowered:
            return Kind.MEMSET, "Memset (Device)"
        if "barrier" in lowered or "marker" in lowered:
            return None, ""
        return Kind.KERNEL, name or self._text(self._kernels.get(whole(row[2]))) or what

    def calls(self) -> None:
        """Read the calls of the runtime; the text of a marker is its argument."""
        for rows in self._tables.spans("rocpd_api", "start end id pid tid apiName_id args_id"):
            told = [self._call(self._text(row[5]), self._text(row[6])) for row in rows]
            process = [whole(row[3], 2**31) for row in rows]
            self.table.add(
                len(rows),
                kind=[int(kind) for kind, _ in told],
                name=self.names.many([name for _, name in told], len(rows)),
                start_ns=[row[0] for row in rows],
                duration_ns=[row[1] - row[0] for row in rows],
                process=process,
                thread=self._threads.many([(whole(row[3]), whole(row[4])) for row in rows], len(rows)),
                correlation=[whole(row[2]) for row in rows],
            )

    def _call(self, name: str, argument: str) -> tuple[Kind, str]:
        lowered = name.lower()
        if lowered.startswith(_MARKS):
            return (Kind.OP if "::" in argument else Kind.MARK), argument.split(", op_id")[0].split(", seq =")[0] or name
        return (Kind.RUNTIME if lowered.startswith(_CALLS) else Kind.OP), name


def _numbers(tables: Tables, table: str, columns: str) -> dict[int, int]:
    """Return a table of two numbered columns as a look-up."""
    found: dict[int, int] = {}
    for rows in tables.rows(table, columns, needed=columns):
        found.update({row[0]: whole(row[1]) for row in rows if isinstance(row[0], int)})
    return found
