"""Captures a model in a process of its own, with a time and a memory limit.

User code can hang, abort, print, fork, or eat all memory; none of that reaches the process that asked, and no process is left
behind.
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
from gpuwise.core.processes import PARENT, TOKEN, Tail, kill
from gpuwise.core.text import plain
from gpuwise.workload.capture.failures import Failure, is_lack_of_memory
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import files

__all__ = ["START", "capture", "environment", "raised"]

# What lies in the current folder is not imported by accident: `python -c` would look there first.
START = "import sys; sys.path[:1] = sys.path[:1] if sys.path[0] else []; sys.path.append(sys.argv.pop(1)); "
_RUN = START + "from gpuwise.workload.capture.worker import run; run(*sys.argv[1:4])"
_POLL_S = 0.05
_ROOM_BYTES = 4 * 2**30  # with less, a framework may not even be imported
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in', re.MULTILINE)


def capture(
    request: Request,
    *,
    timeout_s: float = 120.0,
    memory_bytes: float = 16e9,
    progress: Callable[[str], None] = lambda text: None,
) -> Workload:
    """The workload of this request. Runs code the user named, in a subprocess."""
    try:
        question = msgspec.json.encode(request)
    except UnicodeEncodeError:
        raise BadValue(f"{request.model!a} is not valid Unicode", hint="rename the file") from None
    with tempfile.TemporaryDirectory(prefix="gpuwise-", ignore_cleanup_errors=True) as folder:
        paths = {name: Path(folder) / name for name in ("request", "result", "status")}
        paths["request"].write_bytes(question)
        code, said = _run(request, paths, timeout_s, memory_bytes, progress)
        result = paths["result"].read_bytes() if paths["result"].exists() else b""
    if code == 0 and result:
        return files.decode(result, request.model)
    if code == 3 and result:
        raise raised(msgspec.json.decode(result, type=Failure))
    raise _death(request, code, said, memory_bytes)


def raised(failure: Failure) -> GpuwiseError:
    """What the capturing process could not do, as an error of this one."""
    kind: type[GpuwiseError] = getattr(errors, failure.kind, GpuwiseError) if failure.kind != "MissingExtra" else GpuwiseError
    return kind(failure.message, looked_in=failure.looked_in, known=failure.known, hint=failure.hint)


def environment(token: str) -> dict[str, str]:
    """What a capturing process must know: no network, no GPU, and a mark by which it and all it starts are found."""
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
    """The exit code of the capturing process, and the end of what it printed."""
    package = str(Path(errors.__file__).parents[2])  # found even where the path of this process is relative or made by hand
    names = ("request", "result", "status")
    command = [sys.executable, "-c", _RUN, package, *(str(paths[name]) for name in names)]
    token = paths["request"].parent.name
    limits = {"PYTHONIOENCODING": "utf-8:backslashreplace", "GPUWISE_MEMORY_BYTES": str(int(memory_bytes))}
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
        code = _wait(process, request, paths["status"], timeout_s, progress, output)
    finally:
        kill(process, token)
    return code, output.text()


def _wait(
    process: subprocess.Popen[bytes],
    request: Request,
    status: Path,
    timeout_s: float,
    progress: Callable[[str], None],
    output: Tail,
) -> int:
    deadline, shown = time.monotonic() + timeout_s, ""
    while (code := process.poll()) is None:
        if time.monotonic() > deadline:
            raise _too_long(process, request, timeout_s, shown, output)
        text = status.read_text(encoding="utf-8", errors="replace") if status.exists() else ""
        if text and text != shown:
            shown = text
            progress(text)
        time.sleep(_POLL_S)
    return code


def _too_long(process: subprocess.Popen[bytes], request: Request, timeout_s: float, shown: str, output: Tail) -> GpuwiseError:
    where = ""
    if hasattr(signal, "SIGUSR1"):
        process.send_signal(signal.SIGUSR1)  # the worker prints its stack
        where = _user_line(output.text(0.3))
    return BadValue(
        f"capturing {request.model} did not finish within {timeout_s:g} s"
        + (f"; it was at {where}" if where else "")
        + (f" (while {shown})" if shown else ""),
        hint=f"allow more time with `--timeout {timeout_s * 4:g}`, or look for an infinite loop in the code",
    )


def _user_line(said: str) -> str:
    """The innermost line of user code in the last stack that faulthandler printed."""
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
        hint = f"raise the memory limit of {memory_bytes / 2**30:.3g} GB, such as `--memory-limit 16GB`"
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
