"""Files that users request: paths are checked before long work starts, and files are written atomically."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from gpuwise.core.errors import BadFile

__all__ = ["check_here", "check_place", "check_readable", "home", "write_whole"]

_LARGEST_TEXT = 64 * 2**20


def home() -> Path:
    """Return the home folder. For a user without one (a bare user ID in a container), return a path that cannot contain files."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


def check_here() -> None:
    """Refuse to work in a folder that has been deleted."""
    try:
        Path.cwd()
    except OSError:
        raise BadFile("the current folder no longer exists", hint="change to another folder, such as with `cd`") from None


def check_readable(path: Path, hint: str, most_bytes: int = _LARGEST_TEXT) -> None:
    """Refuse what has no end, such as a pipe or a device, and what is too large to be a list or a table. Other faults are left to
    whoever opens the file."""
    try:
        unending, size = path.exists() and not path.is_file() and not path.is_dir(), path.stat().st_size
    except (OSError, ValueError):
        return
    if unending:
        raise BadFile(f"{path} is not a regular file", hint=hint)
    if size > most_bytes:
        raise BadFile(f"{path} is {size / 1e6:.0f} MB in size, which is too large", hint=hint)


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
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "free some space there, or choose another folder" if full else "check the folder and its permissions"
        raise BadFile(f"{path} cannot be written: {fault.strerror}", hint=hint) from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
