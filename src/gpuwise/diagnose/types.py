"""The result of a diagnosis: findings with a bounded gain, and the checks that could not run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuwise.diagnose.roofline.op_time import OpTime

__all__ = ["Abstained", "Finding", "Gain"]

_MINOR = 1.05
_MAJOR = 1.2
_LEAST_LEFT = 0.05  # of a step remains, whatever is fixed
_ROUNDING = 1.005
_REPORTED = ("gpu_fault",)  # reported by the driver, so certain regardless of the loss
_WIDE = 3.0  # high divided by low; a wider range is not reported with high confidence
_ALL_GONE = "the upper end assumes that all of this time is saved; the lower end assumes a modest improvement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How many times as fast a step would be: `high` if nothing else slows it down, `low` if the next bottleneck remains.

    A fix saves at most the time that its cause takes. `beyond` explains in one clause why it may save more.
    """

    low: float
    high: float
    beyond: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether the range is so wide that the output must explain it."""
        return self.high > _WIDE * self.low

    @property
    def middle(self) -> float:
        """The geometric mean of the range."""
        return math.sqrt(self.low * self.high)

    def bounded(self, share: float) -> Gain:
        """Limit the gain of a cause with this share of the step to 1 / (1 - share), unless `beyond` gives a reason for more."""
        most = 1.0 / max(1.0 - share, _LEAST_LEFT)
        if self.high <= most * _ROUNDING:
            return replace(self, beyond="")
        return self if self.beyond else Gain(low=min(self.low, most), high=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause of lost time. `seconds_per_step` is the time that it takes now, not the time that a fix saves.
    `share_fraction` is its share of the mean step and bounds the gain. A `circumstance` comes from the environment and is
    listed after the causes in the program. `where` names the function, op or call that causes it, and `ops` are the ops that it
    is about, where their sizes were recorded."""

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
    where: str = ""
    ops: tuple[OpTime, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", self.gain.bounded(self.share_fraction))
        if self.gain.is_wide and self.confidence == "high" and self.code not in _REPORTED:
            object.__setattr__(self, "confidence", "medium")

    @property
    def lines(self) -> tuple[str, ...]:
        """The evidence, with an explanation if the gain is wide or exceeds the share."""
        wide = (_ALL_GONE,) if self.gain.is_wide else ()
        beyond = (f"the gain can exceed the share: {self.gain.beyond}",) if self.gain.beyond else ()
        return (*self.evidence, *wide, *beyond)

    @property
    def severity(self) -> str:
        """`minor` if even the upper end is below 5%, and `major` if the middle of the range is above 20%."""
        if self.gain.high < _MINOR:
            return "minor"
        return "major" if self.gain.middle >= _MAJOR else "moderate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstained:
    """A check that this trace does not support, with the reason and what to record instead."""

    code: str
    reason: str
    record_next: str
