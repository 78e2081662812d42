"""Answers that a buyer once had a reason not to act on, each with the fact that settles it."""

from __future__ import annotations

from datetime import date

import pytest

import gpuwise
from gpuwise.advise.choosing import CLEARLY_CHEAPER, NEARLY, UserLimits, select, shortfall
from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.specs import gpu_from_text
from gpuwise.hardware.types import supported
from gpuwise.money.prices import PriceBook, kind_and_age, price_now
from gpuwise.questions.which.types import WhichAnswer
from making_candidates import adding_up, buy

# ---------------------------------------------------------------- which


def test_a_card_may_recompute_activations_where_another_need_not() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], method="full", rent=True, max_gpus=1, seq=4096, batch=8)
    jobs = [option["jobs"][0] for option in answer.to_dict()["options"]]
    assert {job["way"] for job in jobs} == {"usual", "checkpoint"}
    assert all(job["fits"] for job in jobs)


def test_the_best_option_sold_new_runs_the_job_in_the_same_way() -> None:
    full = gpuwise.which(model=["gpt2-xl"], have=["2x RTX 2080 Ti"], budget="3000")
    assert full.ways == ("checkpoint",)
    assert "times as fast" not in full.verdict.partition("sold new")[2]  # no faster card was within the budget


def test_a_method_can_be_chosen_and_is_checked() -> None:
    assert gpuwise.which(model=["llama-3-8b"], method="lora", budget="2000").ways == ("lora",)
    with pytest.raises(BadValue, match="unknown method 'loro'"):
        gpuwise.which(model=["llama-3-8b"], method="loro")
    with pytest.raises(BadValue, match="works only with `--model`"):
        gpuwise.which(method="lora")
    with pytest.raises(BadValue, match="no linear layers"):
        gpuwise.which(model=["resnet50"], method="lora")


def test_no_card_is_recommended_that_cannot_finish_a_run() -> None:
    answer = gpuwise.which(model=["llama-2-70b"], mode="train", budget="3000", samples=1e6, seq=4096)
    assert answer.best is None
    assert answer.verdict.startswith("Nothing for $3,000 or less finishes a run in 3 years at 25 hours a week")
    slow, hours = buy(4000 * 3600.0, 500.0), UserLimits(horizon_s=3900 * 3600.0)
    assert shortfall(slow, hours) == "horizon"
    assert not shortfall(buy(3800 * 3600.0, 500.0), hours)


def test_sets_for_text_compete_like_single_cards() -> None:
    one, near = buy(100.0, 1000.0), adding_up(buy(100.0 / NEARLY - 0.1, 90.0, count=2))
    assert select([one, near], UserLimits(budget_usd=1000)).best is near
    far = adding_up(buy(100.0 / NEARLY + 0.1, 90.0, count=2))
    assert select([one, far], UserLimits(budget_usd=1000)).best is one
    pair = gpuwise.which(model=["llama-3-70b"], weights="q4_k_m", users=10).best
    assert pair is not None
    assert pair.gpu_count > 1


def test_several_servers_must_be_much_faster_than_one() -> None:
    one, two, quick = buy(100.0, 100.0, count=8), buy(70.0, 50.0, count=16), buy(60.0, 50.0, count=16)
    assert select([one, two], UserLimits(budget_usd=5000)).best is one
    assert select([one, quick], UserLimits(budget_usd=5000)).best is quick
    cheap = buy(99.0, 40.0, count=16)  # as fast as one server, at less than 85% of its price
    assert select([one, cheap], UserLimits(budget_usd=5000)).best is cheap


def test_a_tie_goes_to_the_clearly_cheaper_one() -> None:
    dear = buy(100.0, 1000.0)
    for seconds, usd, wins in ((110.0, 840.0, True), (110.0, 860.0, False), (113.0, 500.0, False)):
        other = buy(seconds, usd)
        assert (select([dear, other], UserLimits(budget_usd=2000)).best is other) is wins


def test_what_one_has_shares_a_model_and_nothing_slower_is_recommended() -> None:
    for asked in ({"method": "full"}, {"method": "lora"}, {"method": "lora", "budget": "3000"}):
        answer = gpuwise.which(model=["llama-3-8b"], have=["8x RTX 3090"], **asked)
        (own,) = [one for one in answer.every if one.kind == "keep"]
        assert own.run.fits
        assert answer.best is own
        assert all(one.run.seconds <= own.run.seconds for one in answer.options)


def test_rented_sets_share_a_model_that_one_gpu_cannot_hold() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], method="full", rent=True)
    sets = {(one.gpu.name, one.gpu_count) for one in answer.every if one.run.fits and one.gpu_count > 1}
    assert {("H100 SXM 80GB", 4), ("H100 SXM 80GB", 8)} <= sets
    assert all(count in (1, 2, 4, 8) for _, count in sets)


def test_the_first_sentence_says_what_a_run_is() -> None:
    assert "a run (1,000,000 samples with resnet50) takes" in gpuwise.which(model=["resnet50"]).verdict
    assert "a run (115,000,000 samples with resnet50) takes" in gpuwise.which(model=["resnet50"], samples=1.15e8).verdict
    tuned = gpuwise.which(model=["llama-3-8b"], method="qlora", budget="800").verdict
    assert "a run (50,000 sequences of 1,024 tokens with llama-3-8b) takes" in tuned


def test_what_one_has_and_what_holds_the_job_needs_no_memory_savings() -> None:
    assert gpuwise.which(have=["RTX 5090"], budget="500").remedied == ()


@pytest.mark.parametrize("budget", ["9999", "10000"])
def test_hours_at_which_renting_wins_are_told_on_both_sides_of_a_default(budget: str) -> None:
    answer = gpuwise.which(model=["bert-large"], budget=budget)
    assert "33 hours of use a week" in f"{answer.verdict} {answer.changes_if[0]}"


# ---------------------------------------------------------------- cost and which


def test_which_and_cost_assume_the_same_hours_and_reach_the_same_total() -> None:
    best = gpuwise.which(model=["resnet50"], price=["RTX 3090=100"]).best
    assert best is not None
    assert best.name == "RTX 3090"
    owned = gpuwise.cost(gpu="RTX 3090", price="100").ownership
    assert owned is not None
    assert owned.total_usd == pytest.approx(best.total_usd)


def test_a_module_pays_for_its_place_in_a_server() -> None:
    one, eight = (gpuwise.cost(gpu="H100 SXM", gpus=count).ownership for count in (1, 8))
    assert one is not None
    assert eight is not None
    assert 8 * one.total_usd == pytest.approx(eight.total_usd)
    assert eight.utilization == 0.35


# ---------------------------------------------------------------- compare, matters, build, typed specs


def test_text_that_does_not_fit_is_compared_with_fewer_bits() -> None:
    answer = gpuwise.compare(["P40", "RTX 3060 12GB"], model=["llama-3-8b"])
    assert answer.pairs[0].precision == "q8_0"
    assert "16-bit weights need" in next(note.effect for note in answer.assumptions if note.code == "weights")
    given = gpuwise.compare(["P40", "RTX 3060 12GB"], model=["llama-3-8b"], weights="fp16")
    assert given.pairs[0].precision == "fp16"


def test_a_batch_that_nobody_gave_is_reduced_until_it_fits() -> None:
    assert gpuwise.compare(["RTX 4090", "GTX 1650"], model=["resnet50"]).pairs[0].comparable
    assert not gpuwise.compare(["RTX 4090", "GTX 1650"], model=["resnet50"], batch=128, precision="fp32").pairs[0].comparable


def test_a_tie_in_value_ends_in_a_choice() -> None:
    said = str(gpuwise.compare(["RTX 3060 12GB", "RTX 4060"], price=["RTX 3060 12GB=280", "RTX 4060=280"]))
    assert "choose the RTX 3060 12GB for its larger memory" in " ".join(said.split())


def test_matters_counts_the_gpus_that_are_named() -> None:
    one, two = (" ".join(str(gpuwise.matters("cpu", gpu=[name], cpu="i7-4770K")).split()) for name in ("RTX 3090", "2x RTX 3090"))
    assert "images/s on 2 GPUs" in two
    assert "on 2 GPUs" not in one
    assert "next to an RTX 3090" in str(gpuwise.matters("mixed-cards", gpu=["RTX 3090", "RTX 2080 Ti"]))
    with pytest.raises(BadValue, match="names two kinds of cards"):
        gpuwise.matters("cpu", gpu=["RTX 3090", "RTX 4090"])


def test_risers_are_a_topic_and_other_questions_name_their_command() -> None:
    assert "single lane" in str(gpuwise.matters("risers"))
    with pytest.raises(UnknownName) as refused:
        gpuwise.matters("psu")
    assert "gpuwise build" in str(refused.value.hint)


def test_nvlink_is_not_denied_to_transformers() -> None:
    said = str(gpuwise.matters("nvlink", gpu=["2x RTX 3090"]))
    assert "It depends on the model." in said
    assert "for a transformer" in said


@pytest.mark.parametrize(
    ("cpu", "watts", "platform"),
    [("Threadripper 3960X", 280, "TRX40"), ("Core i5-12400", 65, "LGA1700"), ("Ryzen 9 5950X", 105, "AM4")],
)
def test_a_named_cpu_brings_its_watts_and_its_socket(cpu: str, watts: int, platform: str) -> None:
    answer = gpuwise.build(gpu=["RTX 3090"], cpu=cpu, psu="1000")
    assert f"CPU {watts} W" in str(answer)
    assert {note["value"] for note in answer.to_dict()["assumptions"] if note["code"] == "platform"} == {platform}


def test_a_typed_graphics_card_is_not_taken_for_a_data_centre_chip() -> None:
    with pytest.raises(BadValue, match="data-centre chip"):
        gpu_from_text("name=RTX 6070,arch=blackwell,sm=56,boost=2.8GHz,mem=16GB,bw=800GB/s")
    card = gpu_from_text("name=RTX 6070,arch=blackwell-rtx,sm=56,boost=2.8GHz,mem=16GB,bw=800GB/s")
    assert card.half_accumulate
    assert not gpu_from_text("name=RTX PRO 6070,arch=blackwell-rtx,sm=56,boost=2.8GHz,mem=16GB,bw=800GB/s").half_accumulate


# ---------------------------------------------------------------- what a second reader refused


def test_two_cards_that_slow_each_other_down_are_used_one_by_one() -> None:
    answer = gpuwise.which(have=["2x RTX 2080 Ti"], budget="1500", model=["bert-large"])
    own, alone = (next(one for one in found.every if one.kind == "keep") for found in (answer, _on_one("RTX 2080 Ti")))
    assert own.run.seconds == alone.run.seconds
    assert "as fast as on one of your 2x RTX 2080 Ti" in answer.verdict
    both = gpuwise.which(have=["2x RTX 3090"], model=["resnet50"])
    assert next(one for one in both.every if one.kind == "keep").gpu_count == 2


def _on_one(name: str) -> WhichAnswer:
    return gpuwise.which(have=[name], budget="1500", model=["bert-large"])


def test_with_a_deadline_speed_beyond_it_is_not_paid_for() -> None:
    answer = gpuwise.which(model=["resnet50"], samples=1.15e8, deadline="2 days")
    assert answer.best is not None
    able = [one for one in answer.every if one.kind.startswith("buy") and one.run.seconds <= 172_800.0 and one.usd_per_run]
    assert answer.best.usd_per_run == min(one.usd_per_run or 0.0 for one in able)


def test_two_ties_in_a_row_are_not_a_tie() -> None:
    first, second, third = buy(100.0, 1000.0), buy(108.0, 840.0), buy(117.0, 700.0)
    slow = buy(300.0, 100.0)
    taken = select([slow, third, second, first], UserLimits(budget_usd=2000)).best
    assert taken is not None
    assert taken.run.seconds * NEARLY <= first.run.seconds


def test_a_cheaper_option_with_more_speed_for_the_money_is_named() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], budget="1500")
    assert answer.best is not None
    told = next(text for text in answer.changes_if if " less, " in text)
    name = told.split(" less, an ")[1].split(" is ")[0].split(" (")[0]
    other = next(one for one in answer.every if one.name == name and one.kind.startswith("buy"))
    assert (other.upfront_usd or 0.0) <= CLEARLY_CHEAPER * (answer.best.upfront_usd or 0.0)
    assert f"is {answer.best.run.seconds / other.run.seconds:.0%} as fast" in told
    assert ("instead of" in told) == (other.gpu.memory_bytes < answer.best.gpu.memory_bytes)


def test_a_lab_compares_sets_that_share_a_model_with_gpus_that_hold_it_alone() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], mode="train", budget=2_000_000)
    times = {(one.gpu.name, one.gpu_count): one.run.seconds for one in answer.every if one.run.fits}
    assert 0.9 < times["H100 SXM 80GB", 64] / times["B200", 32] < 1.4  # a B200 is about 2.3 times as fast as an H100


def test_adapters_are_not_trained_on_cards_without_bf16() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], method="lora", budget="1500")
    assert all("bf16" in supported(one.gpu) for one in answer.every)
    assert "GPUs without bf16" in {note.name for note in answer.assumptions}
    old = gpuwise.which(model=["llama-3-8b"], method="qlora", budget="250", used=True)
    assert any("bf16" not in supported(one.gpu) for one in old.every)


def test_an_old_price_is_told_with_its_age() -> None:
    today = date(2026, 11, 20)
    price = price_now(load_catalog().find("RTX A4500").gpu, PriceBook.of(today=today))
    assert price is not None
    assert kind_and_age(price, today) == "shop price in 2025-07, 16 months old"


def test_what_fits_only_with_the_cpu_is_never_the_better_buy_at_a_higher_price() -> None:
    said = str(gpuwise.compare(["2x RTX 3090", "RTX 5090"], model=["llama-3-70b"]))
    assert "2x RTX 3090 also cost less" in " ".join(said.split())
    assert "tokens/s on 2x RTX 3090" in " ".join(said.split())


def test_cooling_of_several_cards_is_about_all_of_them() -> None:
    assert "4 open-air cards have no gap" in str(gpuwise.matters("cooling", gpu=["4x RTX 3090"])).replace("\n", " ")
    assert "no gap" not in str(gpuwise.matters("cooling", gpu=["RTX 3090"]))


# ---------------------------------------------------------------- names and formats


def test_a_model_number_is_no_number_of_gpus() -> None:
    assert [rig.name for rig in gpuwise.compare(["7900 XTX", "4090"], model=["resnet50"]).rigs] == ["RX 7900 XTX", "RTX 4090"]


def test_eight_bits_are_fp8_where_an_engine_runs_it() -> None:
    asked = {"model": ["llama-3-70b"], "users": 50, "budget": "50000"}
    formats = {one["gpu"]: one["weights"] for one in gpuwise.which(**asked).to_dict()["options"]}
    assert formats["H200 NVL"] == "fp8"
    int8 = {one["gpu"]: one for one in gpuwise.which(**asked, weights="int8").to_dict()["options"]}
    assert all(one["weights"] == "int8" for one in int8.values())


def test_a_deadline_is_for_a_whole_training() -> None:
    answer = gpuwise.which(model=["resnet50"], deadline="3 days", budget="2000")
    assert answer.query.jobs[0].samples == 1.15e8
    assert "enough time for" in answer.verdict
    told = gpuwise.which(model=["resnet50"], deadline="3 days", budget="2000", samples=2e6)
    assert told.query.jobs[0].samples == 2e6
    assert "enough time for" not in told.verdict


def test_servers_that_share_a_model_recompute_where_that_is_faster() -> None:
    every = gpuwise.which(model=["llama-3-70b"], budget="2000000", mode="train").every
    took = {one.name: one.run.seconds for one in every if one.run.fits and one.gpu.name == "B300" and one.kind == "buy new"}
    assert took["32x B300"] < took["16x B300"] < took["8x B300"]


def test_image_weights_stay_in_ram_where_they_must() -> None:
    (told,) = gpuwise.fit("sdxl", gpu=("RTX 2060",)).results
    rungs = {rung.name: rung for rung in told.advice.remedies}
    assert not rungs["unloaded"].fits
    assert rungs["streamed"].fits
    assert rungs["streamed"].step_s > told.step_s


def test_adapters_are_compared_at_a_common_length() -> None:
    (pair,) = gpuwise.compare(["RTX 5090", "RTX 3090"], model=["llama-3-8b"], method="qlora").pairs
    assert pair.comparable
    assert pair.ratio < 1
