"""Fits the constants of text-generation engines to published speeds, and tests them on GPUs and sources that were left out.

    python -m tools.fit_language ../shared/evidence

Reads `today_language.csv`, `gemm_lowp.parquet`, `attention.parquet` and `reports.csv` (single measurements that users published,
mostly with newer versions and on other GPUs), and writes
`src/gpuwise/step/data/fitted_engines.json` and `docs/accuracy-language.md`. The GPU kernel models are unchanged. Each engine
gets a few constants of its own, each shrunk towards a prior that all engines share.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import GpuwiseError
from gpuwise.evidence.generation import GenerationRow, Unusable, generation_row
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import load_constants

from .kernels import of_engine, read_kernels
from .page import Tested, page, statistics
from .problem import Problem, common_constants, family_constants, is_fused, problem_of, shared
from .solve import FOLDS, fitted, inside, left_out

Array = NDArray[np.float64]
HERE = Path(__file__).resolve().parents[2]
FITTED = HERE / "src/gpuwise/step/data/fitted_engines.json"
PAGE = HERE / "docs/accuracy-language.md"
REPORTS = Path(__file__).with_name("reports.csv")
_ENOUGH, _SEVERAL = 20, 4  # rows and GPUs below which an engine uses the range of all engines


def read_rows(*paths: Path) -> list[GenerationRow]:
    """The rows of these tables that can be predicted, numbered through all tables."""
    catalog, found, tables = load_catalog(), [], []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            tables.append(list(csv.DictReader(file)))
    for number, cells in enumerate(chain.from_iterable(tables)):
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
    """The entry in `fitted_engines.json` for one version of an engine."""
    values = {name: math.exp(value) for name, value in zip(problem.names, theta, strict=True)}
    own = [row for row in problem.rows if row.version == version]
    return {
        "rows": len(own),
        "gpus": sorted({row.gpu.name for row in own}),
        "layer_s": float(f"{values[f'layer:{version}']:.6g}"),
        "step_s": float(f"{shared(values, 'step', version):.6g}"),
        "constants": _rounded(common_constants(values, problem.engine, version, load_constants())),
        "families": {family: _rounded(family_constants(values, family)) for family in problem.families},
        "ranges": ranges,
        "fused_attention": is_fused(problem.engine, version),
    }


def _rounded(table: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.6g}") for name, value in table.items()}


def main(folder: Path) -> None:
    rows, kernels = read_rows(folder / "today_language.csv", REPORTS), read_kernels(folder)
    by_engine: dict[str, list[GenerationRow]] = defaultdict(list)
    for row in rows:
        by_engine[row.engine.name].append(row)
    names = sorted(by_engine, key=lambda name: -len(by_engine[name]))
    problems = [problem_of(by_engine[name], of_engine(kernels, name)) for name in names]
    with ProcessPoolExecutor() as pool:
        thetas = list(pool.map(fitted, problems))
        tasks = [(problem, theta, key) for key in FOLDS.values() for problem, theta in zip(problems, thetas, strict=True)]
        found = list(pool.map(left_out, *zip(*tasks, strict=True)))
    tested, fits = [], dict(zip(names, zip(problems, thetas, strict=True), strict=True))
    for place, (problem, theta) in enumerate(fits.values()):
        errors = np.array([inside(problem, theta), *found[place :: len(names)]]).T
        tested += [Tested(row, tuple(one)) for row, one in zip(problem.rows, errors.tolist(), strict=True)]
        print(problem.engine, len(errors), *(statistics(one) for one in errors.T), sep="  ", flush=True)
    results: dict[str, object] = {}
    for name, (problem, theta) in sorted(fits.items()):
        ranges = {phase: _range(tested, name, phase) for phase in ("decode", "prefill")}
        for version in sorted({row.version for row in problem.rows}):
            results[f"{name} {version}".strip()] = entry(problem, theta, version, ranges)
    FITTED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(tested), encoding="utf-8")


def _range(tested: Sequence[Tested], engine: str, phase: str) -> tuple[float, float]:
    """The range of times of a phase with the GPU unseen, for this engine if it has enough rows on several GPUs, and for all
    engines otherwise."""
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
