"""Rows of image generation: a call is text encoders, denoiser, decoder and program, and some reports are of something else."""

from __future__ import annotations

import pytest

from gpuwise.evidence.images import WEB_UI, around, call_fraction, moved_bytes, program_of, unlike
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import totals
from gpuwise.workload.model.types import Settings
from gpuwise.workload.store.pipelines import pipeline_of

CALL = {
    "unit": "it_per_s",
    "stack": "Forge, torch 2.3.1+cu121, Automatic, Windows",
    "note": "it/s = steps x batch / wall time of the whole call, 20 steps unless changed",
}


def gpu(name: str) -> Gpu:
    return load_catalog().find(name).gpu


def request(model: str, precision: str = "fp16") -> Request:
    return Request(model=model, settings=Settings(mode="infer", precision=precision, optimizer="none"))


def test_a_call_of_sdxl_has_two_text_encoders_and_a_decoder_for_every_image() -> None:
    parts = around(CALL, request("sdxl_unet_512"), batch=8.0)
    assert [(part.workload.model, part.batch) for part in parts] == [
        ("clip_l_text", 2.0),
        ("clip_big_g_text", 2.0),
        ("sd_vae_decoder", 4.0),
    ]
    assert {part.share for part in parts} == {1 / 20}


def test_the_decoder_does_about_two_and_a_half_teraflops_for_512_pixels() -> None:
    decoder = around(CALL, request("sd15_unet"), batch=2.0)[-1]
    assert totals(decoder.workload, batch=1).forward_flops == pytest.approx(2.5e12, rel=0.02)


@pytest.mark.parametrize(
    ("change", "fraction"),
    [
        ({}, 1 / 20),
        ({"note": "50 steps / end-to-end time incl. text encoder and VAE"}, 1 / 50),
        ({"note": "end-to-end"}, 1 / 20),
        ({"note": "iterations only"}, 0.0),
        ({"unit": "samples_per_s"}, 0.0),
    ],
)
def test_how_much_of_a_call_an_iteration_is(change: dict[str, str], fraction: float) -> None:
    cells = CALL | change
    assert call_fraction(cells) == pytest.approx(fraction)
    assert bool(around(cells, request("sd15_unet"), 2.0)) == bool(fraction)


def test_other_models_have_nothing_around_them() -> None:
    assert pipeline_of("resnet50") is None
    assert around(CALL, request("resnet50"), 2.0) == ()


@pytest.mark.parametrize(
    ("card", "model", "stack", "reason"),
    [
        (
            "RX 7900 XTX",
            "sd15_unet",
            "SD.next, torch 2.7.1+cu118, Scaled-Dot-Product, Windows",
            "CUDA build of PyTorch on a card from AMD",
        ),
        (
            "Arc A770 16GB",
            "sd15_unet",
            "SD.next, torch 2.7.0+cpu, Scaled-Dot-Product, Windows",
            "CPU build of PyTorch on a card from Intel",
        ),
        ("RTX 4090", "sd15_unet", "SD.next, torch 2.0.1+cu118, original, Windows", "attention in slices"),
        ("A100 SXM 80GB", "sd15_unet", "Diffusers (torch 2.1, SDPA, tiny VAE)", "a decoder other than"),
        ("RTX 3070", "sdxl_unet_512", CALL["stack"], "weights that do not fit"),
        ("RTX 3070", "sd15_unet", CALL["stack"], ""),
        ("RTX 3080", "sdxl_unet_512", CALL["stack"], ""),
        ("RX 7900 XTX", "sd15_unet", "SD.next, torch 2.7.1+rocm6.3, Scaled-Dot-Product, Linux", ""),
    ],
)
def test_what_is_not_a_plain_call(card: str, model: str, stack: str, reason: str) -> None:
    assert reason in (found := unlike(CALL | {"stack": stack}, gpu(card), request(model)))
    assert bool(found) == bool(reason)


def test_one_program_keeps_large_weights_on_the_host() -> None:
    cells = CALL | {"stack": "SD.next, torch 2.7.1+cu128, Scaled-Dot-Product, Windows"}
    large, small = request("sdxl_unet_512"), request("sd15_unet")
    assert moved_bytes(cells, gpu("RTX 4090"), large) == pytest.approx(6.9e9 / 20, rel=0.02)
    assert moved_bytes(cells, gpu("RTX 4090"), small) == 0.0  # small beside the memory
    assert moved_bytes(cells, gpu("RTX 5090"), large) == 0.0
    assert moved_bytes(CALL, gpu("RTX 4090"), large) == 0.0  # another program


def test_a_web_interface_is_told_from_a_script() -> None:
    assert program_of(CALL) == WEB_UI
    assert program_of(CALL | {"stack": "Diffusers (torch 2.1, SDPA)"}) == "script"
    assert program_of(CALL | {"note": ""}) == ""
