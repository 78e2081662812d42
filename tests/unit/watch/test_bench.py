"""Measuring this machine: timings until they are stable, profiles on disk, ops priced from them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, chain, repeat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import gpuwise
from asking import predict_query
from gpuwise.core.errors import BadFile, BadValue
from gpuwise.live.bench import store
from gpuwise.live.bench.cases import Case
from gpuwise.live.bench.price import price
from gpuwise.live.bench.run import measure
from gpuwise.live.bench.timing import stable_seconds, summary
from gpuwise.live.bench.types import VERSION, Profile, Row
from gpuwise.live.hook.gpuwise_steps import RECORD
from gpuwise.live.sample.types import Run
from gpuwise.questions.bench.answer import BenchAnswer
from gpuwise.questions.bench.text import render
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.questions.watch.judging import judge
from gpuwise.surfaces.cli.app import app
from gpuwise.workload.model.types import Workload


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))


def row(kind: str, sizes: tuple[float, ...], work: float, seconds: float) -> Row:
    return Row(kind=kind, sizes=sizes, work=work, seconds=seconds, spread_fraction=0.01, runs=5)


def made(flops_per_s: float = 1e11, bytes_per_s: float = 1e10, day: str = "2026-01-02") -> Profile:
    """A device of one rate for everything that computes and one for everything that moves bytes."""
    computing = [
        row(kind, tuple(float(size) for size in sizes), 1e6 * place, 1e6 * place / flops_per_s)
        for kind, width in (("matmul.fp32", 4), ("lstm.forward", 4), ("lstm.backward", 4), ("attention.forward", 4))
        for place, sizes in ((1, [8] * width), (100, [64] * width))
    ]
    computing += [
        row(f"{kind}.{half}", (size,) * 5, work, work / flops_per_s)
        for kind in ("conv", "strided", "depthwise")
        for half in ("forward", "data", "weight")
        for size, work in ((16.0, 1e6), (32.0, 1e9))  # whole vectors of channels
    ]
    names = ["elementwise", "curve", "reduction", "columns", "copy", "random"]
    names += [
        f"{kind}.{half}"
        for kind in ("row_norm", "batch_norm", "softmax", "pool", "embedding")
        for half in ("forward", "backward")
    ]
    moving = [row(name, (work,), work, work / bytes_per_s) for name in names for work in (1e3, 1e8)]
    others = [row("optimizer.adamw", sizes, sizes[1], 1e-6 * sizes[0] + 1e-9 * sizes[1]) for sizes in ((100.0, 1e4), (2.0, 2e6))]
    others += [row("chain.forward", (50.0, 50.0), 100, 1e-3), row("chain.step", (50.0, 50.0), 300, 4e-3)]
    return Profile(
        version=VERSION,
        device="cpu",
        name="a CPU",
        day=day,
        torch="2",
        threads=1,
        rows=(*computing, *moving, *others),
    )


@pytest.fixture(scope="module")
def resnet() -> Workload:
    found = gpuwise.capture("resnet18", precision="fp32", optimizer="adamw", mode="train")
    return replace(found.workload, batch=8)


def test_depthwise_convolutions_with_strides_have_rows_of_their_own() -> None:
    """A profile from before those rows existed takes the rows without strides."""
    mobile = gpuwise.capture("mobilenet_v2", precision="fp32", optimizer="adamw", mode="train").workload
    before = made()
    plain = [one for one in before.rows if one.kind.startswith("depthwise.")]
    strided = tuple(
        msgspec.structs.replace(one, kind=f"depthwise_strided.{one.kind.partition('.')[2]}", seconds=9 * one.seconds)
        for one in plain
    )
    old, new = price(mobile, before, 8.0), price(mobile, msgspec.structs.replace(before, rows=(*before.rows, *strided)), 8.0)
    slow = tuple(msgspec.structs.replace(one, seconds=9 * one.seconds) if one in plain else one for one in before.rows)
    all_slow = price(mobile, msgspec.structs.replace(before, rows=slow), 8.0)
    assert old.by_kind["conv"] < new.by_kind["conv"] < all_slow.by_kind["conv"]


def test_a_quiet_machine_is_measured_with_few_runs() -> None:
    ticks = accumulate(repeat(0.01))
    seconds, spread, runs = stable_seconds(lambda: None, lambda: None, 10.0, ticks.__next__)
    assert (round(seconds, 6), round(spread, 6), runs) == (0.01, 0.0, 5)


def test_disturbed_runs_add_and_do_not_count() -> None:
    assert summary([1.0, 1.01, 1.0, 9.0, 1.0, 1.02, 30.0, 1.0])[0] == pytest.approx(1.0)
    steady, wild = summary([1.0, 1.01] * 10)[1], summary([1.0, 2.0, 3.0, 4.0] * 5)[1]
    assert steady < 0.02 < wild


def test_a_restless_machine_is_given_up_when_the_time_is_over() -> None:
    ticks = accumulate(chain.from_iterable(repeat((0.01, 0.01, 0.01, 0.02, 0.01, 0.04))))
    _, spread, runs = stable_seconds(lambda: None, lambda: None, 0.0, ticks.__next__)
    assert runs == 5
    assert spread > 0.02


def test_work_that_is_too_long_for_its_time_is_timed_twice_after_the_first_call() -> None:
    ticks = accumulate([0.0, 90.0, 0.0, 2.0, 0.0, 3.0])
    seconds, spread, runs = stable_seconds(lambda: None, lambda: None, 0.0, ticks.__next__, most_s=-1.0)
    assert (seconds, runs) == (2.25, 2)
    assert 0.1 < spread < 0.5


class Slow:
    """A device on which every call takes a second, and the clock that shows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kinds: dict[str, int]) -> None:
        self.now, self.calls, self._kinds = 0.0, list[str](), kinds
        for module in ("run", "timing"):
            monkeypatch.setattr(f"gpuwise.live.bench.{module}.time", self)
        monkeypatch.setattr("gpuwise.live.bench.run.cases", self._cases)
        monkeypatch.setattr("gpuwise.live.bench.run.around", lambda device, folder: iter(()))

    def perf_counter(self) -> float:
        return self.now

    def _cases(self, device: str) -> Iterator[Case]:
        for kind, count in self._kinds.items():
            for size in range(1, count + 1):
                yield Case(kind=kind, sizes=(size,), work=1.0, call=lambda kind=kind: self._call(kind))  # type: ignore[misc]

    def _call(self, kind: str) -> None:
        self.now += 1.0
        self.calls.append(kind)

    def measured(self, seconds: float) -> Profile:
        return measure("cpu", Path(), seconds=seconds, progress=lambda text, share: None, clock=self.perf_counter)


def test_the_time_is_kept_and_what_it_did_not_reach_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    slow = Slow(monkeypatch, {"matmul.fp32": 9, "chain.step": 1, "copy": 5})
    profile = slow.measured(18.0)
    assert slow.now <= 18.0 + 3.0
    assert slow.calls[:9] == ["matmul.fp32"] * 3 + ["chain.step"] * 3 + ["copy"] * 3  # one of each kind first
    assert {entry.kind for entry in profile.rows} == {"matmul.fp32", "chain.step", "copy"}
    assert len(profile.of("matmul.fp32")) == 4
    told = [entry for entry in profile.missing if "out of time" in entry]
    assert [entry.partition(" (")[0] for entry in told] == ["5 sizes of matmul.fp32", "4 sizes of copy"]


def test_without_time_for_every_kind_that_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    profile = Slow(monkeypatch, {"chain.step": 1, "copy": 1, "pool.forward": 1}).measured(2.0)
    assert [entry.kind for entry in profile.rows] == ["chain.step"]
    assert any(entry.startswith("all kinds that are not listed") for entry in profile.missing)


def test_with_time_enough_every_case_is_measured_twice_and_well(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    slow = Slow(monkeypatch, {"matmul.fp32": 2, "copy": 1})
    profile = slow.measured(1e5)
    assert slow.calls.count("copy") == 2 * (2 + 5)
    assert all(entry.runs == 5 for entry in profile.rows)
    assert not [entry for entry in profile.missing if "out of time" in entry]


def bench_of(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> BenchAnswer:
    monkeypatch.setattr("gpuwise.questions.bench.answer.measure", lambda *given, **more: profile)
    return gpuwise.bench("cpu")


def test_a_folder_that_cannot_be_written_is_found_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "file"))
    monkeypatch.setattr("gpuwise.questions.bench.answer.measure", lambda *given, **more: pytest.fail("measured in vain"))
    with pytest.raises(BadFile) as caught:
        gpuwise.bench("cpu")
    assert "GPUWISE_DATA" in caught.value.hint


def test_rows_are_shown_where_saving_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise BadFile(f"{path} cannot be written: no space left")

    monkeypatch.setattr(store, "write_whole", full)
    answer = bench_of(made(), monkeypatch)
    assert answer.path is None
    text = render(answer)
    assert "matmul.fp32" in text
    assert "not saved:" in text
    assert "no space left" in text
    assert (answer.to_dict()["file"], "no space" in answer.to_dict()["unsaved"]) == (None, True)


def test_a_profile_that_no_prediction_can_use_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    poor = msgspec.structs.replace(made(), rows=tuple(one for one in made().rows if not one.kind.startswith("chain")))
    answer = bench_of(poor, monkeypatch)
    assert answer.path is None
    assert "chain.forward, chain.step" in answer.unsaved
    assert not list(store.folder().glob("*.json"))


def noisy(profile: Profile, spread: float) -> Profile:
    rows = tuple(msgspec.structs.replace(one, spread_fraction=spread) for one in profile.rows)
    return msgspec.structs.replace(profile, rows=rows)


def test_a_surer_profile_of_the_day_is_kept_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench_of(made(), monkeypatch).path
    worse = bench_of(noisy(made(), 0.4), monkeypatch)
    assert worse.path is None
    assert "median ±1.0%, compared with 62 rows, ±40.0%" in worse.unsaved
    assert store.latest() == made()
    other = msgspec.structs.replace(noisy(made(), 0.4), threads=2)  # another question, not a worse answer
    assert bench_of(other, monkeypatch).path
    assert bench_of(noisy(other, 0.1), monkeypatch).path
    assert store.latest().spread_fraction == 0.1


def test_a_profile_is_saved_and_the_newest_is_taken() -> None:
    store.save(made(day="2026-01-03"))
    path = store.save(made(day="2026-01-02"))
    assert path.name == "cpu-2026-01-02.json"
    assert store.read(path) == made()
    assert store.latest().day == "2026-01-03"
    assert [file.name for file in path.parent.iterdir() if file.suffix != ".json"] == []


def test_a_machine_that_was_not_measured_says_how() -> None:
    with pytest.raises(BadFile, match="has not been measured") as caught:
        store.latest()
    assert "gpuwise bench" in caught.value.hint


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"version": 1}', msgspec.json.encode(msgspec.structs.replace(made(), version=0))]
)
def test_a_damaged_profile_is_refused(text: bytes) -> None:
    path = store.save(made())
    path.write_bytes(text)
    with pytest.raises(BadFile) as caught:
        store.latest()
    assert "gpuwise bench" in caught.value.hint


@pytest.mark.parametrize("work", [0.0, -1.0, 1e-320, 1e300])
def test_work_that_nothing_can_have_is_refused(work: float) -> None:
    """A rate of almost nothing would make every prediction infinite."""
    path = store.save(msgspec.structs.replace(made(), rows=(row("conv.forward", (8.0,) * 5, work, 1e-3),)))
    with pytest.raises(BadFile, match="impossible measurement"):
        store.read(path)


@pytest.mark.parametrize("spread", [-0.1, 1e308])
def test_an_uncertainty_that_nothing_can_have_is_refused(spread: float) -> None:
    path = store.save(noisy(made(), spread))
    with pytest.raises(BadFile, match="impossible measurement"):
        store.read(path)


def test_one_rate_everywhere_gives_work_over_rate(resnet: Workload) -> None:
    found = price(resnet, made(flops_per_s=1e11), 8.0)
    assert found.by_kind["conv"] == pytest.approx(price(resnet, made(flops_per_s=1e12), 8.0).by_kind["conv"] * 10, rel=0.01)
    whole = gpuwise.predict(model="resnet18", gpu=["cpu"], precision="fp32", batch="8").results[0]
    flops = sum(entry.flops for entry in whole.by_op if entry.op == "conv")
    assert found.by_kind["conv"] == pytest.approx(flops / 1e11, rel=0.02)
    assert found.seconds == pytest.approx(sum(found.by_kind.values()) + found.overhead_s)


@given(st.integers(1, 64), st.integers(1, 64))
def test_a_larger_batch_is_never_faster(resnet: Workload, one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert price(resnet, made(), float(less)).seconds <= price(resnet, made(), float(more)).seconds * (1 + 1e-9)


def test_a_profile_that_lacks_work_is_refused(resnet: Workload) -> None:
    profile = made()
    poor = msgspec.structs.replace(profile, rows=tuple(entry for entry in profile.rows if not entry.kind.startswith("conv")))
    with pytest.raises(BadFile, match="does not cover this model"):
        price(resnet, poor)


def test_predict_on_this_machine_takes_the_profile() -> None:
    store.save(made())
    done = CliRunner().invoke(app, ["predict", "resnet18", "--on-this-machine", "--batch", "8", "--precision", "fp32", "--json"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert result["step_low_s"] < result["step_s"] < result["step_high_s"]
    assert any(entry["name"] == "this machine" and entry["basis"] == "measured" for entry in result["assumptions"])
    assert sum(result["bound_fractions"].values()) == pytest.approx(1.0)
    assert (result["gpu"], result["utilisation_fraction"]) == ("a CPU", None)
    assert "Ryzen" not in done.stdout
    with pytest.raises(BadValue, match="cannot be combined"):
        predict_query(model="resnet18", gpu=["RTX 3090"], on_this_machine=True)


def test_answers_name_this_machine_and_its_memory() -> None:
    store.save(made())
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for words in (["predict"], ["tune", "batch"]):
        done = CliRunner().invoke(app, [*words, "resnet18", "--on-this-machine", "--precision", "fp32"])
        assert done.exit_code == 0, done.output
        assert "on a CPU" in done.stdout
        assert "Ryzen" not in done.stdout
    query = predict_query(model="resnet18", gpu=[], on_this_machine=True, precision="fp32")
    assert query.gpus[0].usable_memory_bytes == has


def test_the_range_is_wider_by_the_spread_of_the_rows_used() -> None:
    def ratios(profile: Profile) -> tuple[float, float]:
        store.save(profile)
        query = predict_query(model="resnet18", gpu=[], on_this_machine=True, batch="8", precision="fp32")
        result = predict_step(query).results[0]
        return result.step_low_s / result.step_s, result.step_high_s / result.step_s

    assert ratios(noisy(made(), 0.0)) == pytest.approx((0.7, 1.5))
    assert ratios(noisy(made(), 0.5)) == pytest.approx((0.7 / 1.5, 1.5 * 1.5))
    unused = tuple(msgspec.structs.replace(one, spread_fraction=0.5 * (one.kind[:4] == "lstm")) for one in made().rows)
    assert ratios(msgspec.structs.replace(made(), rows=unused)) == pytest.approx((0.7, 1.5))


def test_a_watched_run_without_a_gpu_is_held_against_the_profile() -> None:
    marks = b"".join(RECORD.pack(b"E", place, place, 8) + RECORD.pack(b"S", place + 0.5, place, 0) for place in range(20))
    run = Run(sights=(), marks={1: marks}, traces=(), pids=frozenset(), faults=())
    assert judge(run, title="a run", model="resnet18").expected is None
    store.save(made(flops_per_s=1e12))
    answer = judge(run, title="a run", model="resnet18")
    assert answer.expected is not None
    assert answer.expected.gpu == "this machine's CPU"
    assert answer.expected.setting == "batch 8, fp32 (assumed), training"
    query = predict_query(model="resnet18", gpu=[], on_this_machine=True, batch="8", precision="fp32")
    assert answer.expected.step_s == predict_step(query).results[0].step_s < 0.5
    assert answer.findings[-1].code == "slower_than_expected"


@pytest.mark.parametrize("device", ["gpu", "cuda:7", "cuda:x", "mps:3"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(BadValue) as caught:
        gpuwise.bench(device, seconds=2.0)
    assert caught.value.hint


@pytest.mark.slow
@pytest.mark.alone
def test_this_machine_is_measured_and_predicts() -> None:
    pytest.importorskip("torch")
    done = CliRunner().invoke(app, ["bench", "--device", "cpu", "--seconds", "12", "-v"])
    assert done.exit_code == 0, done.output
    assert "matmul.fp32" in done.stdout
    assert "disk.read" in done.stdout
    profile = store.latest("cpu")
    assert all(entry.seconds > 0 and entry.runs >= 2 for entry in profile.rows)
    done = CliRunner().invoke(app, ["predict", "resnet18", "--on-this-machine", "--precision", "fp32", "--batch", "4", "-v"])
    assert done.exit_code == 0, done.output
    assert "measured: this machine = cpu" in done.stdout
