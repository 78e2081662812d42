"""Captures many models in a few processes, each of which imports the framework once. A model that fails or hangs affects no
other.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gpuwise.core import errors
from gpuwise.core.errors import GpuwiseError
from gpuwise.core.processes import kill
from gpuwise.workload.capture.failures import Failure
from gpuwise.workload.capture.process import START, environment, raised
from gpuwise.workload.capture.request import Request
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import cache, files

__all__ = ["capture_many"]

_RUN = START + "from gpuwise.workload.capture.worker import run_many; run_many(sys.argv[1])"
_POLL_S = 0.05
_LONGEST_END_S = 5.0  # seconds that a process may take to exit
_MOST_PROCESSES = 4  # each takes about a gigabyte
_FEWEST_EACH = 4  # models: fewer than this are captured faster than another framework is imported


def capture_many(requests: Sequence[Request], *, timeout_s: float = 120.0) -> Iterator[tuple[Request, Workload | GpuwiseError]]:
    """Return each request with its workload, from the cache if available, or with the reason why there is none."""
    missing = []
    for request in requests:
        stored = cache.find(request)
        if stored is not None:
            yield request, stored
        else:
            missing.append(request)
    count = max(1, min(os.cpu_count() or 1, _MOST_PROCESSES, len(missing) // _FEWEST_EACH))
    stop = threading.Event()
    answers: list[queue.SimpleQueue[tuple[Request, Workload | GpuwiseError]]] = [queue.SimpleQueue() for _ in range(count)]
    threads = [
        threading.Thread(target=_fill, args=(own, missing[place::count], timeout_s, stop), daemon=True)
        for place, own in enumerate(answers)
        if missing
    ]
    for thread in threads:
        thread.start()
    try:
        for number in range(len(missing)):
            request, answer = answers[number % count].get()
            if isinstance(answer, Workload):
                cache.keep(request, answer)
            yield request, answer
    finally:
        stop.set()  # the caller stopped iterating: end the processes
        for thread in threads:
            thread.join(_LONGEST_END_S)


def _fill(
    found: queue.SimpleQueue[tuple[Request, Workload | GpuwiseError]],
    requests: Sequence[Request],
    timeout_s: float,
    stop: threading.Event,
) -> None:
    """Process these in order, starting a new process whenever one ended or took too long."""
    while requests and not stop.is_set():
        done = 0
        try:
            for answer in _one_process(requests, timeout_s, stop):
                found.put(answer)
                done += 1
        except (GpuwiseError, OSError, msgspec.MsgspecError) as fault:  # a capture that cannot be started or read back
            found.put((requests[done], GpuwiseError(f"capturing {requests[done].model} failed: {fault}")))
            done += 1
        requests = requests[done:]


def _one_process(
    requests: Sequence[Request], timeout_s: float, stop: threading.Event
) -> Iterator[tuple[Request, Workload | GpuwiseError]]:
    """Yield answers in order until the process ends or takes too long for one."""
    package = str(Path(errors.__file__).parents[2])
    with tempfile.TemporaryDirectory(prefix="gpuwise-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "requests").write_bytes(msgspec.json.encode(list(requests)))
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _RUN, package, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | environment(folder.name),
            start_new_session=True,
        )
        try:
            for number, request in enumerate(requests):
                answer = _answer(process, folder, number, request, timeout_s, stop)
                yield request, answer if answer is not None else GpuwiseError(f"capturing {request.model} ended its process")
                if answer is None or process.poll() not in (None, 0):
                    return
        finally:
            kill(process, folder.name)


def _answer(
    process: subprocess.Popen[bytes], folder: Path, number: int, request: Request, timeout_s: float, stop: threading.Event
) -> Workload | GpuwiseError | None:
    deadline = time.monotonic() + timeout_s
    good, bad = folder / f"{number}.workload", folder / f"{number}.failure"
    while True:
        ended = process.poll() is not None  # checked before looking, so that a last answer is not missed
        if good.exists():
            return files.decode(good.read_bytes(), request.model)
        if bad.exists():
            return raised(msgspec.json.decode(bad.read_bytes(), type=Failure))
        if ended or stop.is_set() or time.monotonic() > deadline:
            return None
        time.sleep(_POLL_S)
