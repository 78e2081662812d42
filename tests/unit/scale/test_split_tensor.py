"""Tensor parallelism is found by following the data: the same pattern that Megatron-LM wrote down for transformers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gpuwise.scale.split.share import Degrees, share_of
from gpuwise.scale.split.tensor import tensor_split
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.evaluate import op_bytes, op_flops, product_values
from gpuwise.workload.model.types import Settings, Workload
from gpuwise.workload.store import zoo
from gpuwise.workload.transform.parts import NOWHERE, parts_of


def load(name: str, precision: str = "bf16") -> Workload:
    return zoo.load(name, Request(model=name, settings=Settings(mode="train", precision=precision, optimizer="adamw")))


def flops_by_unit(workload: Workload, degrees: Degrees) -> np.ndarray:
    parts = parts_of(workload)
    share = share_of(parts, degrees)
    each = op_flops(share.workload, product_values(share.workload))[0]
    found = np.zeros(parts.units)
    np.add.at(found, share.unit, each[share.workload.calls.op])
    return found


@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b", "bert-base-uncased", "vit_base_patch16_224", "qwen2.5-0.5b"])
@pytest.mark.parametrize("precision", ["bf16", "amp"])
def test_a_transformer_block_has_two_sums_in_each_pass(name: str, precision: str) -> None:
    workload = load(name, precision)
    parts = parts_of(workload)
    middle = parts.kinds[len(parts.kinds) // 2]
    number = parts.kinds.index(middle) + 1 if parts.kinds.count(middle) == 1 else len(parts.kinds) // 2
    found = Counter(
        int(workload.calls.phase[message.call])
        for message in tensor_split(workload).messages
        if parts.place[message.call] == number
    )
    assert found == {0: 2, 1: 2}


@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b", "t5-base", "mixtral-8x7b"])
@pytest.mark.parametrize("count", [2, 4])
def test_shares_of_products_sum_to_the_whole(name: str, count: int) -> None:
    whole, part = (flops_by_unit(load(name), Degrees(tensor=degree)) for degree in (1, count))
    inside = whole > 0
    assert np.allclose(part[inside] * count, whole[inside], rtol=2e-3)  # a router stays whole


def test_a_rank_never_moves_more_bytes_than_the_whole() -> None:
    workload = load("llama-2-7b")
    parts = parts_of(workload)
    moved = []
    for degrees in (Degrees(), Degrees(tensor=4), Degrees(tensor=4, tokens=True)):
        share = share_of(parts, degrees)
        read, written = op_bytes(share.workload, product_values(share.workload))
        moved.append(float((read + written)[0][share.workload.calls.op].sum()))
    assert moved[0] > moved[1] > moved[2]
    assert moved[0] / 4 <= moved[2] < moved[0] / 3  # products still read their inputs whole


def test_experts_are_divided_with_the_tokens_of_all_ranks() -> None:
    whole, part = (flops_by_unit(load("mixtral-8x7b"), Degrees(expert=degree)) for degree in (1, 4))
    assert np.allclose(whole, part)  # fewer experts, as many more tokens each


def test_a_divided_sequence_divides_the_work() -> None:
    workload = load("llama-2-7b")
    share = share_of(parts_of(workload), Degrees(context=4))
    each = op_flops(share.workload, product_values(share.workload, None, 1024))[0]
    calls = share.workload.calls.op
    whole = share_of(parts_of(workload), Degrees())
    before = op_flops(whole.workload, product_values(whole.workload))[0]
    assert each[calls].sum() * 4 == pytest.approx(before[whole.workload.calls.op].sum(), rel=1e-9)


def test_convolutions_are_not_divided() -> None:
    assert tensor_split(load("resnet50", "amp")).divided < 0.1


@pytest.mark.parametrize("name", ["gpt2", "llama-2-70b", "resnet50", "t5-base", "whisper-small", "word_lstm"])
def test_every_call_stands_somewhere_and_the_optimizer_nowhere(name: str) -> None:
    workload = load(name, "amp")
    parts = parts_of(workload)
    update = workload.calls.phase == 2
    assert (parts.place[update] == NOWHERE).all()
    assert (parts.place[~update] >= 0).all()
    assert len(parts.kinds) == len(parts.blocks)
