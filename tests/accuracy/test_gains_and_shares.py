"""Every finding on every public trace promises no more than the time it says is lost, or gives the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuwise

TRACES = Path(__file__).parents[3] / "shared" / "traces"
EXAMPLE = Path(__file__).parents[2] / "examples" / "slow_loader.json.gz"
NAMES = sorted(file for file in TRACES.glob("*.*") if file.suffix in (".gz", ".pb", ".sqlite"))
TOLERANCE = 1.01

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not NAMES, reason="the shared traces are not here")]


def test_no_gain_is_above_its_share_without_a_reason() -> None:
    checked, reasons = 0, 0
    for file in (*NAMES, EXAMPLE, TRACES / "param_dlrm_v100_rank*.json.gz"):
        answer = gpuwise.why([str(file)]).to_dict()
        for found in answer["findings"]:
            share, high, reason = found["share_fraction"], found["gain_high"], found["gain_reason"]
            where = f"{file.name}: {found['code']} promises {high:.2f} for {share:.0%}"
            assert found["seconds_per_step"] == pytest.approx(share * answer["mean_step_s"], rel=1e-6), where
            assert high <= TOLERANCE / max(1.0 - share, 0.05) or reason, where
            assert reason is None or found["evidence"][-1].endswith(reason), where
            assert 1.0 <= found["gain_low"] <= high, where
            checked, reasons = checked + 1, reasons + bool(reason)
    assert checked > 60
    assert 0 < reasons < checked / 5
