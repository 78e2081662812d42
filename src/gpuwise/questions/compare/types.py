"""The types of a comparison's answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.rigs import Rig

__all__ = ["CompareAnswer", "Deal", "Pair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One GPU or set of GPUs compared with the first one named, on one workload. A ratio above 1 means faster than the baseline;
    `probability` is how likely that is, by the range.

    Sets are compared as one job; `ratio_separate` compares them as separate jobs side by side, where each GPU has room for a job
    of its own. `batch` is per GPU, and differs from `baseline_batch` only where each GPU was to be filled. `helped` says
    that layers of one of them run on the CPU.
    """

    gpu: str
    baseline: str
    workload: str
    precision: str
    batch: int
    baseline_batch: int
    ratio: float
    ratio_low: float
    ratio_high: float
    range_basis: str
    probability: float
    ratio_separate: float | None
    fits: bool
    baseline_fits: bool
    helped: bool
    why: str

    @property
    def comparable(self) -> bool:
        """Whether the workload fits on both."""
        return self.fits and self.baseline_fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """The cost of a set. A dollar buys as much speed as with the baseline at `even_ratio` times the baseline's price. In dollars
    this is `even_usd`, which is given only if both prices are current, that is, from the last two years."""

    gpu: str
    price_usd: float | None
    price_low_usd: float | None
    price_high_usd: float | None
    price_note: str
    price_is_current: bool
    speed: float
    value: float | None
    even_ratio: float | None
    even_usd: float | None
    watts: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAnswer(Shown):
    """A verdict in one sentence, all pairs, the cost of each set, and what would change the order. `key_notes` are the notes and
    changes that a brief answer shows first: prices, memory, and why precisions differ; it never leaves out `must_notes`.
    `prices` has the price of each set in a few words."""

    TEXT: ClassVar[str] = "questions.compare.text.render"
    FIGURE: ClassVar[str] = "questions.compare.figure.ratios_figure"

    verdict: str
    rigs: tuple[Rig, ...]
    pairs: tuple[Pair, ...]
    deals: tuple[Deal, ...]
    flips: tuple[str, ...]
    notes: tuple[str, ...]
    key_notes: tuple[str, ...]
    must_notes: tuple[str, ...]
    prices: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The first kind of each set."""
        return tuple(rig.gpu for rig in self.rigs)

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "verdict": self.verdict,
            "pairs": [asdict(pair) for pair in self.pairs],
            "memory": {gpu.name: gpu.usable_memory_bytes for rig in self.rigs for gpu, _ in rig.parts},
            "deals": [asdict(deal) for deal in self.deals],
            "flips": list(self.flips),
            "notes": list(self.notes),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }
