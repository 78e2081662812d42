"""What a diagnosis says: findings with a bounded gain, and what could not be told."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Abstained", "Finding", "Gain"]

_MINOR = 1.05
_MAJOR = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How many times as fast a step would be: `high` if nothing else held it up, `low` with the next limit in place."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """What findings are ranked by: the middle of the range, on a scale of ratios."""
        return math.sqrt(self.low * self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause of lost time. `seconds_per_step` is what it costs now, not what fixing it saves. A `circumstance` is none of the
    program's own: told behind its causes, however large."""

    code: str
    title: str
    seconds_per_step: float
    share_fraction: float
    gain: Gain
    confidence: str
    evidence: tuple[str, ...]
    remedy: str
    verify: str
    circumstance: bool = False

    @property
    def severity(self) -> str:
        """`minor` where even the upper end is below 5 %, `major` where the middle of the range is above 20 %."""
        if self.gain.high < _MINOR:
            return "minor"
        return "major" if self.gain.middle >= _MAJOR else "moderate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstained:
    """A check that this trace cannot carry, why, and what to record to have it answered."""

    code: str
    reason: str
    record_next: str
