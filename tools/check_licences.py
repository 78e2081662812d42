"""Checks the licences of everything that gpuwise installs: `make licences`.

    python tools/check_licences.py            # the core and its dependencies
    python tools/check_licences.py --extras   # also every extra that is installed here

Reads the metadata of the installed packages. Exits with 1 if the core needs a package that names no licence, or one whose licence
asks for more than keeping the notice.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

__all__ = ["Licensed", "licences", "main"]

# Beginnings of names as packages write them: SPDX expressions, classifiers, or words.
_FREE = ("0BSD", "APACHE", "BSD", "HPND", "ISC", "MIT", "PSF", "PYTHON SOFTWARE", "ZLIB", "CC0", "UNLICENSE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Licensed:
    """A package and the licence that it states. `free` means that the licence asks only for keeping the notice."""

    name: str
    version: str
    licence: str
    free: bool


def licences(extras: bool = False, root: str = "gpuwise") -> list[Licensed]:
    """The packages that the core needs, by name, optionally with the extras that are installed."""
    return sorted((_licensed(found) for found in _needed(root, extras)), key=lambda entry: entry.name.lower())


def _needed(root: str, extras: bool) -> Iterator[Distribution]:
    waiting, seen = [root], {root}
    while waiting:
        try:
            found = distribution(waiting.pop())
        except PackageNotFoundError:
            continue  # for another Python or system, or for an extra that is not installed
        if found.name.lower() != root:
            yield found
        for text in found.requires or ():
            name = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", text, maxsplit=1)[0]).lower()
            optional = "extra ==" in text
            if name not in seen and (not optional or (extras and found.name.lower() == root)):
                seen.add(name)
                waiting.append(name)


def _licensed(found: Distribution) -> Licensed:
    classified = [
        entry.rpartition(" :: ")[2] for entry in found.metadata.get_all("Classifier") or () if entry.startswith("License ::")
    ]
    said = _field(found, "License-Expression") or ", ".join(entry for entry in classified if entry != "OSI Approved")
    said = (said or _field(found, "License")).strip().partition("\n")[0]
    parts = [part.strip(" ()").upper() for part in re.split(r"\bAND\b|,", said)]
    return Licensed(name=found.name, version=found.version, licence=said or "not stated", free=all(map(_is_free, parts)))


def _field(found: Distribution, name: str) -> str:
    return "".join((found.metadata.get_all(name) or [""])[:1])


def _is_free(part: str) -> bool:
    """If there are several licences to choose from, one free licence is enough."""
    choices = [choice.strip(" ()") for choice in re.split(r"\bOR\b", part)]
    return any(choice.startswith(_FREE) for choice in choices)


def main() -> int:
    """Print the packages. Returns 1 if the core needs one that is not free."""
    parser = argparse.ArgumentParser(description="Licences of what gpuwise needs.")
    parser.add_argument("--extras", action="store_true", help="with what extras need and is installed here")
    options = parser.parse_args()
    core = {entry.name for entry in licences()}
    bad = [entry for entry in licences() if not entry.free]
    for entry in licences(extras=options.extras):
        mark = "" if entry.free else "  <- look at it" if entry.name not in core else "  <- not for the core"
        print(f"{'core ' if entry.name in core else 'extra'}  {entry.name:24} {entry.version:14} {entry.licence:.80}{mark}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
