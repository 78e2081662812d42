"""Where large runs execute: in this process, in several processes on this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess

from gpuwise.core.errors import BadValue, MissingExtra

__all__ = ["executor_on"]

_MOST_PROCESSES = 256
_LONGEST_WAIT_S = 10  # for the scheduler of a cluster


@contextmanager
def executor_on(place: str) -> Iterator[Executor | None]:
    """Return the executor: none for this process, `processes:4` for this machine, `dask://host:port` for that scheduler's
    workers.
    """
    if not place or place == "here":
        yield None
    elif place.startswith("dask://"):
        with _dask(place.removeprefix("dask://")) as found:
            yield found
    elif place.startswith("processes:") and place.removeprefix("processes:").isdigit():
        count = int(place.removeprefix("processes:"))
        if not 1 <= count <= _MOST_PROCESSES:
            raise BadValue(f"invalid number of processes: --on {place}", hint=f"give a number between 1 and {_MOST_PROCESSES}")
        with _processes(count) as found:
            yield found
    else:
        raise BadValue(f"unknown executor '{place}'", hint="use `--on here`, `--on processes:4` or `--on dask://host:8786`")


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    """Worker processes that end with this one. An interrupted run does not wait for them. They are not forked, because this
    process may have threads.
    """
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_follow)
    try:
        yield pool
    except BaseException:
        for worker in list((getattr(pool, "_processes", None) or {}).values()):
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _follow() -> None:
    """A worker ignores Ctrl-C, which is for its parent, and ends when its parent has ended, however that happened."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("distributed", extra="dask", needed_for="`--on dask://`") from None
    try:
        client = Client(f"tcp://{address}", timeout=_LONGEST_WAIT_S)
    except OSError as fault:
        raise BadValue(f"no Dask scheduler responds at {address}: {fault}", hint="start one with `dask scheduler`") from None
    with client:
        yield client.get_executor()
