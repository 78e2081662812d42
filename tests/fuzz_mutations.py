"""Turns good inputs into bad ones: changes, cuts, duplicates or moves bytes, words, numbers and cells."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import fuzz_structures as structures

NUMBERS = (
    "0 -1 1 -0.0 nan NaN inf -inf Infinity 1e308 1e999 -1e999 1e-320 0x10 1_000 ٣ ² 99999999999999999999 2147483648 1e15".split()
)
WORDS = (
    "",
    " ",
    "x",
    "=",
    ",",
    "+",
    ":",
    "%",
    "\x1b[31m",
    "\x00",
    "\n",
    "\u202e",
    "é",
    "×",
    "İ",
    "None",
    "null",
    "true",
    "[",
    "{",
    '"',
    "'",
    "..",
    "/",
    "\\",
    "C:\\",
    "9" * 5000,
    "(" * 300,
    "a" * 20_000,
)
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -1e-300, 1e308, "", "x", [], {}, [[]], [None])


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """One to four changes, of the kinds that the form of the input allows."""
    data = seed
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_kinds(data))(data, chance)
    return data


def _kinds(data: bytes) -> list[Callable[[bytes, random.Random], bytes]]:
    if data[:6] == b"SQLite":
        return [_bytes, *[structures.sqlite_cells] * 4]
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return [_bytes, *[structures.pickle_opcodes] * 2, *[structures.pickle_values] * 3]
    if data[:4] == b"GGUF":
        return [_bytes, *[structures.gguf_numbers] * 4]
    if structures.is_protobuf(data):
        return [_bytes, *[structures.protobuf_fields] * 4]
    if data[:2] == b"\x1f\x8b" or b"\0" in data[:64]:
        return [_bytes]
    kinds: list[Callable[[bytes, random.Random], bytes]] = [_bytes, _words, _words, _numbers, _numbers, structures.utf8]
    if data[:1] in (b"{", b"["):
        kinds += [_json] * 4
    if data.count(b"\n") > 0 and data.count(b",") > 3:
        kinds += [_cells] * 4
    return kinds


def _bytes(data: bytes, chance: random.Random) -> bytes:
    """A byte changed, a piece cut out, doubled or put elsewhere, or the end cut off."""
    raw = bytearray(data or b"x")
    place, other = sorted((chance.randrange(len(raw)), chance.randrange(len(raw))))
    what = chance.randrange(6)
    if what == 0:
        raw[place] = chance.randrange(256)
    elif what == 1:
        del raw[place : min(other, place + 200)]
    elif what == 2:
        raw[place:place] = raw[place : min(other, place + 200)]
    elif what == 3:
        del raw[other:]
    elif what == 4:
        raw[place : place + 8] = chance.randbytes(8)
    else:
        raw[place] ^= 1 << chance.randrange(8)
    return bytes(raw)


def _words(data: bytes, chance: random.Random) -> bytes:
    """A word put in, or in the place of a piece."""
    place = chance.randrange(len(data) + 1)
    end = min(len(data), place + chance.choice((0, 0, 1, 3)))
    return data[:place] + chance.choice(WORDS).encode() + data[end:]


def _numbers(data: bytes, chance: random.Random) -> bytes:
    """One of the numbers becomes another."""
    spans = []
    place = 0
    while place < len(data) and len(spans) < 2000:
        end = place
        while end < len(data) and data[end] in b"0123456789.":
            end += 1
        if end > place:
            spans.append((place, end))
        place = max(end, place + 1)
    if not spans:
        return _words(data, chance)
    place, end = chance.choice(spans)
    return data[:place] + chance.choice(NUMBERS).encode() + data[end:]


def _cells(data: bytes, chance: random.Random) -> bytes:
    """A cell of a table becomes another, or takes the place of its neighbour, or a line is lost or doubled."""
    lines = data.split(b"\n")
    row = chance.randrange(len(lines))
    cells = lines[row].split(b",")
    place = chance.randrange(len(cells))
    what = chance.randrange(4)
    if what == 0:
        cells[place] = chance.choice((*NUMBERS, *WORDS)).encode()
    elif what == 1:
        cells[place] = cells[chance.randrange(len(cells))]
    elif what == 2:
        cells[place] = b""
    elif row:
        lines.insert(row, lines[row])
    lines[row] = b",".join(cells)
    return b"\n".join(lines)


def _json(data: bytes, chance: random.Random) -> bytes:
    """A value somewhere inside becomes another, is lost, or comes twice; kept valid JSON."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError, OverflowError):
        return _bytes(data, chance)
    holder, key = _somewhere(whole, chance)
    if holder is None:
        return json.dumps(chance.choice(VALUES)).encode()
    what = chance.randrange(5)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif what == 2 and isinstance(holder[key], (int, float)):
        holder[key] = chance.choice((-holder[key], holder[key] * 2, holder[key] + 1, 0))
    elif what == 3 and isinstance(holder[key], str):
        holder[key] = _words(holder[key].encode("utf-8", "replace"), chance).decode("utf-8", "replace")
    else:
        holder[key] = chance.choice(VALUES)
    return json.dumps(whole).encode()


def _somewhere(whole: Any, chance: random.Random) -> tuple[Any, Any]:
    """A list or object inside, and a place in it; deep ones as likely as shallow ones."""
    holder, key, inside = None, None, whole
    while isinstance(inside, (dict, list)) and inside:
        holder, key = inside, chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        inside = holder[key]
        if chance.random() < 0.2:
            break
    return holder, key
