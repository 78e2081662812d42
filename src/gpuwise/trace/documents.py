"""Reads files that hold one document of plain data (a pickle or JSON), and converts its values to the expected types.

Every value in a file passes through one of these functions, so readers see only finite numbers and printable text.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile
from gpuwise.trace.plain_pickle import is_pickle, read_plain
from gpuwise.trace.source import as_utf8, ends_early, read_whole
from gpuwise.trace.types import printable

__all__ = ["as_count", "as_dict", "as_list", "as_number", "as_text", "program_frame", "read_document"]

_MOST_BYTES = 512 << 20  # as objects it is about twelve times as large
_MOST = 2**62
_LONGEST = 300
_MOST_FRAMES = 200
_HIDDEN = ("/torch/", "\\torch\\", "/torchgen/", "<frozen", "/contextlib.py", "/functools.py")


def read_document(path: Path) -> Any:
    """The whole content of a pickle or JSON file."""
    data, cut = read_whole(path, _MOST_BYTES)
    if cut:
        raise ends_early(path.name, cut, "the rest of it is needed", f"the {len(data):,} bytes that could be decompressed")
    if is_pickle(data):
        return read_plain(data, path.name)
    try:
        return msgspec.json.decode(as_utf8(data).decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as fault:
        raise BadFile(
            f"'{path.name}' is not valid JSON: {str(fault)[:120]}",
            looked_in=f"its {len(data):,} bytes",
            hint="copy the file again and check that its size matches the original, or write it again",
        ) from None


def as_dict(value: Any) -> dict[Any, Any]:
    """The value where it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value as a list where it is a list or tuple, else an empty one."""
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []


def as_number(value: Any) -> float | None:
    """A finite number, also where a text holds it.

    >>> as_number("2.5"), as_number(float("nan")), as_number(True), as_number([])
    (2.5, None, None, None)
    """
    if isinstance(value, str):
        try:
            value = float(value[:40])
        except ValueError:
            return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) >= _MOST or not math.isfinite(value):
        return None
    return float(value)


def as_count(value: Any) -> int:
    """A whole number from 0 on; 0 for everything else.

    >>> as_count(7), as_count(-7), as_count(None), as_count(2**70)
    (7, 0, 0, 0)
    """
    if isinstance(value, bool) or not isinstance(value, int):
        return int(number) if (number := as_number(value)) is not None and number > 0 else 0
    return value if 0 <= value < _MOST else 0


def as_text(value: Any, longest: int = _LONGEST) -> str:
    """A text that can be printed; empty for what is no text."""
    return printable(value[:longest]) if isinstance(value, str) else ""


def program_frame(frames: Any) -> str:
    """The innermost frame of the program itself as `file:line function`: not of PyTorch, nor of compiled code; else the
    innermost one of Python; empty without any. Stacks are told innermost first."""
    python = [
        frame
        for frame in as_list(frames)[:_MOST_FRAMES]
        if isinstance(frame, dict) and as_text(frame.get("filename"), 1000).endswith((".py", ">"))
    ]
    own = [frame for frame in python if not any(part in as_text(frame.get("filename"), 1000) for part in _HIDDEN)]
    for frame in (*own[:1], *python[:1]):
        return f"{as_text(frame.get('filename'))}:{as_count(frame.get('line'))} {as_text(frame.get('name'), 80)}".rstrip()
    return ""
