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

_MOST_BYTES = 512 << 20  # as Python objects, it is about twelve times as large
_MOST = 2**62
_LONGEST = 300
_MOST_FRAMES = 200
_HIDDEN = ("/torch/", "\\torch\\", "/torchgen/", "<frozen", "/contextlib.py", "/functools.py")


def read_document(path: Path) -> Any:
    """Return the whole content of a pickle or JSON file."""
    data, cut = read_whole(path, _MOST_BYTES)
    if cut:
        raise ends_early(path.name, cut, "the whole file is needed", f"the {len(data):,} bytes that could be decompressed")
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
    """Return the value if it is a dict, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value as a list if it is a list or tuple, otherwise an empty one."""
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []


def as_number(value: Any) -> float | None:
    """Return a finite number, even if it is stored as text.

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
    """Return a whole number of at least 0; 0 for everything else.

    >>> as_count(7), as_count(-7), as_count(None), as_count(2**70)
    (7, 0, 0, 0)
    """
    if isinstance(value, bool) or not isinstance(value, int):
        return int(number) if (number := as_number(value)) is not None and number > 0 else 0
    return value if 0 <= value < _MOST else 0


def as_text(value: Any, longest: int = _LONGEST) -> str:
    """Return a printable text, empty for anything that is not text."""
    return printable(value[:longest]) if isinstance(value, str) else ""


def program_frame(frames: Any) -> str:
    """Return the innermost frame of the program itself as `file:line function`: not in PyTorch, nor in compiled code;
    otherwise the innermost Python frame; empty if there is none. Stacks are listed innermost first.
    """
    python = [
        frame
        for frame in as_list(frames)[:_MOST_FRAMES]
        if isinstance(frame, dict) and as_text(frame.get("filename"), 1000).endswith((".py", ">"))
    ]
    own = [frame for frame in python if not any(part in as_text(frame.get("filename"), 1000) for part in _HIDDEN)]
    for frame in (*own[:1], *python[:1]):
        return f"{as_text(frame.get('filename'))}:{as_count(frame.get('line'))} {as_text(frame.get('name'), 80)}".rstrip()
    return ""
