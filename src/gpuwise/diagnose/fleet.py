"""Many GPUs observed from outside: the input of a check for each, and the combined findings for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.vitals import GpuVitals

__all__ = ["FleetFinding", "Member", "Named", "gathered"]

_SURE = {"high": 2, "medium": 1, "low": 0}
_MOST = 20.0  # times as much work, if a GPU does almost nothing now


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One GPU of many. `peers` names those that should run at the same pace; `assumed` if that is a guess from host and
    product.

    `xid` is the last error that its driver reported, `xid_new` whether it occurred in this window; `silent_s` how long it has not
    reported anything.
    """

    place: str
    peers: str
    assumed: bool
    vitals: GpuVitals
    memory_used_bytes: float | None = None
    sm_fraction: float | None = None
    xid: int | None = None
    xid_new: bool = False
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A finding about one GPU, by its number in the fleet. `holds` is the number of GPUs that it slows down, including itself."""

    number: int
    finding: Finding
    holds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFinding:
    """The findings with one code, the GPU that loses most first. Shares and gains in `finding` are for all GPUs together."""

    finding: Finding
    named: tuple[Named, ...]
    lost_gpus: float


def gathered(title: str, named: Sequence[Named], total: int) -> FleetFinding:
    """Combine the findings of single GPUs into one: what they lose together, expressed as a number of idle GPUs."""
    order = tuple(sorted(named, key=lambda one: -_lost(one, one.finding.gain.high)))
    lost = sum(_lost(one, one.finding.gain.high) for one in order)
    least = sum(_lost(one, one.finding.gain.low) for one in order)
    worst = order[0].finding
    return FleetFinding(
        finding=Finding(
            code=worst.code,
            title=f"{title}: {len(order):,} of {total:,} GPU{'s' if total != 1 else ''}",
            seconds_per_step=0.0,
            share_fraction=lost / total,
            gain=Gain(low=_faster(least, total), high=_faster(lost, total)),
            confidence=min((one.finding.confidence for one in order), key=_SURE.__getitem__),
            evidence=tuple("; ".join(one.finding.evidence) for one in order),
            remedy=worst.remedy,
            verify=worst.verify,
        ),
        named=order,
        lost_gpus=lost,
    )


def _lost(one: Named, gain: float) -> float:
    return one.holds * (1.0 - 1.0 / gain)


def _faster(lost: float, total: int) -> float:
    return min(total / max(total - lost, total / _MOST), _MOST)
