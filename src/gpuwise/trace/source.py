"""Decompresses a file as it is read: reports progress, tolerates a truncated file, and refuses one that expands without limit."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from gpuwise.core.errors import BadFile

if TYPE_CHECKING:
    from zlib import _Decompress as Inflater

__all__ = ["ByteSource", "as_utf8", "ends_early", "read_whole"]

_READ_BYTES = 1 << 20
_SMALL_BYTES = 64
_GZIP_MAGIC = b"\x1f\x8b"
_SWELL_RATIO = 400  # gzip shrinks traces 20 to 60 times, but a file of zeros 1,000 times
_SWELL_BYTES = 1 << 30
_PIECE_BYTES = 8 << 20
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def as_utf8(head: bytes) -> bytes:
    """Return the beginning of a text as UTF-8 without a byte order mark, using the encoding that its mark indicates."""
    if head[:2] in _UTF_16:
        return head[2:].decode(_UTF_16[head[:2]], "replace").encode()
    return head.removeprefix(codecs.BOM_UTF8)


def read_whole(path: Path, most_bytes: int, progress: Callable[[float], None] = lambda fraction: None) -> tuple[bytes, str]:
    """Return all bytes of a file of at most this size, and where it is truncated (empty if it is complete)."""
    with ByteSource(path, progress) as source:
        pieces = []
        while piece := source.read(_PIECE_BYTES):
            pieces.append(piece)
            if source.given_bytes > most_bytes:
                raise BadFile(
                    f"'{path.name}' contains more than {most_bytes / 2**30:g} GiB", hint="record less, or split the recording"
                )
        return b"".join(pieces), source.cut


def ends_early(name: str, where: str, lacking: str, read: str) -> BadFile:
    """Return the error for a file truncated before something that is needed: where, what is missing, and what could be read."""
    return BadFile(
        f"'{name}' is cut off {where}: {lacking}",
        looked_in=read,
        hint="copy the file again and check that its size matches the original, or export the trace again",
    )


class ByteSource:
    """A plain or gzip file, read forwards in pieces of any size; as `text`, it is UTF-8 without a byte order mark."""

    def __init__(self, path: Path, progress: Callable[[float], None] = lambda fraction: None, *, text: bool = False) -> None:
        self._path = path
        self._text = text
        self._recoder: codecs.IncrementalDecoder | None = None
        self._progress = progress
        try:
            self.size_bytes = path.stat().st_size
            self._file = path.open("rb")
        except OSError as fault:
            raise self._unreadable(fault) from None
        self._gzip = self._raw(2) == _GZIP_MAGIC
        self._file.seek(0)
        self._inflater = zlib.decompressobj(wbits=31)
        self._waiting = b""
        self.given_bytes = 0
        self.cut = ""

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def read(self, wanted: int) -> bytes:
        """Return up to `wanted` bytes; nothing at the end, even if the end came too early (`cut` then says so)."""
        piece = self._inflate(wanted) if self._gzip else self._raw(wanted)
        self.given_bytes += len(piece)
        self._guard()
        if self._text:
            piece = self._recoded(piece)
        self._progress(min(self._file.tell() / self.size_bytes, 1.0) if self.size_bytes else 1.0)
        return piece

    def _raw(self, wanted: int) -> bytes:
        try:
            return self._file.read(wanted)
        except OSError as fault:  # a bad disk, or a server that has gone
            self._file.close()
            raise self._unreadable(fault) from None

    def _unreadable(self, fault: OSError) -> BadFile:
        return BadFile(f"'{self._path}' cannot be read: {fault.strerror}", hint="check the path and its permissions")

    def _recoded(self, piece: bytes) -> bytes:
        """Read the first piece, which shows the encoding: UTF-16 is decoded piece by piece, and everything else is left
        unchanged.
        """
        if self.given_bytes == len(piece):
            encoding = _UTF_16.get(piece[:2])
            if encoding is None:
                return as_utf8(piece)
            self._recoder = codecs.getincrementaldecoder(encoding)("replace")
            piece = piece[2:]
        return piece if self._recoder is None else self._recoder.decode(piece).encode()

    def _inflate(self, wanted: int) -> bytes:
        pieces: list[bytes] = []
        have = 0
        while have < wanted and not self.cut:
            raw = self._waiting or self._raw(_READ_BYTES)
            if not raw:
                if not self._inflater.eof:
                    self.cut = "in the middle of its gzip data"
                break
            before = self._inflater.copy()
            try:
                piece = self._inflater.decompress(raw, wanted - have)
            except zlib.error:
                self.cut = "where its gzip data is damaged"
                pieces.append(_until_damage(before, raw, wanted - have))
                break
            self._waiting = self._inflater.unconsumed_tail
            if self._inflater.eof:
                self._next_member()
            pieces.append(piece)
            have += len(piece)
        return b"".join(pieces)

    def _next_member(self) -> None:
        """Read several concatenated gzip files as one file."""
        rest = (self._inflater.unused_data + self._raw(_READ_BYTES)).lstrip(b"\0")
        self._waiting = b""
        if rest.startswith(_GZIP_MAGIC):
            self._inflater = zlib.decompressobj(wbits=31)
            self._waiting = rest

    def _guard(self) -> None:
        if self._gzip and self.given_bytes > max(_SWELL_BYTES, _SWELL_RATIO * self.size_bytes):
            raise BadFile(
                f"'{self._path}' decompresses to more than {_SWELL_RATIO} times its size, far more than any real trace",
                looked_in=f"the first {self.given_bytes / 1e9:.1f} GB of its content",
                hint="decompress the file and check that it is a profiler trace",
            )


def _until_damage(inflater: Inflater, raw: bytes, wanted: int) -> bytes:
    """Return what can be read before the damaged part."""
    pieces = []
    for place in range(0, len(raw), _SMALL_BYTES):
        try:
            pieces.append(inflater.decompress(raw[place : place + _SMALL_BYTES], wanted))
        except zlib.error:
            break
        wanted -= len(pieces[-1])
        if wanted <= 0 or inflater.unconsumed_tail:
            break
    return b"".join(pieces)
