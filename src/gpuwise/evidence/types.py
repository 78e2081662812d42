"""What a measurement, a prediction beside it and a score are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Accuracy", "Residual", "Skipped", "Table"]

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One measured row and what was predicted for it. `labels` are what accuracy is broken down by.

    Rows of one `setup` differ only in the GPU (and the batch that fits it): they rank GPUs. `work` is what the step asks for in
    FLOPs and bytes, `rates` what the GPU has of both, for the naive baselines; `samples` makes steps of different batches
    comparable. `known` says whether its software is among those that were fitted.
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


class Skipped(Counter[str]):
    """How many rows were left out for each reason, and the models that one is about."""

    def __init__(self) -> None:
        super().__init__()
        self.models: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def of_model(self, reason: str, model: str) -> None:
        self[reason] += 1
        self.models[reason][model] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A file of measurements: which of the known tables it is, and its rows as text by column."""

    kind: str
    columns: Mapping[str, tuple[Any, ...]]

    @property
    def count(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def row(self, number: int) -> dict[str, Any]:
        return {name: values[number] for name, values in self.columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far predictions are from measurements. Shares, not percent; None where there is nothing to compare."""

    rows: int
    mean_ape: float | None
    median_ape: float | None
    p90_ape: float | None
    bias: float | None
    kendall_tau: float | None
    ratio_median_ape: float | None
    coverage_fraction: float | None
