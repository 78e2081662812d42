"""Writes tables too long for memory as they arrive: Parquet, CSV or JSON lines, by file extension.

A table arrives in pieces: columns of equal length by name, with None for missing values. The file appears when it is complete.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile, BadValue, MissingExtra
from gpuwise.core.files import check_place

__all__ = ["ENDINGS", "Columns", "check_table", "write_table"]

ENDINGS = (".parquet", ".csv", ".jsonl")
_GROUP_ROWS = 100_000
Columns = Mapping[str, Sequence[Any]]
Types = Mapping[str, type]


def check_table(path: Path) -> None:
    """Check that such a table can be written there, before the work starts."""
    if path.suffix.lower() not in ENDINGS:
        raise BadValue(
            f"{path} does not have a supported file extension",
            known=", ".join(ENDINGS),
            hint=f"try `--out {path.stem or 'results'}.parquet`",
        )
    check_place(path, "results.parquet")
    if path.suffix.lower() == ".parquet":
        _arrow()


def write_table(path: Path, types: Types, pieces: Iterable[Columns]) -> None:
    """Write all pieces, each with all columns of `types` (bool, int, float, str)."""
    write = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}[path.suffix.lower()]
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        write(draft, types, pieces)
        draft.replace(path)
    except OSError as fault:
        raise BadFile(
            f"{path} cannot be written: {fault.strerror}", hint="check the free disk space and the folder's permissions"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def _csv(path: Path, types: Types, pieces: Iterable[Columns]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(types)
        for piece in pieces:
            writer.writerows(_rows(types, piece))


def _jsonl(path: Path, types: Types, pieces: Iterable[Columns]) -> None:
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as out:
        for piece in pieces:
            out.writelines(encode(dict(zip(types, row, strict=True))) + b"\n" for row in _rows(types, piece))


def _rows(types: Types, piece: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*(piece[name] for name in types), strict=True)


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", extra="parquet", needed_for="a .parquet file") from None
    return pyarrow


def _parquet(path: Path, types: Types, pieces: Iterable[Columns]) -> None:
    arrow = _arrow()
    kinds = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in types.items()])
    with arrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(pieces, next(iter(types))):
            joined = {name: list(chain.from_iterable(piece[name] for piece in group)) for name in types}
            writer.write_table(arrow.table(joined, schema=schema))


def _groups(pieces: Iterable[Columns], first: str) -> Iterator[list[Columns]]:
    """Combine pieces into row groups: many small ones make a file slow to read."""
    group: list[Columns] = []
    for piece in pieces:
        group.append(piece)
        if sum(len(one[first]) for one in group) >= _GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group
