"""How far collectives may be off on sizes that were not fitted: a budget that only shrinks (`../shared/evidence`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuwise.evidence.collectives import collective_sets, predicted_s
from gpuwise.evidence.tables import read_table
from gpuwise.questions.validate.answer import validate

TABLE = Path(__file__).parents[3] / "shared" / "evidence" / "collectives.parquet"

pytestmark = pytest.mark.skipif(not TABLE.exists(), reason="the shared evidence is not here")


def test_sizes_that_were_not_fitted_are_within_the_budget() -> None:
    every, inside = [], []
    for entry in collective_sets(read_table(TABLE))[0]:
        held_back = np.floor(np.log2(entry.size_bytes)).astype(int) % 2 == 1
        error = np.abs(predicted_s(entry) / entry.measured_s - 1)[held_back]
        every.append(error)
        inside += [error] if entry.outer == 1 else []
    assert sum(map(len, every)) > 16_000
    assert np.median(np.concatenate(every)) <= 0.082
    assert np.median(np.concatenate(inside)) <= 0.055
    assert np.quantile(np.concatenate(inside), 0.9) <= 0.30


def test_the_whole_table_is_scored_with_its_reasons() -> None:
    answer = validate(TABLE)
    assert answer.table == "collectives"
    assert answer.rows == len(answer.residuals) + sum(count for _, count in answer.skipped)
    assert answer.overall.median_ape is not None
    assert answer.overall.median_ape < answer.baselines["three_quarters"]["median_ape"] / 2
    assert answer.overall.coverage_fraction == pytest.approx(0.8, abs=0.1)
