"""Reads the wire format of protocol buffers: the fields of a message, one after the other.

Format: https://protobuf.dev/programming-guides/encoding/. A truncated message raises `Cut`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gpuwise.trace.types import printable

__all__ = ["Cut", "Value", "as_double", "as_text", "fields"]

Value = int | memoryview


class Cut(ValueError):
    """The message ends in the middle of a field, or is not a message; `missing_bytes` of it are missing, if known."""

    def __init__(self, what: str, missing_bytes: int = 0) -> None:
        super().__init__(what)
        self.missing_bytes = missing_bytes


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield each field's number and value: an integer for varints, bytes for everything else."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at, end)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at, end)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(message, at, end)
        elif wire == 1:
            size = 8
        elif wire == 5:
            size = 4
        else:
            raise Cut(f"wire type {wire}")
        if size > end - at or number == 0:
            raise Cut("a field extends beyond its message", missing_bytes=size - (end - at))
        yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int, end: int) -> tuple[int, int]:
    if at < end and message[at] < 128:
        return message[at], at + 1
    result = shift = 0
    while at < end and shift < 70:
        byte = message[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
    raise Cut("a number extends beyond its message")


def as_text(value: Value) -> str:
    """A field read as text, without characters that control a terminal."""
    text = "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")
    return text if text.isprintable() else printable(text)


def as_double(value: Value) -> float:
    """A field read as a double."""
    return float(value) if isinstance(value, int) else float(struct.unpack("<d", value)[0]) if len(value) == 8 else 0.0
