"""Writes `docs/accuracy.md`: how far predictions are from measurements on GPUs and families that a fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import gpuwise
from gpuwise.evidence.e2e import residual
from gpuwise.evidence.metrics import accuracy, baselines
from gpuwise.evidence.ranges import TRUST, Range
from gpuwise.evidence.score import score
from gpuwise.evidence.types import Accuracy, Residual
from gpuwise.kernels.types import Array

from .problem import Problem
from .solve import LeftOut
from .widths import host_bound

__all__ = ["write_accuracy"]

PAGE = Path(gpuwise.__file__).parents[2] / "docs" / "accuracy.md"
TEXT = Path(__file__).parent / "accuracy.txt"
_HOST_BOUND = 0.9  # a step is host-bound where the host needs more than this share of the GPU's time
_LARGE_FLOPS = 1e9


def write_accuracy(
    problem: Problem, theta: Array, left: Mapping[str, LeftOut], operators: Sequence[Residual], ranges: Mapping[str, Range]
) -> None:
    """The page: fixed words around computed tables."""
    held = _held(problem, theta, left["gpu"], ranges)
    tables = {
        "GOALS": _goals(problem, theta, left),
        "SOURCES": _by(problem, left["gpu"], "source", held),
        "COVERAGE": f"{100 * np.mean(held):.0f} %",
        "GPUS": _by(problem, left["gpu"], "gpu", held),
        "FAMILIES": _by(problem, left["family"], "family"),
        "OPERATORS": _operators(operators),
        "POWER": _power(problem, left["gpu"]),
        "BASELINES": _baselines(problem, theta, left["gpu"]),
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"[{name}]", table)
    PAGE.write_text(text, encoding="utf-8")


def _held(problem: Problem, theta: Array, left: LeftOut, ranges: Mapping[str, Range]) -> Array:
    """Whether the 80 % range of each row holds its measurement, its GPU unseen."""
    found = []
    off = np.exp(problem.measured - left.predicted)
    launch = host_bound(problem, theta)
    for place, row in enumerate(problem.steps):
        source, _, how = row.stack.split("/")
        end = "" if left.seen[place] else "_unknown_stack"
        own = ranges.get(f"{source}/{how}{end}") or ranges[("launch" if launch[place] else "known") + end]
        found.append(own.low <= off[place] <= own.high)
    return np.array(found)


def _residuals(problem: Problem, predicted: Array) -> list[Residual]:
    return [
        residual(row.question, seconds, 0.0, 0.0, "")
        for row, seconds in zip(problem.steps, np.exp(predicted[: problem.step_count]).tolist(), strict=True)
    ]


def _host_bound(problem: Problem, theta: Array) -> Array:
    seconds = np.sum(list(problem.gpu_seconds(theta).values()), axis=0)[: problem.step_count]
    busy = seconds * np.exp(problem.stack_factors(theta)[problem.stack_of_row])
    bound: Array = problem.host_seconds(theta) > _HOST_BOUND * busy
    return bound


def _goals(problem: Problem, theta: Array, left: Mapping[str, LeftOut]) -> str:
    host = _host_bound(problem, theta)
    compiled = np.array([row.question.cells.get("stack") == "compile" for row in problem.steps])
    neusight = np.array([row.question.cells["source"] == "neusight" for row in problem.steps])
    every = np.ones(problem.step_count, bool)
    kinds = {
        "GPU-bound, not compiled": ~host & ~compiled,
        "host-bound": host,
        "compiled": compiled,
        "NeuSight's labels": neusight,
        "all": every,
    }
    views = {
        "in sample": problem.predicted(theta),
        "unseen GPU": left["gpu"].predicted,
        "unseen family": left["family"].predicted,
        "unseen generation": left["generation"].predicted,
        "unseen GPU, unknown stack": left["gpu"].strange,
        "the same with one measured number": _measured(problem, left["gpu"].strange),
    }
    lines = []
    for title, chosen in kinds.items():
        for view, predicted in views.items():
            rows = [row for row, wanted in zip(_residuals(problem, predicted), chosen, strict=True) if wanted]
            lines.append(_line(f"{title} | {view}", accuracy([row for row in rows if np.isfinite(row.predicted_s)])))
    return _table("rows | how", lines)


def _measured(problem: Problem, predicted: Array) -> Array:
    """The first row of each (source, model) is the user's own: it corrects the others, and is not counted itself."""
    groups: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(problem.steps):
        groups.setdefault((row.question.cells["source"], row.question.cells["model"]), []).append(place)
    result = predicted.copy()
    for places in groups.values():
        result[places] += TRUST * (problem.measured[places[0]] - predicted[places[0]])
        result[places[0]] = np.nan
    return result


def _by(problem: Problem, left: LeftOut, label: str, held: Array | None = None) -> str:
    """One line a label; with `held` also the share of rows inside their range."""
    rows = _residuals(problem, left.predicted)
    labels = np.array([row.labels[label] for row in rows])
    lines = []
    for name in sorted(set(labels)):
        line = _line(name, accuracy([row for row in rows if row.labels[label] == name]))
        lines.append(line if held is None else f"{line} {100 * np.mean(held[labels == name]):.0f} % |")
    return _table(label, lines, () if held is None else ("in range",))


def _operators(rows: Sequence[Residual]) -> str:
    def named(row: Residual) -> str:
        return f"{row.labels['source']} {row.labels['family']}"

    groups = {name: [row for row in rows if named(row) == name] for name in sorted({named(row) for row in rows})}
    large = [row for row in groups["gemm_lowp bf16"] if row.work[0] >= _LARGE_FLOPS]
    groups["gemm_lowp bf16, 1 GFLOP and more"] = large
    lines = []
    for name, members in sorted(groups.items()):
        found = accuracy(members)
        gpus = {gpu: accuracy([row for row in members if row.gpu == gpu]) for gpu in sorted({row.gpu for row in members})}
        signs = ", ".join(f"{gpu} {100 * (own.bias or 0):+.0f}" for gpu, own in gpus.items())
        shares = " | ".join(map(_percent, (found.median_ape, found.p90_ape, found.bias, found.coverage_fraction)))
        lines.append(f"| {name} | {found.rows:,} | {shares} | {signs} |")
    head = "| operator | rows | median | 90 % | bias | in range | bias by GPU, % |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines])


def _power(problem: Problem, left: LeftOut) -> str:
    """Speed against that at the highest limit: the middle over the workloads of each GPU, published and predicted unseen."""
    first = problem.step_count + problem.single_count
    published, predicted = (np.exp(-values[first:]) for values in (problem.measured, left.predicted))
    groups: dict[tuple[str, float], list[int]] = {}
    points = [(curve, limit) for curve in problem.curves for limit in curve.limits_watts]
    for place, (curve, limit) in enumerate(points):
        if limit < curve.limits_watts[-1]:
            name = curve.gpu.name if curve.fitted else f"{curve.gpu.name}, decoding (not fitted)"
            groups.setdefault((name, limit), []).append(place)
    lines = []
    for (name, limit), places in sorted(groups.items()):
        own, found = float(np.median(published[places])), float(np.median(predicted[places]))
        top = float(np.median([points[place][0].limits_watts[-1] for place in places]))
        off = f"{100 * (found / own - 1):+.0f} %"
        lines.append(f"| {name} | {limit:.0f} W of {top:.0f} | {len(places)} | {own:.2f} | {found:.2f} | {off} |")
    error = np.abs(predicted / published - 1)
    fitted = np.array([curve.fitted and limit < curve.limits_watts[-1] for curve, limit in points])
    middle = (
        f"{fitted.sum()} points of fitted workloads one by one: median error {_percent(float(np.median(error[fitted])))}, mean "
    )
    head = ["| GPU | limit | workloads | published | predicted | error |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *lines, "", f"{middle}{_percent(float(np.mean(error[fitted])))}."])


def _baselines(problem: Problem, theta: Array, left: LeftOut) -> str:
    work = {row.row: row.work for row in score([row.question for row in problem.steps], problem.fit_of(theta))}
    rows = [replace(row, work=work[row.row]) for row in _residuals(problem, left.predicted)]
    ours = accuracy(rows)
    lines = [f"| gpuwise, ratios between GPUs | {_percent(ours.ratio_median_ape)} | |"]
    lines.append(f"| gpuwise, steps | {_percent(ours.median_ape)} | {_percent(ours.p90_ape)} |")
    lines += [
        f"| {name.replace('_', ' ')} | {_percent(figures['median_ape'])} | {_percent(figures['p90_ape'])} |"
        for name, figures in baselines(rows).items()
    ]
    return "\n".join(["| rule | median | 90 % |", "|---|---|---|", *lines])


def _table(head: str, lines: Sequence[str], more: Sequence[str] = ()) -> str:
    titles = [*head.split(" | "), "rows", "median", "mean", "90 %", "bias", "tau", "ratio"]
    return "\n".join([f"| {' | '.join([*titles, *more])} |", "|---" * (len(titles) + len(more)) + "|", *lines])


def _line(name: str, figures: Accuracy) -> str:
    order = "" if figures.kendall_tau is None else f"{figures.kendall_tau:.2f}"
    shown: Callable[[float | None], str] = _percent
    cells = (figures.median_ape, figures.mean_ape, figures.p90_ape, figures.bias)
    return f"| {name} | {figures.rows:,} | {' | '.join(map(shown, cells))} | {order} | {_percent(figures.ratio_median_ape)} |"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
