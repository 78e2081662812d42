"""The examples: each slow one is slow for the reason it was written for, and its fix takes that reason away."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.alone]
EXAMPLES = Path(__file__).parents[3] / "examples"
REASONS = {
    "slow_loader": "input_starved",
    "one_worker": "input_starved",
    "sync": "host_sync",
    "tiny_batch": "launch_bound",
}


def watched(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gpuwise", "watch", "--json", "--", sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("framework", ["", "keras_"])
@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_named_first(framework: str, name: str) -> None:
    if framework and find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    findings = watched(framework + name)["findings"]
    assert findings[0]["code"] == REASONS[name]
    assert 1.0 < findings[0]["gain_low"] < findings[0]["gain_high"]


@pytest.mark.parametrize("name", ["fast_loader", "more_workers", "keras_fast_loader", "keras_more_workers"])
def test_with_the_fix_the_input_is_not_named_first(name: str) -> None:
    if name.startswith("keras") and find_spec("keras") is None:
        pytest.skip("Keras is not installed")
    answer = watched(name)
    assert [finding["code"] for finding in answer["findings"]][:1] != ["input_starved"]
