"""Sweeps that are killed, interrupted or lose a worker come to the same rows as one that is left alone: nothing lost or twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

import gpuwise
from gpuwise.core.errors import BadFile, GpuwiseError
from gpuwise.questions.common.runs.parts import Parts, alone
from gpuwise.questions.common.runs.spread import spread
from gpuwise.questions.sweep.ask import ask
from gpuwise.questions.sweep.block import block_of, decode, lost_block
from gpuwise.questions.sweep.options import SweepOptions
from making_traces import training

pytestmark = pytest.mark.slow
MODELS = "resnet18 resnet34 resnet50 vgg16 alexnet bert-base gpt2 bert-large vgg11 resnet101 resnet152 densenet121".split()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("list") / "models.txt"
    path.write_text("\n".join(MODELS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def undisturbed(models: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The rows of a sweep that nobody stops."""
    out = tmp_path_factory.mktemp("alone") / "rows.csv"
    done = subprocess.run(_command(models, out, "here"), capture_output=True, text=True, check=True)
    assert "points" in done.stdout
    return out.read_text(encoding="utf-8").splitlines()


def _command(models: Path, out: Path, on: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "gpuwise",
        "sweep",
        str(models),
        "--gpus",
        "curated",
        "--batches",
        "1..64",
        "--out",
        str(out),
        "--on",
        on,
    ]


def _parts(out: Path) -> dict[str, int]:
    """The parts that are there, and when each was written."""
    found = {}
    for part in out.with_name(f"{out.name}.parts").glob("*.part"):
        with suppress(FileNotFoundError):  # just dropped, for the table is whole
            found[part.name] = part.stat().st_mtime_ns
    return found


def _until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if ready():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("it took too long")


def _begun(models: Path, out: Path, on: str, parts: int) -> subprocess.Popen[str]:
    """A sweep in a process group of its own that has made some of its parts."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        _command(models, out, on),
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background of a shell ignore it
    )
    _until(lambda: len(_parts(out)) >= parts, process)
    return process


def _members(group: int) -> list[int]:
    """Processes of a group that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, member = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(member) == group and state != "Z":
            found.append(int(folder.name))
    return found


def _goes_on(models: Path, out: Path, on: str, undisturbed: list[str]) -> None:
    """The same command ends it, makes no part again, and comes to the same rows."""
    kept = _parts(out)
    assert 0 < len(kept) < 2 * len(MODELS)
    assert not out.exists()
    process = subprocess.Popen(_command(models, out, on), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen: dict[str, int] = {}
    while process.poll() is None:
        seen |= _parts(out)
        time.sleep(0.01)
    text, complaint = process.communicate()
    assert process.returncode == 0, complaint
    assert f"{len(kept)} of {2 * len(MODELS)} parts were kept from an earlier run" in text
    assert {name: seen.get(name, when) for name, when in kept.items()} == kept
    assert out.read_text(encoding="utf-8").splitlines() == undisturbed


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes as Linux shows them")
def test_a_killed_sweep_goes_on_where_it_stopped(models: Path, undisturbed: list[str], tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    process = _begun(models, out, "processes:2", parts=3)
    process.kill()
    process.communicate(timeout=60)
    for _ in range(500):
        if not _members(process.pid):
            break
        time.sleep(0.01)
    assert _members(process.pid) == [], "workers outlived the sweep"
    _goes_on(models, out, "processes:2", undisturbed)


@pytest.mark.skipif(os.name != "posix", reason="interrupts a process group")
def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(models: Path, undisturbed: list[str], tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    process = _begun(models, out, "processes:2", parts=2)
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "are done and saved; run the same command again" in complaint
    assert "Traceback" not in complaint
    _goes_on(models, out, "processes:2", undisturbed)


@contextmanager
def _cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers of Dask, each a process of its own; nothing brings a killed one back."""
    pytest.importorskip("distributed")
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-m"]
    running: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        running.append(subprocess.Popen([*python, *words, "--scheduler-file", str(file)], **quiet))  # type: ignore[call-overload]

    try:
        start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        for _ in range(3000):
            if file.exists() and file.stat().st_size:
                break
            time.sleep(0.01)
        for number in range(workers):
            words = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder / str(number))]
            start("distributed.cli.dask_worker", *words)
        yield msgspec.json.decode(file.read_bytes())["address"].replace("tcp://", "dask://"), running[1:]
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_cluster_that_loses_a_worker_comes_to_the_same_rows(models: Path, undisturbed: list[str], tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    with _cluster(tmp_path, workers=3) as (address, workers):
        process = _begun(models, out, address, parts=3)
        workers[0].kill()
        text, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint
        assert workers[0].wait() == -signal.SIGKILL
        assert all(worker.poll() is None for worker in workers[1:])
    assert "parts were kept from an earlier run" not in text
    assert out.read_text(encoding="utf-8").splitlines() == undisturbed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where two workers are, for tests that kill none of them."""
    with _cluster(tmp_path_factory.mktemp("cluster"), workers=2) as (address, _):
        yield address


def test_a_client_of_a_cluster_that_is_killed_goes_on(models: Path, undisturbed: list[str], cluster: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    process = _begun(models, out, cluster, parts=2)
    process.kill()
    process.communicate()
    _goes_on(models, out, cluster, undisturbed)


def test_runs_are_diagnosed_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    for number in range(4):
        training(load_us=10.0 ** (number + 1)).write(tmp_path / f"{number}.json.gz")
    (tmp_path / "4.json.gz").write_bytes(b"none")
    command = [sys.executable, "-m", "gpuwise", "why", f"{tmp_path}/?.json.gz", "--on", cluster, "--json"]
    done = subprocess.run(command, capture_output=True, check=True)
    here = gpuwise.why([f"{tmp_path}/?.json.gz"], on="here").to_dict()
    assert msgspec.json.decode(done.stdout)["jobs"] == msgspec.json.decode(msgspec.json.encode(here))["jobs"]
    assert (len(here["jobs"]), here["failed"]) == (5, 1)


def test_two_runs_do_not_work_in_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with alone(tmp_path / "x.parts"), pytest.raises(BadFile, match="another run is using"), alone(tmp_path / "x.parts"):
        pass
    with alone(tmp_path / "x.parts"):
        pass


def test_a_half_written_part_is_none(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.begin({"a": 1}, fresh=False, out=None)
    parts.keep(0, b"whole")
    (tmp_path / "0000001.part.77.new").write_bytes(b"ha")
    parts.begin({"a": 1}, fresh=False, out=None)
    assert parts.kept() == {0}
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["0000000.part", "question.json"]


def test_a_broken_note_of_the_question_is_told(tmp_path: Path) -> None:
    (tmp_path / "question.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadFile, match="cannot be read"):
        Parts(tmp_path).begin({}, fresh=False, out=None)
    Parts(tmp_path).begin({}, fresh=True, out=None)


def test_a_worker_with_another_gpuwise_is_refused(models: Path) -> None:
    task = ask(SweepOptions(models, gpus="RTX 3090", batches="1", out=Path("rows.csv"))).tasks()[0]
    other = msgspec.structs.replace(task, versions=msgspec.structs.replace(task.versions, constants="00000000"))
    with pytest.raises(GpuwiseError, match="a worker runs gpuwise"):
        block_of(other)
    assert decode(lost_block(task, "gone")).refusal == "gone"


def _die(number: int) -> bytes:
    os._exit(1)


def test_a_worker_process_that_dies_is_told(tmp_path: Path) -> None:
    from gpuwise.questions.common.runs.executors import executor_on

    with pytest.raises(GpuwiseError, match="a worker process ended early") as told, executor_on("processes:1") as executor:
        spread(_die, {0: 0}, executor, done=lambda number, data: None, lost=lambda task, reason: b"")
    assert "run the same command again" in told.value.hint


class KilledWorker(Exception):
    """Named as Dask's own."""


def _killed(number: int) -> bytes:
    raise KilledWorker


def test_what_kills_every_worker_is_a_result_too() -> None:
    from concurrent.futures import ThreadPoolExecutor

    found: dict[int, bytes] = {}
    with ThreadPoolExecutor(1) as executor:
        spread(_killed, {7: 70}, executor, done=found.__setitem__, lost=lambda task, reason: f"{task}: {reason}".encode())
    assert found[7].startswith(b"70: every worker that tried this part was killed")
