"""Ends a capturing process and all it started, whatever the code in it did to get away.

It leads a group of its own. Who left the group still has our token in its environment. Who gave up both is still a descendant
of a process that only waits (`stand_guard`), which adopts on Linux what others leave behind, even where the code ended its own
process by a crash.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

__all__ = [
    "PARENT",
    "TOKEN",
    "Tail",
    "adopt_orphans",
    "end_descendants",
    "end_with_parent",
    "held_bytes",
    "kill",
    "limit_memory",
    "stand_guard",
]

TOKEN = "GPUWISE_CAPTURE"
PARENT = "GPUWISE_PARENT"  # the number of the process that asked
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
_KEPT_BYTES = 2**16
_LONGEST_END_S = 3.0


def kill(process: subprocess.Popen[bytes], token: str) -> None:
    """End the process and all it started."""
    if hasattr(os, "killpg"):
        below = _descendants(process.pid)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        _end(below)
        deadline = time.monotonic() + _LONGEST_END_S
        while (strays := _strays(token)) and time.monotonic() < deadline:  # the end of a large process takes a moment
            _end(strays)
            time.sleep(0.01)
    else:
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)  # noqa: S603, S607
    process.wait()


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, where the system can (Linux)."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def stand_guard() -> None:
    """Go on in a child, where the system can (Linux). This process stays, waits, and ends all that the child leaves behind.

    Call it before anything else: a process with threads must not fork.
    """
    if sys.platform != "linux":
        end_with_parent()
        return
    adopt_orphans()
    child = os.fork()
    if child == 0:
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        return
    end_with_parent()
    signal.signal(signal.SIGUSR1, lambda number, frame: _end([child], number))  # the child prints its stack
    status = os.waitpid(child, 0)[1]
    end_descendants()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # end as it did, for the process that asked to see
        with contextlib.suppress(OSError):  # SIGKILL cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_descendants() -> None:
    """End all that this process started and that still runs."""
    for _ in range(5):
        below = _descendants(os.getpid())
        if not below:
            return
        _end(below)


def end_with_parent() -> None:
    """If the process that asked dies without ending us, end ourselves and all we started. It may have died before we began."""
    parent = int(os.environ.get(PARENT, os.getppid()))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        end_descendants()
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        threading.Thread(target=watch, daemon=True).start()


def limit_memory() -> None:
    """Cap the address space at `GPUWISE_MEMORY_BYTES` where the system can (not on Windows, and macOS may refuse)."""
    limit = int(os.environ.get("GPUWISE_MEMORY_BYTES", "0"))
    if limit and sys.platform != "win32":
        import resource

        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def held_bytes(top: int) -> int:
    """The memory that this process and all it started hold, each page counted once; 0 where the system does not tell."""
    return sum(_proportional_bytes(number) for number in (top, *_descendants(top)))


def _proportional_bytes(number: int) -> int:
    """The memory of one process, with pages that it shares (such as with the process it was forked from) divided."""
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration, ValueError, IndexError):  # gone, or another system
        return 0


class Tail:
    """Reads all that a process prints and keeps the end of it: a program may print without limit."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._kept = pipe, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _KEPT_BYTES):
                self._kept = (self._kept + chunk)[-_KEPT_BYTES:]

    def text(self, wait_s: float = 1.0) -> str:
        """The end of the output so far; waits for the rest if the process has ended."""
        self._thread.join(wait_s)
        return self._kept.decode("utf-8", errors="replace")


def _descendants(top: int) -> list[int]:
    """Processes below this one (where the system shows them, as Linux does), zombies aside."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):  # gone
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(folder.name))
    found, waiting = list[int](), [top]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _strays(token: str) -> list[int]:
    """Processes that carry our token in their environment (where the system shows it, as Linux does), zombies aside."""
    mark = f"{TOKEN}={token}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # another user's, or gone
            continue
    return found


def _end(processes: Iterable[int], how: int | None = None) -> None:
    for number in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL if how is None else how)
