"""Turns what a user names (files, folders, patterns) into traces. A file's content determines its format, not its name."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from gpuwise.core.errors import BadFile
from gpuwise.core.text import a
from gpuwise.trace.formats import FILE_HINT, READERS, SUFFIXES, Format, format_of
from gpuwise.trace.plain_pickle import is_pickle
from gpuwise.trace.types import Trace

__all__ = ["find_files", "read_trace"]

_TEXTS = (".txt", ".csv", ".log")
_MOST_FILES = 4096


def find_files(named: Sequence[str], most: int = _MOST_FILES) -> tuple[Path, ...]:
    """Return the files for paths, folders and patterns, each once, in order of name; at most `most`."""
    found: dict[Path, None] = {}
    for text in named:
        if not text:  # otherwise, it would mean the current folder
            raise BadFile("a file name is empty", hint="check the variable that it comes from, or pass `.` for this folder")
        path = Path(text)
        if path.is_dir():
            inside = _in_folder(path)
            if not inside:
                raise BadFile(
                    f"the folder '{text}' contains no trace",
                    looked_in="files named " + ", ".join(f"*{end}" for end in SUFFIXES),
                    hint=FILE_HINT,
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
    """Return what looks like a trace by name; of a TensorFlow profile only the xplane.pb, which its trace.json.gz partly
    repeats.
    """

    def refuse(fault: OSError) -> None:
        if fault.filename == str(folder):  # folders below it that cannot be read are left out
            raise BadFile(f"the folder '{folder}' cannot be read: {fault.strerror}", hint="check its permissions") from None

    inside = (Path(where, name) for where, _, names in os.walk(folder, onerror=refuse) for name in names)
    files = sorted(file for file in inside if os.path.isfile(file) and _is_meant(file))  # noqa: PTH113 (never raises)
    planes = {
        file.with_name(file.name.removesuffix(".xplane.pb") + ".trace.json.gz")
        for file in files
        if file.name.endswith(".xplane.pb")
    }
    return [file for file in files if file not in planes]


def _is_meant(file: Path) -> bool:
    """Return whether to read a file in a folder: by its extension; without one, if it is a pickle, as the NCCL flight recorder
    writes for each rank; and a text if it is a table that gpuwise knows.
    """
    if file.name.endswith(SUFFIXES):
        return True
    try:
        if file.suffix in _TEXTS:
            return format_of(file) in (Format.TELEMETRY, Format.OP_TABLE)
        with file.open("rb") as opened:
            return not file.suffix and is_pickle(opened.read(2))
    except (BadFile, OSError):
        return False


def read_trace(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> Trace:
    """One file, whatever profiler wrote it."""
    found = format_of(path)
    if found not in READERS:
        raise BadFile(
            f"'{path.name}' is {a(found.value)}, which has no timeline",
            looked_in="its content, not its name",
            hint=f"run `gpuwise why {path.name}` alone",
        )
    module, name = READERS[found]
    trace: Trace = getattr(import_module(f"gpuwise.trace.{module}"), name)(path, progress)
    return trace
