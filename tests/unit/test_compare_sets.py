"""Sets of several GPUs in `compare`: one answer must not contradict itself, nor what `predict` says."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import gpuwise
from gpuwise.hardware.catalog import load_catalog
from gpuwise.money import prices as money_prices
from gpuwise.money.costs import more_machine_usd
from gpuwise.money.prices import PriceBook, age_of_machine, price_now
from gpuwise.questions.common.rigs import find_rigs, in_one_machine
from gpuwise.questions.compare.text import render
from gpuwise.questions.compare.types import CompareAnswer, Pair


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


def llama(answer: CompareAnswer) -> Pair:
    return next(pair for pair in answer.pairs if "llama" in pair.workload)


def brief(answer: CompareAnswer) -> str:
    return " ".join(render(answer).split())


# ---------------------------------------------------------------- a model that several GPUs hold together


@pytest.mark.parametrize("small", ["RTX 3080", "RTX 2080 Ti"])
def test_a_language_model_is_split_among_the_gpus_of_a_set(small: str) -> None:
    answer = gpuwise.compare([f"2x {small}", "RTX 4090"])
    common = llama(answer)
    assert common.comparable
    assert "fits only" not in answer.verdict
    asked = llama(gpuwise.compare([f"2x {small}", "RTX 4090"], model=["llama-2-7b"]))
    assert common.ratio == pytest.approx(asked.ratio)
    predicted = gpuwise.predict("llama-2-7b", gpu=small, gpus=2).results[0]
    assert predicted.fits


def test_single_gpus_keep_the_job_that_must_fit_on_each() -> None:
    assert "llama-2-7b decode) fits only on the RTX 4090" in gpuwise.compare(["RTX 3080", "RTX 4090"]).verdict


def test_three_gpus_share_a_model_by_its_layers() -> None:
    answer = gpuwise.compare(["3x RTX 3080", "RTX 4090"])
    assert llama(answer).comparable
    (shared,) = (note for note in answer.assumptions if note.name == "gpus")
    assert shared.value == "3 GPUs share one model"
    (job,) = (note for note in answer.assumptions if note.name == "LLM generation")
    assert job.effect == "prompts of 512 and outputs of 256 tokens, fp16 weights, vLLM"


def test_sets_that_the_engine_of_servers_refuses_share_a_model_in_another_engine() -> None:
    answer = gpuwise.compare(["2x P40", "V100 SXM 32GB"])
    assert all(pair.comparable for pair in answer.pairs if pair.workload.startswith("LLM generation"))
    assert "LLM generation" not in answer.verdict
    (job,) = (note for note in answer.assumptions if note.name == "LLM generation")
    assert job.effect.endswith("llama.cpp")


def test_no_separate_jobs_of_a_model_that_does_not_fit_on_one_gpu() -> None:
    answer = gpuwise.compare(["2x RTX 3080", "RTX 4090"], model=["llama-2-7b"])
    (pair,) = answer.pairs
    assert pair.comparable
    assert pair.ratio_separate is None
    assert "with separate jobs" not in answer.verdict
    assert "2x RTX 3080 cannot run separate jobs" in answer.verdict
    ranked = gpuwise.compare(["RTX 4090", "2x RTX 3080", "2x RTX 2080 Ti"], model=["llama-2-7b"]).verdict
    assert "with separate jobs" not in ranked
    assert "2x RTX 2080 Ti and 2x RTX 3080 cannot run separate jobs" in ranked
    assert [line.split()[-4] for line in render(answer).splitlines() if line.startswith("  llama")] == ["-"]


def test_the_memory_of_a_set_adds_up_where_the_model_is_split() -> None:
    notes = (answer := gpuwise.compare(["2x RTX 3080", "RTX 5090"], model=["llama-2-7b"])).notes + answer.flips
    assert "models that need more than 20 GiB in total fit only on the RTX 5090" in notes
    assert not any("per GPU" in note for note in notes)


def test_gpus_with_different_usual_engines_are_compared_in_one() -> None:
    answer = gpuwise.compare(["GTX 1080 Ti", "RTX 4090"], model=["llama-3.2-1b"])
    assert [note.value for note in answer.assumptions if note.name == "engine"] == ["llama.cpp"]
    given = gpuwise.compare(["GTX 1080 Ti", "RTX 4090"], model=["llama-3.2-1b"], engine="llama.cpp", weights="fp16")
    assert answer.pairs[0].ratio == pytest.approx(given.pairs[0].ratio)


# ---------------------------------------------------------------- machines


def test_all_sets_are_in_the_machine_of_the_largest() -> None:
    (four, two), notes = in_one_machine(find_rigs(["4x RTX 4070", "2x RTX 4090"])[0])
    assert (four.link, two.link) == ("", "PCIe 4.0 x16")
    assert [note.name for note in notes] == ["machine"]
    for names in (["2x RTX 4070", "3x RTX 4090"], ["RTX 4070", "4x RTX 4090"], ["2x A100 SXM 80GB", "8x H100 SXM 80GB"]):
        rigs, notes = in_one_machine(find_rigs(names)[0])
        assert ([rig.link for rig in rigs], notes) == (["", ""], [])


def test_the_machine_is_used_and_named_in_a_brief_answer() -> None:
    answer = gpuwise.compare(["4x RTX 4090", "2x RTX 4090"], model=["bert-base"])
    own = gpuwise.predict("bert-base", gpu="RTX 4090", gpus=2, mode="train").results[0]
    base = gpuwise.predict("bert-base", gpu="RTX 4090", gpus=4, mode="train").results[0]
    assert answer.pairs[0].ratio > 1.2 * own.samples_per_s / base.samples_per_s
    assert "machine = the same for all sets (PCIe x16 for each GPU)" in brief(answer)


# ---------------------------------------------------------------- order and reasons


def test_a_reason_for_sets_points_to_the_faster_one() -> None:
    pairs = gpuwise.compare(["4x RTX 4070", "2x RTX 4090"]).pairs
    told = [pair for pair in pairs if pair.ratio < 0.95 and "; the RTX 4090 has 2." in pair.why]
    assert told
    assert all("2x RTX 4090 are compared with 4x RTX 4070" in pair.why for pair in told)


def test_equal_speeds_are_no_wins_and_turn_nothing() -> None:
    sets = (["2x RTX 3080", "RTX 4090"], ["2x RTX 3070", "RTX 4080"], ["2x RTX 4070", "RTX 4090"], ["2x RTX 2080 Ti", "RTX 4080"])
    for answer in map(gpuwise.compare, sets):
        ratios = [pair.ratio for pair in answer.pairs if pair.comparable]
        if any(1 / 1.03 < ratio < 1.03 for ratio in ratios) and " and slower on " in answer.verdict:
            break
    else:
        pytest.fail("none of these sets is as fast as its card on any workload")
    won, lost = sum(ratio > 1.03 for ratio in ratios), sum(ratio < 1 / 1.03 for ratio in ratios)
    assert f"on {won} of {len(ratios)} workloads and slower on {lost}" in answer.verdict


def test_more_of_the_same_gpu_have_one_ratio_and_no_doubt() -> None:
    verdict = gpuwise.compare(["M4 Max 40-core", "2x M4 Max 40-core"]).verdict
    assert verdict.startswith("With one job, 2x M4 Max 40-core are ")
    assert "with separate jobs, they are 2.0 times as fast" in verdict
    assert "was measured" not in verdict
    ranked = gpuwise.compare(["RX 7900 XTX", "2x RX 7900 XTX", "4x RX 7900 XTX"], model=["resnet50"]).verdict
    assert "less accurate" not in ranked


# ---------------------------------------------------------------- prices


def test_sets_are_priced_whole_and_not_by_the_speed_of_one_job() -> None:
    answer = gpuwise.compare(["RTX 3090", "RTX 3090 + RTX 2080 Ti"])
    assert answer.deals[1].even_usd is None
    assert not any("better buy" in note for note in answer.notes)
    usd = [f"${deal.price_usd:,.0f}" for deal in answer.deals]
    assert answer.notes[0].startswith(f"the RTX 3090 costs {usd[0]} and RTX 3090 + RTX 2080 Ti cost {usd[1]} (")
    assert answer.notes[0] in brief(answer)
    as_many = gpuwise.compare(["2x RTX 3090", "2x RTX 4090"], model=["resnet50"])
    assert any("better buy" in note for note in as_many.notes)


def test_prices_that_offer_the_same_speed_for_the_money_decide_nothing() -> None:
    names = ["RTX 4070 Ti", "RTX 3090"]
    even = gpuwise.compare(names, model=["resnet50"], price=["RTX 4070 Ti=800"]).deals[1].even_usd
    assert even
    for usd, said in (
        (even * 1.01, "so both offer the same speed for the money"),
        (even * 1.1, "would be the better buy at any price below $"),
    ):
        notes = gpuwise.compare(names, model=["resnet50"], price=["RTX 4070 Ti=800", f"RTX 3090={usd:.2f}"]).notes
        assert said in notes[0]


def test_a_laptop_is_not_weighed_against_a_card() -> None:
    answer = gpuwise.compare(["RTX 4060", "RTX 4060 Laptop"], model=["resnet50"])
    assert answer.deals[1].even_usd is None
    assert answer.deals[1].value is None
    assert not any("$" in note or "price" in note for note in answer.notes)


def test_prices_of_one_month_have_one_age() -> None:
    answer = gpuwise.compare(["2x RTX 3080", "RTX 4090"], model=["resnet50"])
    assert {deal.price_note for deal in answer.deals} == {"used price in 2026-09, two months old"}
    assert answer.notes[0].endswith("(used prices in 2026-09, two months old)")


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("2x RTX 3080", "RTX 4090"), ("2x RTX 3080 cost $", "more than 10 GiB per GPU")),
        (("GTX 1080 Ti", "RTX 2060"), ("the RTX 2060 costs $", "unless your models need more than 6 GiB")),
        (("RTX 4090", "2x RTX 3080", "4x RTX 2080 Ti"), ("the RTX 4090 costs $", "fit only on the RTX 4090")),
    ],
)
def test_a_brief_answer_keeps_prices_and_memory(names: tuple[str, ...], shown: tuple[str, ...]) -> None:
    answer = gpuwise.compare(names)
    assert len(render(answer).splitlines()) <= 25
    for text in shown:
        assert text in brief(answer)


# ---------------------------------------------------------------- odds and memory of single GPUs


def test_the_odds_agree_with_the_ratio() -> None:
    answer = gpuwise.compare(["RX 7900 XTX", "RTX 4080"], model=["resnet50"])
    (pair,) = answer.pairs
    assert pair.ratio < 0.95
    assert pair.probability < 0.5
    order = f"The RX 7900 XTX is probably {1 / pair.ratio:.2f} times as fast as the RTX 4080"
    assert answer.verdict.startswith(f"{order} ({1 - pair.probability:.0%} likely to be faster)")


@pytest.mark.parametrize(("less", "more"), [("H100 SXM 80GB", "H200"), ("RTX 5090", "RTX PRO 6000 Blackwell")])
def test_the_better_gpu_of_an_architecture_is_ahead_without_odds(less: str, more: str) -> None:
    for names in ([less, more], [more, less]):
        answer = gpuwise.compare(names, model=["resnet50"])
        assert "likely" not in answer.verdict
        assert answer.verdict.startswith(f"The {more} is ")
    assert answer.pairs[0].ratio_high == pytest.approx(1.0)


def test_a_difference_that_nobody_notices_is_a_tie_even_where_the_order_is_known() -> None:
    verdict = gpuwise.compare(["RTX 4060 Ti 8GB", "RTX 4060 Ti 16GB"], model=["resnet18"]).verdict
    assert " are tied: " in verdict


def test_layers_on_the_cpu_are_not_called_fitting() -> None:
    verdict = gpuwise.compare(["M4 Max 40-core", "RTX 4090"], model=["llama-3-70b"], weights="q4_k_m").verdict
    assert "llama-3-70b fits only on the M4 Max 40-core; the RTX 4090 runs 44% of the layers of llama-3-70b on the CPU" in verdict


def test_shared_memory_has_no_second_memory_for_layers_on_the_cpu() -> None:
    answer = gpuwise.compare(["M4 Max 40-core", "RTX 4090"], model=["llama-3-70b"], weights="fp16")
    assert answer.verdict == "llama-3-70b does not fit on the M4 Max 40-core or the RTX 4090."
    assert "CPU" not in answer.pairs[0].why
    told = gpuwise.predict("llama-3-70b", gpu="M4 Max 40-core", weights="fp16").results[0]
    assert not told.fits
    found = str(gpuwise.fit("llama-3-70b", gpu="M4 Max 40-core", weights="fp16").to_dict())
    assert "layers on the CPU" not in found


def test_three_or_more_desktop_cards_need_a_machine_that_is_told_with_its_price() -> None:
    def told(*gpus: str) -> list[str]:
        return [note for note in gpuwise.compare(list(gpus), model=["resnet18"]).notes if "more than a plain desktop" in note]

    book = PriceBook.of(prices=(), file=None, currency="")
    card, other = (load_catalog().find(name).gpu for name in ("RTX 4070", "RTX 3090"))
    age, older = (age_of_machine(gpu, price_now(gpu, book), book.today) for gpu in (card, other))
    (said,) = told("4x RTX 4070", "2x RTX 4090")
    assert said.startswith(
        f"4x RTX 4070 need a machine that costs about ${more_machine_usd(card, 4, age):,.0f} more than a plain desktop"
    )
    assert '`gpuwise build --gpu "4x RTX 4070"` checks such a machine' in said
    (said,) = told("3x RTX 3090", "8x RTX 3090")
    assert f"and 8x RTX 3090 need a machine that costs about ${more_machine_usd(other, 8, older):,.0f} more" in said
    assert not told("2x RTX 4070", "RTX 4090")
    assert not told("8x A100 SXM 80GB", "4x H100 SXM")


# ---------------------------------------------------------------- larger batches, groups and servers


def test_larger_batches_and_accumulation_are_computed_where_gradients_are_exchanged() -> None:
    answer = gpuwise.compare(["RTX 4090", "2x RTX 4090"], model="vit_large")
    (said,) = [flip for flip in answer.flips if "accumulated" in flip]
    (larger,) = gpuwise.compare(["RTX 4090", "2x RTX 4090"], model="vit_large", batch="auto").pairs
    assert f"{larger.ratio:.2f} times as fast with a batch of {larger.batch}" in said
    alone, two = (
        gpuwise.predict("vit_large", mode="train", gpu="RTX 4090", gpus=count, batch=256, accumulate=8).results[0]
        for count in (1, 2)
    )
    assert f"{two.samples_per_s / alone.samples_per_s:.2f} times as fast with gradients accumulated over 8" in said


def test_nothing_is_said_of_batches_where_no_gradients_are_exchanged() -> None:
    answer = gpuwise.compare(["RTX 4090", "RTX 3090"], model="vit_base")
    assert not [flip for flip in answer.flips if "accumulated" in flip]


@pytest.mark.parametrize("batch", [None, "auto"])
def test_no_reason_says_that_a_gpu_has_as_much_as_itself(batch: str | None) -> None:
    (pair,) = gpuwise.compare(["RTX 4090", "2x RTX 4090"], model="vit_large", batch=batch).pairs
    assert "1.00 times" not in pair.why
    assert "limited by" in pair.why


def test_many_users_are_served_in_groups_where_that_generates_more_text() -> None:
    asked = {"model": "llama-3-70b", "weights": "fp8"}
    answer = gpuwise.compare(["8x RTX PRO 6000 Blackwell", "4x H100 SXM"], users=64, **asked)
    whole, pairs = (
        gpuwise.predict(asked["model"], weights="fp8", gpu="RTX PRO 6000 Blackwell", gpus=gpus, users=users).results[0].generation
        for gpus, users in ((8, 64), (2, 16))
    )
    assert 4 * pairs.tokens_per_s > 1.2 * whole.tokens_per_s
    assert any("8x RTX PRO 6000 Blackwell as 4 groups of 2 GPUs with 16 users each" in note for note in answer.notes)
    halves = gpuwise.predict(asked["model"], weights="fp8", gpu="H100 SXM", gpus=2, users=32).results[0].generation
    assert answer.pairs[0].ratio == pytest.approx(2 * halves.tokens_per_s / (4 * pairs.tokens_per_s), rel=1e-3)


def test_modules_pay_for_their_share_of_a_server_as_in_cost() -> None:
    answer = gpuwise.compare(["8x RTX PRO 6000 Blackwell", "4x H100 SXM"], model="llama-3-70b", weights="fp8", users=64)
    owned = gpuwise.cost(gpu="H100 SXM", gpus=4).to_dict()["own"]["machine_usd"]
    assert any(f"${owned:,.0f} for 4x H100 SXM 80GB (4 of the 8 GPUs that a server holds)" in note for note in answer.notes)


def test_a_brief_comparison_of_three_has_prices_and_says_which_is_a_module() -> None:
    text = brief(gpuwise.compare(["Tesla V100 32GB", "RTX 3090", "Tesla P40"]))
    assert "the V100 SXM 32GB is a module for servers, not a card" in text
    assert all(f"W, ${price}" in text for price in ("669 used", "1,104 used", "295 used"))
    assert "but it is not recommended" in text
