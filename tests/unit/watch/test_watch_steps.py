"""From marks to steps: what counts as a step, and what is waiting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwise.live.hook.gpuwise_steps import RECORD
from gpuwise.live.sample.steps import pace_of, typical_pace


class Tape:
    """Marks at times of our own."""

    def __init__(self) -> None:
        self.data, self.at, self.cpu = b"", 100.0, 1.0

    def mark(self, kind: str, number: int = 0, after: float = 0.0, cpu: float = 0.0) -> Tape:
        self.at, self.cpu = self.at + after, self.cpu + cpu
        self.data += RECORD.pack(kind.encode(), self.at, self.cpu, number)
        return self

    def train(self, steps: int, wait: float = 0.02, work: float = 0.08, batch: int = 16, wait_cpu: float = 0.0) -> Tape:
        for _ in range(steps):
            self.mark("B").mark("E", batch, wait, wait_cpu).mark("S", after=work, cpu=work)
        return self


def test_waits_and_steps_are_told_apart() -> None:
    pace = pace_of(7, Tape().mark("L", 2).train(30).data)
    assert pace is not None
    assert (pace.by, pace.count, pace.batch, pace.workers) == ("optimizer", 29, 16, 2)
    assert pace.median_s == pytest.approx(0.1)
    assert pace.wait_fraction == pytest.approx(0.2)
    assert pace.work_low_s == pytest.approx(0.08)
    assert pace.wait_cpu_s == pytest.approx(0.0)


def test_what_the_process_computes_while_it_waits_is_counted() -> None:
    pace = pace_of(7, Tape().train(20, wait_cpu=0.015).data)
    assert pace is not None
    assert pace.wait_cpu_s == pytest.approx(0.015)
    assert pace.cpu_s == pytest.approx(0.095)


def test_a_step_that_begins_a_pass_is_left_out_and_told() -> None:
    tape = Tape().mark("L", 0).train(10)
    tape.mark("B").mark("C").mark("L", 0, after=5.0)
    pace = pace_of(7, tape.train(10).data)
    assert pace is not None
    assert pace.mean_s == pytest.approx(0.1)
    assert pace.apart_fraction == pytest.approx(5.1 / 6.9)


def test_steps_under_a_profiler_are_not_timed() -> None:
    tape = Tape().train(10).mark("P").train(5, work=2.0).mark("Q", 1, after=3.0)
    pace = pace_of(7, tape.train(10).data)
    assert pace is not None
    assert pace.mean_s == pytest.approx(0.1)


def test_a_pass_that_begins_under_a_profiler_is_not_counted_twice() -> None:
    pace = pace_of(7, Tape().mark("E").mark("L", after=1.0).mark("E").mark("P").mark("L", after=1.0).mark("E").data)
    assert pace is not None
    assert pace.apart_fraction == pytest.approx(1.0)


def test_what_is_no_waiting_is_not_counted_as_such() -> None:
    tape = Tape().train(10)
    tape.mark("B").mark("D", 1, after=3.0).mark("B", after=1.0).mark("E", 16, 0.02).mark("S", after=0.08)  # evaluates
    tape.train(5).mark("B").mark("D", 0, after=0.5).mark("B").mark("E", 16, 0.02).mark("S", after=0.08)  # logs
    tape.train(5).mark("B").mark("D", 0).mark("E", 16, 0.02).mark("S", after=0.08)  # a wait without a beginning
    pace = pace_of(7, tape.train(5).data)
    assert pace is not None
    assert pace.high_s == pytest.approx(0.1)
    assert pace.wait_s * pace.steady_count == pytest.approx(0.02 * (pace.steady_count - 1))
    assert pace.apart_fraction == pytest.approx(4.1 / (2.7 + 4.0 + 0.5))


def test_gradients_of_several_batches_are_one_step() -> None:
    tape = Tape()
    for _ in range(10):
        tape.mark("B").mark("E", 4, 0.01).mark("B", after=0.1).mark("E", 4, 0.01).mark("S", after=0.1)
    pace = pace_of(7, tape.data)
    assert pace is not None
    assert (pace.by, round(pace.mean_s, 6), round(pace.wait_s, 6)) == ("optimizer", 0.22, 0.02)


def test_two_optimizers_a_batch_leave_the_batch_as_the_step() -> None:
    tape = Tape()
    for _ in range(10):
        tape.mark("B").mark("E", 4, 0.02).mark("S", after=0.04).mark("S", after=0.04)
    pace = pace_of(7, tape.data)
    assert pace is not None
    assert (pace.by, round(pace.mean_s, 6)) == ("batches", 0.1)


def test_without_an_optimizer_batches_count() -> None:
    tape = Tape()
    for _ in range(8):
        tape.mark("B").mark("E", 4, 0.03, 0.0).mark("B", after=0.07)
    pace = pace_of(7, tape.data)
    assert pace is not None
    assert (pace.by, round(pace.wait_fraction, 3)) == ("batches", 0.3)


def test_the_typical_process_is_the_one_in_the_middle() -> None:
    marks = {number: Tape().train(20, work=work).data for number, work in enumerate((0.05, 0.08, 0.30))}
    marks[9] = Tape().train(4, work=0.07).data
    pace = typical_pace(marks)
    assert pace is not None
    assert pace.pid == 1


@given(st.integers(0, 2), st.integers(0, 31))
def test_too_few_marks_or_half_a_record_give_no_pace(steps: int, cut: int) -> None:
    assert pace_of(7, Tape().train(steps).data + b"\0" * cut) is None


@given(st.lists(st.tuples(st.sampled_from("LBECDSPQ"), st.floats(0.0, 2.0)), max_size=60))
def test_any_order_of_marks_gives_a_sound_pace_or_none(order: list[tuple[str, float]]) -> None:
    tape = Tape()
    for kind, after in order:
        tape.mark(kind, 1, after)
    pace = pace_of(7, tape.data)
    if pace is not None:
        assert 0.0 <= pace.wait_fraction <= 1.0 + 1e-9
        assert 0.0 <= pace.apart_fraction <= 1.0 + 1e-9
        assert 0 < pace.steady_count <= pace.count
