"""`which` for language models that generate text: GPUs weighed by tokens per second, several of them where one is too small."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import CLEARLY_CHEAPER, NEARLY, WORTH_A_CHANGE, shortfall
from gpuwise.core.errors import BadValue, GpuwiseError, UnknownName
from gpuwise.questions.which.language_paces import LanguagePace
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.step.time.engines import find_engine
from gpuwise.surfaces.cli.app import app

BIG = "llama-3-70b"
STEP_KEYS = (
    "gpu gpu_count source fits step_s samples_per_s upfront_usd total_usd usd_per_million_samples kg_co2e build reasons".split()
)


@cache
def which(**options: Any) -> WhichAnswer:
    return gpuwise.which(**options)


def best(answer: WhichAnswer) -> Candidate:
    assert answer.best is not None
    return answer.best


# ---------------------------------------------------------------- what is recommended


def test_two_used_3090_are_what_2500_dollars_buy_for_70_billion_weights() -> None:
    answer = which(model=BIG, weights="int4", budget=2500)
    assert best(answer).name == "2x RTX 3090"
    assert "tokens/s" in answer.verdict
    assert "GPU holds part of the model" in " ".join(answer.reasons[best(answer).key])


@pytest.mark.parametrize("budget", [700, 1000, 1500, 2000, 3000, 5000, 10_000, None])
@pytest.mark.parametrize("weights", ["int4", "q4_k_m", ""])
def test_nothing_within_the_limits_beats_the_verdict(budget: float | None, weights: str) -> None:
    answer = which(model="Qwen3-32B", weights=weights, budget=budget, buy=True, used=True)
    if answer.best is None:
        return
    able = [one for one in answer.every if one.kind.startswith("buy") and not shortfall(one, answer.query.limits)]
    taken = answer.best
    if budget is None:
        for one in able:
            allowed = 1.0 if one.gpu_count <= taken.gpu_count else WORTH_A_CHANGE
            assert (taken.usd_per_run or 0.0) <= allowed * (one.usd_per_run or float("inf"))
        return
    for one in able:
        cheap = (taken.upfront_usd or 0.0) <= CLEARLY_CHEAPER * (one.upfront_usd or 0.0)
        allowed = WORTH_A_CHANGE / NEARLY if one.gpu_count > taken.gpu_count else 1 / NEARLY if cheap else 1.0
        assert one.run.samples_per_s <= allowed * taken.run.samples_per_s * 1.0001


def test_what_is_recommended_fits_and_its_speed_is_that_of_predict() -> None:
    taken = best(which(model=BIG, weights="int4", budget=2000))
    (predicted,) = gpuwise.predict(BIG, weights="int4", gpu=f"{taken.gpu_count}x {taken.gpu.name}").results
    told = predicted.to_dict()
    assert taken.run.fits
    assert told["fits"]
    assert taken.run.samples_per_s == pytest.approx(told["generation"]["tokens_per_s"], rel=1e-3)
    assert taken.run.needed_bytes == pytest.approx(told["memory"]["total_bytes"])


def test_fewer_bits_are_taken_where_more_fit_nothing() -> None:
    short = which(model=BIG, mode="infer", budget=2000)
    assert short.ways == ("int4",)
    assert "with 4-bit weights" in short.verdict


def test_bits_do_not_cost_most_of_the_speed() -> None:
    """A computer with much slow memory holds 8 bits; two cards at half its price are ten times as fast with 4."""
    answer = which(model=BIG, budget=4000, vendor="any")
    fewer = which(model=BIG, budget=4000, vendor="any", weights="int4")
    assert best(answer).run.samples_per_s == pytest.approx(best(fewer).run.samples_per_s)
    assert "tokens/s" in (answer.verdict.split("(the published weights need")[1]).split(")")[0]


def test_models_are_served_in_as_many_bits_as_cost_little_speed() -> None:
    many = which(model="llama-3-8b", budget=20_000)
    assert {pace.weights for one in many.every for pace in one.run.paces if isinstance(pace, LanguagePace)} == {"fp16"}


def test_a_single_slow_gpu_is_not_preferred_to_several_that_cost_far_less_per_token() -> None:
    answer = which(model=BIG, mode="infer", buy=True)
    assert best(answer).gpu_count > 1


def test_max_gpus_is_kept_to() -> None:
    answer = which(model=BIG, weights="int4", budget=2000, max_gpus=1)
    assert all(one.gpu_count == 1 for one in answer.every if one.kind.startswith("buy"))
    assert answer.best is None or answer.best.kind == "rent"


def test_an_engine_that_was_asked_for_runs_everywhere() -> None:
    answer = which(model="llama-3-8b", engine="llama.cpp", weights="q8_0", budget=1000, vendor="any")
    assert {pace.engine for one in answer.every for pace in one.run.paces if isinstance(pace, LanguagePace)} == {"llama.cpp"}


def test_more_users_mean_more_tokens_and_more_memory() -> None:
    one, many = (which(model="llama-3-8b", weights="int4", users=users, budget=1000) for users in (1, 32))
    (few,), (lots,) = ([best(answer).run] for answer in (one, many))
    assert lots.samples_per_s > 2 * few.samples_per_s
    assert lots.needed_bytes > few.needed_bytes


def test_the_task_of_serving_is_text() -> None:
    answer = which(task="llm-inference", budget=2000)
    assert "tokens/s" in answer.verdict
    assert all(isinstance(pace, LanguagePace) for pace in best(answer).run.paces)


def test_a_language_model_generates_unless_an_option_trains_it() -> None:
    assert "tokens/s" in which(model="llama-3-8b", budget=2000).verdict
    assert "tokens/s" not in which(model="llama-3-8b", mode="train", budget=2000).verdict
    assert "tokens/s" not in which(model="llama-3-8b", optimizer="adamw", budget=2000).verdict
    assert "tokens/s" not in which(model="gpt2", budget=2000).verdict


# ---------------------------------------------------------------- what is printed and refused


def test_json_keeps_its_keys_and_adds_tokens() -> None:
    told = which(model=BIG, weights="int4", budget=2500).to_dict()
    (option,) = [one for one in told["options"] if one["gpu"] == "RTX 3090"]
    assert all(key in option for key in STEP_KEYS)
    assert option["tokens_per_s"] == option["samples_per_s"]
    assert option["tokens_per_s_low"] < option["tokens_per_s"] < option["tokens_per_s_high"]
    assert option["usd_per_million_tokens"] == pytest.approx(option["usd_per_million_samples"])
    assert (option["engine"], option["weights"], option["split"]) == ("vLLM", "int4", "tensor")


def test_the_table_counts_tokens_and_fits_a_terminal() -> None:
    arguments = ["which", "--model", BIG, "--weights", "int4", "--budget", "2000"]
    text = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert len(text.splitlines()) <= 25
    assert "tokens/s" in text
    assert "per 1M tokens" in text
    assert "per run" not in text


@pytest.mark.parametrize(
    ("options", "fault", "said"),
    [
        ({"model": BIG, "weights": "int5"}, BadValue, "unknown weight format 'int5'"),
        ({"model": BIG, "engine": "fastest"}, UnknownName, "unknown engine 'fastest'"),
        ({"model": BIG, "kv": "int3"}, BadValue, "unknown key-value cache type 'int3'"),
        ({"model": BIG, "users": 0}, BadValue, "invalid --users 0"),
        ({"model": BIG, "context": 100_000}, BadValue, "supports at most 8,192 tokens"),
        ({"model": BIG, "weights": "q4_k_m", "engine": "vllm"}, BadValue, "vLLM does not support q4_k_m weights"),
        ({"model": BIG, "weights": "int4", "mode": "train"}, BadValue, "cannot be combined"),
        ({"model": "resnet50", "weights": "int4"}, UnknownName, "unknown language model 'resnet50'"),
        ({"weights": "int4"}, BadValue, "none was given"),
        ({"task": "vision", "users": 4}, BadValue, "none was given"),
    ],
)
def test_what_cannot_be_answered_is_refused(options: dict[str, Any], fault: type[GpuwiseError], said: str) -> None:
    with pytest.raises(fault, match=said):
        gpuwise.which(budget=2000, **options)


@pytest.mark.parametrize(
    ("model", "weights"), [("gpt-oss-120b", ""), ("llama-3-8b", "q4_k_m"), ("llama-3-8b", "int4"), ("qwen3-8b", "fp16")]
)
def test_which_and_predict_take_the_same_engine(model: str, weights: str) -> None:
    answer = gpuwise.which(model=model, weights=weights, budget=5000)
    for option in answer.options:
        told = gpuwise.predict(model, weights=weights, gpu=option.gpu.name, gpus=option.gpu_count).results[0]
        pace = option.run.paces[0]
        assert find_engine(pace.engine).name == told.generation.engine
        assert pace.samples_per_s == pytest.approx(told.generation.tokens_per_s, rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8", "amp", "fp32"])
def test_a_precision_means_the_same_in_predict_and_which(precision: str) -> None:
    told = gpuwise.predict("qwen3-1.7b", gpu="RTX 4090", precision=precision).results[0]
    asked = gpuwise.which(model="qwen3-1.7b", precision=precision, budget=3000).query
    assert (told.mode == "train") == (asked.text is None)
    assert asked.text is None or asked.text.weights == precision


def test_macs_without_a_price_are_not_said_to_be_too_small() -> None:
    answer = which(model="llama-3-8b", vendor="apple", budget=500)
    assert "Nothing fits" not in answer.verdict
    assert "No option with a known price costs $500 or less" in answer.verdict
    assert any(one.upfront_usd is None for one in answer.every)
    assert "other Apple chips" in answer.verdict


def test_a_card_that_the_power_supply_cannot_feed_is_not_recommended() -> None:
    small, large = (best(which(budget=2000, psu=watts)) for watts in (450, 1000))
    assert small.run.watts < large.run.watts
    assert small.run.seconds > large.run.seconds


def test_a_budget_of_a_laboratory_serves_several_users_unless_one_is_asked_for() -> None:
    """Nobody spends $200,000 to generate text for one user; and for one user, more money never leads to slower text."""
    many, one = (which(task="llm-inference", budget=200_000, users=users) for users in (None, 1))
    assert "for each of 200 users (assumed; set with `--users`)" in many.verdict
    assert "llama-3-8b with q4_k_m weights" in one.verdict
    less = which(task="llm-inference", budget=9_999)
    assert best(one).run.samples_per_s > 0.99 * best(less).run.samples_per_s  # a server has another CPU


def test_a_gpu_runs_packed_weights_in_the_engine_that_is_fastest_on_it() -> None:
    answer = which(model="llama-3.3-70b", vendor="apple", budget=9000, price="M5 Max 40-core=5000")
    assert all(pace.engine == "llama.cpp" for one in answer.every for pace in one.run.paces if isinstance(pace, LanguagePace))
    pair = which(model="llama-3.3-70b", budget=4000)
    assert best(pair).run.paces[0].engine == "vLLM"  # llama.cpp would use one card at a time


def test_a_model_that_is_published_in_four_bits_runs_in_them() -> None:
    answer = which(model="gpt-oss-20b", budget=2000)
    assert {pace.weights for one in answer.every for pace in one.run.paces if isinstance(pace, LanguagePace)} == {"mxfp4"}


def test_much_faster_gpus_are_rented_for_a_smaller_saving() -> None:
    answer = which(model="llama-3.3-70b", weights="int4", users=10)
    rented = best(answer)
    assert rented.kind == "rent"
    bought = [one for one in answer.every if one.kind.startswith("buy") and one.run.fits]
    assert not [one for one in bought if (one.usd_per_run or 1e9) <= (rented.usd_per_run or 0.0)]
