"""Writes `docs/accuracy.md`: how far predictions are from measurements on GPUs and families that a fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import gpuwise
from gpuwise.evidence.e2e import residual
from gpuwise.evidence.metrics import accuracy, baselines
from gpuwise.evidence.types import Accuracy, Residual
from gpuwise.kernels.types import Array

from .problem import Problem
from .solve import LeftOut

__all__ = ["write_accuracy"]

PAGE = Path(gpuwise.__file__).parents[2] / "docs" / "accuracy.md"
TEXT = Path(__file__).parent / "accuracy.txt"
_HOST_BOUND = 0.9  # a step is host-bound where the host needs more than this share of the GPU's time
_TRUST = 0.8


def write_accuracy(problem: Problem, theta: Array, left: Mapping[str, LeftOut], operators: Sequence[Residual]) -> None:
    """The page: fixed words around computed tables."""
    tables = {
        "GOALS": _goals(problem, theta, left),
        "SOURCES": _by(problem, left["gpu"], "source"),
        "GPUS": _by(problem, left["gpu"], "gpu"),
        "FAMILIES": _by(problem, left["family"], "family"),
        "OPERATORS": _operators(operators),
        "BASELINES": _baselines(problem, left["gpu"]),
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"[{name}]", table)
    PAGE.write_text(text, encoding="utf-8")


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
        result[places] += _TRUST * (problem.measured[places[0]] - predicted[places[0]])
        result[places[0]] = np.nan
    return result


def _by(problem: Problem, left: LeftOut, label: str) -> str:
    rows = _residuals(problem, left.predicted)
    names = sorted({row.labels[label] for row in rows})
    return _table(label, [_line(name, accuracy([row for row in rows if row.labels[label] == name])) for name in names])


def _operators(rows: Sequence[Residual]) -> str:
    def named(row: Residual) -> str:
        return f"{row.labels['source']} {row.labels['family']}"

    names = sorted({named(row) for row in rows})
    return _table("operator", [_line(name, accuracy([row for row in rows if named(row) == name])) for name in names])


def _baselines(problem: Problem, left: LeftOut) -> str:
    rows = _residuals(problem, left.predicted)
    ours = accuracy(rows)
    lines = [f"| gpuwise, ratios between GPUs | {_percent(ours.ratio_median_ape)} | |"]
    lines += [
        f"| {name.replace('_', ' ')} | {_percent(figures['median_ape'])} | {_percent(figures['p90_ape'])} |"
        for name, figures in baselines(rows).items()
    ]
    return "\n".join(["| rule | median | 90 % |", "|---|---|---|", *lines])


def _table(head: str, lines: Sequence[str]) -> str:
    rule = "|---" * (head.count("|") + 1)
    return "\n".join(
        [f"| {head} | rows | median | mean | 90 % | bias | tau | ratio |", f"{rule}|---|---|---|---|---|---|---|", *lines]
    )


def _line(name: str, figures: Accuracy) -> str:
    order = "" if figures.kendall_tau is None else f"{figures.kendall_tau:.2f}"
    shown: Callable[[float | None], str] = _percent
    cells = (figures.median_ape, figures.mean_ape, figures.p90_ape, figures.bias)
    return f"| {name} | {figures.rows:,} | {' | '.join(map(shown, cells))} | {order} | {_percent(figures.ratio_median_ape)} |"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"
