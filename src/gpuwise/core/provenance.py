"""Where a figure comes from: its source, and on what kind of ground it stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Basis", "Fact", "Source"]


class Basis(str, Enum):
    """On what ground a figure stands."""

    DATASHEET = "datasheet"  # printed by the maker
    MEASURED = "measured"  # read off a running device
    DERIVED = "derived"  # computed from other figures
    FITTED = "fitted"  # estimated from measurements
    ASSUMED = "assumed"  # a stated default
    DATABASE = "database"  # printed by a third party's collection
    GIVEN = "given"  # typed by the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document a figure can be looked up in."""

    id: str
    title: str
    url: str = ""
    basis: Basis = Basis.DATASHEET


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One figure with its origin."""

    value: object
    source: Source
    basis: Basis
    note: str = ""
