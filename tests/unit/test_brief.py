"""A brief answer fits a terminal of 25 lines and 100 columns; `-v` prints what it leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuwise.surfaces.cli.app import app

QUESTIONS = {
    "which": ["which"],
    "which with a budget": ["which", "--budget", "2500", "--model", "bert-large", "--have", "GTX 1080 Ti"],
    "which for a large model": ["which", "--budget", "1500", "--model", "llama-2-7b", "--mode", "train"],
    "cost": ["cost", "--gpu", "RTX 4090", "--gpus", "2", "--cloud", "vast", "--resale", "1200", "--hours-per-week", "40"],
    "cost of a job": ["cost", "--gpu", "RTX 3090", "--model", "resnet50", "--samples", "1e6"],
    "build": ["build", "--gpu", "4x RTX 3090", "--psu", "1600"],
    "prices": ["prices", "H100 SXM 80GB"],
    "charts": ["charts", "--work", "cnn"],
    "gpus": ["gpus", "RTX 3090"],
    "why": ["why", str(Path(__file__).parents[2] / "examples" / "slow_loader.json.gz")],
    "plan": ["plan", "llama-2-7b", "--cluster", "8xA100"],
    "matters": ["matters"],
    "tune batch": ["tune", "batch", "resnet50", "--gpu", "RTX 3090"],
    "tune power": ["tune", "power", "resnet50", "--gpu", "RTX 3090"],
    "fit": ["fit", "llama-2-7b", "--mode", "train", "--gpu", "RTX 3090"],
    "fit of text": ["fit", "llama-2-7b", "--gpu", "RTX 3090"],
    "compare": ["compare", "RTX 3090", "RTX 4070 Ti"],
    "compare sets": ["compare", "2x RTX 3090", "RTX 4090"],
    "predict": ["predict", "resnet50", "--gpu", "RTX 3090"],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_brief_answer_fits_a_terminal_and_the_long_one_says_more(name: str) -> None:
    brief, whole = (CliRunner().invoke(app, [*QUESTIONS[name], *more], catch_exceptions=False).stdout for more in ([], ["-v"]))
    assert len(brief.splitlines()) <= 25
    assert max(map(len, brief.splitlines())) <= 100
    assert len(whole.splitlines()) > len(brief.splitlines())
