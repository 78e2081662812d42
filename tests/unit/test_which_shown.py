"""`gpuwise which` as text and as charts."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner
from which_asked import asked

import gpuwise
from gpuwise.questions.which.answer import choose
from gpuwise.questions.which.ask import ask
from gpuwise.questions.which.figure import choices_figure
from gpuwise.questions.which.options import CHARTS, WhichOptions
from gpuwise.questions.which.text import render
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.render.svg import draw
from gpuwise.surfaces.cli.app import app


@pytest.fixture(scope="module")
def answer() -> WhichAnswer:
    return choose(ask(WhichOptions(budget=2500.0, task="nlp", have=["GTX 1080 Ti"]), today=date(2026, 11, 16)))


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_longer_than_the_terminal(answer: WhichAnswer, width: int) -> None:
    lines = render(answer, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("> ") for line in lines)


@pytest.mark.parametrize("chart", CHARTS)
def test_every_chart_is_drawn_and_carries_its_date(answer: WhichAnswer, chart: str) -> None:
    text = draw(choices_figure(answer, chart))
    assert text.startswith("<svg")
    assert answer.data_date.isoformat() in text
    assert answer.best is not None
    assert answer.best.gpu.name in text
    assert "inf" not in text.replace("inference", "")


def test_a_chart_is_written_beside_the_answer(tmp_path: Path) -> None:
    arguments = ["--budget", "800", "--figure", str(tmp_path / "out.svg"), "--chart", "value", "--currency", "EUR=1.08"]
    assert CliRunner().invoke(app, ["which", *arguments], catch_exceptions=False).exit_code == 0
    text = (tmp_path / "out.svg").read_text(encoding="utf-8")
    assert "EUR per run" in text
    assert "$" not in text


@pytest.mark.parametrize("question", [("--budget", "2500"), ("--model", "resnet50", "--budget", "5000", "--psu", "650")])
def test_the_build_column_says_what_build_says(question: tuple[str, ...]) -> None:
    psu = question[question.index("--psu") :] if "--psu" in question else ()
    shown = [option for option in asked(*question)["options"] if option["build"]]
    assert shown
    for option in shown:
        name = f"{option['gpu_count']}x {option['gpu']}"
        told = json.loads(CliRunner().invoke(app, ["build", "--gpu", name, *psu, "--json"]).stdout)
        assert [line["verdict"] for line in option["build"]] == [line["verdict"] for line in told["lines"]]


def test_laptops_without_prices_are_listed_although_the_budget_cannot_be_checked() -> None:
    found = asked("--laptop", "--vendor", "amd", "--budget", "1500")
    assert "the budget of $1,500 cannot be checked" in found["verdict"]
    assert found["options"]
    assert all(option["upfront_usd"] is None for option in found["options"])


def test_what_is_tight_is_named_in_the_table() -> None:
    text = CliRunner().invoke(app, ["which", "-v"], env={"COLUMNS": "200"}).stdout
    (row,) = (line for line in text.splitlines() if line.strip().startswith("RTX 5090 "))
    assert row.endswith("tight: loader")
    assert "tight means that it works if you address the named item" in " ".join(text.split())


def test_a_budget_tells_what_it_rents_and_how_it_counts_rent() -> None:
    found = asked("--model", "resnet50", "--budget", "800")
    rents = [one for one in found["looked_at"] if one["source"] == "rent" and one["fits"] and one["gpu_count"] == 1]
    best = min(rents, key=lambda one: one["usd_per_run"])
    hours = 800 / (best["total_usd"] / (8760 * 0.15 * 3))
    assert f"For $800, you could instead rent an {best['gpu']} for {hours:,.0f} hours " in found["verdict"]
    assert f"{800 / best['usd_per_run']:,.0f} runs" in found["verdict"]
    notes = {note["name"]: note["effect"] for note in found["assumptions"]}
    assert "all 3 years" in notes["budget"]
    assert (
        "a dearer one must be at least 2% faster, or more than 11% faster if the cheaper one costs at most 85%" in notes["rule"]
    )
    assert "several GPUs must be 1.5 times as fast as a cheaper single one" in notes["rule"]
    assert "only if a GPU at least 90% as fast costs less than 75% as much per run to rent as to buy" in notes["rule"]
    assert "could instead rent" not in asked("--model", "resnet50", "--budget", "800", "--buy")["verdict"]


def test_the_verdict_compares_with_renting_once_and_never_with_a_gpu_slower_than_the_own_one() -> None:
    question = ("--model", "bert-large", "--budget", "2500", "--hours-per-week", "20")
    both = asked(*question, "--have", "GTX 1080 Ti")["verdict"]
    assert "Renting an RTX 5090 is cheaper" in both
    assert "could instead rent" not in both
    kept = asked("--have", "RTX 3090", "--budget", "1000")
    mine = kept["options"][0]
    faster = [one["gpu"] for one in kept["looked_at"] if one["source"] == "rent" and mine["run_s"] >= 1.3 * one["run_s"]]
    assert any(f"could instead rent an {name} for" in kept["verdict"] for name in faster)
    assert all(one["run_s"] < mine["run_s"] for one in kept["options"] if one["source"] == "rent")


@pytest.mark.parametrize("question", [("--budget", "500"), ("--budget", "800"), ("--model", "bert-base", "--vendor", "intel")])
def test_being_slower_and_dearer_is_true_of_no_row_that_is_shown(question: tuple[str, ...]) -> None:
    found = asked(*question)
    assert any(one["reason"] for one in found["rejected"])
    shown = [one for one in found["options"] if one["source"].startswith("buy") and "the verdict" not in one["reasons"]]
    for one in shown:
        others = [other for other in shown if other is not one]
        assert not [o for o in others if o["run_s"] <= one["run_s"] and o["total_usd"] <= one["total_usd"]], one["gpu"]


def test_without_a_question_a_card_left_out_is_told_what_its_money_buys() -> None:
    found = asked()
    picks = {one["gpu"]: one for one in found["options"]}
    told = [one["reason"].partition(" is better")[0] for one in found["rejected"] if " is better: " in one["reason"]]
    assert len(told) > 50
    assert all(reason.split(" an ")[-1].split(" a ")[-1] in picks for reason in told)
    others = [one["reason"] for one in found["rejected"] if " is better: " not in one["reason"]]
    known = (
        "costs more than $9,000",
        "does not fit",
        "no fan",
        "eight-pin plugs",
    )  # out of reach, or no typical machine takes it
    assert [reason for reason in others if not any(words in reason for words in known)] == []


def test_several_cards_are_not_offered_for_a_single_image() -> None:
    alone = gpuwise.which(model=["sdxl"], budget="700")
    assert all(option.gpu_count == 1 for option in alone.options)
    assert any(note.name == "GPUs" for note in alone.assumptions)
    many = gpuwise.which(model=["sdxl"], budget="700", samples=100_000)
    assert any(option.gpu_count > 1 for option in many.every)
    if many.best and many.best.gpu_count > 1:
        assert "an image is done every" in many.verdict


@pytest.mark.parametrize("options", [WhichOptions(), WhichOptions(task="learning", budget=800.0), WhichOptions(budget=5.0)])
def test_the_parts_of_a_verdict_say_what_the_whole_says(options: WhichOptions) -> None:
    found = choose(ask(options, today=date(2026, 11, 16))).to_dict()
    assert found["said"][0]["about"] == "pick"
    assert all(part["text"].endswith(".") and part["text"].strip(".")[1:] in found["verdict"] for part in found["said"])
    named = [option["gpu"] for option in found["options"] if option["recommended"]]
    assert len(named) == (options.budget != 5.0)
    assert all(name in found["said"][0]["text"] for name in named)


def test_a_faster_set_that_is_shown_is_not_passed_over_in_silence() -> None:
    answer = gpuwise.which(budget=800, task="vision")
    best = answer.best
    assert best is not None
    quicker = [one for one in answer.options if one.run.seconds < 0.9 * best.run.seconds]
    assert quicker
    first = min(quicker, key=lambda one: one.run.seconds)
    assert f"{first.name} would be " in answer.verdict
    held = f"each of these cards has only {first.gpu.memory_bytes / 2**30:.0f} GB"
    assert (held in answer.verdict) == (first.gpu.memory_bytes < best.gpu.memory_bytes)


def test_labs_learn_how_many_tokens_their_servers_train() -> None:
    answer = gpuwise.which(budget=2_000_000, model="llama-3-8b", mode="train")
    best = answer.best
    assert best is not None
    tokens = best.run.samples_per_s * 1024 * answer.query.terms.hours * 3600
    assert f"they train llama-3-8b in full on {tokens / 1e12:.2g} trillion tokens" in answer.verdict
    assert f"at ${(best.total_usd or 0.0) / tokens * 1e6:.2g} per million" in answer.verdict


def test_doubt_about_a_recommendation_is_told_with_it() -> None:
    transformers, llamacpp = (
        gpuwise.which(budget=1200, vendor="amd", model="llama-3-8b", weights=weights, engine=engine).verdict
        for weights, engine in (("fp16", "transformers"), ("q4_k_m", "llama.cpp"))
    )
    assert "in which no AMD GPU was measured" in transformers
    assert "was measured" not in llamacpp
    assert "was measured" not in gpuwise.which(budget=1200, model="llama-3-8b").verdict
    assert "has no bf16" in gpuwise.which(budget=2000, model="llama-3.3-70b", weights="int4").verdict
    assert "slower than most people read" in gpuwise.which(budget=3000, vendor="apple", model="llama-3.3-70b").verdict
