"""What `matters` says of language models, which generate text unless they are trained."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.core.units import GIB
from gpuwise.questions.matters.topics import TEXT_TOPICS, TOPICS
from gpuwise.questions.matters.types import Matter


def asked(topic: str, model: str = "llama-3-70b", gpu: str = "RTX 3090", **how: object) -> Matter:
    return gpuwise.matters(topic, model=model, gpu=gpu, **how).topics[0]


@pytest.mark.parametrize("weights", ["fp16", "int4"])
def test_memory_adds_up_as_predict_has_it(weights: str) -> None:
    found = asked("memory-adds-up", weights=weights)
    predicted = gpuwise.predict("llama-3-70b", gpu="RTX 3090", gpus=2, weights=weights).results[0]
    assert found.value == pytest.approx(predicted.memory.total_bytes / GIB)
    assert found.answer.startswith("Yes")
    assert ("not enough" in found.answer) == (not predicted.fits)


def test_memory_that_is_too_small_says_what_would_fit() -> None:
    assert "`--weights int4`" in asked("memory-adds-up").answer
    assert "`--weights int4`" not in asked("memory-adds-up", gpu="GTX 1650").answer


def test_a_trained_language_model_is_copied_to_each_gpu_and_must_fit_there() -> None:
    answer = asked("memory-adds-up", mode="train").answer
    assert answer.startswith("No.")
    assert "does not fit" in answer
    assert "twice the batch" not in answer


def test_a_bridge_gains_what_predict_says_of_each_link() -> None:
    found = asked("nvlink", weights="int4")
    bridge, slot = (
        gpuwise.predict("llama-3-70b", gpu="RTX 3090", gpus=2, weights="int4", link=link).results[0].generation.tokens_per_s
        for link in ("NVLink", "PCIe 4.0 x8")
    )
    assert found.value == pytest.approx(100 * (bridge / slot - 1))
    assert 1 < found.value < 20
    assert "data-parallel" not in found.answer


def test_more_users_send_more_over_the_link() -> None:
    assert asked("nvlink", weights="int4", users=8).value > asked("nvlink", weights="int4").value


def test_a_narrow_link_slows_generation_on_several_gpus_down() -> None:
    wide, narrow = (
        gpuwise.predict("llama-3-8b", gpu="RTX 3090", gpus=2, link=link).results[0].generation
        for link in ("NVLink", "PCIe 3.0 x1")
    )
    assert narrow.tokens_per_s < 0.95 * wide.tokens_per_s
    assert narrow.time_to_first_token_s > 2 * wide.time_to_first_token_s


def test_whole_layers_need_no_bridge() -> None:
    assert asked("nvlink", "llama-3-8b", weights="q4_k_m").value == 0


@pytest.mark.parametrize("topic", sorted(set(TOPICS) - set(TEXT_TOPICS)))
def test_topics_of_training_are_refused_with_a_way_on(topic: str) -> None:
    with pytest.raises(BadValue, match="cannot be answered for text generation") as refused:
        asked(topic)
    assert "`--mode train`" in refused.value.hint


def test_all_topics_are_those_of_generated_text() -> None:
    found = gpuwise.matters(model="llama-3-8b", gpu="RTX 3090")
    assert [topic.topic for topic in found.topics] == [name for name in TOPICS if name in TEXT_TOPICS]
    assert "text generation" in found.case


def test_what_cannot_be_divided_is_left_out_of_the_list_and_refused_alone() -> None:
    listed = {topic.topic for topic in gpuwise.matters(model="llama-3-8b", gpu="M4 Max", engine="mlx").topics}
    assert "cpu" in listed
    assert not listed & {"nvlink", "memory-adds-up", "pcie-lanes"}
    with pytest.raises(BadValue, match="cannot run llama-3-8b on 2 GPUs"):
        asked("nvlink", "llama-3-8b", "M4 Max", engine="mlx")


@pytest.mark.parametrize("how", [{"mode": "train"}, {"batch": "1", "seq": 128}])
def test_a_step_of_a_language_model_is_answered_as_a_step(how: dict[str, object]) -> None:
    found = asked("nvlink", "tinyllama", **how)
    assert found.unit.startswith("% gained")
    assert "share a model" not in found.unit


def test_a_model_that_does_not_fit_on_one_gpu_is_told_so() -> None:
    notes = gpuwise.matters("overclock", model="llama-3-70b", gpu="RTX 3090").assumptions
    assert any(note.code == "memory" for note in notes)
    assert not any(note.code == "memory" for note in gpuwise.matters("overclock", model="llama-3-8b", gpu="RTX 3090").assumptions)
