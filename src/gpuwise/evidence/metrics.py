"""Measures how far predictions are from measurements in terms that matter to users: typical error, bad cases, order of GPUs,
coverage of ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from gpuwise.evidence.types import Accuracy, Residual

__all__ = ["accuracy", "baselines"]

_CLEARLY = 0.03  # GPUs measured closer than this are not ranked


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
