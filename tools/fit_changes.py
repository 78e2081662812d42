"""Measures how well the gain from one changed setting is predicted, and writes `evidence/data/changes.json`.

    python tools/fit_changes.py [--dry-run]

Uses pairs of rows in our own table that differ in only one setting (batch, precision, compiled or not, layout), and divides the
measured gain by the gain predicted by fits without that GPU. The range contains 80% of these ratios. Pairs are down-weighted by
the number of pairs that their source has on their GPU, so that a long list for one card does not dominate.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import numpy as np

import gpuwise
from gpuwise.core.files import write_whole
from gpuwise.evidence import ranges
from gpuwise.evidence.types import Residual

DATA = Path(ranges.__file__).parent / "data"
SETUP = (
    "source gpu gpu_count model framework framework_version stack layout mode precision optimizer batch_per_gpu image_or_seq"
).split()
# A column of the table, with the value before and after the change.
CHANGES: dict[str, tuple[str, Callable[[str, str], bool]]] = {
    "batch": ("batch_per_gpu", lambda before, after: int(after) > int(before)),
    "precision": ("precision", lambda before, after: before in ("fp32", "tf32") and after in ("fp16", "amp")),
    "compile": ("stack", lambda before, after: (before, after) == ("eager", "compile")),
    "channels-last": ("layout", lambda before, after: (before, after) == ("nchw", "nhwc")),
}
LOW, HIGH, MARGIN = 0.1, 0.9, 0.02

Pair = tuple[tuple[str, str], float]


def table() -> list[dict[str, str]]:
    """Every published step."""
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pairs(rows: list[dict[str, str]], found: dict[int, Residual], name: str) -> Iterator[Pair]:
    """The source and GPU of each pair, and the logarithm of its measured over its predicted gain."""
    column, is_change = CHANGES[name]
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if place in found:
            alike[tuple(row[key] for key in SETUP if key != column)].append(place)
    for places in alike.values():
        for before, after in permutations(places, 2):
            if is_change(rows[before][column], rows[after][column]):
                old, new = found[before], found[after]
                off = np.log(old.measured_s / new.measured_s) - np.log(old.predicted_s / new.predicted_s)
                yield (rows[before]["source"], rows[before]["gpu"]), float(off)


def width(found: list[Pair]) -> dict[str, float]:
    """The range that contains 80% of these pairs."""
    counts = Counter(group for group, _ in found)
    values, weights = np.array([off for _, off in found]), np.array([counts[group] ** -0.5 for group, _ in found])
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - 0.5 * weights[order]
    low, high = np.interp(np.array([LOW, HIGH]) * weights.sum(), below, values[order])
    return {
        "low": round(float(np.exp(min(low, -MARGIN))), 4),
        "high": round(float(np.exp(max(high, MARGIN))), 4),
        "rows": len(found),
    }


def main() -> None:
    """Print the ranges, and write them unless told not to."""
    rows = table()
    found = {residual.row: residual for residual in gpuwise.validate().residuals}
    answer = {name: width(list(pairs(rows, found, name))) for name in CHANGES}
    for name, own in answer.items():
        print(f"{name:<14} {own['low']:.2f} to {own['high']:.2f} times the predicted gain, {own['rows']} pairs")
    if "--dry-run" not in sys.argv:
        write_whole(DATA / "changes.json", (json.dumps(answer, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
