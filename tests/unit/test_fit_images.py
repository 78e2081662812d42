"""`fit`, `compare` and `which` of a program that makes images mean the whole program, as `predict` does."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.core.units import GIB


@pytest.mark.parametrize("gpu", ["RTX 3070", "RTX 3090", "GTX 1650"])
def test_fit_needs_and_takes_what_predict_says(gpu: str) -> None:
    said, fitted = (ask("sdxl", gpu=gpu).to_dict() for ask in (gpuwise.predict, gpuwise.fit))
    result = said["results"][0]
    assert fitted["memory"]["total_bytes"] == pytest.approx(result["memory"]["total_bytes"])
    assert fitted["fits"] == result["fits"]
    assert fitted["step_s"] == pytest.approx(result["image_generation"]["seconds_per_image"])


def test_parts_take_turns_where_a_card_does_not_hold_all() -> None:
    small, large = (gpuwise.predict("sdxl", gpu=gpu).results[0] for gpu in ("RTX 3070", "RTX 3090"))
    assert small.fits
    assert large.fits
    assert small.image_generation.moved_s > 0 == large.image_generation.moved_s
    assert small.memory.total_bytes < 8 * GIB < small.image_generation.all_bytes
    assert "loaded one after another" in str(gpuwise.fit("sdxl", gpu="RTX 3070"))


def test_a_remedy_is_named_where_nothing_else_helps() -> None:
    answer = gpuwise.fit("flux", gpu="RTX 4090")
    (result,) = answer.results
    assert not result.fits
    eight = next(rung for rung in result.advice.remedies if rung.name == "int8-weights")
    assert eight.fits
    assert eight.memory.total_bytes < 0.7 * result.memory.total_bytes
    assert gpuwise.predict("flux", gpu="RTX 4090", weights="int8").results[0].fits
    assert "The model fits with int8 weights." in str(answer)


def test_images_fit_as_long_as_fit_says() -> None:
    most = gpuwise.fit("sdxl", gpu="RTX 3090", remedies=False).results[0].max_batch
    held = [gpuwise.predict("sdxl", gpu="RTX 3090", batch=size).results[0].fits for size in (most, most + 1)]
    assert held == [True, False]


@pytest.mark.parametrize("option", [{"mode": "train"}, {"optimizer": "adamw"}])
def test_training_options_train_the_denoiser_in_every_command(option: dict[str, str]) -> None:
    assert gpuwise.predict("sdxl", gpu="RTX 3090", **option).results[0].mode == "train"
    assert gpuwise.fit("sdxl", gpu="RTX 3090", remedies=False, **option).results[0].mode == "train"
    assert {job.mode for job in gpuwise.which(model="sd15", budget=800, **option).query.jobs} == {"train"}


def test_compare_and_which_take_the_time_of_an_image() -> None:
    slow, fast = (gpuwise.predict("sdxl", gpu=gpu).results[0].image_generation for gpu in ("RTX 3090", "RTX 4090"))
    (pair,) = gpuwise.compare(["RTX 3090", "RTX 4090"], model="sdxl").to_dict()["pairs"]
    assert pair["ratio"] == pytest.approx(slow.seconds_per_image / fast.seconds_per_image)
    answer = gpuwise.which(model="sdxl", have="RTX 3090", budget=800)
    own = next(option for option in answer.options if option.kind == "keep")
    assert own.run.seconds / answer.query.jobs[0].samples == pytest.approx(slow.seconds_per_image, rel=1e-3)
    assert "an image takes" in str(answer)
    assert "per image" in str(answer)


def test_which_packs_weights_where_the_budget_buys_no_card_for_the_plain_ones() -> None:
    answer = gpuwise.which(model="flux", budget=1500)
    assert answer.best is not None
    assert "8-bit weights" in str(answer)


def test_flux_and_sd3_have_all_their_parts() -> None:
    flux, sd3 = (gpuwise.predict(name, gpu="H100 SXM 80GB").results[0] for name in ("flux", "sd3"))
    assert flux.memory.weight_bytes == pytest.approx(2 * (11.90e9 + 4.76e9 + 0.123e9 + 0.05e9), rel=0.01)
    assert sd3.memory.weight_bytes == pytest.approx(2 * (2.03e9 + 4.76e9 + 0.123e9 + 0.695e9 + 0.05e9), rel=0.01)
    schnell = gpuwise.predict("flux-schnell", gpu="H100 SXM 80GB").results[0].image_generation
    assert schnell.steps == 4
    assert schnell.it_per_s == pytest.approx(flux.image_generation.it_per_s)


def test_a_control_net_runs_at_every_step() -> None:
    plain, steered = (gpuwise.predict(name, gpu="RTX 3090").results[0] for name in ("sd15", "sd15-controlnet"))
    assert steered.image_generation.it_per_s < 0.9 * plain.image_generation.it_per_s
    assert steered.memory.weight_bytes == pytest.approx(plain.memory.weight_bytes + 2 * 361_279_120, rel=0.01)


@pytest.mark.parametrize("model", ["sd15", "sdxl", "sd3", "flux", "sdxl-controlnet"])
def test_larger_images_take_longer_and_the_usual_size_is_exact(model: str) -> None:
    usual = gpuwise.predict(model, gpu="RTX 4090").results[0].image_generation
    times = [
        gpuwise.predict(model, gpu="RTX 4090", image=side).results[0].image_generation.seconds_per_image
        for side in (512, 768, 1024, 1280)
    ]
    assert times == sorted(times)
    assert times[(512, 768, 1024).index(usual.image)] == pytest.approx(usual.seconds_per_image)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": 777}, "a multiple of 64"),
        ({"image": 8192}, "64 to 4096"),
        ({"users": 2}, "does not apply to sdxl"),
        ({"weights": "awq"}, "16, 8 or 4 bits"),
        ({"optimizer": "adamw", "mode": "infer"}, "training option"),
    ],
)
def test_what_images_cannot_use_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(BadValue, match=says):
        gpuwise.predict("sdxl", gpu="RTX 4090", **options)


def test_ranges_of_models_that_were_not_measured_are_assumed_and_wider() -> None:
    known, new = (gpuwise.predict(name, gpu="RTX 4090").results[0] for name in ("sdxl", "flux"))  # the GPU limits both
    assert (known.range_basis, new.range_basis) == ("measured", "assumed")
    spans = [one.image_generation.seconds_per_image_high / one.image_generation.seconds_per_image_low for one in (known, new)]
    assert spans[1] > 1.2 * spans[0]


def test_unloading_the_text_encoders_is_a_remedy() -> None:
    """The denoiser then needs the GPU for itself, and all weights cross the link in each call."""
    result = gpuwise.fit("flux-dev", gpu="RTX 4060 Ti 16GB").results[0]
    rungs = {rung.name: rung for rung in result.advice.remedies}
    assert not result.fits
    both, plain = rungs["int8-weights-unloaded"], rungs["int8-weights"]
    assert both.fits
    assert not plain.fits
    assert both.memory.total_bytes < plain.memory.total_bytes - 4 * GIB  # T5 in eight bits
    assert rungs["unloaded"].memory.total_bytes < result.memory.total_bytes - 8 * GIB
    assert result.advice.ladder == (both,)
    predicted = gpuwise.predict("flux-dev", gpu="RTX 4060 Ti 16GB", weights="int8").results[0]
    assert both.step_s == pytest.approx(predicted.image_generation.seconds_per_image)
    assert both.memory.total_bytes == pytest.approx(predicted.memory.total_bytes)


@pytest.mark.parametrize("model", ["flux-dev", "sd3"])
def test_training_that_is_not_covered_says_what_is(model: str) -> None:
    with pytest.raises(BadValue, match="is not covered") as refused:
        gpuwise.fit(model, gpu="RTX 4090", mode="train", method="lora")
    assert "`sdxl`" in refused.value.hint
    assert gpuwise.fit("sdxl", gpu="RTX 4090", mode="train", method="lora", remedies=False).results[0].mode == "train"


def test_images_that_do_not_fit_are_not_promised_and_the_next_command_is_given() -> None:
    answer = gpuwise.predict("flux-dev", gpu="RTX 4090", steps=20)
    text = " ".join(str(answer).split())
    assert "would be" in text
    assert "if the model fitted" in text
    assert '`gpuwise fit flux-dev --gpu "RTX 4090" --steps 20`' in text
    assert not gpuwise.predict("flux-dev", gpu="RTX 4090", steps=20, weights="fp8").notes
