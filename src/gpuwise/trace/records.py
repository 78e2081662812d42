"""One event of a Chrome trace as msgspec decodes it: only the fields in use. The rest is skipped without creating objects.

The fields are in the order in which Kineto writes them, in which msgspec finds them fastest.
"""

from __future__ import annotations

import math
from typing import Any, Union

import msgspec

__all__ = ["NOTHING", "Arguments", "Begin", "End", "Entry", "Named", "Record", "Title", "lenient_record"]

NOTHING = msgspec.Raw(b"")


class Arguments(msgspec.Struct, gc=False):
    """What an event contains besides its time; -1, NaN and nothing mean "not given"."""

    device: int = -1
    stream: int = -1
    correlation: int = -1
    bytes: int | float = -1
    blocks_per_sm: int | float = msgspec.field(default=math.nan, name="blocks per SM")
    grid: msgspec.Raw = NOTHING
    collective: msgspec.Raw = msgspec.field(default=NOTHING, name="Collective name")
    sent: msgspec.Raw = msgspec.field(default=NOTHING, name="In msg nelems")
    group: msgspec.Raw = msgspec.field(default=NOTHING, name="Process Group Ranks")
    given: msgspec.Raw = msgspec.field(default=NOTHING, name="Concrete Inputs")
    types: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")


class Record(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """An entry of `traceEvents` with a duration. Times are in the unit of the file."""

    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = math.nan
    dur: int | float = math.nan
    args: Arguments | None = None


class Named(msgspec.Struct, gc=False):
    """The name that a title gives."""

    name: str = ""


class Title(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """An entry that names a process or a thread."""

    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    args: Named | None = None


class Begin(msgspec.Struct, gc=False, tag_field="ph", tag="B"):
    """An entry that begins something which an `End` on the same thread ends."""

    cat: str = ""
    name: str = ""
    ts: int | float = math.nan
    pid: int | str | None = None
    tid: int | str | None = None
    args: Arguments | None = None


class End(msgspec.Struct, gc=False, tag_field="ph", tag="E"):
    """An entry that ends the most recent begin on its thread; old writers omit the name."""

    name: str = ""
    ts: int | float = math.nan
    pid: int | str | None = None
    tid: int | str | None = None


# Flow arrows, instants, counters and the like: half of the entries of a trace, skipped without reading their fields.
_SKIPPED = tuple(
    msgspec.defstruct(f"Skipped{ord(letter)}", (), gc=False, tag_field="ph", tag=letter) for letter in "sftiICbneSTpFPNODVvRc"
)
Entry: Any = Union[(Record, Title, Begin, End, *_SKIPPED)]


def lenient_record(found: Any) -> Record | Title | Begin | End | None:
    """Convert an event whose fields have unusual types as far as possible."""
    if not isinstance(found, dict):
        return None
    args = found.get("args")
    args = args if isinstance(args, dict) else {}
    who: dict[str, Any] = {
        "name": _text(found.get("name")),
        "pid": _identity(found.get("pid")),
        "tid": _identity(found.get("tid")),
    }
    carried = Arguments(
        correlation=_whole(args.get("correlation")),
        device=_whole(args.get("device")),
        stream=_whole(args.get("stream")),
        bytes=_whole(args.get("bytes")),
        blocks_per_sm=_number(args.get("blocks per SM")),
    )
    if found.get("ph") == "M":
        return Title(args=Named(name=_text(args.get("name"))), **who)
    if found.get("ph") == "B":
        return Begin(cat=_text(found.get("cat")), ts=_number(found.get("ts")), args=carried, **who)
    if found.get("ph") == "E":
        return End(ts=_number(found.get("ts")), **who)
    if found.get("ph") != "X":
        return None
    return Record(cat=_text(found.get("cat")), ts=_number(found.get("ts")), dur=_number(found.get("dur")), args=carried, **who)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)[:200]


def _number(value: Any) -> float | int:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return math.nan
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else math.nan


def _whole(value: Any) -> int:
    number = _number(value)
    return int(number) if abs(number) < 2**62 else -1


def _identity(value: Any) -> int | str | None:
    return value if isinstance(value, (int, str)) else None if value is None else str(value)[:200]
