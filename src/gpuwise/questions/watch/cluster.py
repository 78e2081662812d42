"""Which GPUs in a cluster are idle, throttled, spilling or straggling? Turns Prometheus data into an answer in the form of
`why`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import date, datetime, timezone
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.core.text import counted
from gpuwise.diagnose.fleet import FleetFinding, Member
from gpuwise.diagnose.registry import run_fleet_checks
from gpuwise.diagnose.types import Abstained
from gpuwise.hardware import tables
from gpuwise.live.sample.dcgm import Device, Fleet, read_fleet
from gpuwise.live.sample.prometheus import Server
from gpuwise.questions.common.diagnosis import finding_dict
from gpuwise.questions.common.options import Shown
from gpuwise.questions.watch.members import members_of, missing_metrics

__all__ = ["ClusterAnswer", "judge_fleet", "watch_cluster"]

_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h|d)\s*")
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SHORTEST_S, _LONGEST_S = 10.0, 30 * 86400.0
_HOLLOW = 0.5  # of its SMs, below which NVIDIA calls a GPU's use ineffective (DCGM user guide, profiling)
_WORDS = {
    "gpu_fault": "with errors or no longer reporting",
    "idle_gpu": "idle",
    "throttled": "throttled",
    "vram_spill": "spilling",
    "straggler": "straggling",
    "pcie_degraded": "on a degraded link",
    "power_limited": "power-limited",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAnswer(Shown):
    """What GPUs did over a window, which of them have problems, and what could not be observed."""

    TEXT: ClassVar[str] = "questions.watch.cluster_text.render"

    address: str
    fleet: Fleet
    members: tuple[Member, ...]
    products: tuple[str, ...]
    findings: tuple[FleetFinding, ...]
    abstained: tuple[Abstained, ...]
    verdict: str
    notes: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs, in the order of `members`."""
        return self.fleet.devices

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of these GPUs."""
        return tuple(dict.fromkeys(device.host for device in self.devices))

    @property
    def busy_fraction(self) -> float | None:
        """The mean utilisation over all GPUs."""
        shares = [one.vitals.busy_fraction for one in self.members if one.vitals.busy_fraction is not None]
        return sum(shares) / len(shares) if shares else None

    @property
    def window_s(self) -> float:
        """The length of the window."""
        return float(self.fleet.times_s[-1] - self.fleet.times_s[0])

    @property
    def ended(self) -> datetime:
        """When the window ended."""
        return datetime.fromtimestamp(float(self.fleet.times_s[-1]), tz=timezone.utc)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of the JSON contract for `why`, and those that only a cluster has."""
        codes: dict[int, list[str]] = {}
        for found in self.findings:
            for one in found.named:
                codes.setdefault(one.number, []).append(found.finding.code)
        return {
            "files": [],
            "watched": self.address,
            "gpu": Counter(self.products).most_common(1)[0][0],
            "gpu_count": len(self.devices),
            "host_count": len(self.hosts),
            "step_s": None,
            "busy_fraction": self.busy_fraction,
            "window_s": self.window_s,
            "window_end": self.ended.isoformat(),
            "verdict": self.verdict,
            "findings": [self._finding(found) for found in self.findings],
            "abstained": [asdict(entry) for entry in self.abstained],
            "ranks": [],
            "gpus": [self._gpu(number, codes.get(number, [])) for number in range(len(self.devices))],
            "notes": list(self.notes),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }

    def _finding(self, found: FleetFinding) -> dict[str, Any]:
        named = [
            {
                **self._who(one.number),
                "gain_low": one.finding.gain.low,
                "gain_high": one.finding.gain.high,
                "confidence": one.finding.confidence,
                "evidence": list(one.finding.evidence),
            }
            for one in found.named
        ]
        return {**finding_dict(found.finding), "lost_gpus": found.lost_gpus, "gpus": named}

    def _who(self, number: int) -> dict[str, Any]:
        device = self.devices[number]
        return {"host": device.host, "index": device.index, "name": self.products[number], "uuid": device.uuid, "job": device.job}

    def _gpu(self, number: int, codes: list[str]) -> dict[str, Any]:
        member = self.members[number]
        more = {"memory_used_bytes": member.memory_used_bytes, "sm_fraction": member.sm_fraction, "xid": member.xid}
        return {**asdict(member.vitals), **more, "silent_s": member.silent_s, "codes": codes, **self._who(number)}


def watch_cluster(url: str, *, last: str = "10m") -> ClusterAnswer:
    """Query the Prometheus server at `url` about the GPUs whose DCGM exporters it recently scraped, and diagnose them."""
    seconds = _seconds(last)
    server = Server(url)
    return judge_fleet(read_fleet(server, server.last(seconds)), address=server.address)


def judge_fleet(fleet: Fleet, *, address: str) -> ClusterAnswer:
    """Turn exported data into a verdict."""
    members, products, assumptions = members_of(fleet)
    findings = run_fleet_checks(members)
    return ClusterAnswer(
        address=address,
        fleet=fleet,
        members=members,
        products=products,
        findings=findings,
        abstained=missing_metrics(fleet, members),
        verdict=_verdict(members, findings),
        notes=_notes(members),
        assumptions=assumptions,
        data_date=tables.data_date(),
    )


def _seconds(text: str) -> float:
    match = _SPAN.fullmatch(text)
    example = "try `--last 10m`, `--last 90s` or `--last 2h`"
    if match is None:
        raise BadValue(f"invalid duration '{text}'", hint=example)
    seconds = float(match[1]) * _UNITS[match[2]]
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise BadValue(
            f"'{text}' is too {'short' if seconds < _SHORTEST_S else 'long'}; it must be between 10 seconds and 30 days",
            hint=example,
        )
    return seconds


def _verdict(members: tuple[Member, ...], findings: tuple[FleetFinding, ...]) -> str:
    total = f"{len(members):,} GPU{'s' if len(members) != 1 else ''}"
    shares = [one.vitals.busy_fraction for one in members if one.vitals.busy_fraction is not None]
    busy = f"busy {sum(shares) / len(shares):.0%} of the time" if shares else "utilisation unknown"
    if not findings:
        return f"healthy: {total}, {busy}, and no check found anything wrong"
    counts = ", ".join(f"{len(found.named):,} {_WORDS[found.finding.code]}" for found in findings)
    return f"{total}, {busy}: {counts}"


def _notes(members: tuple[Member, ...]) -> tuple[str, ...]:
    hollow = [one for one in members if (one.vitals.busy_fraction or 0.0) >= _HOLLOW and (one.sm_fraction or 1.0) < _HOLLOW]
    if not hollow:
        return ()
    return (
        f"fewer than half of the SMs are active on {counted(len(hollow), 'GPU')} with high utilisation (first: "
        f"{hollow[0].place}); run `gpuwise watch` on the job to see why",
    )
