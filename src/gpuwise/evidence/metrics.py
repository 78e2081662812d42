"""Measures how far predictions are from measurements in terms that matter to users: typical error, bad cases, order of GPUs,
coverage of ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpuwise.evidence.types import Accuracy, Residual

__all__ = ["CardRow", "accuracy", "baselines", "card_speeds", "order_agreement"]

_CLEARLY = 0.03  # GPUs measured closer than this are not ranked
_ROUNDS = 40  # of medians by workload and by card in turn


def accuracy(residuals: Sequence[Residual]) -> Accuracy:
    """Return the accuracy for one set of rows."""
    if not residuals:
        return Accuracy(
            rows=0,
            mean_ape=None,
            median_ape=None,
            p90_ape=None,
            bias=None,
            kendall_tau=None,
            ratio_median_ape=None,
            coverage_fraction=None,
        )
    relative = np.array([row.predicted_s / row.measured_s - 1 for row in residuals])
    inside = [row.low_s <= row.measured_s <= row.high_s for row in residuals]
    ordered, ratios = _pairs(residuals, lambda row: row.predicted_s)
    return Accuracy(
        rows=len(residuals),
        mean_ape=float(np.mean(np.abs(relative))),
        median_ape=float(np.median(np.abs(relative))),
        p90_ape=float(np.quantile(np.abs(relative), 0.9)),
        bias=float(np.median(relative)),
        kendall_tau=ordered,
        ratio_median_ape=ratios,
        coverage_fraction=float(np.mean(inside)),
    )


def _pairs(residuals: Sequence[Residual], time_of: Callable[[Residual], float]) -> tuple[float | None, float | None]:
    """Return Kendall's tau over all pairs of GPUs that ran the same workload, and the median error of their speed ratios."""
    agree, errors = [], []
    for one, two in _same_setup(residuals):
        measured = np.log((one.measured_s / one.samples) / (two.measured_s / two.samples))
        predicted = np.log((time_of(one) / one.samples) / (time_of(two) / two.samples))
        errors.append(abs(np.expm1(predicted - measured)))
        if abs(measured) > _CLEARLY:
            agree.append(np.sign(measured) * np.sign(predicted))
    tau = float(np.mean(agree)) if agree else None
    return tau, float(np.median(errors)) if errors else None


def _same_setup(residuals: Sequence[Residual]) -> Iterator[tuple[Residual, Residual]]:
    setups: dict[tuple[str, ...], dict[str, list[Residual]]] = defaultdict(lambda: defaultdict(list))
    for row in residuals:
        if row.setup:
            setups[row.setup][row.gpu].append(row)
    for by_gpu in setups.values():
        middle = [sorted(rows, key=lambda row: row.measured_s / row.samples)[len(rows) // 2] for rows in by_gpu.values()]
        yield from combinations(middle, 2)


def baselines(residuals: Sequence[Residual]) -> dict[str, dict[str, float]]:
    """Return the predictions of simple rules. Ratios scale another GPU's measurement of the same setup; the roofline needs none,
    but uses the constant that fits these very rows best.
    """
    rules: dict[str, Callable[[Residual], float]] = {
        "flops_ratio": lambda row: 1 / row.rates[0],
        "bandwidth_ratio": lambda row: 1 / row.rates[1],
        "sqrt_of_both": lambda row: 1 / (row.rates[0] * row.rates[1]) ** 0.5,
    }
    found = {name: _scaled(residuals, rule) for name, rule in rules.items()}
    roofline = [max(row.work[0] / row.rates[0], row.work[1] / row.rates[1]) for row in residuals]
    usable = [(line, row.measured_s) for line, row in zip(roofline, residuals, strict=True) if line > 0]
    if usable:
        constant = float(np.median([measured / line for line, measured in usable]))
        found["roofline"] = _figures([constant * line / measured - 1 for line, measured in usable])
    return {name: figures for name, figures in found.items() if figures}


def _scaled(residuals: Sequence[Residual], slowness: Callable[[Residual], float]) -> dict[str, float]:
    errors = []
    for one, two in _same_setup(residuals):
        measured = (one.measured_s / one.samples) / (two.measured_s / two.samples)
        errors += [slowness(one) / slowness(two) / measured - 1, slowness(two) / slowness(one) * measured - 1]
    return _figures(errors)


def _figures(errors: Sequence[float]) -> dict[str, float]:
    if not errors:
        return {}
    size = np.abs(np.array(errors))
    return {"median_ape": float(np.median(size)), "p90_ape": float(np.quantile(size, 0.9))}


# ---------------------------------------------------------------- one speed for each card


@dataclass(frozen=True, slots=True)
class CardRow:
    """One figure from one person's report, as the logarithms of images/s."""

    card: str
    workload: Hashable
    report: int
    measured: float
    predicted: float


def card_speeds(rows: Sequence[CardRow], *, predicted: bool = False) -> dict[str, float]:
    """One speed for each card, as a logarithm: a row's speed is that of its card times that of its workload, and both are found
    as medians in turn."""
    speeds = np.array([row.predicted if predicted else row.measured for row in rows])
    cards, workloads = _places([row.card for row in rows]), _places([row.workload for row in rows])
    card, workload = np.zeros(len(rows)), np.zeros(len(rows))
    for _ in range(_ROUNDS):
        for places in workloads.values():
            workload[places] = np.median(speeds[places] - card[places])
        for places in cards.values():
            card[places] = np.median(speeds[places] - workload[places])
    return {str(name): float(card[places[0]]) for name, places in cards.items()}


def _places(keys: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        found[key].append(place)
    return found


def order_agreement(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Kendall's tau: pairs of cards that both put in the same order, minus the others, as a share. Pairs that are nearly equal in
    the first are left out."""
    pairs = [(a, b) for a, b in combinations(sorted(one.keys() & other.keys()), 2) if abs(one[a] - one[b]) > _CLEARLY]
    return float(np.mean([np.sign((one[a] - one[b]) * (other[a] - other[b])) for a, b in pairs]))
