"""There is one way for answers to become JSON, and it never writes a number that JSON cannot represent."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpuwise
from gpuwise.core.encoding import to_json
from gpuwise.surfaces.cli.output import print_json

SURFACES = Path(gpuwise.__file__).parent / "surfaces"


def never(text: str) -> float:
    raise AssertionError(f"{text} is no JSON")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 1e400])
def test_a_number_that_is_not_finite_leaves_as_null(number: float, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"a": number, "b": [number, {"c": (number, 1.5)}]}
    print_json(answer)
    for text in (to_json(answer).decode(), to_json(answer, indent=2).decode(), capsys.readouterr().out):
        assert json.loads(text, parse_constant=never) == {"a": None, "b": [None, {"c": [None, 1.5]}]}


def test_answers_leave_through_the_one_serializer() -> None:
    """Keys of caches are JSON too, but leave nowhere."""
    wrong = []
    for path in SURFACES.rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        wrong += [f"{path.name}: {line.strip()}" for line in lines if re.search(r"json\.(?:encode|dumps)\(", line)]
    assert [line for line in wrong if "order=" not in line and "json.loads(text)" not in line] == []
