"""From what a person names (files, folders, patterns) to traces. The content of a file tells its format, not the name."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.trace.source import ByteSource, ends_early
from gpuwise.trace.types import Trace

__all__ = ["find_files", "read_trace"]

_HEAD_BYTES = 1 << 16
_SUFFIXES = (".json", ".json.gz", ".pb", ".pb.gz", ".sqlite", ".gz")
_MOST_FILES = 4096
_HINT = "pass a Chrome trace from torch.profiler, an xplane.pb from TensorFlow or JAX, or an SQLite export from Nsight Systems"


def find_files(named: Sequence[str], most: int = _MOST_FILES) -> tuple[Path, ...]:
    """The files meant by paths, folders and patterns, each once, in the order of their names; not more than `most`."""
    found: dict[Path, None] = {}
    for text in named:
        path = Path(text)
        if path.is_dir():
            inside = _in_folder(path)
            if not inside:
                raise BadFile(
                    f"the folder '{text}' contains no trace",
                    looked_in="files named " + ", ".join(f"*{end}" for end in _SUFFIXES),
                    hint=_HINT,
                )
            found.update(dict.fromkeys(inside))
        elif path.exists():
            found[path] = None
        elif not glob.has_magic(text):
            hint = "check the path; torch.profiler writes traces with `export_chrome_trace`"
            raise BadFile(f"file '{text}' not found", looked_in=str(path.parent), hint=hint)
        else:
            matches = sorted(Path(match) for match in glob.glob(text, recursive=True) if not os.path.isdir(match))  # noqa: PTH112, PTH207
            if not matches:
                raise BadFile(f"no file matches '{text}'", hint="check the pattern, and put it in quotes if the shell expands it")
            found.update(dict.fromkeys(matches))
    if len(found) > most:
        raise BadFile(f"the pattern matches {len(found):,} files, but the limit is {most:,}", hint="use a narrower pattern")
    return tuple(found)


def _in_folder(folder: Path) -> list[Path]:
    """What looks like a trace by name; of a TensorFlow profile only the xplane.pb, which its trace.json.gz repeats in part."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name.endswith(_SUFFIXES))
    planes = {
        file.with_name(file.name.removesuffix(".xplane.pb") + ".trace.json.gz")
        for file in files
        if file.name.endswith(".xplane.pb")
    }
    return [file for file in files if file not in planes]


def read_trace(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One file, whatever profiler wrote it."""
    if not path.exists():
        raise BadFile(f"file '{path}' not found", looked_in=str(path.parent), hint="check the path")
    if not path.is_file():
        raise BadFile(f"'{path}' is not a regular file", hint=_HINT)
    with ByteSource(path) as source:
        if source.size_bytes == 0:
            raise BadFile(f"'{path.name}' is empty", hint="check whether the profiler was stopped before it wrote the file")
        head = source.read(_HEAD_BYTES)
        cut = source.cut
    if head.startswith(b"SQLite format 3\0"):
        from gpuwise.trace.readers.nsys import read_nsys

        return read_nsys(path, progress)
    if head[:256].lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        from gpuwise.trace.readers.chrome import read_chrome

        return read_chrome(path, progress)
    from gpuwise.trace.readers.xplane import looks_like_xplane, read_xplane

    if looks_like_xplane(head):
        return read_xplane(path, progress)
    if cut:
        raise ends_early(path.name, cut, "it contains no trace data", f"the {len(head):,} bytes that could be decompressed")
    raise BadFile(
        f"'{path.name}' is not a profiler trace",
        looked_in=f"its first {len(head):,} bytes",
        hint=_HINT,
    )
