"""The examples: each slow one is slow for the reason it was written for, and its fix takes that reason away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.alone]
EXAMPLES = Path(__file__).parents[3] / "examples"
WATCH = [sys.executable, "-m", "gpuwise", "watch", "--json", "--", sys.executable]
REASONS = {
    "slow_loader": "input_starved",
    "one_worker": "input_starved",
    "sync": "host_sync",
    "tiny_batch": "launch_bound",
}


FRAMEWORKS = ["", "keras_"] if find_spec("keras") else [""]
FEWER = {"STEPS": "32"}  # than the examples take by themselves: eight to warm up, six recorded, and enough that are only timed


def watched(name: str, is_right: Callable[[list[str]], bool]) -> dict[str, list[dict[str, Any]]]:
    """What is found in an example, for each framework.

    They run side by side, since each computes with one thread. What is not judged right then is watched once more by itself:
    two trainings can still get into each other's way.
    """
    commands = {kind: [*WATCH, str(EXAMPLES / f"{kind}{name}.py")] for kind in FRAMEWORKS}
    with ThreadPoolExecutor() as pool:
        found = dict(zip(commands, pool.map(_findings, commands.values()), strict=True))
    return {kind: one if is_right(_codes(one)) else _findings(commands[kind]) for kind, one in found.items()}


def _findings(command: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, env=os.environ | FEWER, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["steps"]["steady_count"] >= 15
    found: list[dict[str, Any]] = answer["findings"]
    return found


def _codes(findings: list[dict[str, Any]]) -> list[str]:
    return [finding["code"] for finding in findings]


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_named_first(name: str) -> None:
    for kind, findings in watched(name, lambda codes: codes[:1] == [REASONS[name]]).items():
        assert _codes(findings)[:1] == [REASONS[name]], kind
        assert 1.0 < findings[0]["gain_low"] < findings[0]["gain_high"], kind


@pytest.mark.parametrize("name", ["fast_loader", "more_workers"])
def test_with_the_fix_the_input_is_not_named_first(name: str) -> None:
    for kind, findings in watched(name, lambda codes: codes[:1] != ["input_starved"]).items():
        assert _codes(findings)[:1] != ["input_starved"], kind
