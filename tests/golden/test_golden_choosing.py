"""What `which`, `compare` of sets, `cost` beside another GPU and `matters` print on a given day, to the letter.

The tables are frozen: tests/freezing.py says why; the cases in LIVE are asked on the tables that ship.
To renew: GPUWISE_UPDATE_GOLDEN=1 pytest tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from freezing import Frozen, answer

FOLDER = Path(__file__).parent / "choosing"
LIVE = {"compare_sets"}
CASES = {
    "which": ["which"],
    "which_budget": ["which", "--budget", "800"],
    "which_budget_verbose": ["which", "--budget", "800", "-v"],
    "which_have": ["which", "--model", "bert-large", "--budget", "2500", "--have", "GTX 1080 Ti", "--hours-per-week", "20"],
    "which_have_more": ["which", "--have", "RTX 3090", "--budget", "1000"],
    "which_laboratory": ["which", "--budget", "10000"],
    "which_laptop": ["which", "--laptop", "--budget", "2500"],
    "which_nothing": ["which", "--budget", "30"],
    "which_rent_alone": ["which", "--rent"],
    "which_rent": ["which", "--rent", "--task", "nlp", "--currency", "EUR=1.08"],
    "which_text": ["which", "--model", "llama-3-70b", "--weights", "int4", "--budget", "2000"],
    "cost_other_gpu": ["cost", "--gpu", "RTX 4090", "--cloud-gpu", "A100", "--years", "0.5"],
    "compare_laptops": ["compare", "RTX 2070 Max-Q", "GTX 960M"],
    "compare_doubt": ["compare", "RX 7900 XTX", "RTX 4090"],
    "compare_servers": ["compare", "B200", "H100", "H200"],
    "compare_sets": ["compare", "4x RTX 2070", "2x RTX 2080 Ti"],
    "matters": ["matters"],
    "matters_lanes": ["matters", "pcie-lanes"],
    "error_task": ["which", "--task", "visoin"],
    "error_budget": ["which", "--budget", "0"],
    "error_topic": ["matters", "lanez"],
}


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_agreed(name: str, frozen: Frozen, tmp_path: Path) -> None:
    text = (answer if name in LIVE else frozen.answer)(CASES[name], tmp_path).text
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUWISE_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)
