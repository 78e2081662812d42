"""Reads the header of a GGUF file: its settings and its list of tensors, never the tensors themselves.

The file is untrusted. Every count and length in it is checked against the size of the file, and the work is bounded regardless of
what the file says. The layout is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from gpuwise.core.errors import BadFile
from gpuwise.workload.language.ggml import FORMATS, Format

__all__ = ["Header", "Listed", "Tensor", "read_header"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_CHUNK = 2**22
_LARGEST_HEADER = 2**28
_MOST_SETTINGS = 65_536
_MOST_TENSORS = 1_000_000
_MOST_TEXTS = 4_000_000  # in all lists together; the largest vocabulary with its merges has under one million
_MOST_KEPT = 4096
_LONGEST_NAME = 1024
_MOST_DIMS = 4
_DEEPEST = 3
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_LONG = struct.Struct("<Q")
_DOWNLOAD = "download the file again, and compare its size with the one on the download page"


@dataclass(frozen=True, slots=True)
class Listed:
    """A list in the header: its length, and its numbers if there are few."""

    count: int
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Tensor:
    """The description of a tensor in the header. The first dimension is contiguous in memory."""

    name: str
    dims: tuple[int, ...]
    format: Format
    offset: int

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        return self.elements // self.format.numbers * self.format.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The settings and tensors of a file; `data_start` is the position where its tensors begin, and `size` is the length of the
    file.
    """

    path: Path
    settings: Mapping[str, Any]
    tensors: tuple[Tensor, ...]
    data_start: int
    size: int

    @property
    def cut(self) -> Tensor | None:
        """Return the first tensor that is not completely in the file."""
        return next((one for one in self.tensors if self.data_start + one.offset + one.bytes > self.size), None)

    @property
    def held_fraction(self) -> float:
        """Return the share of the tensors' bytes that is in the file."""
        return min(1.0, max(self.size - self.data_start, 0) / max(1, self.whole_size - self.data_start))

    @property
    def whole_size(self) -> int:
        """Return the length that the file needs to hold all its tensors."""
        return max((self.data_start + one.offset + one.bytes for one in self.tensors), default=self.data_start)


def read_header(path: Path) -> Header:
    """Return the header of this file; BadFile says what is missing or wrong."""
    if path.is_dir():
        raise BadFile(f"{path} is a folder, not a GGUF file", hint="pass a .gguf file in it")
    if not path.is_file():
        raise BadFile(f"file {path} not found", hint="pass the path of a .gguf file")
    try:
        with path.open("rb") as file:
            return _Cursor(path, file, path.stat().st_size).header()
    except OSError as fault:
        raise BadFile(f"{path} cannot be read: {fault.strerror}", hint="check its permissions") from None


class _Cursor:
    """A position in the file, and as much of its beginning as was needed so far."""

    def __init__(self, path: Path, file: BufferedReader, size: int) -> None:
        self.path, self.file, self.size = path, file, size
        self.data = bytearray()
        self.at = 0
        self.texts = 0

    def header(self) -> Header:
        tensors, count = self.begin()
        settings = {}
        for number in range(count):
            key = self.text(f"the name of setting {number + 1} of {count}", _LONGEST_NAME)
            settings[key] = self.value(self.whole("<I", f"the type of '{key}'"), f"the setting '{key}'", 0)
        found = tuple(self.tensor(number + 1, tensors) for number in range(tensors))
        start = -(-self.at // self.alignment(settings)) * self.alignment(settings)
        return Header(path=self.path, settings=settings, tensors=found, data_start=start, size=self.size)

    def begin(self) -> tuple[int, int]:
        """Return the number of tensors and settings."""
        if bytes(self.take(4, "its first four bytes")) != _MAGIC:
            raise BadFile(
                f"{self.path} is not a GGUF file: it does not begin with 'GGUF'", hint="pass a model file for llama.cpp"
            )
        version = self.whole("<I", "its version")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            what = "is written for big-endian machines" if swapped in _VERSIONS else f"has version {version}"
            raise BadFile(f"{self.path} {what}, which is not supported (versions 2 and 3 are)", hint="convert it with llama.cpp")
        tensors = self.whole("<Q", "the number of tensors")
        count = self.whole("<Q", "the number of settings")
        self.at_most(tensors, _MOST_TENSORS, 24, "tensors")
        self.at_most(count, _MOST_SETTINGS, 13, "settings")
        return tensors, count

    def tensor(self, number: int, count: int) -> Tensor:
        name = self.text(f"the name of tensor {number:,} of {count:,}", _LONGEST_NAME)
        what = f"the description of tensor '{name}' ({number:,} of {count:,})"
        rank = self.whole("<I", what)
        if rank > _MOST_DIMS:
            self.wrong(f"tensor '{name}' has {rank:,} dimensions; GGUF allows {_MOST_DIMS}")
        dims = struct.unpack(f"<{rank}Q", self.take(8 * rank, what))
        kind = self.whole("<I", what)
        offset = self.whole("<Q", what)
        if kind not in FORMATS:
            raise BadFile(
                f"tensor '{name}' of {self.path} has the unknown format {kind}",
                looked_in=f"{len(FORMATS)} ggml formats",
                hint="use another quantisation of the model, or a newer version of gpuwise",
            )
        if math.prod(dims) >= 2**48 or offset >= 2**48:
            self.wrong(f"tensor '{name}' would be larger than any computer's memory")
        if dims and dims[0] % FORMATS[kind].numbers:
            self.wrong(f"rows of {dims[0]:,} in tensor '{name}' do not fill blocks of {FORMATS[kind].numbers}")
        return Tensor(name, dims, FORMATS[kind], offset)

    def alignment(self, settings: Mapping[str, Any]) -> int:
        found = settings.get("general.alignment", 32)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= 2**20:
            self.wrong("'general.alignment' is not a number of bytes that tensors can be aligned to")
        return found

    def value(self, kind: int, what: str, depth: int) -> Any:
        if kind in _NUMBERS:
            return self.whole(_NUMBERS[kind], what)
        if kind == _STRING:
            return self.text(what)
        if kind != _ARRAY:
            self.wrong(f"{what} is of type {kind}, which GGUF does not have")
        return self.listed(what, depth)

    def listed(self, what: str, depth: int) -> Listed:
        kind, count = self.whole("<I", what), self.whole("<Q", what)
        if depth >= _DEEPEST:
            self.wrong(f"{what} nests lists more than {_DEEPEST} deep")
        if kind in _NUMBERS:
            size = struct.calcsize(_NUMBERS[kind])
            if count * size > _LARGEST_HEADER:
                self.missing(what, count * size)
            taken = self.take(count * size, what)
            few = struct.unpack(f"<{count}{_NUMBERS[kind][1]}", taken) if count <= _MOST_KEPT else ()
            return Listed(count, few)
        if kind not in (_STRING, _ARRAY):
            self.wrong(f"{what} lists values of type {kind}, which GGUF does not have")
        self.texts += count
        if count * 8 > self.size - self.at:
            self.missing(what, count * 8)
        if self.texts > _MOST_TEXTS:
            self.wrong(f"its lists have {self.texts:,} entries, more than any vocabulary")
        if kind == _STRING:
            self.skip_texts(count, what)
        else:
            for _ in range(count):
                self.listed(what, depth + 1)
        return Listed(count)

    def skip_texts(self, count: int, what: str) -> None:
        """Skip this many texts without creating them."""
        unpack, at, data = _LONG.unpack_from, self.at, self.data
        for _ in range(count):
            if at + 8 > len(data):
                self.reach(at + 8, what)
            (length,) = unpack(data, at)
            at += 8 + length
            if at > len(data):
                self.reach(at, what)
        self.at = at

    # ------------------------------------------------------------ bytes

    def take(self, count: int, what: str) -> bytearray:
        end = self.at + count
        if end > len(self.data):
            self.reach(end, what)
        found = self.data[self.at : end]
        self.at = end
        return found

    def reach(self, end: int, what: str) -> None:
        """Read the file's beginning up to this position."""
        if end > self.size:
            self.missing(what, end - self.at)
        if end > _LARGEST_HEADER:
            self.wrong(f"its header is longer than {_LARGEST_HEADER // 2**20} MiB")
        while len(self.data) < end:
            chunk = self.file.read(_CHUNK)
            if not chunk:
                self.missing(what, end - self.at)
            self.data += chunk

    def whole(self, form: str, what: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def text(self, what: str, longest: int = _LARGEST_HEADER) -> str:
        length = self.whole("<Q", what)
        if length > longest:
            if length > self.size - self.at:
                self.missing(what, length)
            self.wrong(f"{what} is {length:,} characters long")
        found = self.take(length, what).decode("utf-8", errors="replace")
        return found if found.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in found)

    def at_most(self, count: int, most: int, smallest: int, what: str) -> None:
        if count > most:
            self.wrong(f"it claims {count:,} {what}, more than any model has")
        if count * smallest > self.size - self.at:
            self.missing(f"the list of its {count:,} {what}", count * smallest)

    def missing(self, what: str, needed: int) -> NoReturn:
        raise BadFile(
            f"{self.path} is truncated: it ends at byte {self.size:,}, within {what[:120]}, which needs {needed:,} bytes",
            hint=_DOWNLOAD,
        )

    def wrong(self, what: str) -> NoReturn:
        raise BadFile(f"{self.path} is damaged: {what[:160]}", hint=_DOWNLOAD)
