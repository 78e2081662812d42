"""`gpuwise which`, asked well."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpuwise.advise.choosing import shortfall
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.questions.which.answer import choose
from gpuwise.questions.which.ask import ask
from gpuwise.questions.which.options import WhichOptions
from gpuwise.surfaces.cli.app import app

CONTRACT = {"verdict", "options", "rejected", "changes_if", "assumptions", "data_date"}
OF_AN_OPTION = {
    *("gpu", "gpu_count", "source", "fits", "step_s", "samples_per_s", "upfront_usd", "total_usd"),
    *("usd_per_million_samples", "kg_co2e", "build", "reasons"),
}


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


def asked(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["which", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["which", *arguments, "-v"], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.output.split())


def names(answer: dict[str, Any]) -> list[str]:
    return [option["gpu"] for option in answer["options"]]


# ---------------------------------------------------------------- answers


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
    assert not {one["gpu"] for one in answer["rejected"]} & {option["gpu"] for option in answer["options"]}


def test_nothing_faster_is_said_only_where_no_row_is_faster() -> None:
    answer = asked("--model", "bert-large", "--budget", "2500", "--have", "GTX 1080 Ti", "--hours-per-week", "20")
    best, *others = answer["options"]
    faster = any(other["run_s"] < best["run_s"] for other in others if other["source"].startswith("buy"))
    assert ("no faster single card costs" if faster else "no faster option costs") in answer["verdict"]
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
    assert "which meets the deadline of 2 days;" in loose["verdict"]
    best = loose["options"][0]
    between = f"{(best['run_s'] + best['run_high_s']) / 2 / 3600:.3f}h"
    assert "unless the run is slower than expected" in asked(*question, between)["verdict"]


def test_the_verdict_says_what_the_supply_at_hand_lacks() -> None:
    question = ("--task", "nlp", "--budget", "1500", "--psu")
    assert "It does not work with your power supply: " in asked(*question, "450")["verdict"]
    assert "does not work" not in asked(*question, "1200")["verdict"]


def test_a_second_card_that_waits_for_gradients_is_no_gain() -> None:
    (told,) = (text for text in asked("--model", "bert-large", "--budget", "2500")["changes_if"] if "a second" in text)
    assert "would not speed up a single job" in told
    (told,) = (text for text in asked("--budget", "800")["changes_if"] if "a second" in text)
    found = re.search(r"would make a run (1\.\d+) times as fast if your code uses both", told)
    assert found
    assert 1.5 < float(found[1]) < 1.95


def test_two_cards_that_could_have_a_bridge_are_taken_without_it() -> None:
    options = asked("--model", "resnet50", "--budget", "2500")["options"]
    pair = next(option for option in options if option["gpu"] == "RTX 3090" and option["gpu_count"] == 2)
    assert any("no NVLink bridge is assumed" in reason for reason in pair["reasons"])


def test_a_deadline_brings_more_gpus() -> None:
    slow, soon = (
        asked("--model", "gpt2", "--rent", "--samples", "2e6", "--deadline", when)["options"][0] for when in ("9 weeks", "3 h")
    )
    assert soon["run_s"] <= 3 * 3600 < slow["run_s"]
    assert soon["gpu_count"] > 1


def test_laptops_are_whole_computers() -> None:
    answer = asked("--laptop", "--price", "RTX 5070 Laptop=1400", "--budget", "1500")
    (only,) = answer["options"]
    assert (only["gpu"], only["upfront_usd"], only["build"]) == ("RTX 5070 Laptop", 1400, [])
    assert only["total_usd"] < 1400 + 300
    assert not any(note["name"] == "machine" for note in answer["assumptions"])


def test_a_computer_that_is_sold_whole_needs_no_machine_around_it() -> None:
    answer = asked("--model", "llama-2-70b", "--mode", "infer", "--phase", "decode", "--budget", "4000")
    only = answer["options"][0]
    assert (only["gpu"], only["gpu_count"], only["build"]) == ("GB10", 1, [])
    assert only["total_usd"] < 3999 + 500


def test_used_cards_without_a_price_are_told_with_what_they_are_worth() -> None:
    text = next(text for text in asked("--budget", "800")["changes_if"] if text.startswith("these used cards"))
    assert "RTX 3090 Ti (24 GB) $" in text
    assert asked("--budget", "800", "--price", "RTX 3090 Ti=300")["options"][0]["gpu"] != "RTX 5060"
    assert "RTX 3090 Ti" in names(asked("--budget", "800", "--price", "RTX 3090 Ti=300"))


def test_equal_speed_with_more_memory_is_mentioned() -> None:
    answer = asked("--task", "learning", "--budget", "500")
    assert answer["options"][0]["gpu"] == "RTX 5060 Ti 8GB"
    assert any("RTX 5060 Ti 16GB, which is just as fast and has 16 GB instead of 8 GB" in text for text in answer["changes_if"])


def test_renting_that_is_already_cheaper_is_not_told_as_if_it_were_not() -> None:
    found = asked()
    assert re.search(r"Renting an? .* is cheaper for up to \d+ hours of use a week: at 25 hours, ", found["verdict"])
    assert not any("renting" in text for text in found["changes_if"])  # the verdict has said it
    (hours,) = (text for text in asked("--budget", "1500")["changes_if"] if "renting" in text)
    assert "(this answer counts 25)" in hours


def test_models_are_run_one_after_the_other() -> None:
    first, second = ["--model", "resnet50"], ["--model", "bert-base"]
    answers = [asked(*models, "--buy", "--max-gpus", "1") for models in (first, second, first + second)]
    times = [{option["gpu"]: option["run_s"] for option in answer["options"]} for answer in answers]
    shared = set.intersection(*(set(each) for each in times))
    assert shared
    for name in shared:
        assert times[2][name] == pytest.approx(times[0][name] + times[1][name])


def test_a_large_language_model_is_run_as_what_is_at_hand_allows_and_that_is_said() -> None:
    answer = asked("--task", "llm-inference", "--budget", "700")
    (way,) = (note for note in answer["assumptions"] if note["name"] == "way of llama-3-8b")
    assert "it would fit smaller GPUs with weights in 8 bits or with weights in 4 bits" in way["effect"]


def test_another_way_than_the_usual_is_told_in_the_verdict_and_of_every_row() -> None:
    answer = asked("--model", "llama-2-7b")
    assert "llama-2-7b runs with LoRA adapters (full training needs 142 GiB, " in answer["verdict"]
    assert all(option["jobs"][0]["way"] == "lora" for option in answer["options"])
    assert all(any("with LoRA adapters" in reason for reason in option["reasons"]) for option in answer["options"])
    assert "adapters" not in asked("--model", "resnet50")["verdict"]


@pytest.mark.parametrize(
    "question",
    [
        {"model": ["resnet50"]},
        {"model": ["llama-2-7b"]},
        {"model": ["llama-2-13b"]},
        {"model": ["resnet50"], "hours_per_week": 2.0},
        {"model": ["resnet50"], "hours_per_week": 60.0},
        {"model": ["resnet50"], "have": ["RTX 3090"]},
        {"model": ["resnet50"], "deadline": "10min"},
        {"task": "llm-finetune"},
        {},
    ],
)
def test_what_the_verdict_says_of_costs_holds_against_every_row(question: dict[str, Any]) -> None:
    found = choose(ask(WhichOptions(**question), today=date(2026, 11, 16)))
    limits = found.query.limits
    able = [one for one in found.every if one.usd_per_run is not None and not shortfall(one, limits)]
    sold = [one for one in able if one.kind.startswith("buy")]
    named = found.best if found.best else min(found.options, key=lambda one: one.usd_per_run or 0.0)
    own = named.usd_per_run or 0.0
    assert "over the years" not in found.verdict
    if "of all single cards on sale" in found.verdict and named.kind != "keep":
        assert own == min(one.usd_per_run or 0.0 for one in sold if one.gpu_count == 1)
    if "of all cards on sale" in found.verdict and named.kind != "keep":
        assert own == min(one.usd_per_run or 0.0 for one in sold)
    if "on any card on sale" in found.verdict:
        assert own < 0.5 * min(one.usd_per_run or 0.0 for one in sold)
    rents = [one for one in able if one.kind == "rent" and (one.usd_per_run or 0.0) < 0.99 * own]
    if named.kind.startswith("buy"):
        assert ("Renting" in found.verdict) == bool(rents)


@pytest.mark.parametrize(
    "arguments",
    [(), ("--machine", "450", "--kwh-price", "0.31"), ("--rent",), ("--have", "RTX 3090"), ("--tariff", "200=0.10,600=0.44")],
)
def test_the_parts_of_the_whole_cost_are_told_and_add_up(arguments: tuple[str, ...]) -> None:
    answer = asked("--model", "resnet50", *arguments)
    for option in answer["options"]:
        gpus = option["gpu_count"] * (option["price"] or {}).get("usd", 0.0)
        assert gpus + option["machine_usd"] + option["running_usd"] == pytest.approx(option["total_usd"])
        if option["source"] != "rent":
            assert option["usd_per_kwh"] * option["energy_kwh"] == pytest.approx(option["running_usd"])
    text = told("--model", "resnet50", *arguments)
    assert re.search(r"How the total adds up: 3 years of [^=]* = \$[\d,]+", text)
    if "450" in arguments:
        assert "$450 for the rest of the machine + " in text
        assert " kWh x $0.310 = " in text


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


# ---------------------------------------------------------------- money


def test_everything_is_told_in_the_users_currency() -> None:
    text = told(
        "--task", "vision", "--budget", "1500", "--currency", "EUR=1.08", "--tariff", "200=0.10,600=0.44", "--region", "DE"
    )
    assert "$" not in text
    assert "EUR" in text


def test_json_stays_in_dollars() -> None:
    euros, dollars = asked("--budget", "800", "--currency", "EUR=1.25"), asked("--budget", "1000")
    assert [option["upfront_usd"] for option in euros["options"]] == [option["upfront_usd"] for option in dollars["options"]]


def test_an_own_price_counts_before_any_other() -> None:
    answer = asked("--budget", "800", "--price", "RTX 5090=790")
    assert answer["options"][0]["gpu"] == "RTX 5090"
    assert answer["options"][0]["price"]["kind"] == "given"


def test_a_machine_that_is_to_be_bought_too_counts_in_the_budget() -> None:
    with_it, without = asked("--budget", "1500", "--machine", "800"), asked("--budget", "1500")
    assert with_it["options"][0]["upfront_usd"] <= 1500
    assert with_it["options"][0]["run_s"] > without["options"][0]["run_s"]


# ---------------------------------------------------------------- nothing keeps to the limits: an answer


def test_nothing_within_the_budget_names_the_nearest_that_would_do() -> None:
    answer = asked("--budget", "100", "--task", "kaggle")
    assert answer["options"] == []
    assert answer["verdict"].startswith("No option costs $100 or less; the cheapest that fits is an RTX 5050 for $249")
    assert answer["rejected"][0]["gpu"] == "RTX 5050"


def test_used_only_with_too_little_money_says_how_to_count_another_card() -> None:
    verdict = asked("--used", "--budget", "600")["verdict"]
    assert "RTX 3090 for $700" in verdict
    assert "--price" in verdict


def test_a_budget_for_things_without_a_price_says_so() -> None:
    verdict = asked("--laptop", "--budget", "1500")["verdict"]
    assert "inf" not in verdict
    assert "--price" in verdict


def test_nothing_in_time_names_the_fastest() -> None:
    assert "No option meets the deadline: even the fastest" in asked("--model", "gpt2", "--deadline", "1 min")["verdict"]


def test_nothing_that_fits_says_what_is_needed() -> None:
    verdict = asked("--model", "llama-2-70b", "--buy", "--vendor", "intel")["verdict"]
    assert "Nothing fits" in verdict
    assert "GiB" in verdict


# ---------------------------------------------------------------- what is said of the others is so


@pytest.mark.parametrize(
    "question",
    [
        {"budget": 2500.0, "task": "nlp"},
        {"task": "rnn"},
        {"model": ["bert-large"], "have": ["4x RTX 2080 Ti"]},
        {"task": "nlp", "rent": True},
    ],
)
def test_every_reason_to_leave_an_option_out_is_true(question: dict[str, Any]) -> None:
    found = choose(ask(WhichOptions(**question), today=date(2026, 11, 16)))
    kinds = {"rent"} if question.get("rent") else {"buy new", "buy used"}
    every = {option.name: option for option in found.every if option.kind in kinds}
    held = 0
    for name, reason in found.rejected:
        if name not in every:  # a set that no usual machine carries
            continue
        if reason.startswith("slower and more expensive than ") and "renting" not in reason:
            one, other = every[name], every[reason.removeprefix("slower and more expensive than ")]
            assert other.run.seconds <= one.run.seconds
            assert (other.total_usd or 0) <= (one.total_usd or 0)
            held += 1
        elif reason.endswith("over the budget"):
            assert (every[name].upfront_usd or 0) > question["budget"]
        elif "does not fit" in reason:
            assert not every[name].run.fits
    assert held


# ---------------------------------------------------------------- what does not fit as asked


def test_what_does_not_fit_as_asked_gets_the_remedies_of_fit() -> None:
    found = asked("--model", "gpt2-xl", "--budget", "800", "--max-gpus", "1")
    (first, *_) = found["remedied"]
    assert first["gpu"] == "RTX 3090"
    told = json.loads(CliRunner().invoke(app, ["fit", "gpt2-xl", "--gpu", "RTX 3090", "--json"]).stdout)
    assert [one["title"] for one in first["remedies"]] == [rung["title"] for rung in told["ladder"]]
    last, rung = first["remedies"][-1], told["ladder"][-1]
    assert (last["step_s"], last["cost"]) == (pytest.approx(rung["step_s"]), pytest.approx(rung["cost"]))
    assert first["run_s"] == pytest.approx(1e6 / told["batch"] * rung["step_s"])
    assert first["needed_bytes"] == rung["memory_bytes"]
    assert re.search(r"an RTX 3090 \(\$700, .*\) can run it as you asked", found["verdict"])
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
    assert first["text"].startswith("your RTX 3090 can hold gpt2-xl at batch ")
    assert first in (found["remedied"] if budget else found["remedied"][:1])
    assert "times as fast as on your RTX 3090" not in found["verdict"]  # without remedies it does not run there


def test_the_batch_that_was_taken_is_told() -> None:
    notes = {note["name"]: note["value"] for note in asked("--model", "gpt2-xl", "--buy")["assumptions"]}
    assert notes["batch"] == "4"
    assert "batch" not in {note["name"] for note in asked("--model", "gpt2-xl", "--batch", "2")["assumptions"]}


def test_a_batch_that_fits_in_parts_only_is_one_step_of_parts() -> None:
    for option in asked("--model", "gpt2-xl", "--buy", "--max-gpus", "1")["options"]:
        assert option["batch"] == 4
        assert option["run_s"] == pytest.approx(1e6 / 4 * option["step_s"])


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
    found = asked("--model", "llama-2-7b", "--mode", "infer", "--budget", "1500")
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
    assert any(option["gpu"] == "RTX 5070 Ti" for option in any_size["options"])
    names = {option["gpu"] for option in large["options"]}
    assert names
    assert all(load_catalog().find(name).gpu.memory_bytes >= 24 * 2**30 for name in names)
