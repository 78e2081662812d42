"""Whole training scripts: the step they take is captured; what they do instead is one clear error, and no process stays.

What is captured and what is said needs no fresh start (tests/forking.py). How a script starts, ends and is ended does: those
tests are marked `afresh`, and of what is captured one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from script_texts import ACCUMULATES, MIXED, PLAIN, REAL_DATA, TWO_OPTIMIZERS

pytest.importorskip("torch", reason="scripts are captured through PyTorch")

import gpuwise
from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.workload.capture.process import capture
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model import evaluate
from gpuwise.workload.model.types import Settings, Workload

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_captures")]
afresh = pytest.mark.afresh


@pytest.fixture(autouse=True)
def _no_process_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test starts carries a mark; none may be alive when it ends. Forked captures show none, what they start does."""
    mark = f"GPUWISE_TEST_MARK={uuid.uuid4()}"
    monkeypatch.setenv(*mark.split("="))
    yield
    assert _alive(mark) == []


def _alive(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def script(folder: Path, text: str, name: str = "train.py") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def captured(model: str, *arguments: str, timeout_s: float = 90, memory_bytes: float = 16e9, **options: object) -> Workload:
    request = Request(model=model, arguments=arguments, **options)  # type: ignore[arg-type]
    return capture(request, timeout_s=timeout_s, memory_bytes=memory_bytes)


def calls(workload: Workload) -> Counter[tuple[int, str, str, str]]:
    found = ((call, workload.ops[call.op]) for call in workload.calls)
    return Counter((call.phase, op.kind, op.name, workload.modules[call.module]) for call, op in found)


# ---------------------------------------------------------------- what is captured


def test_a_script_is_the_same_work_as_its_model(tmp_path: Path) -> None:
    path = script(tmp_path, PLAIN)
    by_script = captured(path)
    by_model = captured(f"{path}:build", settings=Settings(optimizer="momentum"))
    assert calls(by_script) == calls(by_model)
    assert evaluate.totals(by_script) == evaluate.totals(by_model, 16)
    assert (by_script.batch, by_script.symbols, by_script.optimizer, by_script.precision) == (16, (), "momentum", "fp32")
    assert by_script.parameters == by_model.parameters
    assert by_script.source == "script"
    assert any("only at its own sizes" in note for note in by_script.notes)
    peaks = [evaluate.peak_memory(workload, 16) for workload in (by_script, by_model)]
    assert peaks[0].total_bytes == pytest.approx(peaks[1].total_bytes, rel=0.02)
    assert peaks[0].by_category["optimizer"] == peaks[1].by_category["optimizer"] > 0


@pytest.mark.parametrize(
    ("optimizer", "name"), [("AdamW(net.parameters())", "adamw"), ("Adam(net.parameters(), fused=True)", "adam")]
)
def test_the_optimizer_runs_as_on_a_gpu(tmp_path: Path, optimizer: str, name: str) -> None:
    text = PLAIN.replace("SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)", optimizer)
    path = script(tmp_path, text.replace("    data = ", "    torch.zeros(1, device=device)\n    data = "))
    settings = Settings(optimizer=name, implementation="fused" if "fused" in optimizer else "foreach")
    by_script, by_model = captured(path), captured(f"{path}:build", settings=settings)
    assert calls(by_script) == calls(by_model)
    assert by_script.optimizer == name


def test_mixed_precision_checkpoints_and_reading_values(tmp_path: Path) -> None:
    workload = captured(script(tmp_path, MIXED), "--batch-size", "4")
    assert (workload.precision, workload.optimizer, workload.batch, workload.seq) == ("amp", "adamw", 4, 32)
    found = calls(workload)
    attention = [(phase, count) for (phase, kind, *_), count in found.items() if kind == "attention"]
    assert sum(count for phase, count in attention if phase == 0) == 2
    assert sum(count for phase, count in attention if phase == 1) == 4  # computed again, then backward
    notes = " ".join(workload.notes)
    line = MIXED.splitlines().index("    if loss < 0.1:") + 1
    assert f"false is assumed (train.py line {line})" in notes
    for expected in ("torch.compile was skipped", "several GPUs", "torch.save was skipped", "1 is assumed"):
        assert expected in notes


def test_a_round_of_two_optimizers_is_one_step(tmp_path: Path) -> None:
    workload = captured(script(tmp_path, TWO_OPTIMIZERS))
    matmuls = Counter(call.phase for call in workload.calls if workload.ops[call.op].kind == "matmul")
    assert matmuls[0] == 3  # the generator once, the discriminator twice
    assert workload.parameters == 4 * 8 + 8 + 8 + 1


def test_a_round_lasts_until_every_optimizer_has_stepped(tmp_path: Path) -> None:
    text = TWO_OPTIMIZERS.replace("    g.zero_grad()", "    if step % 3 == 0: g.zero_grad()").replace("range(9)", "range(30)")
    workload = captured(script(tmp_path, text))
    products = Counter(call.phase for call in workload.calls if workload.ops[call.op].kind == "matmul")
    assert products[0] == 3 * 2 + 1  # three times the generator and the discriminator, once more the discriminator
    assert any("3 of adam (optimizer 1), 1 of adam (optimizer 2)" in note for note in workload.notes)


@pytest.mark.parametrize("steps", [6, 60])
def test_an_optimizer_that_does_not_come_again_is_named(tmp_path: Path, steps: int) -> None:
    text = TWO_OPTIMIZERS.replace("    g.zero_grad()", "    if step == 0: g.zero_grad()").replace("range(9)", f"range({steps})")
    workload = captured(script(tmp_path, text.replace("g, d = torch.optim.Adam", "g, d = torch.optim.SGD")))
    assert workload.optimizer == "adam"
    assert any("does not include the update of sgd" in note for note in workload.notes)
    assert Counter(call.phase for call in workload.calls if workload.ops[call.op].kind == "matmul")[0] == 2
    assert all(buffer.died <= len(workload.calls) for buffer in workload.buffers)


def test_accumulated_batches_are_one_step_and_validation_is_none(tmp_path: Path) -> None:
    workload = captured(script(tmp_path, ACCUMULATES))
    assert workload.options["accumulate"] == 3
    assert workload.batch == 5
    assert Counter(call.phase for call in workload.calls if workload.ops[call.op].kind == "matmul")[0] == 3
    assert any("were left out (1 in total)" in note for note in workload.notes)
    assert any("runs on the CPU" in note for note in workload.notes)


@afresh
def test_real_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,1,1,1\n" * 30, encoding="utf-8")
    workload = captured(script(tmp_path, REAL_DATA), str(tmp_path / "rows.csv"))
    assert workload.batch == 8
    assert any("all are assumed" in note for note in workload.notes)


@afresh
def test_a_unicode_path_and_a_module_beside_the_script(tmp_path: Path) -> None:
    folder = tmp_path / "Übung 訓練"
    folder.mkdir()
    (folder / "helper.py").write_text("NAME = 'ж'", encoding="utf-8")
    path = script(folder, "import helper; print(helper.NAME)\n" + PLAIN, "тренировка.py")
    assert captured(path).batch == 16


@afresh
def test_a_script_that_catches_everything_still_ends(tmp_path: Path) -> None:
    text = PLAIN.replace(
        "        optimizer.step()", "        try:\n            optimizer.step()\n        except BaseException:\n            pass"
    )
    assert captured(script(tmp_path, text)).batch == 16


# ---------------------------------------------------------------- what cannot be captured


def failure(kind: type[GpuwiseError], model: str, *arguments: str, **options: object) -> str:
    with pytest.raises(kind) as caught:
        captured(model, *arguments, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "import os\nprint('last words')\nos.abort()\n",
            "killed by signal 6 (SIGABRT) at train.py line 3; its last output: last words",
            marks=afresh,
        ),
        ("import os\nos._exit(5)\n", "exited with code 5"),
        ("import sys\n\nsys.exit(3)\n", "ended the program at train.py line 3 (sys.exit(3))"),
        ("import numpy\n\nnumpy.loadtxt('data/train.csv')\n", "at train.py line 3: FileNotFoundError: data/train.csv"),
        ("open('no/such.csv')\n", "check the path 'no/such.csv', which is relative to"),
        ("import flash_attn\n", "make the import of flash_attn optional"),
        ("input('go on?')\n", "remove the keyboard input"),
        ("print('hello')\n", "ended without any torch.optim optimizer step"),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n",
            "are required: --data",
        ),
        ("def f(:\n", "train.py line 1 is not valid Python"),
        ("\0", "is not valid Python"),
    ],
)
def test_a_script_that_does_something_else(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in failure(GpuwiseError, script(tmp_path, text))


def test_one_step_is_too_few(tmp_path: Path) -> None:
    text = PLAIN.replace("        optimizer.step()", "        optimizer.step()\n        break")
    assert "ended after one optimizer step" in failure(GpuwiseError, script(tmp_path, text))


def test_a_missing_script(tmp_path: Path) -> None:
    assert "not found" in failure(BadFile, str(tmp_path / "no.py"))


def test_a_script_cannot_infer_and_sets_its_own_batch(tmp_path: Path) -> None:
    path = script(tmp_path, PLAIN)
    assert "cannot be captured for inference" in failure(BadValue, path, settings=Settings(mode="infer"))
    assert "sets its own batch (16); --batch 32 cannot change it" in failure(BadValue, path, batch=32)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"precision": "amp"}, "uses precision fp32; --precision amp cannot change that"),
        ({"optimizer": "adam"}, "uses optimizer momentum; --optimizer adam cannot"),
        ({"accumulate": 4}, "uses accumulate 1; --accumulate 4 cannot"),
        ({"checkpoint": True}, "sets this itself; --checkpoint cannot"),
        ({"image": 7}, "sets this itself; --image cannot"),
    ],
)
def test_what_a_script_decides_is_not_changed_in_silence(tmp_path: Path, options: dict[str, object], says: str) -> None:
    with pytest.raises(BadValue) as caught:
        gpuwise.capture(model=script(tmp_path, PLAIN), **options)  # type: ignore[arg-type]
    assert says in caught.value.message


def test_nothing_is_assumed_about_a_script(tmp_path: Path) -> None:
    answer = gpuwise.capture(model=script(tmp_path, PLAIN), precision="fp32", optimizer="momentum")
    assert answer.assumptions == ()


@afresh
def test_a_script_that_hangs_is_ended_and_says_where(tmp_path: Path) -> None:
    path = script(tmp_path, "import time\ndef wait():\n    while True:\n        time.sleep(0.01)\nwait()\n")
    start = time.monotonic()
    text = failure(BadValue, path, timeout_s=20)  # a busy machine takes more than half of it to import torch
    assert "did not finish within 20 s; it was at train.py line" in text
    assert time.monotonic() - start < 90


def test_a_script_that_prints_megabytes(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "import sys\nfor _ in range(60):\n    print('x' * 1_000_000)\nsys.stderr.write('y' * 1000)\nraise KeyError('z')\n",
    )
    text = failure(GpuwiseError, path)
    assert "at train.py line 5: KeyError: 'z'" in text
    assert len(text) < 1000


@afresh
def test_children_that_outlive_the_script_are_ended(tmp_path: Path) -> None:
    text = (
        "import os, subprocess, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    time.sleep(300)\n"
        "if os.fork() == 0:\n    raise SystemExit(7)\n"
        "subprocess.Popen(['sleep', '301'])\n"
        "subprocess.Popen(['sleep', '302'], start_new_session=True)\n"
    )
    assert captured(script(tmp_path, text + PLAIN)).batch == 16
    assert "ended without any torch.optim optimizer step" in failure(GpuwiseError, script(tmp_path, text))


@afresh
def test_a_script_that_eats_memory_meets_the_limit(tmp_path: Path) -> None:
    path = script(tmp_path, "hoard = []\nwhile True:\n    hoard.append(bytearray(10**8))\n")
    start = time.monotonic()
    said = failure(GpuwiseError, path, memory_bytes=2**30)
    assert "ran out of memory at train.py line 3: it used more than the limit of 1 GB" in said
    assert time.monotonic() - start < 60


HOARD = "hoard = []\nwhile True:\n    try:\n        hoard.append(bytearray(10**8))\n    except MemoryError:\n        pass\n"
FAMILY = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        hoard = bytearray(4 * 10**8)\n        break\n"


@afresh
@pytest.mark.parametrize(
    "text",
    ["hoard = bytearray(30 * 2**30)\n", HOARD, FAMILY + "time.sleep(300)\n"],
    ids=["at once", "though it is refused", "in its children"],
)
def test_memory_has_its_own_end_and_not_the_end_of_time(tmp_path: Path, text: str) -> None:
    said = failure(GpuwiseError, script(tmp_path, text), memory_bytes=2**30)
    assert "ran out of memory" in said
    assert "did not finish" not in said


@afresh
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to an ancestor")
@pytest.mark.parametrize("end", ["os._exit(3)", "ctypes.string_at(0)", "os.kill(os.getpid(), 9)", "time.sleep(300)"])
def test_a_daemon_does_not_outlive_a_script_however_that_ends(tmp_path: Path, end: str) -> None:
    """The daemon has left its session and shed its environment, so that only its ancestor still knows it."""
    length = str(10**6 + time.time_ns() % 10**6)
    text = (
        "import ctypes, os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork():\n        os._exit(0)\n"
        f"    os.execve('/bin/sleep', ['sleep', '{length}'], {{}})\n"
        f"os.wait()\ntime.sleep(0.3)\n{end}\n"
    )
    failure(GpuwiseError, script(tmp_path, text), timeout_s=15)

    def runs() -> bool:
        found = [folder / "cmdline" for folder in Path("/proc").glob("[0-9]*")]
        return any(length.encode() in path.read_bytes() for path in found if path.exists())

    _until(lambda: not runs(), 5.0)  # a busy machine takes a moment to end what was killed


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_capture_whose_parent_is_killed_ends_itself(tmp_path: Path) -> None:
    path = script(tmp_path, "import time\nopen('started', 'w').close()\ntime.sleep(300)\n")
    package = str(Path(gpuwise.__file__).parents[1])
    code = f"import sys; sys.path.append({package!r})\nfrom gpuwise.workload.capture.process import capture, Request\n"
    code += f"capture(Request(model={path!r}))"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    _until((tmp_path / "started").exists)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    mark = f"GPUWISE_TEST_MARK={os.environ['GPUWISE_TEST_MARK']}"
    _until(lambda: not _alive(mark))


def _until(holds: object, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)
