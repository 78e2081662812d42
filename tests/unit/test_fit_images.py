"""`fit` of a program that makes images: the denoiser is checked, and a note says what all parts need."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.units import GIB
from gpuwise.questions.fit.text import render


def notes(model: str, *gpus: str, **how: object) -> tuple[str, ...]:
    return tuple(note for note in gpuwise.fit(model, gpu=gpus, remedies=False, **how).notes if "denoiser" in note)


@pytest.mark.parametrize("gpu", ["RTX 3070", "RTX 3090"])
def test_all_parts_need_what_predict_says(gpu: str) -> None:
    whole = gpuwise.predict("sdxl", gpu=gpu).results[0]
    (note,) = notes("sdxl", gpu)
    assert f"all parts of sdxl at once need {whole.memory.total_bytes / GIB:.1f} GiB" in note
    assert ("which also fits" in note) == whole.fits
    assert ("moves the text encoders and the decoder out" in note) == (not whole.fits)


def test_the_note_is_in_the_brief_answer() -> None:
    answer = gpuwise.fit("sdxl", gpu="RTX 3070")
    assert answer.fits
    printed = render(answer)
    assert "note: these numbers are for the denoiser" in printed
    assert len(printed.splitlines()) <= 25


def test_a_card_too_small_for_one_part_is_not_helped_by_moving_the_others() -> None:
    (note,) = notes("sdxl", "GTX 1650")
    assert "largest part alone" in note
    assert "moves" not in note


def test_several_gpus_get_one_note_about_those_that_are_too_small() -> None:
    (note,) = notes("sdxl", "RTX 3070", "RTX 3090")
    assert "the RTX 3070" in note
    assert "3090" not in note


@pytest.mark.parametrize(("model", "how"), [("sdxl_unet", {"mode": "infer"}), ("sdxl", {"mode": "train"}), ("resnet50", {})])
def test_a_single_model_has_no_other_parts(model: str, how: dict[str, object]) -> None:
    assert not notes(model, "RTX 3070", **how)
