"""Stores profiles in the user's data folder: one file per device and day, written atomically."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import msgspec

from gpuwise.core.errors import BadFile
from gpuwise.core.files import home, write_whole
from gpuwise.live.bench.types import VERSION, Profile

__all__ = ["check", "folder", "latest", "path_of", "read", "save", "surer"]

_AGAIN = "run `gpuwise bench` again"
_SHORTEST_S, _LONGEST_S, _WIDEST = 1e-12, 1e6, 1e6
_LEAST_WORK, _MOST_WORK = 1e-3, 1e21  # rates outside these would make predictions infinite


def folder() -> Path:
    """Return the folder for profiles: `GPUWISE_DATA`, or the system's usual folder for data."""
    given = os.environ.get("GPUWISE_DATA")
    if given:
        return Path(given) / "profiles"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or home() / ".local" / "share")
    return base / "gpuwise" / "profiles"


def check() -> None:
    """Check that a profile can be written, before a minute of measuring rather than after it."""
    place, hint = folder(), "set GPUWISE_DATA to another folder"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise BadFile(f"{place} cannot be created: {fault.strerror}", hint=hint) from None
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as fault:
        raise BadFile(f"{place} cannot be written to: {fault.strerror}", hint=hint) from None


def path_of(profile: Profile) -> Path:
    """Return the path of a profile."""
    return folder() / f"{profile.device.replace(':', '')}-{profile.day}.json"


def surer(profile: Profile) -> Profile | None:
    """Return the profile of the same device, software and day, if it has more rows, or as many with less spread."""
    try:
        before = read(path_of(profile))
    except BadFile:
        return None
    same = (before.name, before.torch, before.threads) == (profile.name, profile.torch, profile.threads)
    return before if same and _worth(before) > _worth(profile) else None


def _worth(profile: Profile) -> tuple[int, float]:
    return len(profile.rows), -profile.spread_fraction


def save(profile: Profile) -> Path:
    """Write a profile, replacing one of the same device and day."""
    check()
    path = path_of(profile)
    write_whole(path, msgspec.json.format(msgspec.json.encode(profile), indent=1))
    return path


def read(path: Path) -> Profile:
    """Read a saved profile."""
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=Profile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise BadFile(f"{path} is not a valid machine profile: {fault}", hint=_AGAIN) from None
    if profile.version != VERSION:
        raise BadFile(f"{path} was written by another version of gpuwise", hint=_AGAIN)
    for row in profile.rows:
        timed = _SHORTEST_S <= row.seconds <= _LONGEST_S and 0 <= row.spread_fraction <= _WIDEST
        if not (timed and all(_LEAST_WORK < number < _MOST_WORK for number in (row.work, *row.sizes))):
            raise BadFile(
                f"{path} contains an impossible measurement ({row.work:g} of {row.kind:.40} in {row.seconds:g} s)", hint=_AGAIN
            )
    return profile


def latest(device: str = "") -> Profile:
    """Return the newest profile of a device, or of any device by default."""
    pattern = f"{device.replace(':', '')}-*.json" if device else "*.json"
    found = sorted(folder().glob(pattern), key=lambda path: path.name[-15:])
    if not found:
        raise BadFile(
            f"this machine has not been measured{f' for {device}' if device else ''}",
            looked_in=str(folder()),
            hint="run `gpuwise bench`, which takes about a minute",
        )
    return read(found[-1])
