"""The published table of predicted and actual gains covers the scripts as they are and agrees with the sentences below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from live_scripts import SCRIPTS
from record_live import HEADING, section

ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"^\| (\w+) \| (.+) \| (\w+) \| ([\d.]+) to ([\d.]+) \| ([\d.]+) \| (yes|no) \|$", re.MULTILINE)


def published() -> str:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    return HEADING + page.partition(HEADING)[2].partition("\n## ")[0].rstrip() + "\n"


@pytest.fixture
def rows() -> list[dict[str, object]]:
    expected = {script.name: script.expected for script in SCRIPTS}
    return [
        {
            "script": name,
            "fix": fix,
            "first": first,
            "right": first in expected[name],
            "low": float(low),
            "high": float(high),
            "realised": float(actual),
            "kept": float(actual) >= float(low),
        }
        for name, fix, first, low, high, actual, _ in _ROW.findall(published())
    ]


def test_every_script_with_a_fault_has_its_row(rows: list[dict[str, object]]) -> None:
    assert [(row["script"], row["fix"]) for row in rows] == [(script.name, script.fix) for script in SCRIPTS if script.expected]


def test_the_sentences_agree_with_the_rows(rows: list[dict[str, object]]) -> None:
    """Marks and counts are worked out again from the figures in the table."""
    text = published()
    written = section(rows, None).split("\n| ", 1)[1].split("\n")
    assert [line for line in written if line not in text] == []
    assert sum(bool(row["kept"]) for row in rows) >= 10
