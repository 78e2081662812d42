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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
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
_BY_ENGINE, _BY_VERSION, _BY_FAMILY = (
    ("bandwidth", "rate", "ecc", "apple", "amd", "intel"),
    ("cache", "prompt", "layer", "step", "start"),
    ("bytes", "flops"),
)
_EAGER = {"transformers": 8e-4}  # seconds of the host for a layer: no graph, every kernel issued from Python
_UNFUSED = {("llama.cpp", "2024")}  # attention written out: before its flash attention was the default
_NOISE, _HUBER, _ROUNDS, _LEAST_ROWS = 0.08, 1.5, 12, 3
_SPLIT_PROMPT = 0.3  # weight of prompts read by several GPUs, which gain by rules that no row states
_ENOUGH, _SEVERAL = 20, 4  # rows and GPUs below which the range of an engine is that of all


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


def common_constants(values: dict[str, float], version: str, known: Mapping[str, float]) -> dict[str, float]:
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
    """The constants with the least loss, by Levenberg and Marquardt: Huber's of the logarithms, and how far they lie from the
    priors."""
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


def left_out(rows: Sequence[GenerationRow], whole: Array, key: Callable[[GenerationRow], tuple[str, ...]]) -> Array:
    """Predicted over measured of every row, as logarithms, with the engine fitted without all rows that share a part of its key;
    where that leaves too few, on the priors alone."""
    found = np.zeros(len(rows))
    groups = defaultdict(list)
    for place, row in enumerate(rows):
        groups[key(row)].append(place)
    problem = problem_of(rows)
    for parts, places in groups.items():
        kept = [row for row in rows if not any(one == other for one, other in zip(parts, key(row), strict=True))]
        enough = len(kept) >= _LEAST_ROWS
        theta = fitted(replace(problem, rows=tuple(kept)), start=whole, rounds=3) if enough else problem.middle
        tested = replace(problem, rows=tuple(rows[place] for place in places))
        found[places] = logs(tested, theta) - np.array([math.log(row.value) for row in tested.rows])
    return found


FOLDS: dict[str, Callable[[GenerationRow], tuple[str, ...]]] = {
    "GPU unseen": lambda row: (row.gpu.name,),
    "model unseen": lambda row: (row.shape.name,),
    "GPU and source unseen": lambda row: (row.gpu.name, row.cells["source"]),
}


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
                row = generation_row(number, cells, gpu)
                found += [row] if row.unit != "GiB" else []
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
    return {
        "rows": len(own),
        "gpus": sorted({row.gpu.name for row in own}),
        "layer_s": float(f"{values[f'layer:{version}']:.6g}"),
        "step_s": float(f"{values[f'step:{version}']:.6g}"),
        "constants": _rounded(common_constants(values, version, load_constants())),
        "families": {family: _rounded(family_constants(values, family)) for family in families},
        "ranges": ranges,
        "fused_attention": (problem.rows[0].engine.name, version) not in _UNFUSED,
    }


def _rounded(table: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in table.items()}


def statistics(errors: Array) -> str:
    """The median, the ninth tenth and the bias of predictions that are off by so much, as logarithms."""
    off = np.abs(np.exp(errors) - 1.0)
    return f"{np.median(off):.1%} | {np.quantile(off, 0.9):.1%} | {np.median(np.exp(errors) - 1):+.1%}"


@dataclass(frozen=True)
class Tested:
    """A row, and its errors as logarithms: in sample, and for each of `FOLDS`."""

    row: GenerationRow
    errors: tuple[float, ...]


def main(path: Path) -> None:
    rows = read_rows(path)
    by_engine: dict[str, list[GenerationRow]] = defaultdict(list)
    for row in rows:
        by_engine[row.engine.name].append(row)
    tested: list[Tested] = []
    fits = {}
    for name, own in sorted(by_engine.items()):
        problem = problem_of(own)
        theta = fitted(problem)
        measured = np.array([math.log(row.value) for row in own])
        errors = [logs(problem, theta) - measured, *(left_out(own, theta, key) for key in FOLDS.values())]
        fits[name] = (problem, theta)
        tested += [Tested(row, tuple(one)) for row, one in zip(own, np.array(errors).T.tolist(), strict=True)]
        print(name, len(own), *(statistics(one) for one in errors), sep="  ", flush=True)
    results: dict[str, object] = {}
    for name, (problem, theta) in fits.items():
        ranges = {phase: _range(tested, name, phase) for phase in ("decode", "prefill")}
        for version in sorted({row.version for row in problem.rows}):
            results[f"{name} {version}".strip()] = entry(problem, theta, version, ranges)
    FITTED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(tested), encoding="utf-8")


def _range(tested: Sequence[Tested], engine: str, phase: str) -> tuple[float, float]:
    """Of the times of a phase with the GPU unseen: of this engine where it has enough rows on several GPUs, else of all."""
    of_phase = [one for one in tested if one.row.cells["mode"] == phase]
    own = [one for one in of_phase if one.row.engine.name == engine]
    several = len(own) >= _ENOUGH and len({one.row.gpu.name for one in own}) >= _SEVERAL
    chosen = own if several else of_phase
    times = np.array([one.errors[1] * (1.0 if one.row.unit == "ms_per_step" else -1.0) for one in chosen])
    counts = Counter((one.row.gpu.name, one.row.engine.name, one.row.shape.name) for one in chosen)
    weight = np.array([1.0 / counts[one.row.gpu.name, one.row.engine.name, one.row.shape.name] for one in chosen])
    order = np.argsort(-times)
    shares = np.cumsum(weight[order]) / weight.sum()
    low, high = (float(-times[order][np.searchsorted(shares, share)]) for share in (0.1, 0.9))
    return float(f"{math.exp(min(low, -0.05)):.4g}"), float(f"{math.exp(max(high, 0.05)):.4g}")


def kendall(tested: Sequence[Tested], fold: int) -> float:
    """Agreement in the order of GPUs that ran the same thing: pairs in the right order less pairs in the wrong one."""
    groups = defaultdict(list)
    for one in tested:
        row = one.row
        same = (
            row.engine.name,
            row.version,
            row.shape.name,
            row.format_name,
            row.cells["mode"],
            row.passes,
            row.gpu_count,
            row.unit,
        )
        groups[same].append((row.value, row.value * math.exp(one.errors[fold]), row.gpu.name))
    right = wrong = 0
    for members in groups.values():
        for (value, guess, gpu), (other, its_guess, its_gpu) in combinations(members, 2):
            if gpu == its_gpu or value == other:
                continue
            if (value - other) * (guess - its_guess) > 0:
                right += 1
            else:
                wrong += 1
    return (right - wrong) / max(1, right + wrong)


def page(tested: Sequence[Tested]) -> str:
    """The errors as a page of the docs."""
    head = ("in sample", *FOLDS)
    lines = [_WORDS.strip(), ""]
    for phase in ("decode", "prefill"):
        chosen = [one for one in tested if one.row.cells["mode"] == phase]
        lines += ["", f"## {_TITLES[phase]}", "", f"{len(chosen):,} rows.", "", _header("test", ""), _rule(6)]
        for fold, name in enumerate(head):
            lines.append(
                f"| {name} | {statistics(np.array([one.errors[fold] for one in chosen]))} | {kendall(chosen, fold):.2f} |"
            )
        for title, key in _GROUPS.items():
            lines += ["", f"By {title}, with the GPU unseen:", "", _header(title, "rows | "), _rule(6)]
            groups = defaultdict(list)
            for one in chosen:
                groups[key(one.row)].append(one)
            for name, members in sorted(groups.items()):
                errors = np.array([one.errors[1] for one in members])
                lines.append(f"| {name} | {len(members)} | {statistics(errors)} |")
    return "\n".join(lines) + "\n"


def _header(first: str, more: str) -> str:
    return f"| {first} | {more}median | 90% | bias |" + (" rank correlation (tau) |" if not more else "")


def _rule(columns: int) -> str:
    return "|" + "---|" * (columns - 1)


_TITLES = {"decode": "Generating tokens", "prefill": "Reading prompts"}
_GROUPS: dict[str, Callable[[GenerationRow], str]] = {
    "engine": lambda row: f"{row.engine.title} {row.version}".strip(),
    "GPU": lambda row: row.gpu.name,
    "source": lambda row: row.cells["source"],
}
_WORDS = """
# How accurate are predictions for language models?

`python tools/fit_language.py` writes this page. It compares predicted speeds for text-generation engines with published
measurements. The error of a prediction is |predicted / measured - 1|, and *bias* is the median of predicted / measured - 1.

Each engine (vLLM, llama.cpp, ...) has only a few constants. The kernel models for GPUs were fitted to training steps, and no row
on this page was used for them. *GPU unseen* leaves out every row for one GPU, and *model unseen* leaves out every row for one
model. *GPU and source unseen* leaves out both the GPU and the source. Most engines were measured by a single source, so this test
shows what to expect for an engine without measurements. Several engines were measured only on the A100. When the A100 is left
out, their constants come from the priors alone.
"""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
