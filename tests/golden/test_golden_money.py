"""What `gpuwise cost` and `prices` print on a given day, to the letter, from frozen tables: tests/freezing.py says why.

To renew: GPUWISE_UPDATE_GOLDEN=1 pytest tests/golden. The cases in LIVE are asked on the tables that ship."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from freezing import Frozen, answer

FOLDER = Path(__file__).parent / "money"
LIVE = {"cost_job"}
CASES = {
    "cost_guide": ["cost", "--gpu", "RTX 3090", "--cloud-price", "2.14", "--utilization", "0.15"],
    "cost_guide_exact": [
        *("cost", "--gpu", "RTX 3090", "--price", "1500", "--machine", "700", "--cloud-price", "2.14"),
        *("--utilization", "0.15", "--kwh-price", "0.12", "--years", "1"),
    ],
    "cost_rent_only": ["cost", "--gpu", "GH200 96GB", "--hours-per-week", "20", "--commit", "0.4"],
    "cost_own_only": ["cost", "--gpu", "GTX 1080 Ti", "--price", "150", "--machine", "0", "--region", "France"],
    "cost_euro_tiers": [
        *("cost", "--gpu", "RTX 4090", "--gpus", "2", "--cloud", "vast", "--hours-per-week", "40", "--currency", "EUR=1.08"),
        *("--tariff", "200=0.10,600=0.40", "--household-kwh", "250", "--resale", "1200"),
    ],
    "cost_job": [
        *("cost", "--gpu", "RTX 3090", "--price", "700", "--hours-per-week", "20", "--cloud-gpu", "A100 SXM 80GB"),
        *("--model", "resnet50", "--samples", "1281167", "--epochs", "90"),
    ],
    "cost_tokens": ["cost", "--gpu", "RTX 4090", "--model", "llama-3-8b", "--weights", "q4_k_m", "--users", "10"],
    "cost_guide_verbose": ["cost", "--gpu", "RTX 3090", "--cloud-price", "2.14", "--utilization", "0.15", "-v"],
    "prices_one": ["prices", "RTX 4090"],
    "prices_three": ["prices", "RTX 3090", "T4", "H100 SXM 80GB", "--price", "RTX 3090=700"],
    "error_percent": ["cost", "--gpu", "RTX 3090", "--utilization", "15"],
    "error_week": ["cost", "--gpu", "RTX 3090", "--hours-per-week", "200"],
    "error_currency": ["cost", "--gpu", "RTX 3090", "--currency", "EUX=1.1"],
    "error_refresh": ["prices", "refresh"],
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
