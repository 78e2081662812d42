"""What `gpuwise which` does with models that do not fit as asked, or only just."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner
from which_asked import asked

from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.surfaces.cli.app import app


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


def test_what_does_not_fit_as_asked_gets_the_remedies_of_fit() -> None:
    found = asked("--model", "gpt2-xl", "--budget", "800", "--max-gpus", "1", "--price", "RTX 3090=700")
    (first, *_) = found["remedied"]
    assert first["gpu"] == "RTX 3090"
    told = json.loads(CliRunner().invoke(app, ["fit", "gpt2-xl", "--gpu", "RTX 3090", "--json"]).stdout)
    alone = {one["title"]: one for one in told["remedies"]}
    one, *_, last = first["remedies"]
    assert one["title"] in alone  # where only the result as asked counts, `fit` would begin with adapters
    assert one["step_s"] == pytest.approx(alone[one["title"]]["step_s"])
    assert not any("LoRA" in remedy["title"] for remedy in first["remedies"])
    assert first["run_s"] == pytest.approx(5e4 / told["batch"] * last["step_s"])
    assert first["needed_bytes"] <= 24 * 2**30
    assert re.search(r"an RTX 3090 \(\$700, .*\) can run the job as requested", found["verdict"])
    assert f"at batch {told['batch']}" in first["text"]


def test_only_work_with_images_waits_for_their_decoding() -> None:
    text, images = (asked("--model", model, "--budget", "2500") for model in ("bert-large", "resnet50"))
    checks = [{line["check"] for option in found["options"] for line in option["build"] or []} for found in (text, images)]
    assert "loader" not in checks[0]
    assert "loader" in checks[1]


def test_remedies_keep_to_the_budget_and_are_not_tried_where_the_model_fits() -> None:
    assert asked("--model", "resnet50", "--budget", "800")["remedied"] == []
    for one in asked("--model", "gpt2-xl", "--budget", "760")["remedied"]:
        assert one["upfront_usd"] <= 760
        assert one["fits"]


@pytest.mark.parametrize("budget", [(), ("--budget", "5000")])
def test_what_one_has_is_tried_with_remedies_before_anything_is_bought(budget: tuple[str, ...]) -> None:
    found = asked("--model", "gpt2-xl", "--have", "RTX 3090", *budget)
    (first,) = (one for one in found["remedied"] if one["source"] == "keep")
    assert (first["gpu"], first["source"], first["upfront_usd"]) == ("RTX 3090", "keep", 0.0)
    assert first["text"].startswith("your RTX 3090 can run gpt2-xl at batch ")
    assert first in (found["remedied"] if budget else found["remedied"][:1])
    assert "times as fast as on your RTX 3090" not in found["verdict"]  # without remedies it does not run there


def test_the_batch_that_was_taken_is_told() -> None:
    notes = {note["name"]: note["value"] for note in asked("--model", "gpt2-xl", "--buy")["assumptions"]}
    assert notes["batch"] == "4"
    assert "batch" not in {note["name"] for note in asked("--model", "gpt2-xl", "--batch", "2")["assumptions"]}


def test_a_batch_that_fits_in_parts_only_is_one_step_of_parts() -> None:
    for option in asked("--model", "gpt2-xl", "--buy", "--max-gpus", "1")["options"]:
        assert option["batch"] == 4
        assert option["run_s"] == pytest.approx(5e4 / 4 * option["step_s"])


@pytest.mark.usefixtures("quick_captures")
def test_what_was_guessed_of_a_model_of_ones_own_is_said(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.first = torch.nn.Conv2d(3, 8, 3)\n        self.last = torch.nn.Linear(8, 10)\n\n"
        "    def forward(self, x):\n        return self.last(self.first(x).mean((2, 3)))\n"
    )
    notes = {note["name"]: note["value"] for note in asked("--model", f"{file}:Net", "--budget", "500")["assumptions"]}
    assert "inputs guessed" in notes[f"{file}:Net"]


def test_what_fits_too_narrowly_to_be_sure_is_not_recommended() -> None:
    found = asked("--model", "llama-2-7b", "--weights", "fp16", "--budget", "1500")
    held = [option for option in found["options"] if option["fits"]]
    assert held
    for option in held:
        fit = json.loads(
            CliRunner()
            .invoke(app, ["fit", "llama-2-7b", "--mode", "infer", "--gpu", f"{option['gpu_count']}x {option['gpu']}", "--json"])
            .stdout
        )
        assert fit["memory"]["high_bytes"] <= fit["usable_memory_bytes"]


def test_only_gpus_with_enough_memory_are_offered() -> None:
    any_size, large = (
        asked("--model", "resnet50", "--budget", "1000"),
        asked("--model", "resnet50", "--budget", "1000", "--min-memory", "24GB"),
    )
    assert any(load_catalog().find(option["gpu"]).gpu.memory_bytes < 24 * 2**30 for option in any_size["options"])
    names = {option["gpu"] for option in large["options"]}
    assert names
    assert all(load_catalog().find(name).gpu.memory_bytes >= 24 * 2**30 for name in names)


def test_training_in_full_is_shared_by_several_servers_if_the_budget_covers_them() -> None:
    found = asked("--model", "llama-3-70b", "--mode", "train", "--budget", "2000000")
    assert "LoRA" not in found["verdict"]
    assert found["options"] == asked("--model", "llama-3-70b", "--method", "full", "--budget", "2000000")["options"]
    assert found["options"][0]["upfront_usd"] <= 2_000_000
    assert any("--method lora" in text for text in found["changes_if"])
    small = asked("--model", "llama-3-8b", "--mode", "train", "--budget", "3000")
    assert "runs with LoRA adapters (full training needs" in small["verdict"]


def test_a_card_with_more_memory_never_holds_less_of_an_image_model() -> None:
    """12 GB cards were left out of SDXL, which takes 12 GB at once, although 8 GB cards load its parts one after another."""
    found = asked("--model", "sdxl", "--have", "RTX 3060", "--budget", "700", "--max-gpus", "1")
    (own,) = (one for one in found["options"] if one["source"] == "keep")
    assert own["fits"]
    assert not [one for one in found["rejected"] if "may not fit" in one["reason"] and one["gpu"] in ("RTX 4070", "RTX 5070")]
