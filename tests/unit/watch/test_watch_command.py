"""`gpuwise watch -- COMMAND` on real programs: how they end, what they print, what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
WATCH = [sys.executable, "-m", "gpuwise", "watch"]


def run(*arguments: str, code: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
    command = [*WATCH, *arguments, *(["--", sys.executable, "-c", code] if code else [])]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)


def start(code: str, watch: list[str] = WATCH) -> subprocess.Popen[str]:
    command = [*watch, "--json", "--", sys.executable, "-c", code]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("code", "ends"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137), ("raise ValueError('no')", 1)]
)
def test_the_exit_code_is_passed_on_and_the_verdict_printed(code: str, ends: int) -> None:
    done = run(code=code)
    assert done.returncode == ends
    assert f"exit code {ends}" in " ".join(done.stdout.split())  # a long path of Python wraps the line
    assert done.stdout.startswith("no diagnosis: the run completed too few steps")


def test_what_the_command_prints_stays_its_own() -> None:
    done = run("--json", code="print('hello')")
    assert "hello" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 0
    assert run(code="print('hello')").stdout.startswith("hello")


def test_stdin_and_lines_that_overwrite_themselves_reach_the_other_end_untouched() -> None:
    """Bytes given come in, and a progress bar goes out with its returns, on the stream that it was written to."""
    bar = "".join(f"\r{done:3}%|{'#' * done}" for done in range(0, 101, 25))
    code = f"import sys; sys.stdout.write(sys.stdin.readline()); sys.stderr.write({bar!r})"
    command = [*WATCH, "--", sys.executable, "-c", code]
    done = subprocess.run(command, input=b"a line\n", capture_output=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"a line\n")
    assert bar.encode() in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no terminals to make")
def test_a_redirected_stdout_is_the_commands_own_beside_the_panel(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    code = "import sys; print('hello'); print('a warning', file=sys.stderr)"
    with (tmp_path / "out.txt").open("wb") as out:
        variables = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen([*WATCH, "--", sys.executable, "-c", code], env=variables, stdout=out, stderr=theirs)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
            while piece := os.read(ours, 65536):
                shown += piece
        process.wait(timeout=60)
    os.close(ours)
    assert (tmp_path / "out.txt").read_text().startswith("hello\n")
    assert b"hello" not in shown
    assert b"a warning" in shown


@pytest.mark.parametrize(
    "arguments",
    [(), ("--pid", "1", "--", "true"), ("--", "no-such-command"), ("--pid", "999999999"), ("--last", "5m", "--", "true")],
)
def test_what_cannot_be_watched_is_refused_in_words(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--model", "resnet5000"), ("--model", "resnet18", "--precision", "fp17"), ("--precision", "amp")]
)
def test_what_cannot_be_expected_is_refused_before_anything_runs(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*arguments, code=f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert not (tmp_path / "ran").exists()


def test_options_behind_the_command_are_the_commands_own() -> None:
    done = subprocess.run(
        [*WATCH, sys.executable, "-c", "import sys; print(sys.argv)", "--json", "--pid", "5"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("['-c', '--json', '--pid', '5']")


def test_an_interrupt_ends_the_command_and_gives_the_verdict(tmp_path: Path) -> None:
    process = start(f"import time, pathlib; pathlib.Path({str(tmp_path / 'up')!r}).touch(); time.sleep(600)")
    wait_for((tmp_path / "up").exists)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert json.loads(output)["ended_by"] == "SIGINT"


STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
pathlib.Path("FILE.new").write_text(f"{os.getpid()} {child.pid}")
pathlib.Path("FILE.new").rename("FILE")
time.sleep(600)
"""


def test_a_second_interrupt_ends_all_that_was_started(tmp_path: Path) -> None:
    process = start(STUBBORN.replace("FILE", str(tmp_path / "pids")))
    wait_for((tmp_path / "pids").exists)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    assert process.poll() is None, "one interrupt asks, it does not kill"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 137
    assert json.loads(output)["verdict"]
    wait_for(lambda: not any(alive(pid) for pid in pids))


SAVING = """
import pathlib, signal, sys, time
def save(number, frame):
    time.sleep(2.0)
    pathlib.Path("FILE.saved").touch()
    sys.exit(3)
for kind in (signal.SIGINT, signal.SIGTERM):
    signal.signal(kind, save)
pathlib.Path("FILE").touch()
time.sleep(600)
"""
HASTY = (
    "import gpuwise.live.sample.command as command; command._GRACE_S = 0.5; from gpuwise.surfaces.cli.main import main; main()"
)


@pytest.mark.parametrize(("kind", "ends", "saved"), [(signal.SIGINT, 3, True), (signal.SIGTERM, 137, False)])
def test_only_a_second_interrupt_kills_a_program_that_saves(kind: signal.Signals, ends: int, saved: bool, tmp_path: Path) -> None:
    process = start(SAVING.replace("FILE", str(tmp_path / "up")), [sys.executable, "-c", HASTY, "watch"])
    wait_for((tmp_path / "up").exists)
    process.send_signal(kind)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, (tmp_path / "up.saved").exists()) == (ends, saved)
    assert told.count("waiting for the program to end (") == 1
    assert ("Ctrl-C again kills it" in told) == saved


HANGING = """
import os, pathlib, sys, time
sys.path.insert(0, "STEPS")
import gpuwise_steps
marks = gpuwise_steps.Marks(os.environ["GPUWISE_WATCH"])
def never():
    for place in range(5):
        yield place
    time.sleep(600)
for item in gpuwise_steps.Timed(never(), marks):
    marks.stepped()
    if item == 4:
        pathlib.Path("FILE").touch()
"""


def test_a_loader_that_never_yields_is_named(tmp_path: Path) -> None:
    steps = Path(__file__).parents[3] / "src/gpuwise/live/hook"
    process = start(HANGING.replace("STEPS", str(steps)).replace("FILE", str(tmp_path / "up")))
    wait_for((tmp_path / "up").exists)
    time.sleep(6.5)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert json.loads(output)["verdict"].startswith("the run hangs: the data loader has not delivered a batch for")


JUMPING = """
import itertools, time
true, turns = time.time, itertools.cycle((-3600.0, 0.0, 86400.0))
time.time = lambda: true() + next(turns)
"""
STEADY = """
import os, sys, time
sys.path.insert(0, "STEPS")
import gpuwise_steps
assert max(time.time() for _ in range(3)) - min(time.time() for _ in range(3)) > 3000, "the clock does not jump"
marks = gpuwise_steps.Marks(os.environ["GPUWISE_WATCH"])
for _ in gpuwise_steps.Timed(iter(range(20)), marks):
    time.sleep(0.02)
    marks.stepped()
time.sleep(1.0)
"""


def test_a_clock_that_jumps_moves_no_figure(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    steps = Path(__file__).parents[3] / "src/gpuwise/live/hook"
    done = run("--json", code=STEADY.replace("STEPS", str(steps)), env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["steps"]["count"] == 19
    assert 0.02 <= answer["step_s"] < 60.0
    assert 1.0 <= answer["watched_s"] < 600.0
    assert answer["ended_by"] == ""


def test_a_process_is_followed_from_outside_and_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    command, variables = [*WATCH, "--json", "--pid", str(other.pid)], {**os.environ, "TMPDIR": str(tmp_path)}
    watching = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: any(tmp_path.glob("gpuwise-watch-*")))
    time.sleep(2.0)  # some samples
    other.communicate(timeout=60)
    output, _ = watching.communicate(timeout=60)
    assert (other.returncode, watching.returncode) == (0, 0)
    answer = json.loads(output)
    assert answer["exit_code"] is None
    assert answer["vitals"]["core_count"] == os.cpu_count()
    assert {entry["code"] for entry in answer["abstained"]} >= {"input_starved"}


def test_a_sitecustomize_of_the_users_own_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 'still here'")
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = run(code="print(mine)", env={**os.environ, "PYTHONPATH": paths})
    assert done.stdout.startswith("still here")
