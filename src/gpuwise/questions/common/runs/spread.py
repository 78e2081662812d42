"""Runs many tasks on an executor, a bounded number at a time; each result is saved as soon as it is available."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import TypeVar

from gpuwise.core.errors import GpuwiseError
from gpuwise.questions.common.runs.executors import executor_on
from gpuwise.questions.common.runs.parts import Parts

__all__ = ["Progress", "carry_out", "spread"]

_AHEAD = 256  # tasks submitted but not done: enough for a cluster, and little to lose or to hold in memory
_HINT = "run the same command again to continue; finished parts are kept"
T = TypeVar("T")
Progress = Callable[[int, int], None]


def carry_out(
    parts: Parts,
    tasks: Sequence[T],
    work: Callable[[T], bytes],
    *,
    lost: Callable[[T, str], bytes],
    on: str,
    progress: Progress,
) -> int:
    """Run the tasks whose part is not saved yet, on processes of this machine by default; return how many were saved before.
    `progress` receives how many are done, of how many.
    """
    kept = parts.kept()
    left = {number: task for number, task in enumerate(tasks) if number not in kept}
    made = len(tasks) - len(left)
    progress(made, len(tasks))

    def done(number: int, data: bytes) -> None:
        nonlocal made
        parts.keep(number, data)
        made += 1
        progress(made, len(tasks))

    if left:
        with executor_on(on or f"processes:{min(os.cpu_count() or 1, len(left))}") as executor:
            spread(work, left, executor, done=done, lost=lost)
    return len(tasks) - len(left)


def spread(
    work: Callable[[T], bytes],
    tasks: Mapping[int, T],
    executor: Executor | None,
    *,
    done: Callable[[int, bytes], None],
    lost: Callable[[T, str], bytes],
) -> None:
    """Call `done` with the number of each task and its result, in order of arrival. A task that repeatedly ends its worker
    gets the result from `lost`.
    """
    if executor is None:
        for number, task in tasks.items():
            done(number, work(task))
        return
    waiting = iter(tasks.items())
    under_way: dict[Future[bytes], tuple[int, T]] = {}
    try:
        while True:
            for number, task in waiting:
                under_way[executor.submit(work, task)] = (number, task)
                if len(under_way) >= _AHEAD:
                    break
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                number, task = under_way.pop(future)
                done(number, _result(future, task, lost))
    finally:
        for future in under_way:
            future.cancel()


def _result(future: Future[bytes], task: T, lost: Callable[[T, str], bytes]) -> bytes:
    try:
        return future.result()
    except BrokenExecutor:
        raise GpuwiseError("a worker process ended early; it may have been killed or run out of memory", hint=_HINT) from None
    except CancelledError:
        raise GpuwiseError("the connection to the cluster was lost", hint=_HINT) from None
    except Exception as fault:
        if type(fault).__name__ != "KilledWorker":  # of Dask, which has tried it on several workers
            raise
        return lost(task, "every worker that tried this part was killed, probably because it ran out of memory")
