"""GPUs compared by the tokens a second of a language model."""

from __future__ import annotations

from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.compare.types import CompareAnswer

PAIR = ["RTX 3090", "RTX 4090"]


def compared(names: list[str] = PAIR, **more: Any) -> CompareAnswer:
    answer: CompareAnswer = gpuwise.compare(names, **{"model": "llama-3-8b", "mode": "infer", "weights": "q4_k_m", **more})
    return answer


def test_a_ratio_is_that_of_the_tokens_that_predict_tells() -> None:
    (pair,) = compared(users=8).pairs
    one, two = (gpuwise.predict("llama-3-8b", gpu=name, weights="q4_k_m", users=8).results[0] for name in PAIR)
    assert pair.ratio == pytest.approx(two.generation.tokens_per_s / one.generation.tokens_per_s)
    assert pair.ratio_low < pair.ratio < pair.ratio_high
    assert (pair.workload, pair.precision, pair.range_basis) == ("llama-3-8b, tokens", "q4_k_m", "assumed")


def test_options_for_text_are_enough_without_a_mode() -> None:
    assert compared(mode="").pairs == compared().pairs


def test_a_step_is_still_compared_where_one_is_asked_for() -> None:
    (pair,) = gpuwise.compare(PAIR, model="resnet50", mode="infer").pairs
    assert pair.workload == "resnet50"


def test_a_set_of_gpus_shares_one_model_or_runs_one_each() -> None:
    (pair,) = compared(["RTX 3090", "2x RTX 3090"], users=8, engine="vllm", weights="fp16").pairs
    assert 1.0 < pair.ratio < 2.0
    assert pair.ratio_separate == pytest.approx(2.0)


def test_layers_on_the_cpu_are_the_reason() -> None:
    (pair,) = compared(["RTX 4090", "H100 SXM 80GB"], model="llama-3-70b").pairs
    assert "of the layers run on the CPU with the RTX 4090" in pair.why
    assert pair.ratio > 3


def test_reasons_compare_arithmetic_where_it_limits() -> None:
    (pair,) = compared(["RTX 3090", "H100 SXM 80GB"], weights="fp16", engine="vllm", users=64, prompt=64, output=64).pairs
    assert "1.00 times the arithmetic" not in pair.why


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model": ()}, "--mode works only with --model"),
        ({"model": (), "mode": ""}, "--weights works only with --model"),
        ({"mode": "train"}, "cannot be combined"),
        ({"users": 0}, "invalid --users 0"),
        ({"weights": "q9"}, "q9"),
        ({"model": "resnet50"}, "unknown language model 'resnet50'"),
    ],
)
def test_what_cannot_be_compared_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(GpuwiseError, match=said):
        compared(**more)


def test_a_misfit_names_the_room_of_the_engine_and_the_users_that_fit() -> None:
    names = ["RTX PRO 6000 Blackwell", "H100 PCIe"]
    answer = compared(names, model="llama-3-70b", weights="fp8", users=16)
    (pair,) = answer.pairs
    assert pair.why.startswith("does not fit on the H100 PCIe 80GB: needs 73.0 GiB, but vLLM may use only 71.7 of 79.6 GiB")
    most = gpuwise.fit("llama-3-70b", gpu="H100 PCIe", weights="fp8", users=16).results[0].max_batch
    assert f"room for {most} users at a time" in pair.why
    fewer = compared(names, model="llama-3-70b", weights="fp8", users=most)
    assert all(one.comparable for one in fewer.pairs)
    assert f"With `--users {most}`, it fits on both: the H100 PCIe 80GB is" in answer.verdict
    assert any("the RTX PRO 6000 Blackwell costs $" in note and "the H100 PCIe 80GB costs $" in note for note in answer.notes)


def test_images_that_fit_nowhere_are_compared_with_smaller_weights() -> None:
    names = ["RTX 5080", "RTX 3090"]
    answer = gpuwise.compare(names, model="flux-dev")
    smaller = gpuwise.compare(names, model="flux-dev", weights="int8")
    assert not any(pair.fits for pair in answer.pairs)
    assert all(pair.comparable for pair in smaller.pairs)
    order = smaller.verdict.partition(". ")[0].replace("The", "the", 1)
    assert f"With `--weights int8`, it fits on both: {order}." in answer.verdict


def test_what_no_option_makes_fit_is_left_to_fit() -> None:
    answer = compared(["RTX 4090", "RTX 3080"], model="llama-3-70b", weights="fp16", engine="vllm")
    told = 'run `gpuwise fit llama-3-70b --gpu "RTX 4090" --gpu "RTX 3080" --weights fp16 --engine vllm`'
    assert any(told in note for note in answer.must_notes)
