"""Plans for LoRA and QLoRA: the same step and memory as `predict`, frozen weights divided by FSDP, matrices kept whole."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue

MODEL, SEQ = "llama-3-8b", 1024


def test_data_parallel_lora_equals_predict() -> None:
    plan = gpuwise.plan(
        MODEL, cluster="4x RTX 4090", method="lora", seq=SEQ, batch=4, data=4, zero=0, recompute="none", scaling=False
    )
    step = gpuwise.predict(MODEL, gpu="RTX 4090", gpus=4, method="lora", seq=SEQ, batch=1).results[0]
    assert plan.plain is not None
    assert plan.plain.estimate.step_s == pytest.approx(step.to_dict()["step_s"], rel=1e-6)
    assert plan.to_dict()["plain_data_parallel"]["memory"]["total_bytes"] == pytest.approx(
        step.to_dict()["memory"]["total_bytes"], rel=1e-3
    )


def test_fsdp_divides_the_packed_weights() -> None:
    """70B in nf4 is about 37 GB, so neither a GPU of 24 GB nor one of 32 GB holds it, but four together do."""
    found = gpuwise.plan("llama-3-70b", cluster="4x RTX 3090", method="qlora", seq=512, scaling=False).to_dict()
    assert found["fits"]
    best = found["plans"][found["recommended"]]
    assert best["zero_stage"] == 3 or best["pipeline"] > 1
    assert best["memory"]["weight_bytes"] < 24e9
    assert not found["plain_data_parallel"]["fits"]


def test_only_gradients_of_adapters_are_averaged() -> None:
    whole, adapters = (
        gpuwise.plan(MODEL, cluster="8x A100", method=method, seq=SEQ, batch=8, data=8, zero=0, scaling=False).plain
        for method in ("full", "lora")
    )
    assert whole is not None
    assert adapters is not None
    sent = [sum(one["total_bytes"] for one in plan.to_dict()["collectives"]) for plan in (whole, adapters)]
    assert sent[1] < sent[0] / 50


def test_the_answer_names_the_method_and_peft() -> None:
    found = gpuwise.plan(MODEL, cluster="2x RTX 3090", method="qlora", seq=SEQ, scaling=False)
    assert "QLoRA, rank 16" in found.method
    assert found.to_dict()["method"] == found.method
    recipes = found.to_dict()["plans"][0]["recipes"]
    assert recipes
    assert all("peft" in recipe["lines"][0] for recipe in recipes)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "qlora", "tensor": 2}, "keeps whole"),
        ({"method": "lora", "precision": "fp32"}, "16-bit type"),
        ({"method": "qlorra"}, "unknown method"),
        ({"rank": 8}, "applies to adapters"),
    ],
)
def test_what_adapters_cannot_do_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadValue, match=said) as fault:
        gpuwise.plan(MODEL, cluster="4x RTX 4090", seq=SEQ, **options)
    assert fault.value.hint
