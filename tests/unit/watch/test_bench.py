"""Measuring this machine: timings until they are stable, profiles on disk, ops priced from them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate, chain, repeat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpuwise import api
from gpuwise.api.watching import judge
from gpuwise.cli.app import app
from gpuwise.errors import BadFile, BadValue
from gpuwise.watch.bench import store
from gpuwise.watch.bench.price import price
from gpuwise.watch.bench.timing import stable_seconds, summary
from gpuwise.watch.bench.types import VERSION, Profile, Row
from gpuwise.watch.hook.gpuwise_steps import RECORD
from gpuwise.watch.types import Run
from gpuwise.workload.types import Workload


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWISE_DATA", str(tmp_path / "data"))


def row(kind: str, sizes: tuple[float, ...], work: float, seconds: float) -> Row:
    return Row(kind=kind, sizes=sizes, work=work, seconds=seconds, spread_fraction=0.01, runs=5)


def made(flops_per_s: float = 1e11, bytes_per_s: float = 1e10, day: str = "2026-01-02") -> Profile:
    """A device of one rate for everything that computes and one for everything that moves bytes."""
    computing = [
        row(kind, tuple(float(size) for size in sizes), 1e6 * place, 1e6 * place / flops_per_s)
        for kind, width in (("matmul.fp32", 4), ("rnn.forward", 3), ("rnn.backward", 3), ("attention.forward", 4))
        for place, sizes in ((1, [8] * width), (100, [64] * width))
    ]
    computing += [
        row(f"{kind}.{half}", (size,) * 5, work, work / flops_per_s)
        for kind in ("conv", "strided", "depthwise")
        for half in ("forward", "data", "weight")
        for size, work in ((8.0, 1e6), (32.0, 1e9))
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
    query = api.capture_query(model="resnet18", precision="fp32", optimizer="adamw", mode="train")
    return replace(api.capture(query).workload, batch=8)


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


def test_one_rate_everywhere_gives_work_over_rate(resnet: Workload) -> None:
    found = price(resnet, made(flops_per_s=1e11), 8.0)
    assert found.by_kind["conv"] == pytest.approx(price(resnet, made(flops_per_s=1e12), 8.0).by_kind["conv"] * 10, rel=0.01)
    whole = api.predict(api.predict_query(model="resnet18", gpu=["cpu"], precision="fp32", batch="8")).results[0]
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
    with pytest.raises(BadFile, match="no such work"):
        price(resnet, poor)


def test_predict_on_this_machine_takes_the_profile() -> None:
    store.save(made())
    done = CliRunner().invoke(app, ["predict", "resnet18", "--on-this-machine", "--batch", "8", "--precision", "fp32", "--json"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert result["step_low_s"] < result["step_s"] < result["step_high_s"]
    assert any(entry["name"] == "this machine" and entry["basis"] == "measured" for entry in result["assumptions"])
    assert sum(result["bound_fractions"].values()) == pytest.approx(1.0)
    with pytest.raises(BadValue, match="measured here"):
        api.predict_query(model="resnet18", gpu=["RTX 3090"], on_this_machine=True)


def test_a_watched_run_without_a_gpu_is_held_against_the_profile() -> None:
    marks = b"".join(RECORD.pack(b"E", place, place, 8) + RECORD.pack(b"S", place + 0.5, place, 0) for place in range(20))
    run = Run(sights=(), marks={1: marks}, traces=(), pids=frozenset(), faults=())
    assert judge(run, title="a run", model="resnet18").expected is None
    store.save(made(flops_per_s=1e12))
    answer = judge(run, title="a run", model="resnet18")
    assert answer.expected is not None
    assert answer.expected.gpu == "this machine's CPU"
    assert answer.expected.setting == "batch 8, fp32 (assumed), training"
    query = api.predict_query(model="resnet18", gpu=[], on_this_machine=True, batch="8", precision="fp32")
    assert answer.expected.step_s == api.predict(query).results[0].step_s < 0.5
    assert answer.findings[-1].code == "slower_than_expected"


@pytest.mark.parametrize("device", ["gpu", "cuda:7", "cuda:x", "mps:3"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(BadValue) as caught:
        api.bench(device, seconds=2.0)
    assert caught.value.hint


@pytest.mark.slow
def test_this_machine_is_measured_and_predicts() -> None:
    pytest.importorskip("torch")
    done = CliRunner().invoke(app, ["bench", "--device", "cpu", "--seconds", "6"])
    assert done.exit_code == 0, done.output
    assert "matmul.fp32" in done.stdout
    assert "disk.read" in done.stdout
    profile = store.latest("cpu")
    assert all(entry.seconds > 0 and entry.runs >= 5 for entry in profile.rows)
    done = CliRunner().invoke(app, ["predict", "resnet18", "--on-this-machine", "--precision", "fp32", "--batch", "4"])
    assert done.exit_code == 0, done.output
    assert "measured: this machine = cpu" in done.stdout
