"""Language models that generate text, asked over the page's API: by names of our tables only, never by a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwise.surfaces.web.answers import answer
from gpuwise.workload.language.find import find_shape, is_known_name, known_names


def asked(question: str, **options: Any) -> tuple[int, dict[str, Any]]:
    status, content = answer(question, options)
    found: dict[str, Any] = json.loads(content)
    return status, found


def test_a_model_known_by_its_sizes_is_answered_in_tokens() -> None:
    status, told = asked("predict", model="Qwen/Qwen3-14B", gpu=["RTX 4090"], weights="q4_k_m", users=4)
    assert status == 200
    assert told["results"][0]["generation"]["tokens_per_s"] > 50
    assert asked("compare", names=["RTX 3090", "RTX 4090"], model=["Qwen/Qwen3-14B"], weights="q4_k_m")[0] == 200
    assert asked("cost", gpu=["RTX 4090"], model="Qwen/Qwen3-14B", weights="q4_k_m")[0] == 200


def test_a_curve_is_answered_with_all_its_points() -> None:
    status, told = asked("predict", model="llama-3-8b", gpu=["RTX 4090"], engine="vllm", users="1..256")
    assert status == 200
    assert [one["generation"]["users"] for one in told["results"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_questions_about_steps_still_take_included_models_only() -> None:
    status, told = asked("plan", model="Qwen/Qwen3-235B-A22B", cluster="8xH100 SXM 80GB")
    assert status == 400
    assert "unknown model" in told["error"]
    status, told = asked("fit", model="Qwen/Qwen3-235B-A22B", gpu=["RTX 4090"], mode="train")
    assert status == 400
    assert "only for text generation" in told["error"]


def test_memory_and_choice_for_text_need_no_included_model() -> None:
    assert asked("fit", model="Qwen/Qwen3-14B", gpu=["RTX 4090"])[0] == 200
    assert asked("which", model=["Qwen/Qwen3-14B"], users=4)[0] == 200


@pytest.mark.parametrize("question", ["predict", "compare", "cost", "fit", "which"])
def test_a_file_is_never_read_for_a_request(question: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama"}')
    for name in (
        str(config),
        str(tmp_path),
        f"{tmp_path}/llama-3-8b.gguf",
        "qwen3-14b.gguf",
        "qwen3-14b.py",
        "hf:Qwen/Qwen3-14B",
        "./qwen3-14b",
    ):
        cards = {"names": ["RTX 3090", "RTX 4090"]} if question == "compare" else {"gpu": ["RTX 4090"]}
        status, told = asked(question, model=[name] if question == "compare" else name, **cards)
        assert status == 400, name
        assert "unknown model" in told["error"], name


def test_every_name_of_the_tables_is_known_without_a_file() -> None:
    assert all(is_known_name(name) for name in known_names())
    assert not is_known_name("resnet50")
    assert find_shape(known_names()[0]).parameters > 0
