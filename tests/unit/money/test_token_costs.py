"""What a million tokens cost, owned and rented."""

from __future__ import annotations

from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.cost.types import CostAnswer

LLAMA = {"gpu": "RTX 4090", "model": "llama-3-8b", "weights": "q4_k_m", "users": 10}


def priced(**more: Any) -> CostAnswer:
    answer: CostAnswer = gpuwise.cost(**{**LLAMA, "price": "1800", "cloud_price": 0.4, **more})
    assert answer.tokens is not None
    return answer


def test_tokens_of_a_request_cost_its_share_of_the_hour() -> None:
    found = priced(prompt=1000, output=200).tokens
    assert found is not None
    assert found.rent is not None
    told = found.told.generation
    read_s = 1000 / told.prompt_tokens_per_s
    written_s = 200 * found.told.step_s / 10
    request_usd = 0.4 / 3600 * (read_s + written_s)
    assert found.rent.input_usd_per_million * 1000 / 1e6 + found.rent.output_usd_per_million * 200 / 1e6 == pytest.approx(
        request_usd
    )
    assert found.rent.whole_usd_per_million == pytest.approx(request_usd * 1e6 / 200)


def test_an_owned_hour_costs_what_cost_says() -> None:
    answer = priced()
    assert answer.tokens is not None
    assert answer.tokens.own is not None
    assert answer.ownership is not None
    assert answer.tokens.own.usd_per_hour == answer.ownership.usd_per_hour
    busy = priced(utilization=0.9).tokens
    assert busy is not None
    assert busy.own is not None
    assert busy.own.whole_usd_per_million < answer.tokens.own.whole_usd_per_million


def test_more_users_make_each_token_cheaper() -> None:
    found = [priced(users=users).to_dict()["tokens"]["rent"]["output_usd_per_million"] for users in (1, 4, 16)]
    assert found == sorted(found, reverse=True)


def test_what_does_not_fit_has_no_price() -> None:
    answer = gpuwise.cost(gpu="RTX 4090", model="llama-3-70b", users=4)
    assert answer.tokens is not None
    assert (answer.tokens.own, answer.tokens.rent) == (None, None)
    assert any("does not fit on the RTX 4090" in warning for warning in answer.warnings)
    assert "tokens, own" not in str(answer)


def test_two_rented_gpus_cost_twice_the_hour() -> None:
    one, two = (priced(gpus=count).to_dict()["tokens"]["rent"]["usd_per_hour"] for count in (1, 2))
    assert two == pytest.approx(2 * one)


def test_another_gpu_is_rented_at_its_own_speed() -> None:
    told = priced(cloud_gpu="H100 SXM 80GB").to_dict()["tokens"]
    alone = gpuwise.predict("llama-3-8b", gpu="H100 SXM 80GB", weights="q4_k_m", users=10).results[0].generation
    assert told["rented_gpu"] == "H100 SXM 80GB"
    assert told["rented_tokens_per_s"] == pytest.approx(alone.tokens_per_s)


def test_the_text_stays_brief_and_the_full_one_says_how() -> None:
    answer = gpuwise.cost(**LLAMA)
    assert len(str(answer).splitlines()) <= 25
    assert "tokens, own" in str(answer)
    from gpuwise.questions.cost.text import render

    assert "to write a million" in " ".join(render(answer, verbose=True).split())


def test_a_model_that_trains_has_no_tokens() -> None:
    answer = gpuwise.cost(gpu="RTX 4090", model="resnet50", samples=1e6)
    assert answer.tokens is None
    assert answer.to_dict()["tokens"] is None
    assert answer.job is not None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model": ""}, "--weights requires --model"),
        ({"samples": 10.0}, "is for generating text, but --samples is for training"),
        ({"users": 0}, "invalid --users 0"),
        ({"users": 100_001}, "invalid --users 100,001"),
        ({"model": "resnet50"}, "unknown language model 'resnet50'"),
    ],
)
def test_what_has_no_tokens_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadValue if "language" not in said else Exception, match=said):
        gpuwise.cost(**{**LLAMA, **more})


def test_predict_and_cost_take_the_same_rent() -> None:
    (rent,) = gpuwise.predict("llama-3-8b", gpu="RTX 4090", weights="q4_k_m").rents
    priced = gpuwise.cost(gpu="RTX 4090", model="llama-3-8b", weights="q4_k_m").to_dict()["tokens"]["rent"]
    assert rent.usd_per_gpu_hour == pytest.approx(priced["usd_per_hour"])
    assert rent.price.whole_usd_per_million == pytest.approx(priced["whole_usd_per_million"])


def test_gpt2_is_trained_so_its_cost_needs_the_size_of_a_job() -> None:
    with pytest.raises(BadValue, match="job size is missing"):
        gpuwise.cost(gpu="RTX 4090", model="gpt2")


def test_predict_names_a_rent() -> None:
    answer = gpuwise.predict("llama-3-8b", gpu="RTX 4090", weights="q4_k_m", users=10)
    (rent,) = answer.rents
    told = answer.results[0]
    expected = rent.usd_per_gpu_hour / 3600 * 1e6 * told.step_s / 10
    assert rent.price.output_usd_per_million == pytest.approx(expected)
    assert "per million output tokens, prompts included" in " ".join(str(answer).split())
    assert not gpuwise.predict("llama-3-70b", gpu="RTX 4090", weights="q4_k_m", users=10).rents  # with layers on the CPU
