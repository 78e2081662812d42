"""A measured profile of one device in this machine: rows of work and seconds, with their uncertainty."""

from __future__ import annotations

from statistics import median

import msgspec

__all__ = ["VERSION", "Profile", "Row"]

VERSION = 1


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One piece of work. `work` counts FLOPs if the kind computes, otherwise bytes (or images, or operations); `sizes` are
    what the rate may depend on; `spread_fraction` is the half-width of a 95% interval around the seconds.
    """

    kind: str
    sizes: tuple[float, ...]
    work: float
    seconds: float
    spread_fraction: float
    runs: int
    unit: str = "FLOP"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One device on one day."""

    version: int
    device: str
    name: str
    day: str
    torch: str
    threads: int
    rows: tuple[Row, ...]
    missing: tuple[str, ...] = ()

    def of(self, kind: str) -> tuple[Row, ...]:
        """The rows of one kind."""
        return tuple(row for row in self.rows if row.kind == kind)

    @property
    def spread_fraction(self) -> float:
        """The median uncertainty of its rows."""
        return median([row.spread_fraction for row in self.rows] or [1.0])
