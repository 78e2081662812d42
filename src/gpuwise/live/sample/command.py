"""Runs the watched command and handles its output, signals and exit. None of its processes outlives an interrupted watch."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any

from gpuwise.core.errors import BadValue
from gpuwise.core.processes import adopt_orphans
from gpuwise.live.sample.host import tree_of
from gpuwise.live.sample.session import Session, environment
from gpuwise.live.sample.types import Run

__all__ = ["follow", "run_command"]

_TICK_S = 0.1
_GRACE_S = 120.0  # from a SIGTERM or SIGHUP, which nobody may be watching, to the end of the process tree
Tick = Callable[[Session], None]
Lines = Callable[[str, bool], None]  # a line, and whether the next one replaces it, as in a progress bar


def run_command(
    command: Sequence[str], *, window: bool, tick: Tick, lines: Lines | None = None, stdout: int | None = None
) -> tuple[Run, Session]:
    """Run the command until it or this process ends. `lines` receives its output line by line; without it, it writes where we
    do. Its stdout goes to `stdout`, if given.
    """
    session = Session()
    adopt_orphans()
    before = set(tree_of(os.getpid()))
    try:
        variables = environment(session.folder, window=window) | ({"PYTHONUNBUFFERED": "1"} if lines and stdout is None else {})
        process = _start(command, variables, lines, stdout)
    except BadValue:
        session.remove()
        raise
    session.start(process.pid)
    reader = (
        threading.Thread(target=_pass_on, args=(process.stdout or process.stderr, lines), daemon=True)
        if lines is not None
        else None
    )
    if reader is not None:
        reader.start()
    with _signals() as received:
        ended_by = _wait(process, session, tick, received)
    if ended_by:
        _kill(set(tree_of(os.getpid())) - before)
    if reader is not None:
        reader.join(1.0)
    return session.finish(exit_code=_exit_code(process.returncode), ended_by=ended_by), session


def follow(pid: int, *, tick: Tick) -> tuple[Run, Session]:
    """Watch a running process until it ends or we are interrupted, without affecting it."""
    if sys.platform == "win32":
        raise BadValue("--pid is not available on Windows", hint="start the program with `gpuwise watch -- python train.py`")
    if pid < 1 or not _alive(pid):
        raise BadValue(
            f"process {pid} not found", hint="list processes with `ps`, or start one with `gpuwise watch -- python train.py`"
        )
    session = Session()
    session.start(pid)
    ended_by = ""
    with _signals() as received:
        while _alive(pid):
            tick(session)
            time.sleep(_TICK_S)
            if received:
                ended_by = signal.Signals(received[0]).name
                break
    return session.finish(ended_by=ended_by), session


def _start(command: Sequence[str], variables: dict[str, str], lines: Lines | None, stdout: int | None) -> subprocess.Popen[bytes]:
    out, faults = stdout, None
    if lines is not None:
        out, faults = (subprocess.PIPE, subprocess.STDOUT) if stdout is None else (stdout, subprocess.PIPE)
    try:
        return subprocess.Popen(  # noqa: S603 - running the user's command is what was asked for
            command, env=variables, stdout=out, stderr=faults
        )
    except FileNotFoundError:
        raise BadValue(
            f"unknown command '{command[0]}'", looked_in="PATH", hint="try `gpuwise watch -- python train.py`"
        ) from None
    except OSError as fault:
        raise BadValue(
            f"'{command[0]}' cannot be run: {fault.strerror}",
            hint="check that it is a program and that you have permission to run it",
        ) from None


def _pass_on(stream: IO[bytes] | None, lines: Lines) -> None:
    """Pass on whole lines and rewrites of progress bars as they arrive."""
    rest = b""
    while stream is not None and (piece := os.read(stream.fileno(), 65536)):
        *whole, rest = re.split(rb"(?<=[\r\n])", (rest + piece).replace(b"\r\n", b"\n"))
        for line in whole:
            lines(line[:-1].decode("utf-8", "replace"), line.endswith(b"\r"))
    if rest:
        lines(rest.decode("utf-8", "replace"), False)


def _wait(process: subprocess.Popen[bytes], session: Session, tick: Tick, received: list[int]) -> str:
    """Wait for the end. The first signal is passed on, so that the program can save its work; a second one ends the whole
    process tree, and so does a long wait after a signal other than Ctrl-C.
    """
    answered, deadline, ended_by = 0, math.inf, ""
    while process.poll() is None:
        tick(session)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TICK_S)
        if ended_by and (len(received) > answered or time.monotonic() > deadline):
            _end_tree(process)
        elif received and not ended_by:
            first, answered = signal.Signals(received[0]), len(received)  # signals that arrived together count as one
            ended_by = first.name
            _pass_signal(process, first)
            deadline = math.inf if first == signal.SIGINT else time.monotonic() + _GRACE_S
            if process.poll() is None:
                again = "Ctrl-C again" if first == signal.SIGINT else f"a second signal, or waiting {_GRACE_S:.0f} s,"
                sys.stderr.write(f"gpuwise watch: waiting for the program to end ({again} kills it)\n")
    return ended_by


def _pass_signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Pass a signal on, unless it is a Ctrl-C in a terminal, which has already reached the command because it is in our group."""
    with contextlib.suppress(OSError):
        if number == signal.SIGINT and os.isatty(0):
            return
    with contextlib.suppress(OSError):
        process.send_signal(number)


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    """End the command and everything below it at once."""
    below = set(tree_of(process.pid)) - {process.pid}
    process.kill()
    _kill(below)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect signals to this process instead of raising them. Only the main thread may do this."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    kinds = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])
    before: dict[int, Any] = {kind: signal.signal(kind, note) for kind in kinds}
    try:
        yield received
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _exit_code(returned: int) -> int:
    """Return the exit code as a shell reports it: 128 plus the signal for a killed command."""
    return returned if returned >= 0 else 128 - returned


def _alive(pid: int) -> bool:
    """Return whether it is running; a zombie is not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return not Path("/proc/self").exists()
