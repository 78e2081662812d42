"""Writes the fitted values to the data files of gpuwise."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gpuwise
from gpuwise.evidence.fits import Fit
from gpuwise.evidence.ranges import Range
from gpuwise.kernels.types import Array

from .problem import BATCH_12, OTHER_BUILDS, PIPELINES, Problem
from .solve import LeftOut

__all__ = ["renew_ranges", "write_fit", "write_left_out", "write_ranges"]

ROOT = Path(gpuwise.__file__).parent
_FITTED_ON = [
    "e2e.csv, today_training.csv: rows on one GPU; today_images.csv: the middle of three reports or more of the same run",
    "ops_fp32, gemm_lowp (bf16, fp8), attention (bf16), deepbench (fp32, mixed fp16): a sample of each op on each GPU",
    "hardware_measured, today_matmul: bandwidths and the best square products of 90 GPUs",
    "power.csv: training of ResNet-50, ShuffleNet, BERT-base (Zeus) and ViT-B/16 at lowered limits, against the highest limit",
    "robust Gauss-Newton in ln(seconds) with priors; stacks, hosts and tables have factors of their own (not in this file)",
]
_FRAMEWORKS = {"lambda_tf": "tf", "nvidia_dle": "tf", "cnn_benchmarks": "torch7"}
# These sources use threads or third-party builds, include copies or loading, report the best of many runs, or have few rows for
# each of many versions. They do not represent a framework.
_OTHER_PROCEDURES = (
    *BATCH_12,
    *PIPELINES,
    "neusight",
    *OTHER_BUILDS,
    "mac_ml_speed_test",
    "gpu_insights",
)
_FEWEST_ROWS = 5  # of a version that has a factor of its own
_PARTS = ("constants", "factors", "launch_s", "copy_bytes_per_s", "call_s")


def _write(path: str, value: Any) -> None:
    (ROOT / path).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _short(values: Mapping[str, float], digits: int = 5) -> dict[str, float]:
    return {name: float(f"{value:.{digits}g}") for name, value in sorted(values.items())}


def write_fit(problem: Problem, fit: Fit, theta: Array) -> None:
    """Write the constants, the values for sources, and the software stacks."""
    _write("kernels/data/constants.json", {"version": 1, "fitted_on": _FITTED_ON, "constants": _short(fit.constants, 7)})
    path = "evidence/data/procedures.json"
    file = json.loads((ROOT / path).read_text(encoding="utf-8"))
    own = {part: _short(getattr(fit, part)) for part in Fit.__struct_fields__ if part != "constants"}
    _write(path, file | {"fitted": file["fitted"] | own})
    _write("step/data/stacks.json", _stacks(problem, fit, theta))


def _stacks(problem: Problem, fit: Fit, theta: Array) -> list[dict[str, Any]]:
    """One factor for each framework, version and execution mode, as the mean over sources. What a source adds to all its rows (a
    real input pipeline, logging) or saves (tuned kernels) is not part of the software. For PyTorch, factors are therefore shifted
    to the mean of all sources whose data is already loaded, because an unmeasured program is most likely to be close to that
    mean.
    """
    classes = dict(zip(problem.classes, np.exp(theta[problem.at["class"]]), strict=True))
    rows = Counter(row.stack for row in problem.steps)
    found: dict[tuple[str, tuple[int, ...], str], list[tuple[float, int]]] = defaultdict(list)
    for stack in problem.stacks:
        source, version, how = stack.split("/")
        number = re.search(r"\d+(\.\d+)?", version)
        if source in _OTHER_PROCEDURES or number is None:
            continue
        parts = tuple(int(part) for part in number[0].split("."))
        parts = (parts[0] // 1000,) if parts[0] > 1000 else parts  # cuDNN 5105 is 5
        framework = _FRAMEWORKS.get(source, "torch")
        level = classes[f"torch {how}"] / fit.factors[f"{source}//{how}"] if framework == "torch" else 1.0
        found[(framework, parts, how)].append((fit.factors[stack] * level, rows[stack]))
    return [
        {
            "framework": framework,
            "version": ".".join(map(str, version)),
            "how": how,
            "factor": round(math.exp(sum(math.log(factor) for factor, _ in members) / len(members)), 4),
            "rows": sum(count for _, count in members),
        }
        for (framework, version, how), members in sorted(found.items())
        if sum(count for _, count in members) >= _FEWEST_ROWS
    ]


def write_ranges(problem: Problem, ranges: Mapping[str, Range], scales: Mapping[str, Mapping[str, float]]) -> None:
    """Write the ranges, how much wider they are for some generations, and which generations were measured."""
    generations = sorted({row.question.gpu.architecture.generation for row in problem.steps})
    plain = {name: {"low": own.low, "high": own.high, "rows": own.rows} for name, own in ranges.items()}
    _write("evidence/data/ranges.json", {"generations": generations, "scales": scales, "ranges": plain})


def renew_ranges(ranges: Mapping[str, Range]) -> None:
    """Replace these ranges in the file and keep the others."""
    path = "evidence/data/ranges.json"
    file = json.loads((ROOT / path).read_text(encoding="utf-8"))
    own = {name: {"low": one.low, "high": one.high, "rows": one.rows} for name, one in ranges.items()}
    _write(path, file | {"ranges": file["ranges"] | own})


def write_left_out(problem: Problem, by_gpu: LeftOut, by_family: LeftOut) -> None:
    """Write the fits without each GPU and each family of the steps, one per line."""
    whole = problem.fit_of(problem.prior)
    names = [f"{part}:{name}" for part in _PARTS for name in sorted(getattr(whole, part))]
    used = {row.question.gpu.name for row in problem.steps}
    parts = {
        "gpu": {label: _values(problem, by_gpu, label, names) for label in by_gpu.thetas if label in used},
        "family": {label: _values(problem, by_family, label, names) for label in by_family.thetas},
    }
    lines = [f' "names": {json.dumps(names)}']
    for part, fits in parts.items():
        rows = ",\n".join(f"  {json.dumps(label)}: {json.dumps(values, separators=(',', ':'))}" for label, values in fits.items())
        lines.append(f' "{part}": {{\n{rows}\n }}')
    (ROOT / "evidence/data/left_out.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _values(problem: Problem, left: LeftOut, label: str, names: list[str]) -> list[float | None]:
    fit = problem.fit_of(left.thetas[label], left.gone[label])
    found: list[float | None] = []
    for name in names:
        part, _, key = name.partition(":")
        value = getattr(fit, part).get(key)
        found.append(None if value is None else float(f"{value:.5g}"))
    return found
