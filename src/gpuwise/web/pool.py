"""Answers worked out in processes of their own, so that one long question does not hold up the others; repeated ones are kept."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import msgspec

from gpuwise.web.answers import answer, warm
from gpuwise.web.commands import step_back, told

__all__ = ["Answers"]

_KEPT = 4096
_SECONDS = 60.0
_LOOK_EVERY_S = 0.1


class Answers:
    """Asks worker processes. Workers that die (out of memory, killed) are replaced; questions nobody waits for are dropped."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._new()
        self._known: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()

    def _new(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(max_workers=self._workers, mp_context=context, initializer=step_back)

    def start(self) -> None:
        """Let every worker load what it needs before anyone waits for it."""
        for _ in range(self._workers):
            self._pool.submit(warm)

    async def ask(self, question: str, options: Mapping[str, Any], gone: Callable[[], Awaitable[bool]]) -> tuple[int, bytes]:
        """The answer, from memory where the very same was asked before."""
        key = question.encode() + b" " + msgspec.json.encode(options, order="sorted")
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        found = await self._work(question, dict(options), gone)
        if found[0] in (200, 400):
            self._known[key] = found
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    async def _work(self, question: str, options: dict[str, Any], gone: Callable[[], Awaitable[bool]]) -> tuple[int, bytes]:
        pool = self._pool
        try:
            work = asyncio.wrap_future(pool.submit(answer, question, options))
            for _ in range(round(_SECONDS / _LOOK_EVERY_S)):
                await asyncio.wait([work], timeout=_LOOK_EVERY_S)
                if work.done():
                    return work.result()
                if await gone():
                    work.cancel()  # not begun yet: never will be
                    return 503, told("nobody waits for this answer", "")
            self._replace(pool)
            return 503, told(f"this question takes longer than {_SECONDS:.0f} s", "ask it on the command line")
        except (BrokenProcessPool, asyncio.CancelledError):
            self._replace(pool)
            return 503, told("a worker process ended while it answered", "ask again")

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        """New workers in place of those that are stuck or dead."""
        if self._pool is pool:
            self._pool = self._new()
        _end(pool)

    def close(self) -> None:
        """End all workers, whatever they do."""
        _end(self._pool, wait=True)


def _end(pool: ProcessPoolExecutor, *, wait: bool = False) -> None:
    """Stop at once: an executor by itself waits for what its workers do."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    for worker in workers:
        worker.kill()
    pool.shutdown(wait=wait, cancel_futures=True)
