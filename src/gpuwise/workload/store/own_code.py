"""Captures of the user's own code, cached on disk together with everything they depend on.

An entry is used only while every file that the code read, every package it imported and every variable it names are unchanged.
Checking this runs no user code. There is one entry per question: a capture of changed code replaces the old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from gpuwise.core.errors import GpuwiseError
from gpuwise.core.files import write_whole
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files

__all__ = ["RestsOn", "find", "keep", "path_of", "state_of", "version_of"]

_WHOLE_BYTES = 16 * 2**20  # larger files are compared by size and modification time
_MOST_FILES = 2000


class RestsOn(msgspec.Struct, frozen=True):
    """The dependencies of a capture: files and folders with their state, packages with their version, variables with their
    value.
    """

    files: dict[str, str] = {}
    packages: dict[str, str] = {}
    variables: dict[str, str | None] = {}

    def is_bounded(self) -> bool:
        """Return whether the capture is worth caching: checking very many files would take longer than another capture."""
        return 0 < len(self.files) <= _MOST_FILES

    def holds(self) -> bool:
        """Return whether nothing has changed."""
        return (
            all(version_of(name) == own for name, own in self.packages.items())
            and all(os.environ.get(name) == own for name, own in self.variables.items())
            and all(state_of(name) == own for name, own in self.files.items())
        )


class _Entry(msgspec.Struct, frozen=True):
    rests_on: RestsOn
    workload: bytes


def state_of(name: str) -> str:
    """Return a short digest of a file or folder, or an empty string if there is none."""
    path = Path(name)
    try:
        if path.is_dir():
            names = sorted(entry.name for entry in path.iterdir() if entry.name != "__pycache__")
            return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
        about = path.stat()
        if about.st_size > _WHOLE_BYTES:
            return f"{about.st_size} {about.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def version_of(package: str) -> str:
    """Return the version of an installed package, or an empty string if it is not installed."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return ""


def find(path: Path) -> Workload | None:
    """Return the capture stored here, if it is complete and its dependencies are unchanged."""
    try:
        entry = msgspec.msgpack.decode(path.read_bytes(), type=_Entry)
        return files.decode(entry.workload, path.name) if entry.rests_on.holds() else None
    except (GpuwiseError, OSError, msgspec.MsgspecError, UnicodeError):
        return None  # missing, damaged or not readable: capture again


def keep(path: Path, workload: Workload, rests_on: RestsOn) -> None:
    """Store a capture together with its dependencies, in one file."""
    if rests_on.is_bounded():
        with contextlib.suppress(OSError, GpuwiseError, UnicodeError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, msgspec.msgpack.encode(_Entry(rests_on, files.encode(workload))))


def path_of(request: Request, folder: Path, recorder: int) -> Path | None:
    """Return where the capture for this question is stored. The same name means different code in another folder or
    environment.
    """
    try:
        here = [str(Path.cwd()), sys.prefix, sys.version, os.environ.get("PYTHONPATH", ""), f"{files.VERSION} {recorder}"]
        question = b"\0".join([msgspec.json.encode(request), *(part.encode() for part in here)])
    except (OSError, UnicodeEncodeError):
        return None
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in Path(request.model).name)[:80]
    return folder / "captures" / f"own-{name}-{hashlib.sha256(question).hexdigest()[:16]}.capture"
