"""The answer of `watch`: the diagnosis of one watched run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.diagnose.checks.slower_than_expected import Expectation
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.vitals import Vitals
from gpuwise.live.sample.steps import Pace
from gpuwise.live.sample.types import Run
from gpuwise.questions.common.diagnosis import WhyAnswer, finding_dict
from gpuwise.questions.common.options import Shown

__all__ = ["WatchAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchAnswer(Shown):
    """Where a watched run spent its time, its problems, and what could not be observed."""

    TEXT: ClassVar[str] = "questions.watch.text.render"

    title: str
    run: Run
    pace: Pace | None
    vitals: Vitals
    parts_s: dict[str, float]
    window: WhyAnswer | None
    expected: Expectation | None
    findings: tuple[Finding, ...]
    abstained: tuple[Abstained, ...]
    verdict: str
    notes: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def exit_code(self) -> int:
        """The exit code of the watched command, which `gpuwise watch` passes on."""
        return self.run.exit_code or 0

    @property
    def busy_fraction(self) -> float | None:
        """How busy the GPUs of the run were according to their driver; without a GPU, the share of the step that did not wait
        for input.
        """
        shares = [gpu.busy_fraction for gpu in self.vitals.gpus if gpu.busy_fraction is not None]
        if shares and not self.vitals.on_cpu:
            return sum(shares) / len(shares)
        return 1.0 - self.pace.wait_fraction if self.pace else None

    def to_dict(self) -> dict[str, Any]:
        """The keys of the JSON contract for `why`, and those that only a live run has."""
        pace = self.pace
        return {
            "files": [],
            "watched": self.title,
            "gpu": self.vitals.gpus[0].name if self.vitals.gpus else None,
            "step_s": pace.median_s if pace else None,
            "mean_step_s": pace.mean_s if pace else None,
            "busy_fraction": self.busy_fraction,
            "verdict": self.verdict,
            "findings": [finding_dict(finding) for finding in self.findings],
            "abstained": [asdict(entry) for entry in self.abstained],
            "ranks": [],
            "steps": asdict(pace) if pace else None,
            "parts": {"step_s": pace.mean_s if pace else None, "seconds": self.parts_s},
            "vitals": asdict(self.vitals),
            "expected": asdict(self.expected) if self.expected else None,
            "exit_code": self.run.exit_code,
            "ended_by": self.run.ended_by,
            "watched_s": self.run.seconds,
            "sample_count": len(self.run.sights),
            "faults": list(self.run.faults),
            "notes": list(self.notes),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }
