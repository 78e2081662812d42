"""Plans against published steps on many GPUs: models that nothing was fitted on. The budget only shrinks."""

from __future__ import annotations

from collections import defaultdict
from importlib.resources import as_file, files

import numpy as np
import pytest

from gpuwise.evidence.parallel import parallel_questions, score_parallel
from gpuwise.evidence.tables import read_table
from gpuwise.evidence.types import Residual

# source, how the names of its models begin -> median and p90 of the absolute error, at most
BUDGET = {
    ("vtrain_single", ""): (0.05, 0.18),
    ("llm_foundry", ""): (0.037, 0.12),
    ("megatron_bridge", "LLAMA"): (0.08, 0.12),
    ("megatron_bridge", ""): (0.40, 0.45),  # mostly mixtures of experts
}
COUNT_OF_GPUS = 5  # its place in a residual's setup


@pytest.fixture(scope="module")
def residuals() -> list[Residual]:
    with as_file(files("gpuwise.evidence") / "data" / "parallel_measurements.csv") as path:
        asked, _ = parallel_questions(read_table(path))
    return score_parallel(asked)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "start"), BUDGET)
def test_steps_stay_within_the_budget(residuals: list[Residual], source: str, start: str) -> None:
    mine = [row for row in residuals if row.labels["source"] == source and row.labels["family"].startswith(start)]
    errors = [abs(row.predicted_s / row.measured_s - 1) for row in mine]
    median, worst = BUDGET[source, start]
    assert len(errors) >= 4
    assert np.median(errors) <= median
    assert np.quantile(errors, 0.9) <= worst


@pytest.mark.slow
def test_the_plan_predicted_to_be_best_is_near_the_best(residuals: list[Residual]) -> None:
    groups: dict[tuple[str, ...], list[Residual]] = defaultdict(list)
    for row in residuals:
        groups[(*row.group, row.setup[COUNT_OF_GPUS])].append(row)
    regrets = []
    for rows in groups.values():
        if len(rows) > 1:
            chosen = min(rows, key=lambda row: row.predicted_s / row.samples)
            regrets.append((chosen.measured_s / chosen.samples) / min(row.measured_s / row.samples for row in rows))
    assert len(regrets) >= 15
    assert np.mean(np.array(regrets) <= 1.05) >= 0.85


@pytest.mark.slow
def test_ranges_hold_what_they_promise(residuals: list[Residual]) -> None:
    inside = [row.low_s <= row.measured_s <= row.high_s for row in residuals]
    assert 0.7 <= np.mean(inside) <= 0.95
