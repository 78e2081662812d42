"""Opens profilers' SQLite files read-only, lists their tables, and yields rows with cells of the expected types.

SQLite allows any type in any column, so a damaged or foreign file may have text, bytes or nothing where a number belongs. Every
cell that a reader uses passes through `whole` or `text` here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from gpuwise.core.errors import BadFile
from gpuwise.trace.source import ends_early
from gpuwise.trace.types import CutOff, Trace

__all__ = ["Tables", "cut_off", "read_database", "text", "whole"]

_BATCH = 50_000
_LARGEST = 2**62
_HEADER_BYTES = 100
_NSYS = ("CUPTI_ACTIVITY_KIND", "NVTX_EVENTS")
_RPD = "rocpd_op"
_ROCPD = "rocpd_kernel_dispatch"


def whole(value: Any, limit: int = _LARGEST) -> int:
    """Return the cell if it is a whole number below the limit, otherwise -1."""
    return value if isinstance(value, int) and abs(value) < limit else -1


def text(value: Any) -> str:
    """Return the cell if it is a text, even if stored as bytes; otherwise an empty one."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


class Tables:
    """The tables of an open database, with their columns."""

    def __init__(self, database: sqlite3.Connection) -> None:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        database.execute("PRAGMA trusted_schema = OFF")
        self._database = database
        self.columns: dict[str, set[str]] = {
            name: {row[1] for row in database.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if isinstance(name, str) and '"' not in name
        }
        self.malformed = 0

    def rows(self, table: str, columns: str, *, needed: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in batches, with NULL for columns that it lacks; nothing if it lacks one that is `needed`."""
        has = self.columns.get(table, set())
        if not has or not set(needed.split()) <= has:
            return
        listed = ", ".join(f'"{column}"' if column in has else "NULL" for column in columns.split())
        cursor = self._database.execute(f'SELECT {listed} FROM "{table}"')  # noqa: S608 (names from the callers and the schema)
        while rows := cursor.fetchmany(_BATCH):
            yield rows

    def spans(self, table: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows with a start and a later end, which are the first two columns; other rows are counted."""
        for rows in self.rows(table, columns, needed="start end"):
            kept = [row for row in rows if _is_span(row[0], row[1])]
            self.malformed += len(rows) - len(kept)
            if kept:
                yield kept

    def texts(self, table: str, key: str, value: str) -> dict[int, str]:
        """Return a table of numbered texts."""
        found: dict[int, str] = {}
        for rows in self.rows(table, f"{key} {value}", needed=f"{key} {value}"):
            found.update({row[0]: text(row[1]) for row in rows if isinstance(row[0], int)})
        return found


def _is_span(start: Any, end: Any) -> bool:
    return isinstance(start, int) and isinstance(end, int) and abs(start) < _LARGEST and start <= end < _LARGEST


def read_database(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """Read one database with the reader for its tables."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            tables = Tables(database)
            module, function = _reader(tables)
            trace: Trace = getattr(import_module(f"gpuwise.trace.readers.{module}"), function)(path, tables, progress)
            return trace
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as fault:
        if (cut := cut_off(path)) is not None:
            read = f"{cut.read_fraction:.1%} of the bytes declared in its header"
            raise ends_early(path.name, cut.where, "partial tables cannot be read", read) from None
        raise BadFile(
            f"'{path.name}' cannot be read as an SQLite database: {fault}",
            hint="export it again with `nsys export --type sqlite`",
        ) from None


def _reader(tables: Tables) -> tuple[str, str]:
    if any(name.startswith(_NSYS) for name in tables.columns):
        return "nsys", "read_nsys"
    if _RPD in tables.columns:
        return "rpd", "read_rpd"
    if any(name.startswith(_ROCPD) for name in tables.columns):
        return "rocpd", "read_rocpd"
    raise BadFile(
        "the database contains no tables of Nsight Systems, rocprofv3 or rocmProfileData",
        looked_in=f"the tables {', '.join(sorted(tables.columns)[:8])}" if tables.columns else "a database with no tables",
        hint="export a report with `nsys export --type sqlite`",
    )


def cut_off(path: Path) -> CutOff | None:
    """Return whether a database is shorter than its header says: the page size at byte 16, the page count at byte 28, which is
    valid if the numbers at bytes 24 and 92 are the same (https://www.sqlite.org/fileformat2.html#the_database_header).
    """
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
