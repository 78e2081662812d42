"""Format-aware mutations: cells of SQLite tables, fields of protocol buffers, opcodes and values of pickles, and texts that
are not UTF-8. The results are well formed, so they get past the first check of a file.
"""

from __future__ import annotations

import contextlib
import pickle
import pickletools
import random
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from gpuwise.trace.protobuf import Cut, fields
from making_traces import varint

CELLS: tuple[Any, ...] = (
    None,
    "text",
    "",
    b"\xff\xfe\x00",
    0,
    -1,
    1,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    1.5,
    float("inf"),
    "9" * 3000,
    "\x1b[31m",
)
NUMBERS = (0, 1, 127, 128, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**62,
    2**80,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[31m",
    b"\xff",
    [],
    {},
    (),
    [[]],
)
OPCODES = (
    b"cos\nsystem\n",
    b"R",
    b"b",
    b"\x81",
    b"\x93",
    b"(",
    b")",
    b"\x85",
    b"0",
    b"1",
    b"2",
    b"e",
    b"u",
    b"s",
    b"a",
    b"\x94",
    b"r\xff\xff\xff\x7f",
)
BROKEN = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f", b"\\ud800", b"\\u0000", b"\xe2\x80\xae", b"\xef\xbb\xbf")


def utf8(data: bytes, chance: random.Random) -> bytes:
    """A piece that is no UTF-8, or steers terminals, inside a text."""
    quotes = [place for place, byte in enumerate(data[:200_000]) if byte == 0x22]
    place = chance.choice(quotes) + 1 if quotes and chance.random() < 0.8 else chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(BROKEN) + data[place:]


def sqlite_cells(data: bytes, chance: random.Random) -> bytes:
    """A column of some rows gets another value; or a table loses its rows, its name or a column."""
    with tempfile.TemporaryDirectory(prefix="gpuwise-fuzz-") as folder:
        path = Path(folder) / "f.sqlite"
        path.write_bytes(data)
        with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeDecodeError):
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")  # it need not survive a crash
                _change_table(database, chance)
                database.commit()
            return path.read_bytes()
    return data[: chance.randrange(len(data) + 1)]


def _change_table(database: sqlite3.Connection, chance: random.Random) -> None:
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = chance.choice(tables)
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    column = chance.choice(columns)
    what = chance.randrange(10)
    rows = chance.choice(("1", "rowid % 2", "rowid % 7 = 1", "rowid = 1"))
    if what == 0:
        database.execute(f'DELETE FROM "{table}" WHERE {rows}')  # noqa: S608 (a file of ours)
    elif what == 1:
        database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other')
    elif what == 2:
        database.execute(f'UPDATE "{table}" SET "{column}" = "{chance.choice(columns)}" WHERE {rows}')  # noqa: S608
    elif what == 3:
        database.execute(f'UPDATE "{table}" SET "{column}" = -"{column}" WHERE {rows}')  # noqa: S608
    else:
        database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {rows}', (chance.choice(CELLS),))  # noqa: S608


def is_protobuf(data: bytes) -> bool:
    """Whether all of it is one message, or messages behind their lengths as Chakra writes them."""
    return (
        bool(data)
        and not data[:1].isspace() | (data[:1] in b"{[#-_")
        and (_parts(data) is not None or _delimited(data) is not None)
    )


def _parts(data: bytes) -> list[tuple[int, int | bytes]] | None:
    try:
        return [(number, value if isinstance(value, int) else bytes(value)) for number, value in fields(memoryview(data))]
    except Cut:
        return None


def _delimited(data: bytes) -> list[bytes] | None:
    found, at = [], 0
    while at < len(data):
        size = data[at]
        if size > 127 or at + 1 + size > len(data):
            return None
        found.append(data[at + 1 : at + 1 + size])
        at += 1 + size
    return found


def protobuf_fields(data: bytes, chance: random.Random) -> bytes:
    """A field somewhere inside gets another value, number or type, is lost, or comes twice."""
    pieces = _delimited(data)
    if pieces and _parts(data) is None:
        place = chance.randrange(len(pieces))
        pieces[place] = _changed(pieces[place], chance)
        return b"".join(varint(len(piece)) + piece for piece in pieces)
    return _changed(data, chance)


def _changed(data: bytes, chance: random.Random) -> bytes:
    parts = _parts(data)
    if not parts:
        return data
    place = chance.randrange(len(parts))
    number, value = parts[place]
    if isinstance(value, bytes) and len(value) > 1 and chance.random() < 0.75 and _parts(value):
        parts[place] = (number, _changed(value, chance))
    else:
        what = chance.randrange(6)
        if what == 0:
            del parts[place]
        elif what == 1:
            parts.insert(place, (number, value))
        elif what == 2:
            parts[place] = (chance.randrange(1, 30), value)
        elif what == 3:
            parts[place] = (number, b"\xff\xfe" if isinstance(value, int) else chance.choice(NUMBERS))
        elif isinstance(value, int):
            parts[place] = (number, chance.choice((*NUMBERS, value + 1, 0)))
        else:
            parts[place] = (
                number,
                chance.choice((b"", b"\xff", b"/device:GPU:0", b"/host:CPU", b"Steps", value[: len(value) // 2])),
            )
    return b"".join(_field(*part) for part in parts)


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def gguf_numbers(data: bytes, chance: random.Random) -> bytes:
    """A whole number in the header (a count, a length, a type, a setting or a size of a tensor) becomes another. Small numbers
    show by the zeros behind them."""
    places = [place for place in range(4, len(data) - 8) if data[place] and not any(data[place + 1 : place + 4])]
    if not places:
        return data[: chance.randrange(len(data) + 1)]
    place = chance.choice(places)
    size = 8 if not any(data[place + 4 : place + 8]) and chance.random() < 0.5 else 4
    value = chance.choice((*NUMBERS, data[place] + 1, data[place] - 1, 2 * data[place])) % 2 ** (8 * size)
    return data[:place] + value.to_bytes(size, "little") + data[place + size :]


def pickle_opcodes(data: bytes, chance: random.Random) -> bytes:
    """An opcode is lost, comes twice, is put elsewhere, or another one is put in."""
    try:
        places = [place for _, _, place in pickletools.genops(data) if place is not None]
    except Exception:  # broken already: pickletools has errors of many kinds
        return data[: chance.randrange(len(data) + 1)]
    index = chance.randrange(max(len(places) - 1, 1))
    begin, end = places[index], places[min(index + 1, len(places) - 1)]
    what = chance.randrange(4)
    if what == 0:
        return data[:begin] + data[end:]
    if what == 1:
        return data[:end] + data[begin:end] + data[end:]
    if what == 2:
        target = chance.choice(places)
        return data[:target] + data[begin:end] + data[target:]
    return data[:begin] + chance.choice(OPCODES) + data[begin:]


def pickle_values(data: bytes, chance: random.Random) -> bytes:
    """A value somewhere inside becomes another."""
    from gpuwise.core.errors import BadFile
    from gpuwise.trace.plain_pickle import read_plain

    try:
        whole = read_plain(data, "seed")
    except BadFile:
        return data[: chance.randrange(len(data) + 1)]
    holder, key = _somewhere(whole, chance)
    if holder is None:
        return pickle.dumps(chance.choice(VALUES))
    what = chance.randrange(4)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == 2 and isinstance(holder[key], (int, float)):
        holder[key] = chance.choice((-holder[key], holder[key] * 2, holder[key] + 1, 0))
    else:
        holder[key] = chance.choice((*VALUES, holder))
    return pickle.dumps(whole)


def _somewhere(whole: Any, chance: random.Random) -> tuple[Any, Any]:
    """A list or dict inside, and a place in it; it may contain itself, so the way down is short."""
    holder, key, inside = None, None, whole
    for _ in range(20):
        if not isinstance(inside, (dict, list)) or not inside:
            break
        holder, key = inside, chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        inside = holder[key]
        if chance.random() < 0.2:
            break
    return holder, key
