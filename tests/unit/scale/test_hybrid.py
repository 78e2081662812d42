"""Splitting layers instead of batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.core.errors import BadValue
from gpuwise.hardware.machines import find_host
from gpuwise.scale.cluster.collectives import collective_s
from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.split.data_parallel import data_parallel
from gpuwise.scale.split.hybrid import hybrid
from gpuwise.scale.split.layers import data_parallel_elements, equal_batch, message_count, model_parallel_elements
from gpuwise.step.time.setting import find_stack
from gpuwise.step.types import Setting
from gpuwise.workload.store import zoo

SETTING = Setting(stack=find_stack("torch-1.0")[0], host=find_host("desktop"))


@pytest.mark.parametrize(("count", "published"), [(2, 1.95), (4, 3.74), (8, 6.25)])
def test_alexnet_with_split_dense_layers_scales_as_published(count: int, published: float) -> None:
    """Krizhevsky 2014, K20 cards, 128 images each."""
    cluster = parse_cluster(f"{count}x K20")[0]
    found = hybrid(zoo.load("alexnet"), cluster, SETTING, batch=128)
    assert found.speed_up == pytest.approx(published, rel=0.15)
    assert found.speed_up > data_parallel(zoo.load("alexnet"), cluster, SETTING, batch=128).speed_up


def test_small_batches_make_the_split_worth_more() -> None:
    """Gradients stay as large, activations shrink with the batch."""
    model, cluster = zoo.load("alexnet"), parse_cluster("4x K20")[0]
    gains = []
    for batch in (32, 128, 1024):
        split = hybrid(model, cluster, SETTING, batch=batch)
        gains.append(split.speed_up / data_parallel(model, cluster, SETTING, batch=batch).speed_up)
    assert gains == sorted(gains, reverse=True)


def test_a_network_without_dense_layers_says_so() -> None:
    with pytest.raises(BadValue, match="no dense layers"):
        hybrid(zoo.load("squeezenet1_0"), parse_cluster("4x K20")[0], SETTING, batch=32)


def test_the_layer_of_1000_inputs_and_500_outputs() -> None:
    assert data_parallel_elements(1000, 500) == 500_000
    assert model_parallel_elements(1000, 500, 128, gathers_outputs=False) == 128_000
    assert model_parallel_elements(1000, 500, 128) == 160_000
    assert equal_batch(1000, 500, gathers_outputs=False) == 500
    assert equal_batch(1000, 500) == 400


@given(inputs=st.integers(1, 10**4), outputs=st.integers(1, 10**4), gpus=st.integers(2, 16))
def test_at_the_equal_batch_both_splits_move_the_same(inputs: int, outputs: int, gpus: int) -> None:
    batch = equal_batch(inputs, outputs, gpus=gpus)
    one = model_parallel_elements(inputs, outputs, 1, gpus=gpus)
    assert batch * one == pytest.approx(data_parallel_elements(inputs, outputs))


def test_copying_to_everyone_grows_as_the_square() -> None:
    """One message takes 0.75 ms: three 2.25, nine 6.75 (a well-known text says 7.75: a slip), and on four nodes 20.25."""
    once = 0.75e-3
    assert message_count(3, 2, senders=1) * once == pytest.approx(2.25e-3)
    assert message_count(3, 2) * once == pytest.approx(6.75e-3)
    assert message_count(3, 4) * once == pytest.approx(20.25e-3)


def test_a_ring_does_not() -> None:
    """The same gradient over the same 40 Gbit/s as one all-reduce, latencies and all."""
    size = 1000 * 1000 * 4
    taken = [
        float(collective_s("all_reduce", size, parse_cluster(f"{nodes}x3x GTX 1080 Ti", network="40Gbit")[0], 3, nodes))
        for nodes in (2, 4)
    ]
    assert taken[0] < 6.75e-3 / 2
    assert taken[1] < 1.6 * taken[0]
