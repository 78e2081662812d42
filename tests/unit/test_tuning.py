"""Adapters as a user asks for them: `--method`, `--rank` and `--targets` in `predict` and `fit`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.surfaces.cli.app import app

QLORA = ("llama-3.2-1b", "--method", "qlora", "--gpu", "RTX 4070", "--seq", "1024")


def said(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refusal(*words: str) -> str:
    """What the command line says where it exits with 2."""
    result = CliRunner().invoke(app, [*words])
    assert isinstance(result.exception, GpuwiseError) or result.exit_code == 2
    return " ".join(f"{result.exception} {result.output}".split())


def one(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = said("predict", *words)["results"][0]
    return found


def test_the_answer_states_the_method_and_what_is_trained() -> None:
    found = one(*QLORA)
    assert found["method"] == "QLoRA, rank 16, weights in nf4"
    assert found["precision"] == "bf16"
    layers, hidden, keys, inner = 16, 2048, 512, 8192
    shapes = [
        (hidden, hidden),
        (hidden, keys),
        (hidden, keys),
        (hidden, hidden),
        (hidden, inner),
        (hidden, inner),
        (inner, hidden),
    ]
    assert found["trained_parameters"] == 16 * layers * sum(deep + wide for deep, wide in shapes)


def test_frozen_weights_need_less_memory_and_packed_ones_least() -> None:
    full, lora, qlora = (
        one("llama-3.2-1b", "--method", method, "--gpu", "RTX 4070", "--seq", "1024", "--mode", "train")["memory"]["total_bytes"]
        for method in ("full", "lora", "qlora")
    )
    assert full > lora > qlora


def test_lengths_of_rows_cost_time_and_memory() -> None:
    lora, dora = (one(*QLORA[:2], method, *QLORA[3:]) for method in ("lora", "dora"))
    assert dora["step_s"] > 1.05 * lora["step_s"]
    assert dora["memory"]["total_bytes"] > lora["memory"]["total_bytes"]


def test_fewer_targets_train_less() -> None:
    counts = [one(*QLORA, "--targets", targets)["trained_parameters"] for targets in ("all", "attention", "qkv", "q_proj,v_proj")]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == len(counts)
    assert one(*QLORA, "--targets", "qv")["trained_parameters"] == counts[-1]


def test_rank_scales_what_is_trained() -> None:
    low, high = (one(*QLORA, "--rank", rank)["trained_parameters"] for rank in ("8", "64"))
    assert high == 8 * low


def test_predict_and_fit_agree_on_adapters() -> None:
    asked = (*QLORA, "--checkpoint", "--batch", "4", "--accumulate", "2")
    step, held = one(*asked), said("fit", *asked, "--no-remedies")
    assert held["method"] == step["method"]
    assert held["step_s"] == pytest.approx(step["step_s"])
    assert held["memory"]["total_bytes"] == pytest.approx(step["memory"]["total_bytes"])


def test_language_models_are_told_in_tokens() -> None:
    found = one(*QLORA, "--batch", "4")
    assert found["tokens_per_s"] == pytest.approx(1024 * found["samples_per_s"])
    assert "tokens_per_s" not in one("resnet50", "--gpu", "RTX 4070")
    text = CliRunner().invoke(app, ["predict", *QLORA]).stdout
    assert text.index("tokens/s") < text.index("samples/s")


def test_temporaries_of_the_update_are_not_called_activations() -> None:
    text = CliRunner().invoke(app, ["predict", "llama-3-8b", "--mode", "train", "--gpu", "RTX 4090"]).stdout
    assert "optimizer temporaries" in " ".join(text.split())
    assert "activations" not in text
    assert "0 MiB" not in CliRunner().invoke(app, ["predict", *QLORA]).stdout


def test_a_large_model_is_made_to_fit_as_people_do() -> None:
    ladder = said("fit", "llama-3-8b", "--mode", "train", "--gpu", "RTX 4090")["ladder"]
    assert [rung["name"] for rung in ladder] == ["qlora", "checkpoint"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("resnet50", "--method", "lora"), "no linear layers"),
        (("llama-3-8b", "--method", "lora", "--rank", "0"), "rank"),
        (("llama-3-8b", "--method", "qlora", "--mode", "infer"), "no effect on inference"),
        (("llama-3-8b", "--method", "qlorra"), "did you mean `--method qlora`"),
        (("llama-3-8b", "--rank", "8", "--mode", "train"), "--rank applies to adapters"),
        (("llama-3-8b", "--method", "lora", "--targets", "gates"), "q_proj"),
        (("llama-3-8b", "--method", "lora", "--optimizer", "lion"), "AdamW"),
        (("llama-3-8b", "--method", "lora", "--precision", "amp"), "16-bit"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "fit"])
def test_what_cannot_be_trained_so_is_refused(command: str, words: tuple[str, ...], says: str) -> None:
    assert says in refusal(command, *words, "--gpu", "RTX 4090")


def test_no_kernels_no_packed_adapters() -> None:
    assert "bitsandbytes" in refusal("fit", "llama-3-8b", "--method", "qlora", "--gpu", "M3 Max (40-core GPU)")


def test_every_expert_has_an_adapter_of_its_own() -> None:
    """Qwen3-30B-A3B: 48 layers of 128 experts with gate and up (2048 to 1536) and down (768 to 2048), at rank 16."""
    experts = 48 * 128 * 16 * ((2048 + 1536) + (768 + 2048))
    attention = 48 * 16 * ((2048 + 4096) + 2 * (2048 + 512) + (4096 + 2048))
    router = 48 * 16 * (2048 + 128)
    every, few = (
        gpuwise.predict("qwen3-30b-a3b", gpu="H100 SXM 80GB", method="lora", rank=16, targets=targets).results[0]
        for targets in ("all", "attention")
    )
    assert every.trained_parameters == experts + attention + router
    assert few.trained_parameters == attention
    assert every.memory.optimizer_bytes == pytest.approx(8 * every.trained_parameters, rel=0.01)
