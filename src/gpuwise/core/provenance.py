"""Where a value comes from: its source, how it was obtained, and the assumptions behind an answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum

__all__ = ["Assumption", "Basis", "Fact", "Source", "as_dicts", "assumed"]


class Basis(str, Enum):
    """How a value was obtained."""

    DATASHEET = "datasheet"  # published by the maker
    MEASURED = "measured"  # read off a running device
    DERIVED = "derived"  # computed from other values
    FITTED = "fitted"  # fitted to measurements
    ASSUMED = "assumed"  # a stated default
    DATABASE = "database"  # from a third party's collection
    GIVEN = "given"  # entered by the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document in which a value can be looked up."""

    id: str
    title: str
    url: str = ""
    basis: Basis = Basis.DATASHEET


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value with its origin."""

    value: object
    source: Source
    basis: Basis
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """Something an answer relies on that the user neither stated nor measured.

    `code` identifies the topic, independent of the GPU or model in `name`. Programs use the code; people read the rest.
    `overrides` marks assumptions that replace something the user asked for; these are listed first.
    """

    code: str
    name: str
    value: str
    basis: str
    effect: str
    overrides: bool = False


def assumed(name: str, value: str, effect: str, *, code: str = "", basis: str = "assumed", overrides: bool = False) -> Assumption:
    """Create an assumption. If the name contains a GPU or model, `code` identifies the topic without it.

    >>> assumed("image loading", "900 images/s", "one process a core").code
    'image_loading'
    """
    own = code or name.replace(" ", "_")
    return Assumption(code=own, name=name, value=value, basis=basis, effect=effect, overrides=overrides)


def as_dicts(assumptions: Iterable[Assumption]) -> list[dict[str, str]]:
    """Return the assumptions with the key names of the JSON contract."""
    return [{key: value for key, value in asdict(one).items() if key != "overrides"} for one in assumptions]
