"""`--gpu "2x RTX 3090"`: the number may be part of the name, in every question about a step or about text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.common.gpu_list import set_of


def test_predict_reads_the_number_with_the_name() -> None:
    (told,) = gpuwise.predict("resnet50", gpu=("2x RTX 3090",)).results
    (given,) = gpuwise.predict("resnet50", gpu=("RTX 3090",), gpus=2).results
    assert told.gpu_count == 2
    assert told.step_s == given.step_s


def test_fit_reads_the_number_with_the_name() -> None:
    (told,) = gpuwise.fit("resnet50", gpu=("4x T4",), remedies=False).results
    assert (told.gpu.name, told.gpu_count) == ("T4", 4)


def test_a_grid_reads_it_too() -> None:
    answer = gpuwise.predict("resnet50", gpu=("2x RTX 3090",), batch="8,16")
    assert {result.gpu_count for result in answer.results} == {2}


def test_text_reads_it_too() -> None:
    (told,) = gpuwise.predict("llama-3-70b", weights="q4_k_m", gpu=("2x RTX 3090",)).results
    assert told.gpu_count == 2


@pytest.mark.parametrize("weights", ["", "q4_k_m"])
@pytest.mark.parametrize(
    ("gpu", "gpus", "said"),
    [
        (("2x RTX 3090", "4x RTX 3090"), 1, "different counts: 2 and 4"),
        (("2x RTX 3090", "RTX 4090"), 1, "different counts: 1 and 2"),
        (("2x RTX 3090",), 4, "specify different counts"),
        (("0x RTX 3090",), 1, "invalid number of GPUs"),
    ],
)
def test_numbers_that_disagree_are_refused(gpu: tuple[str, ...], gpus: int, said: str, weights: str) -> None:
    with pytest.raises(BadValue, match=said):
        gpuwise.predict("llama-3-8b", gpu=gpu, gpus=gpus, weights=weights)


@pytest.mark.parametrize("asked", [gpuwise.predict, gpuwise.fit])
def test_a_name_of_two_gpus_tells_the_other_one(asked: Callable[..., Any]) -> None:
    (found,) = [note for note in asked("resnet50", gpu=("A100 40GB",)).results[0].assumptions if note.code == "gpu_name"]
    assert found.value == "A100 SXM 40GB"
    assert "A100 PCIe 40GB" in found.effect


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("RTX 3090+RTX 3060", ["RTX 3090", "RTX 3060"]),
        ("2x RTX 3090 + RTX 3060", ["2x RTX 3090 ", " RTX 3060"]),
        ("M4 Max+M2 Ultra", ["M4 Max", "M2 Ultra"]),
        ("Ryzen AI Max+ 395", ["Ryzen AI Max+ 395"]),
        ("Ryzen AI Max+ PRO 395 + RTX 3090", ["Ryzen AI Max+ PRO 395 ", " RTX 3090"]),
        ("memory=24GB,bandwidth=1e12+", ["memory=24GB,bandwidth=1e12+"]),
    ],
)
def test_a_plus_in_a_product_name_does_not_join_two_gpus(text: str, parts: list[str]) -> None:
    assert set_of(text) == parts
