"""Cuts a Chrome trace into batches of complete events while streaming, so that memory never holds more than a few megabytes of
it.

An event ends where `}` is followed by `,` and `{`. That pattern may also occur inside an event (in a name, in a list of objects),
but then the text before it is not valid JSON, so a batch that decodes proves that its cut was right. The common case is one
search from the end and one decode; the fallback keeps what is complete and counts what is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from gpuwise.core.errors import BadFile
from gpuwise.trace.records import Entry, lenient_record
from gpuwise.trace.source import ByteSource, ends_early

__all__ = ["EventStream"]

Batch = list[Any]  # of `Entry`, whose members mypy cannot list

_CHUNK_BYTES = 1 << 20  # its events as objects fit in a CPU's caches: about 10% faster than with 8 MiB
_LARGEST_EVENT_BYTES = 64 << 20
_TRIES = 6
_CLOSING = ord("]")
_HINT = "pass a Chrome trace, such as one written by torch.profiler's export_chrome_trace"

_NOT_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)

_BOUNDARY = re.compile(rb"\}\s*,\s*\{")
_ARRAY_END = re.compile(rb"\}\s*\]\s*(?=[,}]|$)")
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_NUMBER = re.compile(rb"(?<=[\s:,\[])-?(?:NaN|nan|Infinity|inf|-?nan)(?=[\s,\]}])")
_BAD_ESCAPE = re.compile(rb'\\(?!["\\/bfnrtu])')
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")

_batch_decoder = msgspec.json.Decoder(list[Entry])
_raw_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_record_decoder = msgspec.json.Decoder(Entry)


class EventStream:
    """The events of one Chrome trace in batches; afterwards, the content around them and what was lost."""

    def __init__(self, source: ByteSource, name: str) -> None:
        self._source = source
        self._name = name
        self._trailer = b""
        self._ended = False
        self.header: dict[str, Any] = {}
        self.lost_events = 0
        self.lost_bytes = 0
        self.cut = ""
        self._in_object = False

    @property
    def ragged(self) -> bool:
        """Whether the list of events itself was truncated."""
        return not self._ended

    def batches(self) -> Iterator[Batch]:
        """Every whole event, some ten thousand at a time."""
        rest = self._open()
        while not self._ended:
            piece = self._source.read(max(_CHUNK_BYTES, len(rest)))  # a large event is not searched again and again
            if not piece:
                yield from self._last(rest)
                break
            text = bytearray(b"[")
            text += rest
            text += piece
            del rest, piece  # an event that does not end makes all of these large
            boundary = _last_boundary(text)
            if boundary is None:
                rest = bytes(memoryview(text)[1:])
                self._refuse_endless(rest)
                continue
            rest = bytes(text[boundary[1] :])
            text[boundary[0]] = _CLOSING  # replaces a comma or a space, so that nothing large is copied
            batch = _decode_list(memoryview(text)[: boundary[0] + 1])
            if batch is None:
                batch, rest = self._mend(bytes(text[1 : boundary[0]]), rest)
            yield batch
        self._close()

    def _open(self) -> bytes:
        """Read what precedes the events and return their first bytes."""
        head = self._source.read(_CHUNK_BYTES)
        if head[:64].lstrip().startswith(b"["):
            return head[head.index(b"[") + 1 :]
        while (found := _BEGIN.search(head)) is None:
            piece = self._source.read(max(_CHUNK_BYTES, len(head)))
            if not piece and (self._source.cut or _is_beginning(head)):
                where = self._source.cut or "in the middle of its JSON"
                raise ends_early(self._name, where, "it contains no event", f"its first {len(head):,} bytes")
            if not piece or len(head) > _LARGEST_EVENT_BYTES:
                raise BadFile(
                    f"'{self._name}' contains no traceEvents list",
                    looked_in=f"{'its first' if piece else 'all of its'} {len(head):,} bytes, as JSON",
                    hint=_HINT,
                )
            head += piece
        self._in_object = True
        self.header = _json_object(head[: found.end()] + b"]}")
        return head[found.end() :]

    def _last(self, rest: bytes) -> Iterator[Batch]:
        """Return what remains at the end of the file: the last event, the end of the list, or a truncation."""
        if self._ended or rest.lstrip()[:1] == b"]":
            self._ended, self._trailer = True, self._trailer or rest.lstrip()[1:]
            return
        found = self._at_array_end(rest) or self._at_array_end(_repaired(rest))
        if found is not None:
            yield found
            return
        pieces = [match.end() - 1 for match in _BOUNDARY.finditer(rest)]
        tail = rest[pieces[-1] :] if pieces else rest
        yield from self._piecewise(rest[: len(rest) - len(tail)].rstrip().removesuffix(b","))
        found = self._at_array_end(tail) or self._at_array_end(_repaired(tail)) or self._odd_end(tail)
        if found is None:
            found = _decode(tail.rstrip().rstrip(b","))
            # a list of events may end without its bracket: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
            self._ended = found is not None and not self._in_object and not self._source.cut
            self.cut = "" if self._ended else self._source.cut or "in the middle of an event"
        if found is not None:
            yield found
        else:
            self.lost_bytes += len(tail)

    def _mend(self, body: bytes, rest: bytes) -> tuple[Batch, bytes]:
        """Handle a batch that does not decode: the list of events has ended, the cut was wrong, or something in it is not
        JSON.
        """
        for text in (body, _repaired(body)):
            if text is not body and (found := _decode(text)) is not None:
                return found, rest
            if (found := self._at_array_end(text, after=rest)) is not None:
                return found, b""
        for match in _boundaries_backwards(body):
            found = _decode(body[: match.start() + 1])
            if found is not None:
                return found, body[match.end() - 1 :] + b"," + rest
        return [record for batch in self._piecewise(body) for record in batch], rest

    def _at_array_end(self, body: bytes, after: bytes = b"") -> Batch | None:
        for turn, match in enumerate(_ARRAY_END.finditer(body)):
            if turn >= _TRIES:
                break
            found = _decode(body[: match.start() + 1])
            if found is not None:
                self._ended = True
                self._trailer = body[match.end() :] + (b"," + after if after else b"")
                return found
        return None

    def _odd_end(self, tail: bytes) -> Batch | None:
        """Handle a list whose last entry is not an object: complete JSON is not truncated. Without any object, it is not a
        trace.
        """
        before, after = (b'{"_": [', b"}") if self._in_object else (b"[", b"")
        try:
            whole = msgspec.json.decode(before + tail)
        except _NOT_JSON:
            return None
        entries = whole["_"] if self._in_object else whole
        if not any(isinstance(entry, dict) for entry in entries):
            raise BadFile(
                f"'{self._name}' is not a profiler trace: it is a list without events",
                looked_in=f"its {len(entries):,} entries",
                hint=_HINT,
            )
        self._ended, self._trailer = True, after
        return [lenient_record(entry) for entry in entries]

    def _piecewise(self, body: bytes) -> Iterator[Batch]:
        """Decode event by event, keeping those that are valid, unless all of them are."""
        if (whole := _decode(body)) is not None:
            yield whole
            return
        kept: Batch = []
        starts = [0, *(match.end() - 1 for match in _BOUNDARY.finditer(body))]
        ends = [*(match.start() + 1 for match in _BOUNDARY.finditer(body)), len(body)]
        for start, end in zip(starts, ends, strict=True):
            piece = body[start:end]
            found = _decode(piece) or _decode(_repaired(piece))
            if found is None:
                self.lost_events += 1
                self.lost_bytes += len(piece)
            else:
                kept += found
        yield kept

    def _refuse_endless(self, rest: bytes) -> None:
        if len(rest) > _LARGEST_EVENT_BYTES:
            raise BadFile(
                f"'{self._name}' contains an event that does not end within {len(rest) / 1e6:.0f} MB",
                hint="check that the file is an undamaged profiler trace",
            )

    def _close(self) -> None:
        """Read what follows the events (file names, clock base); anything too large or broken is ignored."""
        while len(self._trailer) < _LARGEST_EVENT_BYTES and (piece := self._source.read(max(_CHUNK_BYTES, len(self._trailer)))):
            self._trailer += piece
        self.cut = self.cut or self._source.cut
        if not self.cut and self._in_object and self._ended and len(self._trailer) < _LARGEST_EVENT_BYTES:
            self.cut = "" if self._trailer.rstrip().endswith(b"}") else "after its events"
        if self._trailer.strip():
            self.header = {**_json_object(b'{"_": 0' + self._trailer), **self.header}


def _decode(body: bytes) -> Batch | None:
    """Return the events of a cut, or None if it is incomplete."""
    return _decode_list(b"[" + body + b"]")


def _decode_list(text: bytes | memoryview) -> Batch | None:
    """Return the events of a list, or None if it is incomplete. Events of unusual types are read one by one."""
    try:
        return _batch_decoder.decode(text)
    except msgspec.ValidationError:
        pass
    except _NOT_JSON:
        return None
    try:
        return [_one(raw) for raw in _raw_decoder.decode(text)]
    except _NOT_JSON:
        return None


def _one(raw: msgspec.Raw) -> Any:
    try:
        return _record_decoder.decode(raw)
    except msgspec.ValidationError:
        return lenient_record(msgspec.json.decode(raw))


def _last_boundary(text: bytes | bytearray) -> tuple[int, int] | None:
    """Return where the last event ends and where the next begins, looking at the tail first."""
    for window in (1 << 12, 1 << 16, len(text)):
        begin = max(len(text) - window, 0)
        last = None
        for match in _BOUNDARY.finditer(text, begin):
            last = match
        if last is not None:
            return last.start() + 1, last.end() - 1
        if begin == 0:
            break
    return None


def _boundaries_backwards(text: bytes) -> list[re.Match[bytes]]:
    begin = max(len(text) - (1 << 18), 0)
    return list(_BOUNDARY.finditer(text, begin))[-_TRIES:][::-1]


def _repaired(text: bytes) -> bytes:
    """Repair known faults of writers: numbers that JSON cannot represent, lone backslashes, control characters, broken UTF-8."""
    text = _BARE_NUMBER.sub(b"null", text)
    text = _CONTROL.sub(b" ", _BAD_ESCAPE.sub(rb"\\\\", text))
    return text.decode("utf-8", "replace").encode()


def _is_beginning(text: bytes) -> bool:
    """Return whether a text is an incomplete beginning of some JSON."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as fault:
        return "truncated" in str(fault)
    except (RecursionError, UnicodeDecodeError):
        pass
    return False


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except _NOT_JSON:
        try:
            found = msgspec.json.decode(_repaired(text))
        except _NOT_JSON:
            return {}
    return found if isinstance(found, dict) else {}
