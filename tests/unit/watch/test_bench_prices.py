"""Times between measured sizes, and the time for memory that is fresh from the system."""

from __future__ import annotations

import msgspec
import pytest

import gpuwise
from gpuwise.live.bench.price import price
from gpuwise.live.bench.trend import trend_of
from gpuwise.live.bench.types import VERSION, Profile, Row
from gpuwise.step.memory.heap import Heap, fresh_bytes
from gpuwise.workload.model.types import Workload

MIB = 2**20


def row(kind: str, sizes: tuple[float, ...], work: float, seconds: float) -> Row:
    return Row(kind=kind, sizes=sizes, work=work, seconds=seconds, spread_fraction=0.01, runs=5)


# ---------------------------------------------------------------- products


def matmul_s(m: float, n: float, k: float) -> float:
    return 2e-6 + 1e-11 * (m * k + k * n + m * n) + 1e-11 * 2 * m * n * k


def test_products_follow_the_trend_of_measured_ones() -> None:
    known = [(16, 16, 16), (64, 64, 64), (512, 512, 512), (1024, 1024, 1024), (32, 512, 512), (2048, 64, 64), (64, 64, 2048)]
    rows = tuple(row("matmul.fp32", (1.0, *map(float, s)), 2.0 * s[0] * s[1] * s[2], matmul_s(*s)) for s in known)
    for m, n, k in ((128.0, 96.0, 400.0), (4096.0, 32.0, 16.0), (8.0, 10.0, 300.0), (3000.0, 3000.0, 3000.0)):
        assert trend_of(rows).seconds((1.0, m, n, k), 2 * m * n * k)[0] == pytest.approx(matmul_s(m, n, k), rel=0.02)


def test_rows_near_a_size_correct_the_trend() -> None:
    sizes = [(float(2**power),) * 4 for power in range(3, 9)]
    rows = tuple(row("matmul.fp32", size, 2 * size[0] ** 4, 2e-9 * size[0] ** 4) for size in sizes)
    slow = (*rows, row("matmul.fp32", (1.0, 64.0, 10.0, 512.0), 2.0 * 64 * 10 * 512, 100e-6))
    assert trend_of(slow).seconds((1.0, 64.0, 10.0, 512.0), 2.0 * 64 * 10 * 512)[0] == pytest.approx(100e-6, rel=0.05)


def test_convolutions_compute_whole_vectors_of_channels() -> None:
    shapes = [(3.0, 32.0, 1024.0), (32.0, 32.0, 1024.0), (64.0, 64.0, 256.0), (128.0, 128.0, 64.0)]
    rows = tuple(
        row("conv.forward", (16.0, c, d, 9.0, positions), work, 1e-11 * work)
        for c, d, positions in shapes
        for work in (2 * 16 * c * d * 9 * positions,)
    )
    trend = trend_of(rows)
    whole, part = (trend.seconds((16.0, c, 48.0, 9.0, 256.0), 2 * 16 * c * 48 * 9 * 256)[0] for c in (32.0, 24.0))
    assert part == pytest.approx(whole, rel=0.02)


def test_time_steps_cost_time_of_their_own() -> None:
    rows = tuple(
        row("gru.forward", (t, b, h, 1.0), 12 * t * b * h * h, t * (20e-6 + 1e-9 * b * h + 1e-10 * b * h * h))
        for t, b, h in ((16.0, 16.0, 32.0), (32.0, 16.0, 64.0), (32.0, 32.0, 128.0), (32.0, 32.0, 256.0))
    )
    found, _ = trend_of(rows).seconds((200.0, 8.0, 48.0, 2.0), 12 * 200 * 2 * 8 * 48 * 48)
    assert found == pytest.approx(400 * (20e-6 + 1e-9 * 8 * 48 + 1e-10 * 8 * 48 * 48), rel=0.05)


# ---------------------------------------------------------------- memory


def test_freed_memory_is_used_again() -> None:
    heap = Heap()
    for _ in range(5):
        heap.release(heap.allocate(100_000))
    assert 100_000 <= heap.grown < 101_000
    assert heap.mapped == 0


def test_a_mapped_block_is_fresh_until_its_size_is_the_threshold() -> None:
    heap = Heap()
    heap.release(heap.allocate(8 * MIB))
    assert 8 * MIB <= heap.mapped < 8.01 * MIB
    heap.release(heap.allocate(8 * MIB - 8192))
    heap.release(heap.allocate(8 * MIB - 8192))
    assert heap.mapped < 8.01 * MIB
    assert heap.grown < 8 * MIB


def test_the_largest_blocks_are_always_fresh() -> None:
    heap = Heap()
    for _ in range(3):
        heap.release(heap.allocate(40 * MIB))
    assert heap.mapped >= 120 * MIB


def test_the_end_of_the_heap_is_returned_and_fresh_again() -> None:
    heap = Heap()
    for _ in range(3):
        blocks = [heap.allocate(MIB // 2) for _ in range(8)]
        for block in reversed(blocks):
            heap.release(block)
    assert heap.grown > 2 * 4 * MIB  # all of it comes fresh in every round, except for what glibc keeps


def test_a_block_in_use_keeps_what_is_below_it() -> None:
    heap = Heap()
    blocks = [heap.allocate(MIB // 2) for _ in range(8)]
    heap.allocate(64)
    before = heap.grown
    for _ in range(3):
        for block in blocks:
            heap.release(block)
        blocks = [heap.allocate(MIB // 2) for _ in range(7)]
    assert heap.grown == before


@pytest.fixture(scope="module")
def resnet() -> Workload:
    return gpuwise.capture("resnet18", precision="fp32", optimizer="adamw", mode="train").workload


def test_blocks_above_the_limit_make_every_step_fresh(resnet: Workload) -> None:
    """At batch 32, the largest activations have 98 MiB, which glibc maps anew in every step."""
    assert fresh_bytes(resnet, 32.0) > 98 * MIB
    assert fresh_bytes(resnet, 1.0) < fresh_bytes(resnet, 32.0)


def test_fresh_memory_takes_the_measured_time(resnet: Workload) -> None:
    def profile(*more: Row) -> Profile:
        flops = [
            row(f"{kind}.{half}", (8.0,) * 5, 1e6, 1e-5) for kind in ("conv", "strided") for half in ("forward", "data", "weight")
        ]
        flops.append(row("matmul.fp32", (8.0,) * 4, 1e6, 1e-5))
        names = ["elementwise", "columns", "reduction", "copy", "softmax.forward", "softmax.backward"]
        names += [f"{kind}.{half}" for kind in ("batch_norm", "pool") for half in ("forward", "backward")]
        moved = [row(name, (1e6,), 1e6, 1e-4) for name in names]
        rest = [row("optimizer.adamw", (2.0, 2e6), 2e6, 1e-3), row("chain.forward", (50.0, 50.0), 100, 1e-3)]
        rows = (*flops, *moved, *rest, row("chain.step", (50.0, 50.0), 300, 4e-3), *more)
        return Profile(version=VERSION, device="cpu", name="a CPU", day="2026-01-02", torch="2", threads=1, rows=rows)

    size = 16.0 * MIB
    written = (row("write.known", (size,), size, 1e-3), row("write.fresh", (size,), size, 5e-3))
    without, found = price(resnet, profile(), 32.0), price(resnet, profile(*written), 32.0)
    assert without.fresh_s == 0.0
    assert found.fresh_s == pytest.approx(fresh_bytes(resnet, 32.0) * 4e-3 / size)
    assert found.seconds == pytest.approx(without.seconds + found.fresh_s)
    quick = msgspec.structs.replace(written[1], seconds=0.5e-3)  # noise must not make memory cheaper than free
    assert price(resnet, profile(written[0], quick), 32.0).fresh_s == 0.0
