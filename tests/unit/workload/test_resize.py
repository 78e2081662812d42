"""A network for pictures of any size, made from two stored sizes."""

from __future__ import annotations

import pytest

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import totals
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.resize import resized

PAIRS = (
    ("sd15_unet", "sd15_unet_1024"),
    ("sdxl_unet_512", "sdxl_unet"),
    ("sd_vae_decoder", "sd_vae_decoder_1024"),
    ("sdxl_controlnet_512", "sdxl_controlnet_1024"),
)


def _load(name: str, image: int | None = None) -> Workload:
    settings = Settings(mode="infer", precision="fp16", optimizer="none")
    return zoo.load(name, Request(model=name, image=image, settings=settings))


@pytest.mark.parametrize("pair", PAIRS)
def test_the_two_stored_sizes_come_out_again(pair: tuple[str, str]) -> None:
    small, large = map(_load, pair)
    for ratio, known in ((1.0, small), (2.0, large)):
        made = totals(resized(small, large, ratio), 3)
        own = totals(known, 3)
        assert made.forward_flops == pytest.approx(own.forward_flops)
        assert made.read_bytes == pytest.approx(own.read_bytes)
        assert made.written_bytes == pytest.approx(own.written_bytes)


def test_convolutions_grow_with_the_area_and_attention_with_its_square() -> None:
    at = {side: totals(_load("sd_vae_decoder", side), 1).forward_flops for side in (256, 768, 1536)}
    assert 9 < at[768] / at[256] < 3**4
    assert 4 < at[1536] / at[768] < 2**4


def test_two_networks_are_not_taken_for_one() -> None:
    with pytest.raises(BadValue, match="not the same network"):
        resized(_load("sd15_unet"), _load("sdxl_unet"), 1.5)


def test_sizes_that_do_not_halve_are_refused() -> None:
    with pytest.raises(BadValue, match="steps of 64"):
        _load("sdxl_unet", 700)
