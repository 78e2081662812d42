"""The types for measurements, predictions paired with them, and scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Accuracy", "Residual", "Skipped", "Table"]

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One measured row and its prediction. `labels` are the categories for the accuracy breakdown.

    Rows of one `setup` differ only in the GPU (and the batch that fits on it), so they rank GPUs. The naive baselines use
    `work`, the step's FLOPs and bytes, and `rates`, the GPU's rates for both; `samples` makes steps with different batches
    comparable. `known` says whether the software was fitted. In memory tables, fields named for seconds hold bytes. The row's
    own value, in `unit`, is `scale` times these or, if it is a rate, `scale` divided by them.
    """

    row: int
    gpu: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    bound: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    samples: float = 1.0
    known: bool = True
    work: tuple[float, float] = (0.0, 0.0)
    rates: tuple[float, float] = (1.0, 1.0)
    unit: str = "s"
    scale: float = 1.0
    is_rate: bool = False

    def shown(self) -> dict[str, float]:
        """Return the prediction, its range and the measurement in the row's own unit."""
        low, high = (self.high_s, self.low_s) if self.is_rate else (self.low_s, self.high_s)
        told = {"predicted": self.predicted_s, "low": low, "high": high, "measured": self.measured_s}
        return {name: self.scale / value if self.is_rate else self.scale * value for name, value in told.items()}


class Skipped(Counter[str]):
    """How many rows were left out for each reason, which ones, and the models concerned."""

    def __init__(self) -> None:
        super().__init__()
        self.models: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.rows: dict[int, str] = {}

    def add(self, row: int, reason: str, model: str = "") -> None:
        """Leave this row out; list its model if the reason concerns it."""
        self[reason] += 1
        self.rows[row] = reason
        if model:
            self.models[reason][model] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file of measurements: which of the known tables it is, and its rows as text by column. Rows that could not be read are
    empty, and `odd` says why.
    """

    kind: str
    columns: Mapping[str, tuple[Any, ...]]
    odd: Mapping[int, str] = field(default_factory=dict)

    def usable(self, reasons: Skipped) -> Iterator[int]:
        """Return the numbers of rows that could be read; the others are left out with their reasons."""
        for number in range(self.count):
            if number in self.odd:
                reasons.add(number, self.odd[number])
            else:
                yield number

    @property
    def count(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def row(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in self.columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far predictions are from measurements, as fractions rather than percentages; None if there is nothing to compare."""

    rows: int
    mean_ape: float | None
    median_ape: float | None
    p90_ape: float | None
    bias: float | None
    kendall_tau: float | None
    ratio_median_ape: float | None
    coverage_fraction: float | None
