"""What `which` says besides its recommendation: for labs, rent within a budget, laptops, the cheapest way to generate text, and
what the user's own card can do beside a new one.
"""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path

import pytest

import gpuwise
from gpuwise.advise.choosing import CLEARLY_CHEAPER, NEARLY, shortfall
from gpuwise.core.text import a
from gpuwise.money import prices as money_prices
from gpuwise.money.costs import more_machine_usd


@pytest.fixture(autouse=True)
def _a_given_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path))
    monkeypatch.setattr(money_prices, "today", lambda: date(2026, 11, 16))


@pytest.mark.parametrize("budget", ["1100", "3000", "6000"])
def test_rent_within_a_budget_is_the_fastest_or_nearly_so_and_clearly_cheaper(budget: str) -> None:
    answer = gpuwise.which(budget=budget, rent=True)
    best = answer.best
    assert best is not None
    assert best.kind == "rent"
    able = [one for one in answer.every if one.kind == "rent" and not shortfall(one, answer.query.limits)]
    fastest = min(able, key=lambda one: one.run.seconds)
    nearly = fastest.run.seconds >= NEARLY * best.run.seconds
    assert best is fastest or (nearly and (best.total_usd or 0) <= CLEARLY_CHEAPER * (fastest.total_usd or 0))
    assert "within the budget" in answer.verdict


def test_more_money_never_rents_a_slower_gpu() -> None:
    found = [gpuwise.which(budget=budget, rent=True).best for budget in ("1100", "3000", "9000")]
    seconds = [one.run.seconds for one in found if one is not None]
    assert len(seconds) == 3
    assert all(NEARLY * later <= earlier for earlier, later in itertools.pairwise(seconds))
    assert seconds[-1] < seconds[0]


def test_a_lab_is_told_what_to_take_for_larger_models() -> None:
    answer = gpuwise.which(budget="50000")
    assert answer.best is not None
    (said,) = (text for text in answer.changes_if if text.startswith("for models that need more than"))
    assert f"more than {answer.best.run.paces[0].usable_bytes / 2**30:.0f} GiB on one GPU" in said
    assert "GB each)" in said
    assert not any("on one GPU, take" in text for text in gpuwise.which(budget="800").changes_if)


def test_a_laptop_gpu_has_a_laptop_cpu() -> None:
    answer = gpuwise.which(laptop=True, budget="2000")
    (note,) = (note for note in answer.assumptions if note.name == "cpu")
    assert note.value.startswith("laptop")
    assert "No faster laptop" in answer.verdict


def test_the_cheapest_option_for_text_is_named_where_it_costs_far_less() -> None:
    answer = gpuwise.which(model=["gpt-oss-20b"])
    able = [one for one in answer.every if one.kind.startswith("buy") and one.run.fits and one.upfront_usd is not None]
    least = min(able, key=lambda one: one.upfront_usd or 0.0)
    held = "The cheapest NVIDIA option that has enough memory and works in a typical machine is"
    assert f"{held} {least.name} (${least.upfront_usd:,.0f})" in answer.verdict
    every = gpuwise.which(model=["gpt-oss-20b"], vendor="any")
    able = [one for one in every.every if one.kind.startswith("buy") and one.run.fits and one.upfront_usd is not None]
    other = min(able, key=lambda one: one.upfront_usd or 0.0)
    assert other.gpu.vendor != "NVIDIA"
    assert f"the cheapest from any vendor (`--vendor any`) is {a(other.name)} (${other.upfront_usd:,.0f})" in answer.verdict
    assert "NVIDIA option" not in every.verdict


def test_the_command_beside_it_uses_the_same_engine_and_gives_the_same_speed() -> None:
    answer = gpuwise.which(model=["gpt-oss-20b"])
    assert answer.best is not None
    assert " tokens/s (" in answer.verdict
    assert ") in llama.cpp" in answer.verdict
    assert '`gpuwise fit gpt-oss-20b --gpu "RTX 3090" --engine llama.cpp`' in answer.verdict
    told = gpuwise.predict("gpt-oss-20b", gpu=answer.best.gpu.name, engine="llama.cpp").to_dict()["results"][0]
    assert told["rate"] == pytest.approx(answer.best.run.samples_per_s, rel=0.01)


def test_a_budget_too_small_for_all_years_of_rent_says_so() -> None:
    verdict = gpuwise.which(model=["gpt-oss-120b"], budget="3000", hours_per_week=20).verdict
    assert verdict.startswith("Neither buying a GPU nor renting one for 3 years at 20 hours a week costs $3,000 or less")
    assert "the cheapest to buy is" in verdict


def test_a_lab_is_told_what_a_run_is_and_what_is_sold_new() -> None:
    answer = gpuwise.which(budget="50000")
    jobs = [job.model for job in answer.query.jobs]
    assert f"a run ({', '.join(jobs[:-1])} and {jobs[-1]}, each trained once) takes " in answer.verdict
    new = gpuwise.which(budget="50000", buy=True).best
    assert new is not None
    assert f"The best option sold new (`--buy`) is {a(new.name)} (${new.upfront_usd:,.0f}, " in answer.verdict
    assert "What would change this:" in str(answer)
    assert "sold new" not in gpuwise.which(budget="50000", used=True).verdict


def test_who_is_told_to_buy_a_used_card_is_told_what_is_sold_new() -> None:
    answer = gpuwise.which(budget="800")
    assert answer.best is not None
    assert answer.best.kind == "buy used"
    new = gpuwise.which(budget="800", buy=True).best
    assert new is not None
    assert f"The best option sold new (`--buy`) is an {new.name} (${new.upfront_usd:,.0f}, " in answer.verdict
    assert "sold new" not in gpuwise.which(budget="800", used=True).verdict
    assert "sold new" not in gpuwise.which(budget="800", buy=True).verdict


def test_a_slight_power_limit_keeps_a_set_within_the_outlet() -> None:
    here, there, lab = (
        gpuwise.which(budget=usd, region=place) for usd, place in (("9000", "US"), ("9000", "DE"), ("10000", "US"))
    )
    assert here.best is not None
    assert there.best is not None
    assert here.best.name == there.best.name == "2x RTX 5090"
    assert "Limit each card to 540 W, which costs 1 to 2% of the speed in training" in here.verdict
    assert "Limit each" not in there.verdict
    assert "Limit each" not in lab.verdict
    assert "connect it to a circuit with a higher rating" in lab.verdict


def test_the_speed_for_each_of_several_users_is_given() -> None:
    answer = gpuwise.which(model=["llama-3-8b"], users=10)
    assert answer.best is not None
    assert f"{answer.best.run.samples_per_s / 10:.3g} for each of 10 users" in answer.verdict


# ---------------------------------------------------------------- the user's own card

OWN, BIG = "RTX 4070 Ti Super", {"model": "qwen3-32b", "weights": "q4_k_m"}


def test_a_new_card_beside_the_users_own_is_considered_and_is_as_fast_as_predict_says() -> None:
    answer = gpuwise.which(have=[OWN], budget=900, **BIG)
    pairs = {one.gpu.name: one for one in answer.every if one.run.beside}
    assert {"RTX 3080", "RTX 5060 Ti 16GB"} <= pairs.keys()
    for name in ("RTX 3080", "RTX 5060 Ti 16GB"):
        (told,) = gpuwise.predict(BIG["model"], weights=BIG["weights"], gpu=f"{OWN} + {name}").results
        assert pairs[name].run.samples_per_s == pytest.approx(told.to_dict()["tokens_per_s"], rel=1e-3)


def test_a_cheaper_and_faster_pair_with_more_memory_is_preferred_to_a_single_card() -> None:
    best = gpuwise.which(have=[OWN], budget=900, **BIG).best
    titan = gpuwise.which(budget=900, **BIG).best
    assert best is not None
    assert titan is not None
    assert best.run.beside is not None
    assert best.run.samples_per_s > titan.run.samples_per_s
    assert best.run.shared_bytes > titan.run.shared_bytes
    assert (best.upfront_usd or 0.0) < (titan.upfront_usd or 0.0)


def test_only_the_new_card_is_paid_for_and_only_one_card_works_at_a_time() -> None:
    pair = next(one for one in gpuwise.which(have=[OWN], budget=900, **BIG).every if one.run.beside)
    assert pair.price is not None
    assert pair.upfront_usd == pytest.approx(pair.price.usd + more_machine_usd(pair.gpu, 2))
    rated = [gpu.tdp_watts or 0.0 for gpu, _ in pair.run.parts]
    assert max(rated) < pair.run.watts < sum(rated)


def test_a_card_that_is_too_small_is_kept_with_a_part_of_the_model_on_the_cpu() -> None:
    answer = gpuwise.which(have=[OWN], budget=100, **BIG)
    assert answer.best is not None
    assert answer.best.kind == "keep"
    (told,) = gpuwise.predict(BIG["model"], weights=BIG["weights"], gpu=OWN).results
    assert answer.best.run.samples_per_s == pytest.approx(told.to_dict()["tokens_per_s"], rel=1e-3)
    assert "of the model on the CPU" in answer.verdict


def test_pairs_and_layers_on_the_cpu_have_the_same_weights_as_all_other_options() -> None:
    answer = gpuwise.which(model="qwen3-14b", weights="fp16", have=["RTX 3060 12GB"], budget=2000)
    assert [one for one in answer.every if one.run.beside]
    kept = next(one for one in answer.every if one.kind == "keep")
    assert kept.run.paces[0].offloaded > 0
    assert {one.run.paces[0].weights for one in answer.every} == {"fp16"}


def test_an_engine_that_cannot_share_a_model_among_different_cards_gets_no_pairs() -> None:
    answer = gpuwise.which(model="qwen3-32b", weights="int4", engine="vllm", have=[OWN], budget=2000)
    assert not [one for one in answer.every if one.run.beside]
    kept = next(one for one in answer.every if one.kind == "keep")
    assert not kept.run.fits


def test_cards_that_hold_the_model_alone_need_no_other_kind_beside_them() -> None:
    answer = gpuwise.which(model="llama-3-8b", weights="q4_k_m", have=[OWN], budget=2000)
    assert not [one for one in answer.every if one.run.beside]


# ---------------------------------------------------------------- a task, and laptops


@pytest.mark.parametrize(
    ("options", "weights"), [({"budget": 2000}, "q4_k_m"), ({"budget": 20_000}, "fp16"), ({"users": 8}, "fp16")]
)
def test_the_first_sentence_names_the_model_and_the_weights_that_stand_for_a_task(options: dict[str, int], weights: str) -> None:
    first = gpuwise.which(task="llm-inference", **options).verdict.split(". ")[0]
    assert f"llama-3-8b with {weights} weights, which stands for llm-inference," in first


@pytest.mark.parametrize("budget", [300, 700])
def test_what_is_named_where_nothing_is_within_the_budget_is_in_the_table(budget: float) -> None:
    answer = gpuwise.which(laptop=True, budget=budget, task="llm-inference", vendor="any")
    assert answer.best is None
    assert answer.options[0].name in answer.verdict
    assert answer.options[0].upfront_usd == min(one.upfront_usd for one in answer.every if one.upfront_usd is not None)


def test_macbooks_are_laptops_whose_price_must_be_given() -> None:
    known = gpuwise.which(laptop=True, budget=3000, task="llm-inference", vendor="any")
    macs = [one for one in known.every if one.gpu.vendor == "Apple"]
    assert macs
    assert not [one for one in macs if one.upfront_usd is not None or "Ultra" in one.name]
    assert "No prices of MacBooks are known" in known.verdict
    given = gpuwise.which(laptop=True, budget=3000, task="llm-inference", vendor="apple", price=["M4 Max 32-core=2900"])
    assert given.best is not None
    assert given.best.name == "M4 Max 32-core"


def test_without_a_budget_no_row_costs_far_more_than_the_best_purchase() -> None:
    answer = gpuwise.which(task="learning", have=["RTX 3060 12GB"])
    prices = [one.upfront_usd or 0.0 for one in answer.options if one.kind.startswith("buy")]
    assert len(prices) > 2
    assert max(prices) < 3000


# ---------------------------------------------------------------- many users


def test_sets_serve_many_users_in_groups_where_that_is_faster() -> None:
    answer = gpuwise.which(model="llama-3-70b", weights="fp8", users=64, budget=100_000)
    grouped = [one for one in answer.every if getattr(one.run.paces[0], "groups", 1) > 1]
    assert grouped
    for one in grouped[:3]:
        groups = one.run.paces[0].groups
        part = -(-64 // groups)
        (each,), (whole,) = (
            gpuwise.predict("llama-3-70b", weights="fp8", gpu=one.gpu.name, gpus=gpus, users=users, cpu="server").results
            for gpus, users in ((one.gpu_count // groups, part), (one.gpu_count, 64))
        )
        assert one.run.samples_per_s == pytest.approx(each.generation.tokens_per_s * 64 / part, rel=1e-3)
        assert not whole.fits or one.run.samples_per_s > whole.generation.tokens_per_s


def test_one_user_is_never_served_in_groups() -> None:
    answer = gpuwise.which(model="llama-3-70b", weights="int4", budget=5000)
    assert all(getattr(one.run.paces[0], "groups", 1) == 1 for one in answer.every)


def test_a_second_card_that_must_also_hold_gradients_to_send_takes_smaller_micro_batches() -> None:
    best = gpuwise.which(task="llm-finetune", have="RTX 3090", budget="1500").best
    assert best is not None
    assert (best.gpu.name, best.gpu_count, best.added) == ("RTX 3090", 2, 1)
