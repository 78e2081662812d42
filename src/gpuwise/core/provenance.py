"""Where a figure comes from: its source, on what kind of ground it stands, and what an answer takes for granted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum

__all__ = ["Assumption", "Basis", "Fact", "Source", "as_dicts", "assumed"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Something that an answer rests on and that the user did not say, or measured.

    `code` says what it is about, whatever GPU or model its `name` names: programs look at the code, people read the rest.
    One that `overrides` what the user asked for is said first.
    """

    code: str
    name: str
    value: str
    basis: str
    effect: str
    overrides: bool = False


def assumed(name: str, value: str, effect: str, *, code: str = "", basis: str = "assumed", overrides: bool = False) -> Assumption:
    """An assumption. Where the name holds that of a GPU or a model, `code` says what it is about without it.

    >>> assumed("image loading", "900 images/s", "one process a core").code
    'image_loading'
    """
    own = code or name.replace(" ", "_")
    return Assumption(code=own, name=name, value=value, basis=basis, effect=effect, overrides=overrides)


def as_dicts(assumptions: Iterable[Assumption]) -> list[dict[str, str]]:
    """Assumptions in the names of the JSON contract."""
    return [{key: value for key, value in asdict(one).items() if key != "overrides"} for one in assumptions]
