"""The fit of text engines: what its priors say, and what a test leaves out."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fit_language import solve
from fit_language.__main__ import REPORTS, read_rows
from fit_language.problem import Problem, problem_of, shared
from gpuwise.evidence.generation import GenerationRow, generation_row, predicted_s
from gpuwise.hardware.catalog import load_catalog

ROW = {
    "source": "somebody",
    "gpu_count": "1",
    "model": "llama2-7b",
    "mode": "decode",
    "precision": "fp16",
    "quantisation": "Q4_K_M",
    "batch": "1",
    "size": "128+128",
    "value": "60",
    "unit": "tokens_per_s",
    "note": "",
}


def rows(stack: str, gpus: Sequence[str] = ("RTX 3090",), source: str = "somebody", gpu_count: int = 1) -> list[GenerationRow]:
    quantisation = "Q4_K_M" if "llama.cpp" in stack else "AWQ int4"
    cells = {**ROW, "stack": stack, "source": source, "quantisation": quantisation, "gpu_count": str(gpu_count)}
    return [generation_row(number, cells, load_catalog().find(gpu).gpu) for number, gpu in enumerate(gpus)]


def middle(stack: str, name: str, gpu_count: int = 1) -> float:
    problem = problem_of(rows(stack, gpu_count=gpu_count), ())
    return math.exp(problem.middle[problem.names.index(name)])


@pytest.mark.parametrize(
    ("stack", "name", "gpu_count"),
    [("llama.cpp 2024-05", "start:2024 without graphs", 2), ("vLLM 2023-11", "start:2023", 1)],
)
def test_versions_without_graphs_start_kernels_slowly(stack: str, name: str, gpu_count: int) -> None:
    newest = middle(stack.split(" ", maxsplit=1)[0] + " 2025", f"{name.partition(':')[0]}:")
    assert middle(stack, name, gpu_count) == pytest.approx(2 * newest)


@pytest.mark.parametrize(
    ("stack", "gpu", "gpu_count", "version"),
    [
        ("llama.cpp 2024-05", "RTX 3090", 1, "2024"),
        ("llama.cpp 2024-05", "RTX 3090", 2, "2024 without graphs"),  # the graph changed with every pass
        ("llama.cpp 2024-05", "RTX 2080 Ti", 1, "2024 without graphs"),  # older than Ampere
        ("llama.cpp 2024-05", "MI250X", 1, "2024 without graphs"),
        ("llama.cpp 2024-05", "M1 Max", 1, "2024"),
        ("llama.cpp b9739", "RTX 3090", 2, ""),
    ],
)
def test_llamacpp_of_2024_used_graphs_only_on_one_newer_gpu(stack: str, gpu: str, gpu_count: int, version: str) -> None:
    (row,) = rows(stack, (gpu,), gpu_count=gpu_count)
    assert row.version == version


def test_without_graphs_a_token_takes_longer() -> None:
    """Layers on two GPUs take turns, so only the start of kernels differs from one GPU."""
    (single,), (several,) = (rows("llama.cpp 2024-05", gpu_count=count) for count in (1, 2))
    assert 1.02 < predicted_s([several])[0] / predicted_s([single])[0] < 1.2


def test_software_that_issues_kernels_from_python_takes_longer_for_a_layer() -> None:
    assert middle("vLLM 2023-11", "layer:2023") > 10 * middle("vLLM 0.6.3", "layer:")
    assert middle("transformers 4.46", "layer:") > 2 * middle("vLLM 2023-11", "layer:2023")


def test_kernels_with_loads_in_flight_move_more() -> None:
    assert middle("vLLM 0.6.3", "bytes:int4") > middle("ExLlamaV2", "bytes:int4")


def test_what_is_left_the_same_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs of one source leave the same rows of another source."""
    found = [
        *rows("llama.cpp 2025", ("RTX 3090", "RTX 4090")),
        *(replace(row, row=row.row + 10) for row in rows("llama.cpp 2025", ("RTX 3080", "A40", "L40S"), "another")),
    ]
    fits = []

    def fitted(problem: Problem, start: object = None, rounds: int = 0, known: object = None) -> np.ndarray:
        fits.append([row.row for row in problem.rows])
        return problem.middle

    monkeypatch.setattr(solve, "fitted", fitted)
    problem = problem_of(found, ())
    solve.left_out(problem, problem.middle, lambda row: (row.gpu.name, row.cells["source"]))
    assert fits == [[10, 11, 12]]  # the other source has too few rows left without this one


def test_a_version_without_rows_of_its_own_takes_what_the_others_show() -> None:
    """Only the older version ran on this Mac, twice as fast as the prior of either version says."""
    old, new = rows("llama.cpp 2024-05 Metal", ("M4 Max",) * 6), rows("llama.cpp b9739 CUDA", ("RTX 3090",) * 3)
    (guess,) = rows("llama.cpp b9739 Metal", ("M4 Max",))
    problem = problem_of([*old, *new], ())
    prior = predicted_s([guess], solve.stack_maker(dict(zip(problem.names, np.exp(problem.middle), strict=True))))[0]
    fast = [replace(row, value=2.0 * row.counted / seconds) for row, seconds in zip(old, [prior] * 6, strict=True)]
    fitted = replace(problem, rows=(*fast, *new))
    found = dict(zip(problem.names, np.exp(solve.fitted(fitted)), strict=True))
    assert shared(found, "apple", "") > 1.1 * math.exp(problem.middle[problem.names.index("apple")])
    assert shared(found, "apple", "") < shared(found, "apple", "2024")


def test_slopes_of_a_fit_nearby_lead_to_the_same_constants() -> None:
    problem = problem_of(rows("llama.cpp b9739", ("RTX 3090", "RTX 4090", "A40", "H100 PCIe")), ())
    whole = solve.fitted(problem)
    slope = solve.slopes(problem, whole, solve.logs(problem, whole))
    part = replace(problem, rows=problem.rows[:3])
    exact, quick = solve.fitted(part, start=whole), solve.fitted(part, start=whole, known=slope[:3])
    assert quick == pytest.approx(exact, abs=0.05)


def test_every_report_can_be_predicted_and_says_where_it_is_from() -> None:
    with REPORTS.open(encoding="utf-8", newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(read_rows(REPORTS)) == len(cells)
    assert all(row["origin"].startswith("https://github.com/") for row in cells)


@pytest.mark.parametrize("gpu", ["RTX 3090", "RTX 4090", "A40", "H100 PCIe", "M1 Max"])
def test_a_newer_version_is_not_slower_where_only_the_older_was_measured(gpu: str) -> None:
    (old,), (new,) = rows("llama.cpp 2024-05 CUDA", (gpu,)), rows("llama.cpp b9739", (gpu,))
    assert (old.version, new.version) == ("2024", "")
    assert predicted_s([new])[0] < predicted_s([old])[0]


def test_another_backend_of_an_engine_has_its_own_speed() -> None:
    (sycl,), (vulkan,) = (rows(f"llama.cpp b9739 {name}", ("Arc Pro B70",)) for name in ("SYCL", "Vulkan"))
    assert predicted_s([vulkan])[0] > 1.5 * predicted_s([sycl])[0]
