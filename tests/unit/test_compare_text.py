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
