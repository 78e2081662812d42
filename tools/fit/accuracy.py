"""Writes `docs/accuracy.md`: how far predictions are from measurements on GPUs and families left out of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import gpuwise
from gpuwise.evidence.e2e import residual
from gpuwise.evidence.metrics import accuracy, baselines
from gpuwise.evidence.ranges import TRUST
from gpuwise.evidence.score import score
from gpuwise.evidence.types import Accuracy, Residual
from gpuwise.kernels.types import MAKERS, Array

from .problem import Problem, class_of
from .rows import StepRow
from .solve import LeftOut
from .widths import Widths

__all__ = ["write_accuracy"]

PAGE = Path(gpuwise.__file__).parents[2] / "docs" / "accuracy.md"
TEXT = Path(__file__).parent / "accuracy.txt"
_FEWEST = 20  # rows below which the coverage of a group is not meaningful
_LARGE_FLOPS = 1e9
_SETUP = ("source", "model", "mode", "precision", "stack")  # what a user measures once and asks about on other GPUs


def write_accuracy(
    problem: Problem, theta: Array, left: Mapping[str, LeftOut], operators: Sequence[Residual], widths: Widths
) -> None:
    """Write the page, which is fixed text around computed tables."""
    pair, held = left["pair"], widths.unknown
    seen = left["gpu"].seen
    tables = {
        "NESTED": _nested(problem, pair, held),
        "GOALS": _goals(problem, theta, left),
        "SOURCES": _by(problem, pair, "source", held),
        "GENERATIONS": _by(problem, pair, "generation", held),
        "KNOWN SOURCES": _by(problem, left["gpu"], "source", widths.known),
        "KNOWN GENERATIONS": _by(problem, left["gpu"], "generation", widths.known),
        "COVERAGE": _coverage(problem, widths, seen),
        "GPUS": _by(problem, left["gpu"], "gpu", widths.known),
        "FAMILIES": _by(problem, left["family"], "family"),
        "OPERATORS": _operators(operators),
        "POWER": _power(problem, left["gpu"]),
        "BASELINES": _baselines(problem, theta, left["gpu"]),
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"[{name}]", table)
    PAGE.write_text(text, encoding="utf-8")


def _coverage(problem: Problem, widths: Widths, seen: Array) -> str:
    """By source, the share of rows inside a range that was derived without their GPU, and without their GPU and source."""
    sources = np.array([row.source for row in problem.steps], dtype=object)
    lines = []
    for source in [*sorted(set(sources)), ""]:
        rows = sources == source if source else np.ones(len(sources), bool)
        if rows.sum() >= _FEWEST:
            own = f"{100 * np.mean(widths.known[rows & seen]):.0f}%" if (rows & seen).any() else ""
            lines.append(f"| {source or 'all'} | {rows.sum():,} | {own} | {100 * np.mean(widths.unknown[rows]):.0f}% |")
    head = ["| source | rows | source known, GPU unseen | both unseen |", "|---|---|---|---|"]
    return "\n".join([*head, *lines])


def _residuals(problem: Problem, predicted: Array) -> list[Residual]:
    return [
        residual(row.question, seconds, 0.0, 0.0, "")
        for row, seconds in zip(problem.steps, np.exp(predicted[: problem.step_count]).tolist(), strict=True)
    ]


def _kinds(problem: Problem) -> dict[str, Array]:
    """Which rows belong to which kind of software and vendor."""
    classes = np.array([class_of(row.stack) for row in problem.steps], dtype=object)
    modern = np.array([row.stack.split("/")[1].startswith("2.") for row in problem.steps])
    others = np.array([row.question.gpu.vendor.lower() in MAKERS for row in problem.steps])
    images = np.array([name.startswith("pipeline") for name in classes])
    slow, apart = classes == "torch batch-12", images | (classes == "torch7")
    tf = np.array([row.stack.split("/")[2] in ("graph", "xla") for row in problem.steps])
    torch = ~tf & ~slow & ~apart
    return {
        "PyTorch 2 on NVIDIA": torch & modern & ~others,
        "older PyTorch on NVIDIA": torch & ~modern & ~others,
        "TensorFlow on NVIDIA": tf & ~others,
        "batch 12, slow hosts": slow & ~others,
        "image generation": images,
        "AMD, Intel and Apple": others & ~images,
        "all": np.ones(problem.step_count, bool),
    }


def _nested(problem: Problem, left: LeftOut, held: Array) -> str:
    rows = _residuals(problem, left.predicted)
    lines = []
    for title, chosen in _kinds(problem).items():
        line = _line(title, accuracy([row for row, wanted in zip(rows, chosen, strict=True) if wanted]))
        lines.append(f"{line} {100 * np.mean(held[chosen]):.0f}% |")
    return _table("group", lines, ("in range",))


def _goals(problem: Problem, theta: Array, left: Mapping[str, LeftOut]) -> str:
    views = {
        "in sample": problem.predicted(theta),
        "unseen GPU": left["gpu"].predicted,
        "unseen family": left["family"].predicted,
        "unseen generation": left["generation"].predicted,
        "unseen GPU and source": left["pair"].predicted,
        "the same, with one measured number": _measured(problem, left["pair"].predicted),
    }
    lines = []
    for title, chosen in _kinds(problem).items():
        for view, predicted in views.items():
            rows = [row for row, wanted in zip(_residuals(problem, predicted), chosen, strict=True) if wanted]
            lines.append(_line(f"{title} | {view}", accuracy([row for row in rows if np.isfinite(row.predicted_s)])))
    return _table("group | test", lines)


def _measured(problem: Problem, predicted: Array) -> Array:
    """Treat the first row of each setup as the user's own measurement. It corrects the rows on other GPUs and is not scored."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(problem.steps):
        groups.setdefault(tuple(row.question.cells.get(name, "") for name in _SETUP), []).append(place)
    result = predicted.copy()
    for places in groups.values():
        result[places] += TRUST * (problem.measured[places[0]] - predicted[places[0]])
        result[places[0]] = np.nan
    return result


def _by(problem: Problem, left: LeftOut, label: str, held: Array | None = None) -> str:
    """One line per label. With `held`, it includes the share of rows inside their range."""
    rows = _residuals(problem, left.predicted)
    labels = np.array([_label(row, step, label) for row, step in zip(rows, problem.steps, strict=True)])
    lines = []
    for name in sorted(set(labels)):
        line = _line(name, accuracy([row for row, own in zip(rows, labels, strict=True) if own == name]))
        lines.append(line if held is None else f"{line} {100 * np.mean(held[labels == name]):.0f}% |")
    return _table(label, lines, () if held is None else ("in range",))


def _label(row: Residual, step: StepRow, label: str) -> str:
    return step.question.gpu.architecture.generation if label == "generation" else row.labels[label]


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
    head = "| operator | rows | median | 90% | bias | in range | bias by GPU, % |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines])


def _power(problem: Problem, left: LeftOut) -> str:
    """Speed relative to that at the highest limit, as the median over the workloads of each GPU, published and predicted with the
    GPU unseen."""
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
        off = f"{100 * (found / own - 1):+.0f}%"
        lines.append(f"| {name} | {limit:.0f} W of {top:.0f} | {len(places)} | {own:.2f} | {found:.2f} | {off} |")
    error = np.abs(predicted / published - 1)
    fitted = np.array([curve.fitted and limit < curve.limits_watts[-1] for curve, limit in points])
    middle, mean = (_percent(float(of(error[fitted]))) for of in (np.median, np.mean))
    head = ["| GPU | limit | workloads | published | predicted | error |", "|---|---|---|---|---|---|"]
    summary = f"On the {fitted.sum()} points for fitted workloads, the median error is {middle} and the mean error is {mean}."
    return "\n".join([*head, *lines, "", summary])


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
    return "\n".join(["| rule | median | 90% |", "|---|---|---|", *lines])


def _table(head: str, lines: Sequence[str], more: Sequence[str] = ()) -> str:
    titles = [*head.split(" | "), "rows", "median", "mean", "90%", "bias", "tau", "ratio"]
    return "\n".join([f"| {' | '.join([*titles, *more])} |", "|---" * (len(titles) + len(more)) + "|", *lines])


def _line(name: str, figures: Accuracy) -> str:
    order = "" if figures.kendall_tau is None else f"{figures.kendall_tau:.2f}"
    shown: Callable[[float | None], str] = _percent
    cells = (figures.median_ape, figures.mean_ape, figures.p90_ape, figures.bias)
    return f"| {name} | {figures.rows:,} | {' | '.join(map(shown, cells))} | {order} | {_percent(figures.ratio_median_ape)} |"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"
