"""One op compared with its expected time: a row of the roofline."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OpTime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """One op at one size: the seconds per mean steady step that it took, should take, and at least needs; and how often it
    ran.
    """

    op: str
    count: float
    dtype: str
    measured_s: float
    expected_s: float
    floor_s: float

    @property
    def lost_s(self) -> float:
        """How much longer it took than expected."""
        return max(self.measured_s - self.expected_s, 0.0)

    @property
    def reached_fraction(self) -> float:
        """Its speed as a share of the expected speed."""
        return self.expected_s / max(self.measured_s, 1e-12)
