"""Image generation: an image is the sum of its parts, in the units that people use."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.evidence.ranges import report_range
from gpuwise.questions.common.media.images import ImagePrediction


def told(model: str = "sdxl", gpu: str = "RTX 4090", **more: object) -> ImagePrediction:
    result = gpuwise.predict(model, gpu=gpu, **more).results[0]
    assert isinstance(result, ImagePrediction)
    return result


def test_an_image_takes_its_parts() -> None:
    drawn = told().image_generation
    parts = drawn.text_s + drawn.denoising_s + drawn.decoding_s
    assert drawn.seconds_per_image == pytest.approx(parts, rel=0.25, abs=0.3)  # and what the program does beside them
    assert drawn.seconds_per_image >= parts
    assert drawn.denoising_s == pytest.approx(drawn.steps / drawn.it_per_s)
    assert drawn.images_per_minute == pytest.approx(60 / drawn.seconds_per_image)


def test_more_steps_take_longer_and_nothing_else_changes() -> None:
    short, long = (told(steps=steps).image_generation for steps in (20, 40))
    assert long.denoising_s == pytest.approx(2 * short.denoising_s)
    assert long.decoding_s == short.decoding_s


@pytest.mark.parametrize("gpu", ["RTX 4090", "RX 7900 XTX", "Arc A770 16GB"])
def test_the_range_contains_what_single_people_report(gpu: str) -> None:
    found = told(gpu=gpu)
    own, reports = found.image_generation, report_range(found.gpu)
    assert reports.rows > 100
    assert own.seconds_per_image_low <= reports.low * own.seconds_per_image
    assert own.seconds_per_image_high >= reports.high * own.seconds_per_image
    assert found.step_high_s >= reports.high * found.step_s


def test_several_images_at_once_are_faster_each() -> None:
    one, four = (told("sd15", batch=batch).image_generation for batch in (1, 4))
    assert four.seconds_per_image < one.seconds_per_image
    assert four.it_per_s < one.it_per_s


def test_memory_holds_all_models() -> None:
    found = told()
    assert found.memory.weight_bytes == pytest.approx(2 * 3.5e9, rel=0.06)  # SDXL: 3.5 B with encoders and decoder
    assert found.fits
    assert not told(gpu="GTX 1060 6GB", precision="fp16").fits


def test_its_json_has_the_keys_of_a_step_and_of_an_image() -> None:
    data = told().to_dict()
    assert {"step_s", "samples_per_s", "memory", "bound"} <= data.keys()
    assert data["image_generation"]["steps"] == 20


def test_steps_belong_to_images() -> None:
    with pytest.raises(BadValue, match="does not generate images"):
        gpuwise.predict("resnet50", gpu="RTX 4090", steps=20)
    assert not isinstance(gpuwise.predict("sdxl", gpu="RTX 4090", mode="train", batch=1).results[0], ImagePrediction)


@pytest.mark.parametrize(
    ("options", "part"),
    [({"steps": 0}, "--steps 0"), ({"steps": -5}, "--steps -5"), ({"image": 100}, "multiple of 64"), ({"batch": "auto"}, "auto")],
)
def test_what_no_image_has_is_refused(options: dict[str, object], part: str) -> None:
    with pytest.raises(BadValue) as caught:
        gpuwise.predict("sdxl", gpu="RTX 4090", **options)
    assert part in str(caught.value)


def test_one_image_is_made_by_one_gpu() -> None:
    with pytest.raises(BadValue, match="one GPU"):
        gpuwise.predict("sdxl", gpu="2x RTX 4090")
