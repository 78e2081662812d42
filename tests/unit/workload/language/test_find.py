"""Names of language models as people type them, and the files they may give instead."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import making_gguf as making
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError, UnknownName
from gpuwise.workload.language.find import find_shape, known_names
from gpuwise.workload.store import zoo

MEANT = {
    "GPT-J 6B": "EleutherAI/gpt-j-6b",
    "gptj-99": "EleutherAI/gpt-j-6b",
    "Gemma 7B": "google/gemma-7b",
    "Koala 13B": "huggyllama/llama-13b",
    "LLaMA 70B": "meta-llama/Llama-2-70b-hf",
    "Llama 13B": "meta-llama/Llama-2-13b-hf",
    "Llama 2 13B": "meta-llama/Llama-2-13b-hf",
    "Llama 3 8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "llama 3.1 8b instruct": "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B",
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "Llama 3.3 70B": "meta-llama/Llama-3.3-70B-Instruct",
    "Llama 33B": "huggyllama/llama-30b",
    "Llama2-70B": "meta-llama/Llama-2-70b-hf",
    "llama2-70b-99.9": "meta-llama/Llama-2-70b-hf",
    "llama2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-2-7b-chat.Q4_K_M.gguf": "meta-llama/Llama-2-7b-hf",
    "llama 8B Q4_K - Medium": "meta-llama/Meta-Llama-3-8B",
    "llama4 17Bx16E (Scout) IQ1_S - 1.5625 bpw": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "TinyLlama 1.1B": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "Vicuna 7B": "meta-llama/Llama-2-7b-hf",
    "lmsys/vicuna-13b-v1.5": "meta-llama/Llama-2-13b-hf",
    "WizardLM 33B": "huggyllama/llama-30b",
    "MPT 7B": "mosaicml/mpt-7b",
    "Mistral 7B": "mistralai/Mistral-7B-v0.1",
    "Mistral-7B-Instruct-v0.2": "mistralai/Mistral-7B-Instruct-v0.2",
    "Mistral-7B-Instruct-v0.3": "mistralai/Mistral-7B-v0.3",
    "Mistral-Small-24B": "mistralai/Mistral-Small-24B-Instruct-2501",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "Mixtral-8x22B-Instruct-v0.1": "mistralai/Mixtral-8x22B-v0.1",
    "Phi3-mini (3.8B)": "microsoft/Phi-3-mini-4k-instruct",
    "Phi-3-mini-128k-instruct": "microsoft/Phi-3-mini-128k-instruct",
    "phi3 14B": "microsoft/Phi-3-medium-4k-instruct",
    "Phi-4 14B": "microsoft/phi-4",
    "Qwen-7B": "Qwen/Qwen-7B",
    "Qwen-72B": "Qwen/Qwen-72B",
    "Qwen2.5-7B-Instruct-AWQ": "Qwen/Qwen2.5-7B",
    "qwen2 14B Q4_K - Medium": "Qwen/Qwen2.5-14B",
    "qwen3 14B Q4_K - Medium": "Qwen/Qwen3-14B",
    "qwen3moe 32B.A3B Q4_K - Medium": "Qwen/Qwen3-30B-A3B",
    "qwen3moe 30B.A3B Q4_K - Medium": "Qwen/Qwen3-30B-A3B",
    "Qwen3-Coder-30B-A3B-Instruct-Q8_0": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "Qwen3-4B-Instruct-2507": "Qwen/Qwen3-4B",
    "gemma3 27B Q4_K - Medium": "google/gemma-3-27b-it",
    "unsloth/gemma-3-27b-it-GGUF": "google/gemma-3-27b-it",
    "glm4moe 106B.A12B Q4_K - Medium": "zai-org/GLM-4.5-Air",
    "gpt-oss 20B MXFP4 MoE": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "DeepSeek-R1 671B": "deepseek-ai/DeepSeek-R1",
    "deepseek-r1-distill-qwen-32b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
    "command-r+": "CohereForAI/c4ai-command-r-plus",
    "OLMo-2-7B": "allenai/OLMo-2-1124-7B",
    "Yi-34B-Chat": "01-ai/Yi-34B",
    "hf:openai-community/gpt2": "gpt2",
}


@pytest.mark.parametrize(("typed", "model"), MEANT.items())
def test_names_as_people_type_them(typed: str, model: str) -> None:
    assert find_shape(typed).name == model
    assert find_shape(typed.upper()).name == model


@pytest.mark.parametrize("name", known_names())
def test_every_model_of_the_tables_is_found_by_its_own_name(name: str) -> None:
    assert find_shape(name).name == name
    assert find_shape(name.rpartition("/")[2]).parameters == find_shape(name).parameters


# Models that the zoo counts as another's, and that have sizes of their own in the table.
OF_THEIR_OWN = {"qwen-7b", "qwen-14b", "qwen-72b", "codellama-7b"}


def test_names_of_the_zoo_mean_the_models_of_the_zoo() -> None:
    named = {entry.source.removeprefix("hf:"): entry for entry in zoo.entries().values() if entry.family != "gpt3"}
    decoders = [entry for source, entry in named.items() if source in known_names()]
    decoders += [entry for entry in zoo.entries().values() if entry.family == "gpt3"]
    assert len(decoders) > 30
    for entry in decoders:
        spelt = {entry.name, *entry.aliases} - OF_THEIR_OWN
        assert {find_shape(name).parameters for name in spelt} == {entry.parameters}, entry.name


@pytest.mark.parametrize(
    "name", ["resnet50", "gpt-4", "", " ", "///", "qwen3 9b", "x" * 5000, "a\0b", "bert-99.9", "b" * 300 + ".gguf"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        find_shape(name)
    assert "config.json" in caught.value.hint
    assert len(caught.value.message) < 200


def test_the_nearest_names_are_offered() -> None:
    with pytest.raises(UnknownName, match="did you mean `Qwen3-8B`"):
        find_shape("qwen3 9b")


@pytest.mark.parametrize("name", ["nemotron_h 9B Q4_K - Medium", "Nemotron-3-Super-120B", "Jamba-v0.1"])
def test_models_that_keep_a_state_are_refused_for_what_they_are(name: str) -> None:
    with pytest.raises(UnknownName, match="keep a fixed-size state"):
        find_shape(name)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
@example("hf:")
@example("hf:../../etc")
def test_no_name_is_a_traceback(name: str) -> None:
    try:
        assert find_shape(name).parameters > 0
    except GpuwiseError as error:
        assert error.hint  # noqa: PT017  (most names are unknown; a traceback is what must not be)


# ---------------------------------------------------------------- files


def test_a_configuration_is_read_where_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    config = {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for given_path in (folder / "config.json", folder):
        found = find_shape(str(given_path))
        assert (found.name, found.parameters) == ("my-model", 124_439_808)


def test_a_gguf_file_is_read_anew_when_it_changes(tmp_path: Path) -> None:
    path = making.write(tmp_path / "model.gguf", *making.llama(), data=False)
    assert find_shape(str(path)).vocabulary == 300
    making.write(path, *making.gpt_oss())
    assert find_shape(str(path)).vocabulary == 512


@pytest.mark.parametrize("name", ["absent/model.gguf", "absent/config.json", "absent.json", "x" * 300 + ".json"])
def test_a_file_that_is_not_there_is_told(name: str) -> None:
    with pytest.raises(BadFile, match="not found"):
        find_shape(name)


def test_what_is_in_the_file_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": 1e400}', encoding="utf-8")
    with pytest.raises(BadValue, match="hidden_size"):
        find_shape(str(path))


# ---------------------------------------------------------------- speed


def test_a_name_takes_little_time_and_no_framework() -> None:
    code = (
        "import sys, gpuwise.workload.language.find as find; find.find_shape('Llama-3-8B')\n"
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    find_shape("gpt2")
    begin = time.perf_counter()
    for name in MEANT:
        find_shape(name)
    assert (time.perf_counter() - begin) / len(MEANT) < 0.02
