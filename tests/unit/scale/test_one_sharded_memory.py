"""`plan` and `fit` give the same memory per GPU for the same sharded training, and never less than what must exist."""

from __future__ import annotations

from typing import Any

import pytest

import gpuwise

# Bytes per parameter of weights, gradients and optimizer states: AdamW on fp32 weights, on 16-bit weights, and with 8-bit states.
FP32, BF16, EIGHT_BIT, FROZEN, NF4 = (4, 4, 8), (2, 2, 4), (2, 2, 2), (2, 0, 0), (0.5, 0, 0)
JOBS: list[tuple[str, str, int, int, tuple[float, float, float], dict[str, Any]]] = [
    ("llama-3-70b", "H100 SXM", 8, 3, EIGHT_BIT, {"precision": "bf16", "optimizer": "adam8bit"}),
    ("llama-3-8b", "H100 SXM", 4, 3, FP32, {"precision": "amp"}),
    ("llama-3-8b", "H100 SXM", 4, 2, FP32, {"precision": "amp"}),
    ("llama-2-7b", "A100 SXM 80GB", 8, 1, BF16, {"precision": "bf16"}),
    ("gpt2-xl", "RTX 3090", 4, 3, FP32, {"precision": "amp"}),
    ("gpt2", "RTX 3090", 2, 2, FP32, {"precision": "amp", "batch": 8}),
    ("bert-large-uncased", "Tesla V100 SXM2 32GB", 8, 3, FP32, {"precision": "amp", "batch": 4}),
    ("resnet50", "RTX 4090", 4, 1, FP32, {"precision": "amp", "batch": 32}),
    ("llama-3-8b", "RTX 4090", 4, 3, FROZEN, {"method": "lora", "seq": 1024}),
    ("llama-3-70b", "RTX 3090", 4, 3, NF4, {"method": "qlora", "seq": 1024}),
]
PARAMETERS = {
    "llama-3-70b": 70.55e9,
    "llama-3-8b": 8.03e9,
    "llama-2-7b": 6.74e9,
    "gpt2-xl": 1.55e9,
    "gpt2": 0.124e9,
    "bert-large-uncased": 0.335e9,
    "resnet50": 25.5e6,
}


@pytest.mark.parametrize(("model", "gpu", "count", "stage", "each", "how"), JOBS)
def test_plan_and_fit_need_the_same(
    model: str, gpu: str, count: int, stage: int, each: tuple[float, float, float], how: dict[str, Any]
) -> None:
    size = how.get("batch", 1)
    fit = gpuwise.fit(model, gpu=gpu, gpus=count, mode="train", **{**how, "batch": size}).results[0]
    rung = next(one for one in fit.advice.remedies if one.name == f"zero-{stage}")
    fixed = {"data": count, "zero": stage, "recompute": "none", "micro_batch": size, "scaling": False}
    plan = gpuwise.plan(model, cluster=f"{count}x {gpu}", mode="train", **{**how, "batch": size * count}, **fixed)
    needed = plan.entries[0].estimate.memory.total_bytes if plan.entries else plan.least_bytes
    assert needed == pytest.approx(rung.memory.total_bytes, rel=0.01)
    assert plan.fits == rung.fits
    shares = [1 / count if stage >= first else 1.0 for first in (3, 2, 1)]
    floor = PARAMETERS[model] * sum(bytes_ * share for bytes_, share in zip(each, shares, strict=True))
    assert needed > floor


def test_a_plan_that_does_not_fit_names_the_changes_of_fit() -> None:
    plan = gpuwise.plan("llama-3-8b", cluster="2x RTX 4090", mode="train", precision="amp")
    assert not plan.fits
    fit = gpuwise.fit("llama-3-8b", gpu="RTX 4090", gpus=2, mode="train", precision="amp").results[0]
    assert [rung.title for rung in plan.remedies] == [rung.title for rung in fit.advice.ladder]
    assert plan.remedies
    assert plan.remedies[-1].title in " ".join(str(plan).split())


def test_two_cards_of_24_gb_tune_a_70b_with_its_frozen_weights_in_host_memory() -> None:
    """As published: Answer.AI's FSDP with QLoRA trains a 70B model on two 24 GB cards, with CPU offload."""
    fit = gpuwise.fit("llama-3-70b", gpu="RTX 3090", gpus=2, mode="train", method="qlora").results[0]
    assert not fit.fits
    assert [rung.name for rung in fit.advice.ladder] == ["zero-3", "offload-weights", "checkpoint"]
    before, after, last = fit.advice.ladder
    shard = 70.55e9 * 0.5 / 2
    assert before.memory.total_bytes - after.memory.total_bytes > shard
    assert after.memory.weight_bytes == 0
    assert after.step_s > before.step_s
    assert last.fits
    assert "GiB" in after.how


def test_a_lab_is_offered_servers_whose_gpus_share_a_model() -> None:
    """70B in 16 bits needs 141 GB: no GPU that $300,000 buys holds it alone, but eight of 80 GB do together."""
    found = gpuwise.which(budget=300000, model="llama-3-70b", mode="train", method="lora")
    assert found.best is not None
    assert found.best.kind.startswith("buy")
    shared = next(option for option in found.options if option.name == "8x H100 SXM 80GB")
    assert "share" in shared.run.held
    floor = 70.55e9 * 2 / 8
    assert floor < shared.run.needed_bytes < shared.run.paces[0].usable_bytes
