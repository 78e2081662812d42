"""`fit` of language models that generate text: the verdict, tokens per second, contexts, remedies and the ladder."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.advise.types import EFFECTS
from gpuwise.core.errors import BadValue, GpuwiseError, UnknownName
from gpuwise.hardware.catalog import load_catalog
from gpuwise.prediction.generation import Serving, fits, generation_memory
from gpuwise.prediction.language_memory import longest_context, with_context
from gpuwise.questions.common.language.ask import language_query
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.fit.answer import FitAnswer
from gpuwise.questions.fit.generation_text import render
from gpuwise.questions.fit.language_figure import language_memory_figure
from gpuwise.questions.fit.language_types import LanguageFit, LanguageFitAnswer
from gpuwise.render.chart import Bars
from gpuwise.surfaces.cli.app import app
from making_gguf import llama, write

BIG = "llama-3-70b"
STEP_KEYS = ("model", "gpu", "gpu_count", "batch", "memory", "fits", "max_batch", "safe_batch", "step_s", "remedies", "ladder")


@cache
def asked(model: str, gpu: str, **options: Any) -> LanguageFitAnswer:
    found = gpuwise.fit(model, gpu=gpu, **options)
    assert isinstance(found, LanguageFitAnswer)
    return found


def answer(model: str, gpu: str, **options: Any) -> LanguageFit:
    (found,) = asked(model, gpu, **options).results
    assert isinstance(found, LanguageFit)
    return found


def serving(gpu: str, **options: Any) -> Serving:
    return language_query("llama-3-8b", LanguageOptions("llama-3-8b", **options), [load_catalog().find(gpu).gpu]).serving


# ---------------------------------------------------------------- the verdict


def test_two_3090_hold_70_billion_weights_in_four_bits_and_one_does_not() -> None:
    two, one = answer(BIG, "2x RTX 3090", weights="q4_k_m"), answer(BIG, "RTX 3090", weights="q4_k_m")
    assert two.fits
    assert not one.fits
    assert two.generation.tokens_per_s > 5 * one.generation.tokens_per_s  # layers on the CPU


@pytest.mark.parametrize("gpu", ["2x RTX 3090", "H100 SXM"])
def test_memory_and_speed_are_those_of_predict(gpu: str) -> None:
    found = answer(BIG, gpu, weights="q4_k_m")
    (predicted,) = gpuwise.predict(BIG, gpu=gpu, weights="q4_k_m").results
    assert found.memory == predicted.memory
    assert found.step_s == pytest.approx(predicted.step_s)
    assert found.generation.to_dict() == predicted.to_dict()["generation"]


def test_what_does_not_fit_but_runs_on_the_cpu_in_part_is_said_to() -> None:
    found = answer(BIG, "RTX 3090", weights="q4_k_m")
    assert found.survives
    assert 0 < found.generation.offloaded_fraction < 1
    assert not answer(BIG, "RTX 3090", weights="awq").survives  # vLLM keeps all layers on the GPU


def test_inference_of_a_known_language_model_is_text_and_a_batch_makes_it_a_step() -> None:
    assert isinstance(gpuwise.fit("llama-3-8b", gpu="RTX 3090", mode="infer", remedies=False), LanguageFitAnswer)
    step = gpuwise.fit("llama-3-8b", gpu="RTX 3090", mode="infer", batch=1, remedies=False)
    assert isinstance(step, FitAnswer)
    assert not isinstance(step, LanguageFitAnswer)


def test_a_model_known_by_its_sizes_alone_is_text() -> None:
    assert answer("Qwen3-14B", "RTX 3090", remedies=False).generation.tokens_per_s > 0


def test_a_desktop_takes_its_share() -> None:
    plain, shown = (
        answer("llama-3-8b", "RTX 3090", weights="q8_0", display=display, remedies=False) for display in (False, True)
    )
    assert shown.room.usable_bytes < plain.room.usable_bytes
    assert shown.max_batch < plain.max_batch


# ---------------------------------------------------------------- contexts


@pytest.mark.parametrize("options", [{"users": 64}, {"users": 64, "kv": "fp8"}, {"users": 30, "prompt": 100, "output": 900}])
def test_the_longest_context_fits_and_one_token_more_does_not(options: dict[str, Any]) -> None:
    gpu, asked_for = load_catalog().find("RTX 4090").gpu, serving("RTX 4090", weights="fp16", **options)
    longest = longest_context(asked_for, gpu)
    assert 1 < longest < asked_for.shape.context
    assert fits(with_context(asked_for, longest), gpu)
    assert not fits(with_context(asked_for, longest + 1), gpu)


def test_the_longest_context_ends_where_the_model_does() -> None:
    found = answer("llama-3-8b", "H100 SXM", weights="fp16", remedies=False)
    assert found.longest_context == found.model_context == 8192


def test_the_requests_that_fit_do_and_one_more_does_not() -> None:
    gpu, asked_for = load_catalog().find("RTX 4090").gpu, serving("RTX 4090", weights="fp16")
    most = answer("llama-3-8b", "RTX 4090", weights="fp16", remedies=False).max_batch
    assert fits(replace(asked_for, users=most), gpu)
    assert not fits(replace(asked_for, users=most + 1), gpu)


def test_a_longer_context_leaves_room_for_fewer() -> None:
    found = answer("llama-3-8b", "RTX 4090", weights="fp16", remedies=False).serving
    assert found is not None
    assert found.users_reserved < found.users_paged


# ---------------------------------------------------------------- remedies


@pytest.mark.parametrize(("gpu", "weights"), [("RTX 3090", "fp16"), ("2x RTX 3090", "fp16"), ("T4", "q8_0"), ("RTX 4090", "")])
def test_every_remedy_saves_memory_or_brings_more(gpu: str, weights: str) -> None:
    found = answer(BIG, gpu, weights=weights, mode="infer")
    assert found.rungs
    for rung in found.rungs:
        assert rung.effect in EFFECTS
        assert rung.memory.total_bytes < found.memory.total_bytes or rung.gpu != found.gpu.name
        assert rung.tokens_per_s > 0
        assert rung.fits == (rung.max_batch >= rung.batch)


def test_smaller_weights_come_from_most_bits_to_fewest_and_each_is_faster() -> None:
    rungs = [rung for rung in answer("llama-3-8b", "M2 Max", weights="fp16").rungs if rung.name.startswith("q")]
    assert [rung.name for rung in rungs] == ["q8_0", "q6_k", "q5_k_m", "q4_k_m"]
    speeds = [rung.tokens_per_s for rung in rungs]
    assert speeds == sorted(speeds)


def test_layers_on_the_cpu_name_the_system_memory_they_take() -> None:
    (rung,) = [rung for rung in answer(BIG, "RTX 3090", weights="q4_k_m").rungs if rung.name == "cpu-layers"]
    assert rung.fits
    assert rung.host_bytes > 10 * 2**30
    assert f"{rung.host_bytes / 2**30:.1f} GiB of system memory" in rung.how


def test_an_engine_that_keeps_all_on_the_gpu_is_offered_one_that_does_not() -> None:
    (rung,) = [rung for rung in answer(BIG, "RTX 3090", weights="fp16").rungs if rung.name == "cpu-layers"]
    assert rung.title.startswith("llama.cpp, q4_k_m, ")
    assert rung.effect == "quality"


def test_heads_that_cannot_be_divided_are_given_whole_layers() -> None:
    found = answer("falcon-7b", "2x RTX 3090", weights="fp16", remedies=False)  # 71 heads
    assert found.generation.split == "layers"
    with pytest.raises(BadValue, match="cannot divide the 71 attention heads"):
        gpuwise.fit("falcon-7b", gpu="2x RTX 3090", weights="bf16", engine="compile")


def test_many_users_are_offered_fewer_of_them_and_shorter_contexts() -> None:
    found = answer("llama-3-8b", "RTX 4090", engine="vllm", users=32, context=8192)
    rungs = {rung.name: rung for rung in found.rungs}
    assert rungs["fewer-users"].batch == found.max_batch
    assert rungs["shorter-context"].context == found.longest_context
    assert rungs["kv-fp8"].memory.kv_cache_bytes == pytest.approx(found.memory.kv_cache_bytes / 2)


def test_the_ladder_ends_with_what_fits_and_what_fits_has_none() -> None:
    for gpu, weights in (("RTX 3090", "fp16"), ("RTX 3060 12GB", "awq"), ("T4", "fp16")):
        found = answer(BIG, gpu, weights=weights)
        assert [rung.fits for rung in found.climbed] == [False] * (len(found.climbed) - 1) + [True]
    assert not answer(BIG, "2x RTX 3090", weights="q4_k_m").climbed


def test_a_smaller_cache_comes_before_weights_of_three_and_two_bits() -> None:
    found = answer("qwen3-32b", "RTX 3090", weights="q4_k_m", context=32768)
    assert [rung.name for rung in found.climbed] == ["kv-q8_0"]
    names = [rung.name for rung in found.rungs]
    assert names.index("kv-q8_0") < names.index("q3_k_m") < names.index("q2_k")
    text = render(asked("qwen3-32b", "RTX 3090", weights="q4_k_m", context=32768), width=400)
    assert "FITS with q8_0 keys and values" in text
    assert "fastest remedy is q2_k" not in text


def test_a_fraction_of_the_layers_leaves_the_rest() -> None:
    gpu = load_catalog().find("RTX 3090").gpu
    whole = language_query(BIG, LanguageOptions(BIG, weights="q4_k_m"), [gpu]).serving
    part = replace(whole, offloaded=0.5)
    assert generation_memory(part).total_bytes < generation_memory(whole).total_bytes
    assert generation_memory(part).host_bytes > 0


# ---------------------------------------------------------------- what is printed and refused


def test_json_has_every_key_of_a_step_and_tokens_besides() -> None:
    told = asked(BIG, "RTX 3090", weights="q4_k_m").to_dict()
    step = gpuwise.fit("resnet18", gpu="RTX 3090").to_dict()
    assert set(step) <= set(told)
    assert set(step["remedies"][0]) <= set(told["remedies"][0])
    assert all(row["tokens_per_s"] > 0 for row in (*told["remedies"], *told["ladder"]))
    assert told["longest_context"] == 0
    assert all(key in told for key in STEP_KEYS)


@pytest.mark.parametrize(
    "arguments",
    [
        [BIG, "--weights", "q4_k_m", "--gpu", "RTX 3090"],
        [BIG, "--weights", "fp16", "--gpu", "RTX 3090"],
        ["llama-3-8b", "--engine", "vllm", "--users", "32", "--context", "8192", "--gpu", "RTX 4090"],
    ],
)
def test_a_brief_answer_fits_a_terminal(arguments: list[str]) -> None:
    text = CliRunner().invoke(app, ["fit", *arguments], catch_exceptions=False).stdout
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 100
    assert "remedies applied in order until the model fits" in text


def test_several_gpus_stand_side_by_side() -> None:
    found = gpuwise.fit("Qwen3-14B", gpu=("RTX 3090", "RTX 3060 12GB"), weights="fp16")
    assert isinstance(found, LanguageFitAnswer)
    text = render(found, width=100)
    assert "tokens/s" in text
    assert "the model fits on the RTX 3060 12GB with " in text


@pytest.mark.parametrize("gpu", ["RTX 3090", "2x RTX 3090"])
def test_the_figure_shows_what_is_printed(gpu: str) -> None:
    figure = language_memory_figure(asked(BIG, gpu, weights="q4_k_m"))
    (panel,) = figure.panels
    assert isinstance(panel, Bars)
    found = answer(BIG, gpu, weights="q4_k_m")
    bars = {bar.label: bar for bar in panel.bars}
    assert sum(one.value for one in bars["as requested"].segments) == pytest.approx(found.memory.total_bytes / 2**30)
    assert bars["as requested"].faint != found.fits
    assert all(rung.title in bars for rung in found.rungs if rung.name != "bigger-gpu")


def test_it_says_no_only_where_it_does_not_fit() -> None:
    assert asked(BIG, "RTX 3090", weights="q4_k_m").says_no
    assert not asked(BIG, "2x RTX 3090", weights="q4_k_m").says_no


def test_the_usual_lengths_stay_within_a_short_context(tmp_path: Path) -> None:
    short = write(tmp_path / "tiny.gguf", *llama())  # 512 tokens, fewer than a usual prompt and answer together
    (found,) = asked(str(short), "RTX 3090").results
    assert found.generation.prompt + found.generation.output == 512
    with pytest.raises(BadValue, match="supports at most 512 tokens, but 700 were requested"):
        asked(str(short), "RTX 3090", prompt=600, output=100)


@pytest.mark.parametrize(
    ("options", "fault", "said"),
    [
        ({"users": 0}, BadValue, "invalid --users 0"),
        ({"output": -1}, BadValue, "invalid --output -1"),
        ({"context": 100_000}, BadValue, "supports at most 8,192 tokens"),
        ({"engine": "fastest"}, UnknownName, "unknown engine 'fastest'"),
        ({"weights": "q4_k_m", "engine": "vllm"}, BadValue, "vLLM does not support q4_k_m weights"),
        ({"weights": "fp8", "engine": "tensorrt-llm"}, BadValue, "which has compute capability 8.6"),
        ({"weights": "int5"}, BadValue, "unknown weight format 'int5'"),
        ({"kv": "q8_0", "engine": "vllm"}, BadValue, "vLLM does not support a key-value cache in q8_0"),
        ({"weights": "int4", "mode": "train"}, BadValue, "cannot be combined"),
        ({"weights": "int4", "gpus": 0}, BadValue, "invalid --gpus 0"),
    ],
)
def test_what_cannot_be_run_is_refused(options: dict[str, Any], fault: type[GpuwiseError], said: str) -> None:
    with pytest.raises(fault, match=said):
        gpuwise.fit("llama-3-8b", gpu="RTX 3090", **options)


def test_the_whole_catalogue_is_not_asked_for_text() -> None:
    with pytest.raises(BadValue, match="`--all` does not support text generation"):
        gpuwise.fit("llama-3-8b", weights="int4", all=True)


def test_what_would_fit_is_in_the_first_sentence() -> None:
    told = " ".join(str(gpuwise.fit("llama-3-8b", gpu="RTX 3060")).split())
    assert "is available. It FITS with fp8 weights (" in told
    assert "; the fastest remedy is llama.cpp, q4_k_m" in told


def test_a_model_published_in_four_bits_is_offered_no_smaller_files() -> None:
    answer = gpuwise.fit("gpt-oss-120b", gpu="RTX 4090", engine="llama.cpp").to_dict()
    titles = {remedy["title"] for remedy in answer["remedies"]}
    assert "layers split over 4 GPUs" in titles
    assert not any("q2_k" in str(remedy) or "q3_k" in str(remedy) for remedy in answer["remedies"])
