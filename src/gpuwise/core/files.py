"""Files that users request: paths are checked before long work starts, and files are written atomically."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gpuwise.core.errors import BadFile

__all__ = ["check_place", "home", "write_whole"]


def home() -> Path:
    """Return the home folder. For a user without one (a bare user ID in a container), return a path that cannot contain files."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def check_place(path: Path, example: str) -> None:
    """Check before long work that a file can be written here; `example` is a possible file name for the hint."""
    if path.is_dir():
        raise BadFile(f"{path} is a folder", hint=f"pass the name of a file in it, such as `{path / example}`")
    if not path.parent.is_dir():
        raise BadFile(
            f"{path} cannot be written: folder {path.parent} does not exist", hint=f"create it first: `mkdir -p {path.parent}`"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadFile(f"{path} cannot be written: {path.parent} is read-only", hint="choose a folder that you can write to")


def write_whole(path: Path, data: bytes) -> None:
    """Write to a temporary file in the same folder, then move it into place."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as fault:
        raise BadFile(f"{path} cannot be written: {fault.strerror}", hint="check the folder and its permissions") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
