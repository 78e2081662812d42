"""The answer of `why` for a file without a timeline: a memory snapshot, dumps of collectives, or a table of readings or totals.

Such files have no steps, so `step_s` is null and gains are 1. Their actual content has its own key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.hardware import tables
from gpuwise.questions.common.diagnosis import finding_dict
from gpuwise.questions.common.options import Shown

__all__ = ["Discovery", "FileAnswer", "Listing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """A problem without a known cost in time. `share_fraction` is the share of what the file counts (bytes, ranks)."""

    code: str
    title: str
    severity: str
    share_fraction: float
    confidence: str
    lines: tuple[str, ...]
    remedy: str
    verify: str

    def to_dict(self) -> dict[str, Any]:
        """The keys that every finding of `why` has."""
        return {
            "code": self.code,
            "title": self.title,
            "severity": self.severity,
            "seconds_per_step": 0.0,
            "share_fraction": self.share_fraction,
            "gain_low": 1.0,
            "gain_high": 1.0,
            "gain_reason": None,
            "confidence": self.confidence,
            "evidence": list(self.lines),
            "remedy": self.remedy,
            "verify": self.verify,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table to show: its title, the titles of its columns (text first, then figures) and its rows, the largest first."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAnswer(Shown):
    """What files without a timeline show. `key` names `content` in the JSON."""

    TEXT: ClassVar[str] = "questions.why.file_text.render"

    files: tuple[str, ...]
    format: str
    verdict: str
    head: tuple[str, ...]
    key: str
    content: Mapping[str, Any]
    listings: tuple[Listing, ...] = ()
    discoveries: tuple[Discovery, ...] = ()
    findings: tuple[Finding, ...] = ()
    abstained: tuple[Abstained, ...] = ()
    notes: tuple[str, ...] = ()
    gpu: str | None = None
    busy_fraction: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    data_date: date = field(default_factory=tables.data_date)

    @property
    def found(self) -> tuple[Discovery | Finding, ...]:
        """Everything that is wrong, with or without a known time."""
        return (*self.discoveries, *self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract, and its own."""
        found = [one.to_dict() for one in self.discoveries] + [finding_dict(one) for one in self.findings]
        return {
            "files": list(self.files),
            "format": self.format,
            "gpu": self.gpu,
            "step_s": None,
            "busy_fraction": self.busy_fraction,
            "verdict": self.verdict,
            "findings": found,
            "abstained": [asdict(entry) for entry in self.abstained],
            "ranks": [],
            self.key: dict(self.content),
            "notes": list(self.notes),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }
