"""What a diagnosis says: findings with a bounded gain, and which checks could not run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = ["Abstained", "Finding", "Gain"]

_MINOR = 1.05
_MAJOR = 1.2
_LEAST_LEFT = 0.05  # of a step, whatever is mended
_ROUNDING = 1.005
_REPORTED = ("gpu_fault",)  # by the driver: sure, however much is lost by it
_WIDE = 3.0  # high over low: a gain known no better is not told with high confidence
_ALL_GONE = "the upper end assumes that all of this time is saved; the lower end assumes a modest improvement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How many times as fast a step would be: `high` if nothing else held it up, `low` with the next limit in place.

    A fix gives back at most what its cause costs. `beyond` says, in one clause, why one may give more.
    """

    low: float
    high: float
    beyond: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether it is known so roughly that the answer has to say so."""
        return self.high > _WIDE * self.low

    @property
    def middle(self) -> float:
        """What findings are ranked by: the middle of the range, on a scale of ratios."""
        return math.sqrt(self.low * self.high)

    def bounded(self, share: float) -> Gain:
        """The gain of a cause that takes this share of the step: not above 1 / (1 - share), unless there is a reason for it."""
        most = 1.0 / max(1.0 - share, _LEAST_LEFT)
        if self.high <= most * _ROUNDING:
            return replace(self, beyond="")
        return self if self.beyond else Gain(low=min(self.low, most), high=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause of lost time. `seconds_per_step` is what it costs now, not what fixing it saves; `share_fraction` is that of the
    mean step, and bounds the gain. A `circumstance` comes from the environment, not the program, and is listed after
    the program's own causes."""

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", self.gain.bounded(self.share_fraction))
        if self.gain.is_wide and self.confidence == "high" and self.code not in _REPORTED:
            object.__setattr__(self, "confidence", "medium")

    @property
    def lines(self) -> tuple[str, ...]:
        """The evidence; where the gain is wide, what its ends mean, and where it is larger than the share allows, why."""
        wide = (_ALL_GONE,) if self.gain.is_wide else ()
        beyond = (f"the gain can exceed the share: {self.gain.beyond}",) if self.gain.beyond else ()
        return (*self.evidence, *wide, *beyond)

    @property
    def severity(self) -> str:
        """`minor` where even the upper end is below 5%, `major` where the middle of the range is above 20%."""
        if self.gain.high < _MINOR:
            return "minor"
        return "major" if self.gain.middle >= _MAJOR else "moderate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstained:
    """A check that this trace cannot carry, why, and what to record to have it answered."""

    code: str
    reason: str
    record_next: str
