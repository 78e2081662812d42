"""What `matters` says of lanes for several GPUs, of desktops and of mixed cards."""

from __future__ import annotations

import pytest

from gpuwise import api
from gpuwise.api.topics.case import Matter


def asked(topic: str, gpu: str = "GTX 1080 Ti", **how: object) -> Matter:
    return api.matters(topic, model="bert-base", gpu=gpu, batch="16", **how).topics[0]


@pytest.mark.parametrize("topic", ["pcie-lanes", "pcie-gen"])
def test_narrow_links_cost_several_gpus_more_than_one(topic: str) -> None:
    found = asked(topic, gpus=2)
    assert found.together is not None
    assert found.together > found.value >= 0


def test_what_several_gpus_lose_is_in_the_text_too() -> None:
    found = asked("pcie-gen", gpus=2)
    assert f"2 GPUs as one job: {found.together:.1f} % slower" in found.answer


def test_a_desktop_takes_a_range() -> None:
    found = asked("display")
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


@pytest.mark.parametrize("gpu", ["GTX 1080 Ti", "RTX 2080 Ti", "RTX 3090"])
def test_a_card_is_mixed_with_another_kind(gpu: str) -> None:
    found = asked("mixed-cards", gpu)
    assert f"{gpu} beside it" not in found.unit
    assert found.value < 2
