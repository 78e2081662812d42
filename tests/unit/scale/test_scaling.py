"""How throughput grows with GPUs, and where it ends."""

from __future__ import annotations

import pytest

from gpuwise.scale.cluster.parse import parse_cluster
from gpuwise.scale.plans.scaling import ScalePoint, batch_of, counts_of, stops_at
from gpuwise.scale.plans.types import Estimate, Mesh, Plan, RankMemory


def point(count: int, rate: float) -> ScalePoint:
    names = "weight gradient optimizer activation workspace framework".split()
    memory = RankMemory(**dict.fromkeys((f"{name}_bytes" for name in names), 1.0))
    parts = "compute_s recompute_s update_s exposed_comm_s hidden_comm_s bubble_s wait_s flops".split()
    plan = Plan(mesh=Mesh(data=count), micro_batch=1, micro_count=1)
    one = Estimate(plan=plan, step_s=count / rate, memory=memory, **dict.fromkeys(parts, 0.0))
    return ScalePoint(gpu_count=count, strong=one, weak=one)


@pytest.mark.parametrize(
    ("rates", "end"),
    [
        ({1: 1.0, 2: 1.9, 4: 3.6, 8: 6.8}, None),
        ({1: 1.0, 2: 1.9, 4: 2.2, 8: 2.3}, 2),
        ({1: 1.0, 2: 1.2, 4: 1.3}, 1),
        ({4: 4.0, 5: 3.0, 8: 7.8}, None),  # 5 divides badly, 8 helps
        ({1: 1.0}, None),
    ],
)
def test_adding_stops_helping_where_no_more_bring_half(rates: dict[int, float], end: int | None) -> None:
    assert stops_at([point(count, rate) for count, rate in rates.items()]) == end


def test_small_machines_are_asked_card_by_card_and_clusters_by_doubling() -> None:
    assert counts_of(parse_cluster("5xRTX 3090")[0]) == (1, 2, 3, 4, 5)
    assert counts_of(parse_cluster("3x8xH100 SXM")[0]) == (1, 2, 4, 8, 16, 24)


def test_a_batch_that_does_not_divide_takes_the_nearest_that_does() -> None:
    assert batch_of(256, 3) == 255
    assert batch_of(256, 4) == 256
    assert batch_of(1, 8) == 8
