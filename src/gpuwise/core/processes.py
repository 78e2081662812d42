"""Ends a capturing process and everything it started, even if its code tries to escape.

The process leads its own process group. A process that leaves the group still carries our token in its environment. One that
drops both is still a descendant of a waiting process (`stand_guard`), which on Linux adopts orphans, even if the captured code
crashed its own process.
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
PARENT = "GPUWISE_PARENT"  # the ID of the process that started this one
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # from prctl(2)
_KEPT_BYTES = 2**16
_LONGEST_END_S = 3.0


def kill(process: subprocess.Popen[bytes], token: str) -> None:
    """End the process and everything it started."""
    if hasattr(os, "killpg"):
        below = _descendants(process.pid)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        _end(below)
        deadline = time.monotonic() + _LONGEST_END_S
        while (strays := _strays(token)) and time.monotonic() < deadline:  # a large process takes a moment to exit
            _end(strays)
            time.sleep(0.01)
    else:
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)  # noqa: S603, S607
    process.wait()


def adopt_orphans() -> None:
    """Become the parent of processes orphaned by our children, where the system supports it (Linux)."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def stand_guard() -> None:
    """Continue in a child process, where the system supports it (Linux). This process waits, then ends whatever the child leaves
    running.

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
    if code < 0:  # exit the same way, so that the parent process sees it
        with contextlib.suppress(OSError):  # SIGKILL cannot be handled
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_descendants() -> None:
    """End everything that this process started and that is still running."""
    for _ in range(5):
        below = _descendants(os.getpid())
        if not below:
            return
        _end(below)


def end_with_parent() -> None:
    """End this process and everything it started if its parent dies. The parent may have died before we began."""
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
    """Cap the address space at `GPUWISE_MEMORY_BYTES`, where the system supports it (not on Windows, and macOS may refuse)."""
    limit = int(os.environ.get("GPUWISE_MEMORY_BYTES", "0"))
    if limit and sys.platform != "win32":
        import resource

        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def held_bytes(top: int) -> int:
    """Return the memory held by this process and everything it started, counting each page once, or 0 if the system does not
    report it.
    """
    return sum(_proportional_bytes(number) for number in (top, *_descendants(top)))


def _proportional_bytes(number: int) -> int:
    """Return the memory of one process. Shared pages (for example with the process it was forked from) count in proportion."""
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration, ValueError, IndexError):  # the process has ended, or this is not Linux
        return 0


class Tail:
    """Reads everything a process prints but keeps only the end, because a program may print without limit."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._kept = pipe, b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), _KEPT_BYTES):
                self._kept = (self._kept + chunk)[-_KEPT_BYTES:]

    def text(self, wait_s: float = 1.0) -> str:
        """Return the end of the output so far. If the process has ended, wait for the rest."""
        self._thread.join(wait_s)
        return self._kept.decode("utf-8", errors="replace")


def _descendants(top: int) -> list[int]:
    """Return the processes below this one, without zombies, where the system lists them (Linux)."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:2]
        except (OSError, ValueError):  # the process has ended
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
    """Return the processes with our token in their environment, without zombies, where the system shows it (Linux)."""
    mark = f"{TOKEN}={token}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # belongs to another user, or has ended
            continue
    return found


def _end(processes: Iterable[int], how: int | None = None) -> None:
    for number in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL if how is None else how)
