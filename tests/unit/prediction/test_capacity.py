"""The search for the largest batch, and the memory a program gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.hardware.catalog import load_catalog
from gpuwise.prediction.ways import LARGEST_BATCH, largest, room_of


@given(
    fixed=st.floats(0, 1e9),
    slopes=st.lists(st.tuples(st.floats(0, 1e9), st.floats(1, 1e7)), min_size=1, max_size=4),
    room=st.floats(0, 1e12),
)
def test_the_answer_fits_and_the_next_does_not(fixed: float, slopes: list[tuple[float, float]], room: float) -> None:
    def need(size: int) -> float:
        return fixed + max(base + slope * size for base, slope in slopes)

    found = largest(need, room)
    assert found == 0 or need(found) <= room
    assert found == LARGEST_BATCH or need(found + 1) > room


@given(steps=st.lists(st.integers(0, 50), min_size=1, max_size=200), room=st.integers(0, 5000))
def test_it_is_exact_on_any_staircase(steps: list[int], room: int) -> None:
    needs = [sum(steps[: size + 1]) for size in range(len(steps))]

    def need(size: int) -> float:
        return needs[size - 1] if size <= len(needs) else 1e9

    assert largest(need, room) == sum(value <= room for value in needs)


@given(room=st.floats(1, 1e6), known=st.sets(st.integers(1, 2000), max_size=6))
def test_what_is_known_does_not_change_the_answer(room: float, known: set[int]) -> None:
    def need(size: int) -> float:
        return 7.0 + 3.5 * size

    assert largest(need, room, known={size: need(size) for size in known}) == largest(need, room)


def test_a_straight_line_is_found_in_few_looks() -> None:
    looked: list[int] = []

    def need(size: int) -> float:
        looked.append(size)
        return 1e9 + 2.5e6 * size

    assert largest(need, 24e9) == 9200
    assert len(looked) < 12


def test_the_top_is_kept() -> None:
    assert largest(lambda size: 1.0, 2.0, top=100) == 100
    assert largest(lambda size: 3.0, 2.0, top=100) == 0


@pytest.mark.parametrize(
    ("name", "shared", "fraction"),
    [
        ("RTX 3090", False, 1.0),
        ("H100 SXM 80GB", False, 0.995),
        ("M2 Max 38-core", True, 0.75),
        ("Jetson AGX Orin 64GB", True, 0.8),
    ],
)
def test_memory_shared_with_the_cpu_is_not_all_the_gpu_s(name: str, shared: bool, fraction: float) -> None:
    gpu = load_catalog().find(name).gpu
    room = room_of(gpu)
    assert room.shared is shared
    assert room.usable_bytes / gpu.memory_bytes == pytest.approx(fraction, abs=0.01)
    assert bool(room.remark) is shared


def test_no_card_with_its_own_memory_counts_as_shared() -> None:
    for gpu in load_catalog().curated:
        if gpu.memory_type.startswith(("GDDR", "HBM")):
            assert not room_of(gpu).shared
        if gpu.vendor == "Apple" or gpu.name.startswith("Jetson"):
            assert room_of(gpu).shared
