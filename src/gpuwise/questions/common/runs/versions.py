"""The versions that saved rows depend on, so that rows from another version of the program, or from a worker with one, are
never mixed in.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from zlib import crc32

import msgspec

from gpuwise import __version__
from gpuwise.core.errors import GpuwiseError
from gpuwise.hardware import tables

__all__ = ["Versions", "check_versions", "versions"]

_FITTED = (("kernels", "constants"), ("step", "stacks"), ("step", "memory"), ("evidence", "ranges"))


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """The program, a digest of its fitted constants, and the day of its tables."""

    gpuwise: str
    constants: str
    data_date: str


@cache
def versions() -> Versions:
    """Of this installation."""
    data = b"".join((files(f"gpuwise.{package}") / "data" / f"{name}.json").read_bytes() for package, name in _FITTED)
    return Versions(gpuwise=__version__, constants=f"{crc32(data):08x}", data_date=tables.data_date().isoformat())


def check_versions(wanted: Versions) -> None:
    """Refuse to work, on a worker, for a user with another version of gpuwise."""
    if wanted != versions():
        raise GpuwiseError(
            f"a worker runs gpuwise {_text(versions())}, not {_text(wanted)}", hint="install the same gpuwise on all workers"
        )


def _text(found: Versions) -> str:
    return f"{found.gpuwise} (constants {found.constants}, data from {found.data_date})"
