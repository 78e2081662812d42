"""Ends a capturing process and all it started, whatever the code in it did to get away.

It leads a group of its own. Who left the group still has our token in its environment. Who gave up both is still its
descendant, for on Linux the capturing process adopts what its children leave behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["TOKEN", "adopt_orphans", "end_descendants", "kill"]

TOKEN = "GPUWISE_CAPTURE"
_SET_CHILD_SUBREAPER = 36  # of prctl(2)


def kill(process: subprocess.Popen[bytes], token: str) -> None:
    """End the process and all it started."""
    if hasattr(os, "killpg"):
        below = _descendants(process.pid)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
        _end(below)
        for _ in range(5):
            strays = _strays(token)
            if not strays:
                break
            _end(strays)
    else:
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)  # noqa: S603, S607
    process.wait()


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind, where the system can (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """End all that this process started and that still runs."""
    for _ in range(5):
        below = _descendants(os.getpid())
        if not below:
            return
        _end(below)


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


def _end(processes: Iterable[int]) -> None:
    for number in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL)
