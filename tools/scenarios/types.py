"""The types for a scenario and its answer, and the rule for when an answer is accepted. For a figure, an answer is accepted if it
is within a quarter of it. For a range, it is accepted if it is inside it or within a quarter of its nearer end. If the question
names no particular model, the answer is a range over kinds of work. In that case, overlapping ranges are also accepted, and the
report says so. A scenario is answered if all its figures are.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["NEAR", "Asked", "Choice", "Judged", "Ours", "Part", "Reply", "flat", "judge", "over", "scenario", "unanswered"]

NEAR = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Our figure. `low` and `high` are its ends over kinds of work."""

    value: float
    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        shown = _number(self.value)
        same = _number(self.low) == shown == _number(self.high)
        return (shown if same else f"{shown} ({_number(self.low)} to {_number(self.high)})") + (
            f" {self.unit}" if self.unit else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """For a question about a decision in which the figure is given, whether we make the same decision, and what we say."""

    agrees: bool
    text: str

    def __str__(self) -> str:
        return self.text


Reply = Mapping[str, "Ours | Choice | float"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How one scenario is asked. `given` lists figures from the question itself, and `at_least` those that mean "or more". `ask`
    is None if we have no answer. `quoted` means that our answer is not computed but repeats a published rule from the same
    author.
    """

    id: str
    question: str
    how: str
    why: str
    ask: Callable[[Mapping[str, Any]], Reply] | None
    given: tuple[str, ...] = ()
    at_least: tuple[str, ...] = ()
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One figure of a scenario. `within` is "yes", "overlap" or "no"."""

    key: str
    theirs: Any
    ours: Ours | Choice | None
    within: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One scenario with our answer. `doubt` says why the evidence itself contradicts the quoted answer."""

    asked: Asked
    parts: tuple[Part, ...]
    doubt: str

    @property
    def answered(self) -> bool:
        return bool(self.parts) and all(part.within != "no" for part in self.parts)


def over(values: Sequence[float], unit: str = "") -> Ours:
    """The median and the ends of one figure over kinds of work."""
    return Ours(value=statistics.median(values), low=min(values), high=max(values), unit=unit)


def flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """Figures by name, with those in a group as `group.name`."""
    found: dict[str, Any] = {}
    for key, entry in value.items():
        found |= {f"{key}.{name}": one for name, one in entry.items()} if isinstance(entry, dict) else {key: entry}
    return found


def judge(asked: Asked, row: Mapping[str, Any]) -> Judged:
    """Our answer next to the quoted one. Every figure is either answered or marked as part of the question."""
    theirs = {key: value for key, value in flat(row["value"]).items() if key not in asked.given}
    reply = dict(asked.ask(row["value"])) if asked.ask else {}
    if asked.ask and set(reply) - set(flat(row["value"])):
        raise KeyError(f"{asked.id} answers what nobody asked: {set(reply) - set(flat(row['value']))}")
    keys = [*theirs, *(key for key in reply if key not in theirs)]
    parts = tuple(_part(key, flat(row["value"])[key], reply.get(key), key in asked.at_least) for key in keys)
    return Judged(asked=asked, parts=parts, doubt=row.get("note", ""))


def _part(key: str, theirs: Any, ours: Ours | Choice | float | None, at_least: bool) -> Part:
    if isinstance(ours, (int, float)):
        ours = over([float(ours)])
    return Part(key=key, theirs=theirs, ours=ours, within=_within(theirs, ours, at_least))


def _within(theirs: Any, ours: Ours | Choice | None, at_least: bool) -> str:
    if ours is None:
        return "no"
    if isinstance(ours, Choice):
        return "yes" if ours.agrees else "no"
    low, high = theirs if isinstance(theirs, list) else (theirs, theirs)
    high = float("inf") if at_least else high
    if low * (1 - NEAR) - 1e-9 <= ours.value <= high * (1 + NEAR) + 1e-9:
        return "yes"
    return "overlap" if isinstance(theirs, list) and ours.low <= high and ours.high >= low else "no"


def _number(value: float) -> str:
    if value == 0 or abs(value) < 5e-4:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# ---------------------------------------------------------------- the registry's entries


def scenario(
    id: str,
    *,
    question: str,
    how: str,
    why: str = "",
    given: tuple[str, ...] = (),
    at_least: tuple[str, ...] = (),
    quoted: bool = False,
) -> Callable[[Callable[[Mapping[str, Any]], Reply]], Asked]:
    """Turns a function that asks gpuwise into an entry. The function receives the figures from the question."""

    def entry(ask: Callable[[Mapping[str, Any]], Reply]) -> Asked:
        return Asked(id=id, question=question, how=how, why=why, ask=ask, given=given, at_least=at_least, quoted=quoted)

    return entry


def unanswered(id: str, *, question: str, why: str) -> Asked:
    """A scenario that we cannot answer, and why."""
    return Asked(id=id, question=question, how="-", why=why, ask=None)
