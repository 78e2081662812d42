"""What `matters` says of lanes for several GPUs, of desktops and of mixed cards."""

from __future__ import annotations

import pytest

import gpuwise
from gpuwise.core.errors import BadValue
from gpuwise.questions.matters.text import render
from gpuwise.questions.matters.types import Matter


def asked(topic: str, gpu: str = "GTX 1080 Ti", **how: object) -> Matter:
    return gpuwise.matters(topic, model="bert-base", gpu=gpu, batch="16", **how).topics[0]


@pytest.mark.parametrize("topic", ["pcie-lanes", "pcie-gen"])
def test_narrow_links_cost_several_gpus_more_than_one(topic: str) -> None:
    found = asked(topic, gpus=2)
    assert found.together is not None
    assert found.together > found.value >= 0


def test_what_several_gpus_lose_is_in_the_text_too() -> None:
    found = asked("pcie-gen", gpus=2)
    assert f"2 GPUs in one job are {found.together:.1f}% slower" in found.answer


def test_a_link_that_is_named_is_the_one_that_is_answered_for() -> None:
    named = {link: asked("pcie-lanes", "RTX 3090", gpus=2, pcie=link) for link in ("PCIe 4.0 x4", "PCIe 3.0 x4", "PCIe 3.0 x1")}
    together = [found.together or 0.0 for found in named.values()]
    assert together == sorted(together)
    assert 10 < together[0] < together[1] < together[2] < 100
    for link, found in named.items():
        assert f"Over {link} instead of PCIe 4.0 x16" in found.answer
        assert f"2 GPUs in one job are {found.together:.1f}% slower" in found.answer
    assert f"{together[0]:.1f}% slower at x4" in asked("pcie-lanes", "RTX 3090", gpus=2).answer
    assert asked("pcie-lanes", "RTX 3090", gpus=2, pcie="PCIe 5.0 x16") == asked("pcie-lanes", "RTX 3090", gpus=2)
    with pytest.raises(BadValue, match="Thunderbolt 3 is not a PCIe link"):
        asked("pcie-lanes", pcie="Thunderbolt 3")


def test_single_lanes_are_named_for_risers_and_for_text() -> None:
    riser = asked("riser", "RTX 3090", gpus=4).answer
    one = asked("pcie-lanes", "RTX 3090", gpus=4, pcie="PCIe 3.0 x1").together
    assert f"(PCIe 3.0 x1), one GPU is no slower, and 4 GPUs in one job are {one:.1f}% slower" in riser
    for topic, four in (("pcie-lanes", "Four"), ("riser", "4")):
        text = gpuwise.matters(topic, model="llama-3-70b", gpu="4x RTX 3090", weights="q4_k_m").topics[0].answer
        assert "x1" in text
        assert f"{four} GPUs that share the model are" in text
        assert "One GPU" not in text
        waits = gpuwise.predict("llama-3-70b", gpu="4x RTX 3090", weights="q4_k_m").results[0].generation
        assert f"The first token arrives after {waits.time_to_first_token_s:.2f} s in each case." in text


def test_two_cards_at_eight_lanes_are_held_against_sixteen_though_desktops_have_eight() -> None:
    found = asked("pcie-lanes", "RTX 3090", gpus=2)
    assert found.together is not None
    assert 5 < found.together < 50


def test_a_bridge_is_held_against_the_lanes_that_two_cards_have_without_it() -> None:
    bridged, bare = asked("nvlink", "RTX 3090", gpus=2), asked("nvlink", "RTX 3090", gpus=4)
    assert bridged.value > 20
    assert "PCIe 4.0 x8" in bridged.answer
    assert bare.value == 0
    assert "connects two cards" in bare.answer


def test_a_bridge_is_for_plain_data_parallel_and_brings_less_where_the_split_suits_the_link() -> None:
    found = gpuwise.matters("nvlink", model="bert-large", gpu="RTX 3090").topics[0]
    one, two = (gpuwise.predict("bert-large", gpu="RTX 3090", gpus=count).results[0] for count in (1, 2))
    assert f"slower than one GPU, at {2 * one.step_s / two.step_s:.0%} of its speed" in found.answer
    split = [
        gpuwise.plan("bert-large", cluster="2x RTX 3090", batch=32, scaling=False, link=link).entries[0]
        for link in ("", "NVLink")
    ]
    gain = 100 * (split[0].estimate.step_s / split[1].estimate.step_s - 1)
    assert f"the GPUs are {gain:.1f}% faster with NVLink." in found.answer
    assert found.value > 2 * gain
    large = one_topic_at(64)
    assert found.unit == f"% gained at batch 16, {large:.0f}% at batch 64"


def one_topic_at(batch: int) -> float:
    return gpuwise.matters("nvlink", model="bert-large", gpu="RTX 3090", batch=str(batch)).topics[0].value


def test_a_bridge_of_a_job_that_is_not_planned_is_answered_without_a_split() -> None:
    assert "best split" not in asked("nvlink", "RTX 3090", mode="infer").answer


def test_a_loss_is_a_share_of_the_speed() -> None:
    found = asked("pcie-lanes", "RTX 2080 Ti", gpus=4)
    assert found.together is not None
    assert found.value <= found.together < 100


def test_what_several_gpus_lose_stands_in_the_first_line() -> None:
    answer = gpuwise.matters("pcie", model="bert-base", gpu="RTX 2080 Ti", gpus=4, batch="16")
    assert f"4 GPUs in one job: {answer.topics[0].together:.1f}%" in render(answer).splitlines()[0]


def test_cards_have_no_bridge_alike_or_mixed() -> None:
    alike, mixed = (
        gpuwise.compare(["RTX 3090", pair], model=["bert-base"], batch="16").pairs[0].ratio
        for pair in ("2x RTX 3090", "RTX 3090 + RTX 3090 Ti")
    )
    assert mixed == pytest.approx(alike, rel=0.02)


def test_mixed_cards_are_asked_about_the_job_that_was_given() -> None:
    short, long = asked("mixed-cards", "RTX 3090", seq=128), asked("mixed-cards", "RTX 3090", seq=512)
    assert short.value != pytest.approx(long.value, rel=1e-3)


def test_typed_specs_are_mixed_with_a_card_that_is_sold() -> None:
    found = asked("mixed-cards", "name=Foo,arch=ada,sm=60,boost=2.5GHz,mem=16GB,bw=500GB/s,tdp=200W")
    assert found.value > 0
    assert "a Foo next to an RTX" in found.unit


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


def test_an_external_gpu_is_promised_no_more_than_measurements_show() -> None:
    found = gpuwise.matters("egpu", gpu="RTX 3090").topics[0]
    assert (found.low, found.high) == (0.0, 15.0)
    assert "are 0 to 15%, and up to 25% for small ones, so expect to lose more" in found.answer
    assert "0 to 15% measured" in found.unit
    assert len(render(gpuwise.matters("egpu")).splitlines()[0]) <= 100
    starved = gpuwise.matters("egpu", gpu="H100", model="alexnet").topics[0]
    assert starved.high == starved.value > 15
    assert "measured" not in starved.unit
