"""Answers worked out in processes of their own, so that one long question does not hold up the others; repeated ones are kept."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import msgspec

from gpuwise.surfaces.web.answers import answer, warm
from gpuwise.surfaces.web.commands import step_back, told
from gpuwise.surfaces.web.own_models import Own

__all__ = ["Answers"]

_KEPT_BYTES = 64 * 2**20  # of answers, hundreds of the longest
_LONG = frozenset({"plan"})  # these may take a minute: they have workers of their own
_SECONDS = 60.0
_LONG_SECONDS = 300.0
_LOOK_EVERY_S = 0.1
_GRACE_S = 2.0  # a slider that moves on leaves questions behind: those that are nearly done are not worth a new process
_IDLE = 19  # the lowest priority there is
_Gone = Callable[[], Awaitable[bool]]


class Answers:
    """Asks worker processes, small and long questions each their own; equal questions are answered from memory."""

    def __init__(self, workers: int) -> None:
        self._small = _Workers(workers, _SECONDS)
        self._long = _Workers(workers, _LONG_SECONDS)
        self._known: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._bytes = 0

    def start(self) -> None:
        """Let workers load what they need before anyone waits for it."""
        self._small.warm()
        self._long.warm(1)

    async def ask(self, question: str, options: Mapping[str, Any], gone: _Gone, own: Sequence[Own] = ()) -> tuple[int, bytes]:
        """The answer, from memory where the very same was asked before; the names of `own` files change with their content."""
        key = _key(question, options)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        workers = self._long if question in _LONG else self._small
        found = await workers.ask(question, dict(options), gone, own)
        self._keep(key, found)
        return found

    async def prepare(self, questions: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Work out the answers that people are likely to ask for, one after the other in a process of its own, which runs only
        when no other wants the CPU and ends when it is done. It delays nothing, and what fails is left out."""
        worker = _worker(_IDLE)
        try:
            for question, options in questions:
                key = _key(question, options)
                if key not in self._known:
                    self._keep(key, await asyncio.wrap_future(worker.submit(answer, question, dict(options))))
        except BrokenProcessPool:
            return
        finally:
            _end(worker, wait=True)

    def _keep(self, key: bytes, found: tuple[int, bytes]) -> None:
        if found[0] not in (200, 400) or key in self._known:
            return
        self._known[key] = found
        self._bytes += _size(key, found)
        while self._bytes > _KEPT_BYTES:
            self._bytes -= _size(*self._known.popitem(last=False))

    def close(self) -> None:
        """End all workers, whatever they do."""
        self._small.close()
        self._long.close()


class _Workers:
    """Processes that each serve one question at a time, so that ending one harms no other question.

    A worker that dies, takes too long or has no client left is replaced; it starts when first asked.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._seconds = seconds
        self._all = [_worker() for _ in range(count)]
        self._free: asyncio.LifoQueue[ProcessPoolExecutor] = asyncio.LifoQueue()  # the one used last is awake
        for worker in self._all:
            self._free.put_nowait(worker)

    def warm(self, count: int | None = None) -> None:
        """Start so many workers, the ones that are asked first; None starts all."""
        for worker in self._all[-(count or len(self._all)) :]:
            worker.submit(warm)

    async def ask(self, question: str, options: dict[str, Any], gone: _Gone, own: Sequence[Own]) -> tuple[int, bytes]:
        """The answer of the next free worker."""
        turn = asyncio.ensure_future(self._free.get())
        try:
            while not turn.done():
                await asyncio.wait([turn], timeout=_LOOK_EVERY_S)
                if await gone() and turn.cancel():  # False: it has come meanwhile, and is given back below
                    return _nobody()
        finally:
            turn.cancel()  # does nothing to one that has come
        worker = turn.result()
        work = None
        try:
            work = worker.submit(answer, question, options, own)
            return await self._waited(asyncio.wrap_future(work), gone)
        except BrokenProcessPool:
            work = None
            return 503, told("a worker process ended before it returned a result", "try again")
        finally:
            self._free.put_nowait(worker if work is not None and work.done() else self._replaced(worker))

    async def _waited(self, work: asyncio.Future[tuple[int, bytes]], gone: _Gone) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        end, left = loop.time() + self._seconds, False
        while loop.time() < end:
            await asyncio.wait([work], timeout=_LOOK_EVERY_S)
            if work.done():
                return work.result()
            if not left and await gone():
                left, end = True, min(end, loop.time() + _GRACE_S)
        work.cancel()  # its end is no news to anyone
        return (
            _nobody()
            if left
            else (
                503,
                told(
                    f"the request took longer than {self._seconds:.0f} s",
                    "the machine is busy; try again in a moment, or ask for fewer GPUs or a smaller model",
                ),
            )
        )

    def _replaced(self, worker: ProcessPoolExecutor) -> ProcessPoolExecutor:
        """A new worker in place of one that is stuck or dead."""
        _end(worker)
        fresh = _worker()
        self._all[self._all.index(worker)] = fresh
        return fresh

    def close(self) -> None:
        """End them at once."""
        for worker in self._all:
            _end(worker, wait=True)


def _size(key: bytes, found: tuple[int, bytes]) -> int:
    return len(key) + len(found[1]) + 500  # what Python adds to each, about


def _key(question: str, options: Mapping[str, Any]) -> bytes:
    return question.encode() + b" " + msgspec.json.encode(options, order="sorted")


def _worker(back: int = 5) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=step_back, initargs=(0, back))


def _nobody() -> tuple[int, bytes]:
    return 503, told("the request was cancelled", "")


def _end(pool: ProcessPoolExecutor, *, wait: bool = False) -> None:
    """Stop at once: an executor by itself waits for what its workers do."""
    for worker in list((getattr(pool, "_processes", None) or {}).values()):
        with contextlib.suppress(ProcessLookupError):
            worker.kill()
    pool.shutdown(wait=wait, cancel_futures=True)
