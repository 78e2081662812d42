"""Reads a language model from the header of its GGUF file: its sizes, the bytes of its tensors by format, and the file's
format.

The tensors show what the layers contain; the settings supply what the tensors cannot show: heads, context, windows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.workload.language.ggml import file_format
from gpuwise.workload.language.gguf_header import Header, Tensor, read_header
from gpuwise.workload.language.gguf_shape import shape_of_tensors
from gpuwise.workload.language.shape import LanguageShape

__all__ = ["GgufModel", "read_gguf"]

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_MOST_PARTS = 1000
_HEADER_ONLY = 0.05  # share of the tensors that a download of the header may contain by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufModel:
    """The description of a model in the header of a GGUF file. `format` is the file's, such as Q4_K_M; `format_bytes` has the
    bytes of tensors by number format; `parameters` counts everything in the file.
    """

    shape: LanguageShape
    format: str
    format_bytes: Mapping[str, int]
    parameters: int
    notes: tuple[str, ...] = ()

    @property
    def tensor_bytes(self) -> int:
        return sum(self.format_bytes.values())


def read_gguf(path: Path, *, allow_header_only: bool = False) -> GgufModel:
    """Return the model in this file. `allow_header_only` accepts a file that ends with its header or soon after, because whoever
    downloads the header alone does not know where it ends. A file that ends later is a download that was cut off.
    """
    headers, notes = _parts(path, allow_header_only)
    first = headers[0]
    for header in headers:
        if (cut := header.cut) is not None:
            if not allow_header_only or header.held_fraction > _HEADER_ONLY:
                raise _cut_tensors(header, cut)
            notes.append(f"{header.path.name} has {header.size:,} of its {header.whole_size:,} bytes, but its header is complete")
    tensors = [tensor for header in headers for tensor in header.tensors]
    used: Counter[str] = Counter()
    for tensor in tensors:
        used[tensor.format.name] += tensor.bytes
    largest = max(used, key=lambda name: used[name], default="")
    return GgufModel(
        shape=shape_of_tensors(path, first.settings, {tensor.name: tensor for tensor in tensors}),
        format=file_format(first.settings.get("general.file_type")) or largest,
        format_bytes=dict(used.most_common()),
        parameters=sum(tensor.elements for tensor in tensors),
        notes=tuple(notes),
    )


def _parts(path: Path, allow_missing: bool) -> tuple[list[Header], list[str]]:
    """Return the headers of all files that the model was split into; the first has the settings."""
    match = _PART.search(path.name)
    count = int(match[2]) if match else 1
    if match is None or not 1 < count <= _MOST_PARTS:
        return [read_header(path)], []
    stem = path.name[: match.start()]
    files = [path.with_name(f"{stem}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    absent = [file.name for file in files if not file.is_file()]
    if absent and (not allow_missing or files[0].name in absent):
        raise BadFile(
            f"{path.name} is one of {count} files of a model, but {absent[0]} is not in the same folder",
            looked_in=str(path.parent),
            hint=f"put all {count} files into one folder",
        )
    are = "is" if len(absent) == 1 else "are"
    notes = [f"{len(absent)} of the model's {count} files {are} missing and not counted"] if absent else []
    return [read_header(file) for file in files if file.is_file()], notes


def _cut_tensors(header: Header, cut: Tensor) -> BadFile:
    held, needed = max(header.size - header.data_start, 0), header.whole_size - header.data_start
    return BadFile(
        f"{header.path} is truncated: its header is complete, but it has only {held:,} of {needed:,} bytes of tensors "
        f"and ends within '{cut.name}'",
        hint="download the rest of the file; for a prediction, its header is enough: "
        f"`head -c {header.data_start} {header.path.name} > header.gguf`",
    )
