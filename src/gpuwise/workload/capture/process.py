"""Captures a model in a separate process, with a time and a memory limit.

User code can hang, abort, print, fork or use all memory; none of this affects the parent process, and no process is left behind.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpuwise.core import errors
from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.files import check_here
from gpuwise.core.processes import PARENT, TOKEN, Tail, held_bytes, kill
from gpuwise.core.text import plain
from gpuwise.workload.capture.failures import Failure, is_lack_of_memory
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files
from gpuwise.workload.store.own_code import RestsOn

__all__ = ["START", "capture", "environment", "raised"]

# Keeps files in the current folder from being imported by accident: `python -c` would look there first.
START = "import sys; sys.path[:1] = sys.path[:1] if sys.path[0] else []; sys.path.append(sys.argv.pop(1)); "
_RUN = START + "from gpuwise.workload.capture.worker import run; run(*sys.argv[1:5])"
_FILES = ("request", "result", "status", "seen")
_POLL_S = 0.05
_STACK_POLLS = 20  # tenths of a second that a busy machine may take to print a stack
_WEIGH_S = 0.5  # seconds between two checks of the memory in use
_UNTOUCHED_BYTES = 8 * 2**30  # what frameworks may map beyond what they use: libraries, and stacks and arenas for each thread
_ROOM_BYTES = 2**30  # with less, it may not even be possible to import a framework
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in', re.MULTILINE)


def capture(
    request: Request,
    *,
    timeout_s: float = 120.0,
    memory_bytes: float = 8 * 2**30,
    progress: Callable[[str], None] = lambda text: None,
    rests_on: Callable[[RestsOn], None] = lambda seen: None,
) -> Workload:
    """Return the workload for this request. Runs code the user named, in a subprocess; `rests_on` receives what that code
    read.
    """
    check_here()
    try:
        question = msgspec.json.encode(request)
    except UnicodeEncodeError:
        raise BadValue(f"{request.model!a} is not valid Unicode", hint="rename the file") from None
    with tempfile.TemporaryDirectory(prefix="gpuwise-", ignore_cleanup_errors=True) as folder:
        paths = {name: Path(folder) / name for name in _FILES}
        paths["request"].write_bytes(question)
        code, said = _run(request, paths, timeout_s, memory_bytes, progress)
        result, seen = (paths[name].read_bytes() if paths[name].exists() else b"" for name in ("result", "seen"))
    if code == 0 and result:
        if seen:
            rests_on(msgspec.json.decode(seen, type=RestsOn))
        return files.decode(result, request.model)
    if code == 3 and result:
        raise raised(msgspec.json.decode(result, type=Failure))
    raise _death(request, code, said, memory_bytes)


def raised(failure: Failure) -> GpuwiseError:
    """Turn the capturing process's failure into an error in this process."""
    kind: type[GpuwiseError] = getattr(errors, failure.kind, GpuwiseError) if failure.kind != "MissingExtra" else GpuwiseError
    return kind(failure.message, looked_in=failure.looked_in, known=failure.known, hint=failure.hint)


def environment(token: str) -> dict[str, str]:
    """Return the environment for a capturing process: no network, no GPU, and a token that identifies it and everything it
    starts.
    """
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        TOKEN: token,
        PARENT: str(os.getpid()),
    }


def _run(
    request: Request, paths: dict[str, Path], timeout_s: float, memory_bytes: float, progress: Callable[[str], None]
) -> tuple[int, str]:
    """Return the exit code of the capturing process, and the end of its output."""
    package = str(Path(errors.__file__).parents[2])  # works even if this process's path is relative or was set by hand
    command = [sys.executable, "-c", _RUN, package, *(str(paths[name]) for name in _FILES)]
    token = paths["request"].parent.name
    # A single allocation that is far too large fails at once; actual use is checked while we wait.
    limits = {"PYTHONIOENCODING": "utf-8:backslashreplace", "GPUWISE_MEMORY_BYTES": str(int(memory_bytes + _UNTOUCHED_BYTES))}
    process = subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | environment(token) | limits,
        start_new_session=True,
    )
    assert process.stdout is not None  # noqa: S101
    output = Tail(process.stdout)
    try:
        code = _wait(process, request, paths["status"], timeout_s, memory_bytes, progress, output)
    finally:
        kill(process, token)
    return code, output.text()


def _wait(
    process: subprocess.Popen[bytes],
    request: Request,
    status: Path,
    timeout_s: float,
    memory_bytes: float,
    progress: Callable[[str], None],
    output: Tail,
) -> int:
    deadline, shown = time.monotonic() + timeout_s, ""
    weigh = time.monotonic() + _WEIGH_S
    while (code := process.poll()) is None:
        if (now := time.monotonic()) > deadline:
            raise _too_long(process, request, timeout_s, shown, output)
        if now > weigh:
            if held_bytes(process.pid) > memory_bytes:
                raise _too_much(process, request, memory_bytes, output)
            weigh = time.monotonic() + _WEIGH_S
        text = status.read_text(encoding="utf-8", errors="replace") if status.exists() else ""
        if text and text != shown:
            shown = text
            progress(text)
        time.sleep(_POLL_S)
    return code


def _too_long(process: subprocess.Popen[bytes], request: Request, timeout_s: float, shown: str, output: Tail) -> GpuwiseError:
    where = _line_now(process, output)
    return BadValue(
        f"capturing {request.model} did not finish within {timeout_s:g} s"
        + (f"; it was at {where}" if where else "")
        + (f" (while {shown})" if shown else ""),
        hint=f"allow more time with `--timeout {timeout_s * 4:g}`, or look for an infinite loop in the code",
    )


def _too_much(process: subprocess.Popen[bytes], request: Request, memory_bytes: float, output: Tail) -> GpuwiseError:
    where = _line_now(process, output)
    return GpuwiseError(
        f"capturing {request.model} ran out of memory"
        + (f" at {where}" if where else "")
        + f": it used more than the limit of {memory_bytes / 2**30:.3g} GB",
        hint=f"raise the limit, such as `--memory-limit {4 * memory_bytes / 2**30:.3g}GB`, or load less data in the code",
    )


def _line_now(process: subprocess.Popen[bytes], output: Tail) -> str:
    """Return the line of user code that is running now, or an empty string if the system does not support that."""
    if not hasattr(signal, "SIGUSR1"):
        return ""
    process.send_signal(signal.SIGUSR1)  # the worker prints its stack
    for _ in range(_STACK_POLLS):
        said = output.text(0.1)
        if "(most recent call first)" in said:
            return _user_line(output.text(0.1))
    return ""


def _user_line(said: str) -> str:
    """Return the innermost line of user code in the last stack that faulthandler printed."""
    stack = said[said.rfind("(most recent call first)") :]
    libraries = (str(Path(__file__).parents[2]), str(Path(os.__file__).parent), "<")
    for found in _FRAME.finditer(stack):
        if "site-packages" not in found["file"] and not found["file"].startswith(libraries):
            return f"{Path(found['file']).name} line {found['line']}"
    return ""


def _death(request: Request, code: int, said: str, memory_bytes: float) -> GpuwiseError:
    """The process ended without an answer: by a signal, os._exit, or a crash inside a library."""
    if code == -getattr(signal, "SIGKILL", 9):
        return GpuwiseError(
            f"the process capturing {request.model} was killed, most likely because memory ran out",
            hint="load less data in the code, or close other programs",
        )
    how = f"was killed by signal {-code} ({_signal_name(-code)})" if code < 0 else f"exited with code {code}"
    where = _user_line(said) if code < 0 else ""
    lines = [line for line in said[: said.rfind("Fatal Python error")].strip().splitlines() if line.strip()][-1:]
    hint = "run the code without gpuwise to find the cause; compiled GPU extensions cannot run in a capture"
    if memory_bytes < _ROOM_BYTES or is_lack_of_memory(said):
        hint = f"raise the memory limit of {memory_bytes / 2**30:.3g} GB, such as `--memory-limit 8GB`"
    return GpuwiseError(
        f"the process capturing {request.model} {how}"
        + (f" at {where}" if where else "")
        + (f"; its last output: {plain(lines[0].strip()[:300])}" if lines else ""),
        hint=hint,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
