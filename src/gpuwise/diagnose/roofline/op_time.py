"""One op compared with its expected time: a row of the roofline."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OpTime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """One op at one size: seconds of a mean steady step that it took, should take, and cannot go below; and how often."""

    op: str
    count: float
    dtype: str
    measured_s: float
    expected_s: float
    floor_s: float

    @property
    def lost_s(self) -> float:
        """What it took longer than it should."""
        return max(self.measured_s - self.expected_s, 0.0)

    @property
    def reached_fraction(self) -> float:
        """How fast it ran, as a share of how fast it should."""
        return self.expected_s / max(self.measured_s, 1e-12)
