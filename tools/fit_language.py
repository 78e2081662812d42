"""Fit what engines that generate text do, on published speeds, and test it on GPUs and sources that were left out.

    python tools/fit_language.py ../shared/evidence/today_language.csv

writes `src/gpuwise/step/data/engines.json` and `docs/accuracy-language.md`. The kernel models of GPUs are not touched: an engine
gets few constants of its own, each drawn to a prior that holds for all engines.

bandwidth, rate       how well its kernels use memory and the matrix engine, against the libraries that everything was fitted on
bytes, flops a clock  what a unit moves and computes at most in a clock, for each family of formats
cache, prompt         the same for attention that decodes and that reads a prompt, by version
layer, step, start    seconds of the host for a layer and a step, and of the GPU for a kernel, by version
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.generation import GenerationRow, Unusable, generation_row, predicted_s, predicted_value
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import load_constants
from gpuwise.step.time.engines import Engine
from gpuwise.step.types import Stack

Array = NDArray[np.float64]
HERE = Path(__file__).resolve().parents[1]
FITTED = HERE / "src/gpuwise/step/data/engines.json"
PAGE = HERE / "docs/accuracy-language.md"

# The middle of each constant and how far it may lie from there, as a logarithm. What engines share is drawn in closely.
_PRIORS = {
    "bandwidth": (1.12, 0.06),
    "rate": (0.9, 0.2),
    "cache": (1.3, 0.5),
    "prompt": (0.8, 0.5),
    "layer": (3e-5, 1.5),
    "step": (4e-4, 1.0),
    "ecc": (0.92, 0.05),
    "apple": (0.8, 0.3),
    "amd": (0.8, 0.3),
    "intel": (0.6, 0.4),
    "start": (2.5e-6, 0.4),
    "bytes": (12.0, 0.8),
    "flops": (1500.0, 1.0),
}
_BY_ENGINE, _BY_VERSION, _BY_FAMILY = ("bandwidth", "rate", "ecc", "apple", "amd", "intel"), ("cache", "prompt", "layer", "step", "start"), ("bytes", "flops")
_EAGER = {"transformers": 8e-4}  # seconds of the host for a layer: no graph, every kernel issued from Python
_UNFUSED = {("llama.cpp", "2024")}  # attention written out: before its flash attention was the default
_NOISE, _HUBER = 0.08, 1.5
_SPLIT_PROMPT = 0.3  # weight of prompts read by several GPUs, which gain by rules that no row states
_ROUNDS = 12
_LEAST_ROWS = 3
_WIDEST = 20  # rows of a group below which its range is that of all engines


@dataclass(frozen=True)
class Problem:
    """The rows of one engine, and the names of what is fitted for it."""

    engine: str
    rows: tuple[GenerationRow, ...]
    names: tuple[str, ...]

    @property
    def middle(self) -> Array:
        return np.array([math.log(self._middle(name.split(":")[0])) for name in self.names])

    def _middle(self, name: str) -> float:
        return _EAGER.get(self.engine, _PRIORS[name][0]) if name == "layer" else _PRIORS[name][0]

    @property
    def spread(self) -> Array:
        return np.array([_PRIORS[name.split(":")[0]][1] for name in self.names])


def problem_of(rows: Sequence[GenerationRow]) -> Problem:
    """What an engine with these rows has to be fitted."""
    versions, families = sorted({row.version for row in rows}), sorted({row.weights.family for row in rows})
    names = [
        *_BY_ENGINE,
        *(f"{name}:{version}" for name in _BY_VERSION for version in versions),
        *(f"{name}:{family}" for name in _BY_FAMILY for family in families),
    ]
    return Problem(rows[0].engine.name, tuple(rows), tuple(names))


def stack_maker(values: dict[str, float]) -> Callable[[Engine, str, str, str], Stack]:
    """Stacks with these constants."""
    known = load_constants()

    def stack_of(engine: Engine, phase: str, family: str, version: str) -> Stack:
        constants = {**common_constants(values, version, known), **family_constants(values, family)}
        return Stack(
            name=engine.name,
            framework=engine.name,
            version=(0, 0),
            how="graph",
            constants=constants,
            layer_s=values[f"layer:{version}"],
            step_s=values[f"step:{version}"],
            fused_attention=(engine.name, version) not in _UNFUSED,
        )

    return stack_of


def common_constants(values: dict[str, float], version: str, known: dict[str, float]) -> dict[str, float]:
    """Kernel constants of a version for all formats."""
    prompt = values[f"prompt:{version}"]
    return {
        "linear.bandwidth": values["bandwidth"],
        "linear.rate": values["rate"],
        **{f"linear.{name}": values[name] for name in ("ecc", "apple", "amd", "intel")},
        "attention.cache": values[f"cache:{version}"],
        "attention.forward": known["attention.forward"] * prompt,
        "attention.score_bytes.forward": known["attention.score_bytes.forward"] / prompt,
        "kernel.start_s": values[f"start:{version}"],
    }


def family_constants(values: dict[str, float], family: str) -> dict[str, float]:
    """Kernel constants of a family of formats."""
    if f"bytes:{family}" not in values:
        return {}
    return {"linear.bytes_per_clock": values[f"bytes:{family}"], "linear.flops_per_clock": values[f"flops:{family}"]}


# ---------------------------------------------------------------- the fit


def logs(problem: Problem, theta: Array) -> Array:
    """The logarithm of what is predicted for each row, in its own unit."""
    values = {name: math.exp(value) for name, value in zip(problem.names, theta, strict=True)}
    seconds = predicted_s(problem.rows, stack_maker(values))
    return np.array([math.log(predicted_value(row, float(time))) for row, time in zip(problem.rows, seconds, strict=True)])


def weights_of(rows: Sequence[GenerationRow]) -> Array:
    """Rows of one model on one GPU in one format say much the same, so together they count as the root of their number."""
    groups = [(row.cells["source"], row.gpu.name, row.shape.name, row.cells["mode"], row.format_name) for row in rows]
    counts = Counter(groups)
    several = [_SPLIT_PROMPT if row.gpu_count > 1 and row.cells["mode"] == "prefill" else 1.0 for row in rows]
    return np.array([factor / math.sqrt(counts[group]) for group, factor in zip(groups, several, strict=True)])


def fitted(problem: Problem, start: Array | None = None, rounds: int = _ROUNDS) -> Array:
    """The constants with the least loss: Huber's of the logarithms, and what they lie away from the priors. Levenberg-Marquardt."""
    theta = problem.middle if start is None else start.copy()
    measured = np.array([math.log(row.value) for row in problem.rows])
    weight, middle, precision = weights_of(problem.rows), problem.middle, 1.0 / problem.spread**2

    def loss(at: Array, found: Array) -> float:
        far = np.abs(found - measured) / _NOISE
        huber = np.where(far < _HUBER, far**2 / 2, _HUBER * far - _HUBER**2 / 2)
        return float((weight * huber).sum() + 0.5 * (precision * (at - middle) ** 2).sum())

    found = logs(problem, theta)
    best, damping = loss(theta, found), 1.0
    for _ in range(rounds):
        slope = np.stack([(logs(problem, theta + step) - found) / 0.02 for step in 0.02 * np.eye(len(theta))], axis=1)
        far = np.abs(found - measured) / _NOISE
        robust = weight * np.minimum(1.0, _HUBER / np.maximum(far, 1e-9)) / _NOISE**2
        normal = (slope * robust[:, None]).T @ slope
        gradient = (slope * robust[:, None]).T @ (found - measured) + precision * (theta - middle)
        gained = 0.0
        for _ in range(6):
            matrix = normal + np.diag(precision) + damping * np.diag(np.diag(normal) + 1e-6)
            trial = theta + np.clip(-np.linalg.solve(matrix, gradient), -1.0, 1.0)
            there = logs(problem, trial)
            if loss(trial, there) < best:
                gained = best - loss(trial, there)
                theta, found, best, damping = trial, there, loss(trial, there), max(damping / 4, 1e-3)
                break
            damping *= 4
        if gained < 0.05:
            break
    return theta


def left_out(rows: Sequence[GenerationRow], whole: Array) -> Array:
    """Predicted over measured of every row, with the engine fitted on neither its GPU nor its source; where that leaves nothing,
    without its GPU; where that leaves nothing, without its source; else on the priors alone."""
    found = np.zeros(len(rows))
    groups = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row.gpu.name, row.cells["source"]].append(place)
    names = problem_of(rows).names
    for (gpu, source), places in groups.items():
        kept = _kept(rows, gpu, source)
        problem = Problem(rows[0].engine.name, tuple(kept), names)
        theta = fitted(problem, start=whole, rounds=4) if kept else problem_of(rows).middle
        tested = Problem(rows[0].engine.name, tuple(rows[place] for place in places), names)
        found[places] = logs(tested, theta) - np.array([math.log(row.value) for row in tested.rows])
    return found


def _kept(rows: Sequence[GenerationRow], gpu: str, source: str) -> list[GenerationRow]:
    both = [row for row in rows if row.gpu.name != gpu and row.cells["source"] != source]
    if len(both) >= _LEAST_ROWS:
        return both
    other = [row for row in rows if row.gpu.name != gpu]
    return other if len(other) >= _LEAST_ROWS else [row for row in rows if row.cells["source"] != source]


# ---------------------------------------------------------------- rows and results


def read_rows(path: Path) -> list[GenerationRow]:
    """The rows that can be asked."""
    catalog, found = load_catalog(), []
    with path.open(encoding="utf-8", newline="") as file:
        for number, cells in enumerate(csv.DictReader(file)):
            gpu = _gpu(catalog, cells)
            if gpu is None or "suspect" in cells["note"] or "DO NOT USE" in cells["note"]:
                continue
            try:
                found.append(generation_row(number, cells, gpu))
            except Unusable:
                continue
    return found


def _gpu(catalog: object, cells: dict[str, str]) -> Gpu | None:
    for name in (cells["gpu"], cells["gpu_as_written"]):
        try:
            return catalog.find(name).gpu  # type: ignore[attr-defined,no-any-return]
        except GpuwiseError:
            continue
    return None


def entry(problem: Problem, theta: Array, version: str, ranges: dict[str, tuple[float, float]]) -> dict[str, object]:
    """What `engines.json` has of one version of an engine."""
    values = {name: math.exp(value) for name, value in zip(problem.names, theta, strict=True)}
    own = [row for row in problem.rows if row.version == version]
    families = sorted({row.weights.family for row in problem.rows})
    rounded = lambda table: {name: float(f"{value:.6g}") for name, value in table.items()}  # noqa: E731
    return {
        "rows": len(own),
        "gpus": sorted({row.gpu.name for row in own}),
        "layer_s": float(f"{values[f'layer:{version}']:.6g}"),
        "step_s": float(f"{values[f'step:{version}']:.6g}"),
        "constants": rounded(common_constants(values, version, dict(load_constants()))),
        "families": {family: rounded(family_constants(values, family)) for family in families},
        "ranges": ranges,
        "fused_attention": (problem.rows[0].engine.name, version) not in _UNFUSED,
    }


def ends(errors: Array) -> tuple[float, float]:
    """Measured over predicted: the ends that hold 8 of 10, each group of rows counted once."""
    low, high = np.quantile(-errors, [0.1, 0.9])
    return float(f"{math.exp(min(low, -0.03)):.4g}"), float(f"{math.exp(max(high, 0.03)):.4g}")


def seconds_errors(rows: Sequence[GenerationRow], errors: Array) -> Array:
    """Errors of times: those of rates with the other sign."""
    return np.array([error if row.unit == "ms_per_step" else -error for row, error in zip(rows, errors, strict=True)])


def statistics(errors: Array) -> str:
    off = np.abs(np.exp(errors) - 1.0)
    return f"{np.median(off):.1%} | {np.quantile(off, 0.9):.1%} | {np.median(np.exp(errors) - 1):+.1%}"


def main(path: Path) -> None:
    rows = read_rows(path)
    by_engine: dict[str, list[GenerationRow]] = defaultdict(list)
    for row in rows:
        by_engine[row.engine.name].append(row)
    results: dict[str, object] = {}
    everything: list[tuple[GenerationRow, float, float]] = []
    fits = {}
    for name, own in sorted(by_engine.items()):
        problem = problem_of(own)
        theta = fitted(problem)
        inside = logs(problem, theta) - np.array([math.log(row.value) for row in own])
        outside = left_out(own, theta)
        fits[name] = (problem, theta, outside)
        everything += zip(own, inside.tolist(), outside.tolist(), strict=True)
        print(f"{name:15} {len(own):5} rows  in sample {statistics(inside)}  left out {statistics(outside)}", flush=True)
        print("   ", {name: float(f"{math.exp(value):.3g}") for name, value in zip(problem.names, theta, strict=True)}, flush=True)
    pooled = {
        phase: ends(seconds_errors(*_of_phase(everything, phase)))
        for phase in ("decode", "prefill")
    }
    for name, (problem, theta, outside) in fits.items():
        ranges = {}
        for phase in ("decode", "prefill"):
            chosen = [place for place, row in enumerate(problem.rows) if row.cells["mode"] == phase]
            enough = len(chosen) >= _WIDEST
            own_errors = seconds_errors([problem.rows[place] for place in chosen], outside[chosen])
            ranges[phase] = ends(own_errors) if enough else pooled[phase]
        for version in sorted({row.version for row in problem.rows}):
            results[f"{name} {version}".strip()] = entry(problem, theta, version, ranges)
    FITTED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    report(everything)


def _of_phase(everything: Sequence[tuple[GenerationRow, float, float]], phase: str) -> tuple[list[GenerationRow], Array]:
    chosen = [(row, outside) for row, _, outside in everything if row.cells["mode"] == phase]
    return [row for row, _ in chosen], np.array([outside for _, outside in chosen])


def report(everything: Sequence[tuple[GenerationRow, float, float]]) -> None:
    """Errors by phase, source and GPU."""
    for title, key in (
        ("phase", lambda row: row.cells["mode"]),
        ("source", lambda row: f"{row.cells['source']} {row.cells['mode']}"),
        ("engine", lambda row: f"{row.engine.name} {row.version} {row.cells['mode']}"),
        ("GPU", lambda row: f"{row.gpu.name} {row.cells['mode']}"),
    ):
        print(f"\n{title} | rows | in sample: median | 90 % | bias | left out: median | 90 % | bias")
        groups = defaultdict(list)
        for row, inside, outside in everything:
            groups[key(row)].append((inside, outside))
        for name, members in sorted(groups.items()):
            inner, outer = (np.array(column) for column in zip(*members, strict=True))
            print(f"{name} | {len(members)} | {statistics(inner)} | {statistics(outer)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
