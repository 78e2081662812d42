"""Language models that people fine-tune: found by name, trained where that is asked for, and asked for text where nothing is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.common.language.ask import generates_unasked
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.language.find import find_shape, known_names, twin_of
from gpuwise.workload.store import zoo

GIB = 2**30
# What people fine-tune, and the millions of parameters that its publisher states.
TUNED = {
    "qwen2.5-0.5b": 494,
    "Qwen/Qwen2.5-72B-Instruct": 72_706,
    "qwen3-0.6b": 596,
    "qwen3-1.7b": 1_721,
    "qwen3-4b": 4_022,
    "qwen3-8b": 8_191,
    "qwen3-14b": 14_768,
    "qwen3-32b": 32_762,
    "qwen3-30b-a3b": 30_532,
    "llama-3-8b": 8_030,
    "llama-3.1-8b-instruct": 8_030,
    "llama-3.2-1b": 1_236,
    "llama-3.2-3b": 3_213,
    "llama-3.3-70b": 70_554,
    "gemma-2-2b": 2_614,
    "gemma-2-9b-it": 9_242,
    "gemma-2-27b": 27_227,
    "gemma-3-270m": 268,
    "gemma-3-1b": 1_000,
    "gemma-3-4b": 3_880,
    "gemma-3-12b": 11_766,
    "gemma-3-27b": 27_009,
    "phi-3-mini": 3_821,
    "phi-3-medium": 13_960,
    "phi-4": 14_660,
    "mistral-7b": 7_242,
    "mistral-7b-instruct-v0.3": 7_248,
    "mistral-nemo": 12_248,
    "mistral-small-24b": 23_572,
    "olmo-2-7b": 7_299,
    "olmo-2-13b": 13_716,
    "granite-3.3-2b-instruct": 2_534,
    "granite-3.1-8b": 8_171,
    "smollm2-135m": 134.5,
    "smollm2-360m": 362,
    "smollm2-1.7b": 1_711,
    "gpt-oss-20b": 20_915,
}
# Models that take the steps of another, because they have its sizes.
TWINS = {
    "llama-3.1-8b": "llama-3-8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3-8b",
    "unsloth/Qwen3-8B": "qwen3-8b",
    "deepseek-r1-distill-llama-8b": "llama-3-8b",
    "deepseek-r1-distill-llama-70b": "llama-3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "DeepSeek-R1-Distill-Qwen-14B": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "qwen2.5-coder-7b": "qwen2.5-7b",
    "qwen2.5-coder-1.5b-instruct": "qwen2.5-1.5b",
    "qwq-32b": "qwen2.5-32b",
    "qwen3-coder-30b-a3b": "qwen3-30b-a3b",
    "Mistral-7B-Instruct-v0.2": "mistral-7b",
    "phi-3.5-mini": "phi-3-mini",
    "granite-3.1-2b": "granite-3-2b",
}
TEXT_ONLY = ("qwen3-235b", "deepseek-v3", "llama-3.1-405b", "phi-2")


def asked(*words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    return told


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(("name", "millions"), TUNED.items())
def test_what_people_tune_can_be_trained_at_its_published_size(name: str, millions: float) -> None:
    assert zoo.entry(name).parameters / 1e6 == pytest.approx(millions, rel=1e-3)
    assert {graph.mode for graph in zoo.entry(name).graphs} == {"train", "infer"}


@pytest.mark.parametrize(("name", "meant"), TWINS.items())
def test_a_model_of_the_same_sizes_takes_the_same_steps(name: str, meant: str) -> None:
    assert zoo.has(name)
    assert zoo.entry(name).name == meant


def test_no_two_language_models_are_stored_that_take_the_same_steps() -> None:
    twins = [twin_of(entry.source.removeprefix("hf:")) for entry in zoo.entries().values() if entry.source.startswith("hf:")]
    kinds = [twin for twin in twins if twin is not None]
    assert len(kinds) > 50
    assert len(kinds) == len(set(kinds))


def test_a_twin_may_be_longer_than_the_model_whose_steps_it_takes() -> None:
    (told,) = asked("predict", "llama-3.1-8b", "--method", "qlora", "--seq", "16384", "--gpu", "H100 SXM 80GB")["results"]
    assert told["memory"]["total_bytes"] > 0
    with pytest.raises(BadValue, match="at most 8,192 tokens"):
        gpuwise.predict("llama-3-8b", method="qlora", seq=16384, gpu="H100 SXM 80GB")
    with pytest.raises(BadValue, match="at most 131,072 tokens"):
        gpuwise.predict("llama-3.1-8b", method="qlora", seq=200_000, gpu="H100 SXM 80GB")


# ---------------------------------------------------------------- what tuning takes


def test_the_memory_of_a_tuned_model_is_that_of_its_packed_weights_and_what_checkpoints_leave() -> None:
    (told,) = asked("predict", "qwen3-8b", "--method", "qlora", "--checkpoint", "--seq", "1024", "--gpu", "RTX 4090")["results"]
    assert told["fits"]
    assert 5.0 * GIB < told["memory"]["weight_bytes"] < 6.5 * GIB  # half a byte a weight, tables in 16 bits
    assert 8.0 * GIB < told["memory"]["total_bytes"] < 12.5 * GIB
    assert told["mode"] == "train"
    assert 0.2 < told["step_s"] < 2.0


@pytest.mark.parametrize("name", ["qwen3-4b", "gemma-3-4b", "phi-4", "olmo-2-7b", "granite-3-8b", "gpt-oss-20b", "smollm2-360m"])
def test_a_step_works_six_times_its_active_weights_a_token(name: str) -> None:
    """Two operations a weight forward and four backward; attention and the head of small models add to it."""
    workload = gpuwise.capture(name, precision="bf16", batch=1, seq=2048).to_dict()
    shape = find_shape(name)
    least = 6 * (shape.active_block_weights + shape.table_weights) * 2048
    assert 0.98 < (workload["forward_flops"] + workload["backward_flops"]) / least < 1.5


# ---------------------------------------------------------------- what cannot be trained


@pytest.mark.parametrize("name", TEXT_ONLY)
@pytest.mark.parametrize("more", [("--method", "qlora"), ("--mode", "train"), ("--batch", "1")])
def test_what_only_generates_says_so_where_it_is_asked_to_train(name: str, more: tuple[str, ...]) -> None:
    for command in ("predict", "fit"):
        fault = CliRunner().invoke(app, [command, name, *more, "--gpu", "H100 SXM 80GB"]).exception
        assert isinstance(fault, BadValue)  # exit code 2
        said = " ".join(str(fault).split())
        assert f"gpuwise includes '{name}' only for text generation" in said
        assert "--mode infer" in said
        assert f"hf:{find_shape(name).name}" in said


# ---------------------------------------------------------------- what is done where nothing is said


@pytest.mark.parametrize("name", ["qwen2.5-7b", "qwen3-8b", "llama-2-7b", "gemma-3-1b", "qwen3-235b", "phi-2", "smollm2-135m"])
def test_a_language_model_generates_where_nothing_is_said(name: str) -> None:
    assert generates_unasked(name)
    (told,) = asked("predict", name, "--gpu", "H100 SXM 80GB")["results"]
    assert told["generation"]["tokens_per_s"] > 0
    assert told["mode"] == "infer"


@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl", "gpt3-6.7b", "opt-6.7b", "bert-base", "t5-base", "resnet50"])
def test_what_is_older_than_chat_or_no_decoder_trains_where_nothing_is_said(name: str) -> None:
    assert not generates_unasked(name)
    (told,) = asked("predict", name, "--gpu", "H100 SXM 80GB")["results"]
    assert told["mode"] == "train"


def test_every_model_known_only_by_its_sizes_generates_unasked() -> None:
    assert all(generates_unasked(name) for name in known_names() if not zoo.has(name))


@pytest.mark.parametrize(
    "more",
    [
        ("--mode", "train"),
        ("--method", "lora"),
        ("--optimizer", "adamw"),
        ("--batch", "2"),
        ("--seq", "512"),
        ("--checkpoint",),
        ("--accumulate", "2"),
        ("--precision", "amp"),
    ],
)
def test_an_option_of_training_trains(more: tuple[str, ...]) -> None:
    (told,) = asked("predict", "llama-3.2-1b", *more, "--gpu", "RTX 4090")["results"]
    assert told["mode"] == "train"


def test_every_question_follows_the_rule() -> None:
    pair = ("RTX 3090", "RTX 4090")
    assert asked("fit", "llama-3.2-1b", "--gpu", "RTX 4090")["tokens_per_s"] > 0
    assert "tokens_per_s" not in asked("fit", "gpt2", "--gpu", "RTX 4090")
    assert asked("compare", *pair, "--model", "llama-3.2-1b")["pairs"][0]["workload"] == "llama-3.2-1b, tokens"
    assert asked("compare", *pair, "--model", "llama-3.2-1b", "--mode", "train")["pairs"][0]["workload"] == "llama-3.2-1b"
    assert asked("compare", *pair, "--model", "gpt2")["pairs"][0]["workload"] == "gpt2"
    assert "tokens/s" in asked("which", "--model", "llama-3.2-1b", "--budget", "800")["verdict"]
    assert "tokens/s" not in asked("which", "--model", "gpt2", "--budget", "800")["verdict"]
    assert asked("cost", "--gpu", "RTX 4090", "--model", "llama-3.2-1b")["tokens"]["tokens_per_s"] > 0
    assert not asked("cost", "--gpu", "RTX 4090", "--model", "llama-3.2-1b", "--samples", "1e5").get("tokens")
