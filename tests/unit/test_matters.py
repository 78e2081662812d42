"""`gpuwise matters`: every question has one number for the user's case, a source, and a case where it is not so."""

from __future__ import annotations

import json
import math
import re

import pytest
from typer.testing import CliRunner

import gpuwise
from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.matters.text import render
from gpuwise.questions.matters.topics import TOPICS
from gpuwise.questions.matters.types import Matter
from gpuwise.surfaces.cli.app import app

ASKED_FOR = (
    "pcie-lanes pcie-gen nvlink sli cpu ram-size ram-speed ssd overclock brand display egpu power-limit cooling ecc tensor-cores "
    "16-bit memory-adds-up mixed-cards windows-wsl"
).split()


@pytest.fixture(scope="module")
def usual() -> dict[str, Matter]:
    return {found.topic: found for found in gpuwise.matters().topics}


def one(topic: str, **case: object) -> Matter:
    (found,) = gpuwise.matters(topic, **case).topics  # type: ignore[arg-type]
    return found


def test_every_question_that_was_asked_for_is_answered() -> None:
    assert set(ASKED_FOR) <= set(TOPICS)


@pytest.mark.parametrize("topic", ASKED_FOR)
def test_an_answer_has_a_number_a_source_and_its_limits(topic: str, usual: dict[str, Matter]) -> None:
    found = usual[topic]
    assert math.isfinite(found.value)
    assert found.question.endswith("?")
    assert found.unit
    for text in (found.answer, found.how, found.source, found.unless):
        assert len(text) > 5


@pytest.mark.parametrize("topic", ASKED_FOR)
@pytest.mark.parametrize("case", [{"gpu": "GTX 1080 Ti", "model": "bert-base"}, {"gpu": "T4", "model": "gpt2", "mode": "infer"}])
def test_every_question_is_answered_for_other_cards_and_models(topic: str, case: dict[str, str]) -> None:
    assert math.isfinite(one(topic, **case).value)


@pytest.mark.parametrize("topic", ["pcie-lanes", "pcie-gen", "sli", "cpu", "ram-speed", "egpu", "windows-wsl"])
def test_what_hardly_matters_for_a_large_cnn_on_one_gpu_is_near_zero(topic: str, usual: dict[str, Matter]) -> None:
    assert abs(usual[topic].value) < 1.0


def test_a_small_model_feels_the_host() -> None:
    assert one("cpu", model="mnist_cnn", batch="32").value > 10
    assert one("windows-wsl", model="mnist_cnn", batch="32").value > 10


def test_cores_for_photographs_are_those_that_predict_asks_for(usual: dict[str, Matter]) -> None:
    match = re.search(r"takes (\d+) cores of a current CPU", usual["cpu"].answer)
    assert match is not None
    enough = int(match[1])
    bounds = [
        gpuwise.predict(model="resnet50", gpu=["RTX 3090"], image_decode=True, workers=workers, cpu="desktop").results[0].bound
        for workers in (enough - 1, enough)
    ]
    assert bounds[0] == "input"
    assert bounds[1] != "input"


def test_the_cpu_that_is_named_is_the_one_that_is_judged() -> None:
    own, old = one("cpu", gpu="RTX 4090", cpu="Ryzen 5 3600"), one("cpu", gpu="RTX 4090")
    assert "the Ryzen 5 3600" in own.unit
    assert "The 6 cores of the Ryzen 5 3600 deliver" in own.answer
    assert own.unit != old.unit
    quick = one("cpu", gpu="2x RTX 4090", cpu="Ryzen 9 9950X").answer
    match = re.search(r"takes (\d+) cores of the Ryzen 9 9950X", quick)
    assert match is not None
    assert int(match[1]) <= 16
    assert "which is enough" in quick
    assert "the Ryzen 5 3600" in one("cpu", model="llama-3-8b", cpu="Ryzen 5 3600").answer


def test_photographs_in_single_files_are_too_slow_from_a_hard_disk(usual: dict[str, Matter]) -> None:
    assert "a SATA SSD is enough" in usual["ssd"].unit
    assert "9.0 times as long, unless the files are packed" in usual["ssd"].answer
    assert "Even a hard disk keeps up" in one("ssd", model="bert-base").answer


def test_ram_is_answered_for_one_gpu_too() -> None:
    assert one("ram-size", gpu="RTX 4090", gpus=1).unit == "GiB is enough for one GPU"
    with pytest.raises(GpuwiseError, match="invalid --gpus 1"):
        one("nvlink", gpus=1)


def test_two_cards_that_are_named_are_mixed_in_either_order() -> None:
    found = [one("mixed-cards", gpu=pair) for pair in ("RTX 3090 + RTX 4090", "RTX 4090 + RTX 3090")]
    assert found[0].answer == found[1].answer
    assert found[0].unit == "times as fast with an RTX 3090 next to an RTX 4090"
    assert 1.0 < found[0].value < 2.0


@pytest.mark.parametrize(
    ("topic", "pair", "said"),
    [
        ("ssd", "RTX 3090 + T4", "two kinds of cards"),
        ("mixed-cards", "T4 + T4 + T4", "not a pair"),
        ("mixed-cards", "T4 + cpu", "is a CPU"),
    ],
)
def test_what_is_no_pair_of_cards_is_refused(topic: str, pair: str, said: str) -> None:
    with pytest.raises(GpuwiseError, match=said):
        one(topic, gpu=pair)


@pytest.mark.parametrize("model", ["mnist_mlp", "bert-base", "wav2vec2"])
def test_what_is_no_photograph_is_not_decoded(model: str) -> None:
    assert "JPEG" not in one("cpu", model=model, gpu="RTX 3090").answer


def test_tensor_cores_matter_more_for_products_than_for_a_cnn_that_waits_for_memory(usual: dict[str, Matter]) -> None:
    assert one("tensor-cores", model="bert-large").value > usual["tensor-cores"].value > 1.0
    assert one("tensor-cores", gpu="GTX 1080 Ti").value == 1.0


def test_16_bit_is_faster_where_there_are_cores_for_it(usual: dict[str, Matter]) -> None:
    assert usual["16-bit"].value > 1.5
    assert one("16-bit", gpu="GTX 1080 Ti").value < 1.3


def test_ecc_costs_nothing_on_hbm() -> None:
    assert one("ecc", gpu="A100 PCIe 40GB").value == 0.0
    assert one("ecc", gpu="RTX 3090").value > 0.0


def test_a_card_without_ecc_is_told_so_before_what_it_would_cost() -> None:
    without, with_it = one("ecc", gpu="RTX 3090"), one("ecc", gpu="RTX A6000")
    assert without.answer.startswith("The RTX 3090 has no ECC. A similar GDDR card with ECC is ")
    assert "lacks" in without.unit
    assert with_it.answer.startswith("With ECC enabled, the step is ")


def test_a_clock_never_gives_more_than_it_has(usual: dict[str, Matter]) -> None:
    assert 0 <= usual["brand"].value <= 3.0
    assert 0 <= usual["overclock"].value <= 7.0
    assert -10 <= usual["cooling"].value <= 10.0 / 0.9


def test_a_power_limit_that_is_not_reached_saves_nothing(usual: dict[str, Matter]) -> None:
    found = usual["power-limit"]
    assert 0 <= found.value < 20
    assert ("little energy is saved" in found.answer) == (found.value < 0.1)


def test_a_slow_second_card_is_worth_less_as_one_job() -> None:
    found = one("mixed-cards", gpu="RTX 4090")
    assert 0.5 < found.value < 2.0


def test_more_gpus_need_more_memory_in_the_host_only() -> None:
    assert one("ram-size", gpus=4).value == pytest.approx(2 * one("ram-size", gpus=2).value)


@pytest.mark.parametrize(
    ("text", "topic"),
    [("pcie", "pcie-lanes"), ("PCIe_Lanes", "pcie-lanes"), ("fp16", "16-bit"), ("wsl", "windows-wsl"), ("disk", "ssd")],
)
def test_other_words_lead_to_a_topic(text: str, topic: str) -> None:
    assert one(text).topic == topic


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lanez"], "unknown topic 'lanez'"),
        (["nvlink", "--gpus", "1"], "--gpus 1"),
        (["nvlink", "--gpu", "cpu"], "is a CPU"),
        (["nvlink", "--gpu", "RTX 9999"], "RTX 9999"),
        (["nvlink", "--model", "resnet5000"], "resnet5000"),
    ],
)
def test_bad_input_is_refused_with_a_hint(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["matters", *arguments])
    assert isinstance(result.exception, GpuwiseError), result.output
    assert message in str(result.exception)
    assert result.exception.hint


def test_json_has_every_topic() -> None:
    result = CliRunner().invoke(app, ["matters", "sli", "--json"], catch_exceptions=False)
    answer = json.loads(result.stdout)
    assert set(answer) >= {"case", "topics", "assumptions", "data_date"}
    assert answer["topics"][0]["topic"] == "sli"


@pytest.mark.parametrize("topic", ["", "pcie-lanes"])
def test_a_brief_answer_is_short(topic: str) -> None:
    lines = render(gpuwise.matters(topic)).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100


def test_a_brief_answer_names_the_topics_that_it_leaves_out() -> None:
    brief = render(gpuwise.matters())
    assert all(f" {topic}" in brief for topic in TOPICS)
    assert "  sli  " not in brief
    assert "  sli  " in render(gpuwise.matters(), verbose=True)


@pytest.mark.parametrize("topic", ["", "pcie-lanes"])
def test_no_line_is_longer_than_the_terminal(topic: str) -> None:
    assert max(map(len, render(gpuwise.matters(topic), width=80).splitlines())) <= 80


def test_activations_in_ram_cost_only_what_the_link_is_too_slow_for() -> None:
    slow, fast = (
        one("activation-offload", model="vgg16", gpu="GTX Titan", batch="32", precision="fp32", pcie=f"PCIe {link}.0 x16")
        for link in (2, 3)
    )
    assert fast.value == pytest.approx(0.0, abs=1e-6)
    assert 5 < slow.value < 30
    assert one("activation-offload", mode="infer").value == 0.0
    assert one("offload").topic == "activation-offload"


def test_a_slot_is_refused_for_text() -> None:
    with pytest.raises(GpuwiseError, match="--pcie does not apply"):
        gpuwise.matters("cpu", model="llama-3-8b", pcie="PCIe 3.0 x8")


def test_the_cores_deliver_as_many_images_as_the_stated_times_allow() -> None:
    (found,) = gpuwise.matters("cpu", model="resnet50", gpu="RTX 4090", cpu="Ryzen 5 3600").topics
    told = re.search(r"decodes ([\d,]+) images/s.* ([\d.]+) ms collecting.*The (\d+) cores .* deliver ([\d,]+)", found.answer)
    assert told is not None
    single, collecting, cores, reached = (float(number.replace(",", "")) for number in told.groups())
    assert 1 / (1 / (single * cores) + collecting / 1e3) == pytest.approx(reached, rel=0.02)
