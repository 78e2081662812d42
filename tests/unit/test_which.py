"""`gpuwise which` with valid input: its verdict and its options."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from which_asked import asked

import gpuwise
from gpuwise.money import prices as money_prices

CONTRACT = {"verdict", "options", "rejected", "changes_if", "assumptions", "data_date"}
OF_AN_OPTION = {
    *("gpu", "gpu_count", "source", "fits", "step_s", "samples_per_s", "upfront_usd", "total_usd"),
    *("usd_per_million_samples", "kg_co2e", "build", "reasons"),
}


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


def names(answer: dict[str, Any]) -> list[str]:
    """The options shown, such as RTX 5090 or 2x RTX 3090."""
    return [f"{one['gpu_count']}x {one['gpu']}" if one["gpu_count"] > 1 else one["gpu"] for one in answer["options"]]


@pytest.mark.parametrize("arguments", [(), ("--budget", "800"), ("--rent",), ("--laptop",)])
def test_json_has_the_keys_of_the_contract(arguments: tuple[str, ...]) -> None:
    answer = asked(*arguments)
    assert set(answer) >= CONTRACT
    assert 1 <= len(answer["options"]) <= 7
    for option in answer["options"]:
        assert set(option) >= OF_AN_OPTION
        assert option["run_low_s"] < option["run_s"] < option["run_high_s"]


def test_alone_it_gives_picks_from_cheap_to_dear() -> None:
    prices = [option["upfront_usd"] for option in asked()["options"]]
    assert prices == sorted(prices)
    assert prices[0] <= 300
    assert prices[-1] > 1000


def test_the_verdict_names_the_first_row_and_keeps_the_budget() -> None:
    answer = asked("--budget", "800")
    first = answer["options"][0]
    assert first["gpu"] in answer["verdict"]
    assert "the verdict" in first["reasons"]
    assert all(option["upfront_usd"] <= 800 for option in answer["options"])
    assert not {one["gpu"] for one in answer["rejected"]} & set(names(answer))


def test_nothing_faster_is_said_only_where_no_row_is_faster() -> None:
    answer = asked("--model", "bert-large", "--budget", "2500", "--have", "GTX 1080 Ti", "--hours-per-week", "20")
    best, *others = answer["options"]
    faster = any(other["run_s"] < best["run_s"] for other in others if other["source"].startswith("buy"))
    nothing = (
        "[Nn]o faster card or set of cards( with as much memory)? is available|need more power or space than a typical machine"
    )
    assert re.search("[Nn]o faster single card( with as much memory)? is available" if faster else nothing, answer["verdict"])
    assert "times as fast as on your GTX 1080 Ti" in answer["verdict"]


def test_what_one_has_costs_nothing_but_electricity() -> None:
    answer = asked("--task", "kaggle", "--have", "GTX 1060 6GB")
    (mine,) = (option for option in answer["options"] if option["source"] == "keep")
    assert mine["upfront_usd"] == 0
    assert 0 < mine["total_usd"] < 500
    assert any(note["name"] == "machine" and "$0" in note["value"] for note in answer["assumptions"])


def test_a_machine_of_several_old_cards_may_be_kept_and_the_reason_is_true() -> None:
    answer = asked("--model", "bert-large", "--have", "4x RTX 2080 Ti")
    assert answer["verdict"].startswith("Keep your 4x RTX 2080 Ti")
    assert "the best card for" not in answer["verdict"]
    assert any("times as fast" in text and text.startswith("an RTX 5090") for text in answer["changes_if"])


def test_without_limits_nobody_is_sold_four_cards() -> None:
    assert max(option["gpu_count"] for option in asked("--task", "kaggle", "--have", "GTX 1060 6GB")["options"]) <= 2


def test_rents_are_a_choice_of_their_own() -> None:
    answer = asked("--rent", "--task", "nlp")
    assert len(answer["options"]) > 3
    assert {option["source"] for option in answer["options"]} == {"rent"}
    assert {"machine", "electricity"}.isdisjoint(note["name"] for note in answer["assumptions"])


def test_the_verdict_says_whether_the_range_keeps_the_deadline() -> None:
    question = ("--model", "bert-large", "--budget", "2500", "--deadline")
    loose = asked(*question, "2 days")
    assert "which meets the deadline of 2 days (enough time for " in loose["verdict"]
    best = loose["options"][0]
    between = f"{(best['run_s'] + best['run_high_s']) / 2 / 3600:.3f}h"
    assert "unless the run is slower than expected" in asked(*question, between)["verdict"]


def test_what_the_supply_at_hand_cannot_feed_is_left_out() -> None:
    question = ("--task", "nlp", "--budget", "1500", "--psu")
    weak, strong = asked(*question, "450"), asked(*question, "1200")
    lines = [line for option in weak["options"] for line in option["build"] if line["verdict"] == "fail"]
    assert all(line["power_limit_watts"] for line in lines)  # a slightly lower power limit is enough
    assert [one["gpu"] for one in weak["rejected"] if "of 450 W" in one["reason"]]
    assert not [one["gpu"] for one in strong["rejected"] if "of 1200 W" in one["reason"]]


def test_a_second_card_that_waits_for_gradients_is_no_gain() -> None:
    (told,) = (text for text in asked("--model", "bert-large", "--budget", "2500")["changes_if"] if "a second" in text)
    assert "would not speed up a single job" in told
    (told,) = (text for text in asked("--budget", "800")["changes_if"] if "a second" in text)
    found = re.search(r"would make a run (1\.\d+) times as fast if your code uses both", told)
    assert found
    assert 1.5 < float(found[1]) < 1.95


def test_two_cards_that_could_have_a_bridge_are_taken_without_it() -> None:
    options = asked("--model", "resnet50", "--budget", "1500", "--price", "RTX 3090=600")["options"]
    pair = next(option for option in options if option["gpu"] == "RTX 3090" and option["gpu_count"] == 2)
    assert any("assumed to have no NVLink bridge" in reason for reason in pair["reasons"])


def test_a_deadline_brings_more_gpus() -> None:
    slow, soon = (
        asked("--model", "gpt2", "--rent", "--samples", "2e6", "--deadline", when)["options"][0] for when in ("9 weeks", "3 h")
    )
    assert soon["run_s"] <= 3 * 3600 < slow["run_s"]
    assert soon["gpu_count"] > 1


def test_laptops_are_whole_computers() -> None:
    answer = asked("--laptop", "--price", "RTX 5070 Laptop=1000", "--budget", "1050", "--resale", "0")
    only = answer["options"][0]
    assert (only["gpu"], only["upfront_usd"], only["build"]) == ("RTX 5070 Laptop", 1000, [])
    assert 1000 < only["total_usd"] < 1000 + 300
    assert not any(note["name"] == "machine" for note in answer["assumptions"])


def test_a_computer_that_is_sold_whole_needs_no_machine_around_it() -> None:
    answer = asked("--model", "llama-2-70b", "--mode", "infer", "--phase", "decode", "--budget", "5000", "--buy")
    only = answer["options"][0]
    assert (only["gpu"], only["gpu_count"], only["build"]) == ("GB10", 1, [])
    assert only["machine_usd"] == pytest.approx(0)
    assert only["upfront_usd"] <= 5000


@pytest.mark.parametrize("question", [("--budget", "1800"), ("--budget", "2200")])
def test_the_answer_turns_at_the_price_it_names(question: tuple[str, ...]) -> None:
    """Asked again with a price just below and just above, the recommendation differs."""
    found = asked(*question)
    turns = [re.match(r"if an? (.*) costs \$([\d,]+) or (more|less) ", text) for text in found["changes_if"]]
    (name, usd, side), *_ = (turn.groups() for turn in turns if turn)
    at = int(usd.replace(",", ""))
    below, above = (asked(*question, "--price", f"{name}={at + more}") for more in (-2, 2))
    same, other = (below, above) if side == "more" else (above, below)
    assert names(same)[0] == names(found)[0] != names(other)[0]


def test_an_older_card_is_shown_at_the_price_that_is_given() -> None:
    answer = asked("--budget", "800", "--price", "RTX 3090 Ti=300", "--max-gpus", "1")
    assert names(answer)[0] == "RTX 3090 Ti"
    assert answer["options"][0]["price"]["kind"] == "given"
    assert "RTX 3090 Ti" not in names(asked("--budget", "800"))


def test_equal_speed_with_more_memory_is_mentioned() -> None:
    prices = ("--price", "RTX 5060 Ti 8GB=300", "--price", "RTX 5060 Ti 16GB=350")
    answer = asked("--task", "learning", "--budget", "400", "--buy", *prices)
    assert answer["options"][0]["gpu"] == "RTX 5060 Ti 8GB"
    more = "more than 8 GiB on one GPU, choose an RTX 5060 Ti 16GB ($350, 16 GB); a run then takes about as long"
    assert any(more in text for text in answer["changes_if"])


def test_renting_that_is_already_cheaper_is_not_told_as_if_it_were_not() -> None:
    found = asked()
    assert re.search(
        r"Renting an? .* is cheaper for up to \d+ hours of use a week(\. At 25 hours a week, |, but .* at 25 hours a week)",
        found["verdict"],
    )
    assert not any("renting" in text for text in found["changes_if"])  # the verdict has said it
    (hours,) = (text for text in asked("--budget", "1500")["changes_if"] if "renting" in text)
    assert "(this answer assumes 25)" in hours


def test_models_are_run_one_after_the_other() -> None:
    first, second = ["--model", "resnet50"], ["--model", "bert-base"]
    answers = [asked(*models, "--buy", "--max-gpus", "1") for models in (first, second, first + second)]
    times = [{option["gpu"]: option["run_s"] for option in answer["options"]} for answer in answers]
    shared = set.intersection(*(set(each) for each in times))
    assert shared
    for name in shared:
        assert times[2][name] == pytest.approx(times[0][name] + times[1][name])


def test_a_large_language_model_is_run_as_what_is_at_hand_allows_and_that_is_said() -> None:
    answer = asked("--model", "llama-3-8b", "--mode", "infer", "--budget", "700")
    (way,) = (note for note in answer["assumptions"] if note["name"] == "method for llama-3-8b")
    assert "faster than with fp16 or 8-bit weights; more bits" in way["effect"]


def test_another_way_than_the_usual_is_told_in_the_verdict_and_of_every_row() -> None:
    answer = asked("--model", "llama-2-7b", "--mode", "train")
    assert "llama-2-7b runs with LoRA adapters (full training needs 131 GiB, even with recomput" in answer["verdict"]
    assert all(option["jobs"][0]["way"] == "lora" for option in answer["options"])
    assert all(any("with LoRA adapters" in reason for reason in option["reasons"]) for option in answer["options"])
    assert "adapters" not in asked("--model", "resnet50")["verdict"]


def test_batch_and_precision_can_be_left_to_each_gpu() -> None:
    free = asked("--model", "resnet50", "--batch", "auto", "--precision", "auto", "--budget", "800")["options"][0]
    fixed = asked("--model", "resnet50", "--batch", "8", "--precision", "fp32", "--budget", "800")["options"][0]
    assert free["samples_per_s"] > fixed["samples_per_s"]
    assert fixed["batch"] == 8


@pytest.mark.usefixtures("quick_captures")
def test_larger_images_take_longer() -> None:
    small, large = (
        asked("--model", "timm:resnet18", "--image", size, "--budget", "300")["options"][0]["run_s"] for size in ("128", "256")
    )
    assert large > 2 * small


@pytest.mark.usefixtures("quick_captures")
def test_your_own_model_is_asked_about_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n\n\ndef Net():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 224 * 224, 10))\n",
        encoding="utf-8",
    )
    answer = asked("--model", f"{tmp_path / 'mine.py'}:Net", "--budget", "600")
    assert answer["options"][0]["fits"]


def test_adapters_are_trained_in_the_same_way_on_every_gpu() -> None:
    """A card with much memory does not seem faster because others recompute activations and it does not."""
    answer = gpuwise.which(budget=1000, model="llama-3-8b", method="qlora")
    paces = [pace for one in answer.every for pace in one.run.paces]
    assert {pace.choices.checkpoint == (0, 0) for pace in paces} == {False}
