"""What matters for which kind of model falls out of the step model; nothing here is a table.

The guide (2019) orders it for CNNs and transformers: tensor cores, FLOPS, bandwidth, 16 bits; for RNNs: bandwidth, 16 bits,
tensor cores, FLOPS. Made better one at a time on cards of 2017 and 2018, at usual batches, ours agrees in these parts:

- transformers: tensor cores first, and FLOPS before bandwidth;
- without tensor cores (GTX 1080 Ti, fp32): FLOPS before bandwidth for CNNs and transformers, bandwidth before FLOPS for RNNs, and
  16 bits last;
- RNNs on RTX cards: bandwidth before FLOPS.

It differs in three. PyTorch adds up products in fp32, so 16 bits gain hardly anything without tensor cores (a P100 does 8.4
TFLOP/s in fp16 and 8.6 in fp32), and tensor cores come first for RNNs too: with them come the 16 bits. And with tensor cores
in use a ResNet-50 waits for memory, so bandwidth comes before more FLOPS.
"""

from __future__ import annotations

from functools import cache

import pytest

import gpuwise
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.sheet import gains

CNN, TRANSFORMER, RNN = ("resnet50", "64"), ("transformer_big", ""), ("word_lstm", "20")
RTX = ("RTX 2070", "RTX 2080 Ti")


@cache
def found(gpu: str, kind: tuple[str, str]) -> dict[str, float]:
    model, batch = kind
    asked = StepOptions(model, gpu=[gpu], batch=batch)
    return gains(MattersCase(query=step_query(asked), asked=asked, progress=lambda text: None))


@pytest.mark.parametrize("gpu", RTX)
def test_tensor_cores_come_first_for_transformers(gpu: str) -> None:
    gain = found(gpu, TRANSFORMER)
    assert max(gain, key=gain.__getitem__) == "tensor cores"
    assert gain["flops"] > 0.97 * gain["bandwidth"]  # on the larger card the two are nearly equal


@pytest.mark.parametrize("gpu", RTX)
def test_bandwidth_comes_before_arithmetic_for_rnns(gpu: str) -> None:
    gain = found(gpu, RNN)
    assert gain["bandwidth"] > gain["flops"]
    assert gain["tensor cores"] > 1.2 > gain["16-bit"]  # 16 bits pay with tensor cores, not without


@pytest.mark.parametrize("kind", [CNN, TRANSFORMER])
def test_without_tensor_cores_flops_come_before_bandwidth(kind: tuple[str, str]) -> None:
    gain = found("GTX 1080 Ti", kind)
    assert gain["flops"] > gain["bandwidth"] > gain["16-bit"]


def test_without_tensor_cores_rnns_want_bandwidth() -> None:
    gain = found("GTX 1080 Ti", RNN)
    assert gain["bandwidth"] > gain["flops"]
    assert gain["bandwidth"] > gain["16-bit"]


@pytest.mark.parametrize("gpu", RTX)
@pytest.mark.parametrize("kind", [CNN, TRANSFORMER, RNN])
def test_tensor_cores_with_their_16_bits_are_worth_most(gpu: str, kind: tuple[str, str]) -> None:
    gain = found(gpu, kind)
    assert gain["tensor cores"] * gain["16-bit"] > max(gain["flops"], gain["bandwidth"])


@pytest.mark.parametrize("gpu", RTX)
def test_bandwidth_weighs_more_for_rnns_than_for_transformers(gpu: str) -> None:
    rnn, transformer = found(gpu, RNN), found(gpu, TRANSFORMER)
    assert rnn["bandwidth"] / rnn["flops"] > transformer["bandwidth"] / transformer["flops"]


@pytest.mark.parametrize("kind", [CNN, TRANSFORMER, RNN])
def test_nothing_made_twice_as_good_gains_more_than_twice(kind: tuple[str, str]) -> None:
    gain = found(RTX[0], kind)
    assert 1 <= gain["flops"] <= 2
    assert 1 <= gain["bandwidth"] <= 2


def test_the_topic_names_the_order() -> None:
    topic = gpuwise.matters("spec-sheet", model="transformer_big", gpu="RTX 2070").topics[0]
    assert topic.answer.startswith("Each of these changes alone affects the step as follows, largest gain first: tensor cores")
    assert topic.value == max(found("RTX 2070", TRANSFORMER).values())
