"""Answers worked out in processes of their own, so that one long question does not hold up the others; repeated ones are kept."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import msgspec

from gpuwise.web.answers import answer, warm

__all__ = ["Answers"]

_KEPT = 4096
_SECONDS = 60.0


class Answers:
    """Asks worker processes. Workers that die (out of memory, killed) are replaced."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool = self._new()
        self._known: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()

    def _new(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(max_workers=self._workers, mp_context=context, initializer=warm)

    async def ask(self, question: str, options: Mapping[str, Any]) -> tuple[int, bytes]:
        """The answer, from memory where the very same was asked before."""
        key = question.encode() + b" " + msgspec.json.encode(options, order="sorted")
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        found = await self._work(question, dict(options))
        if found[0] in (200, 400):
            self._known[key] = found
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    async def _work(self, question: str, options: dict[str, Any]) -> tuple[int, bytes]:
        pool = self._pool
        try:
            return await asyncio.wait_for(asyncio.wrap_future(pool.submit(answer, question, options)), _SECONDS)
        except TimeoutError:
            return 503, _told(f"this question takes longer than {_SECONDS:.0f} s", "ask it on the command line")
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = self._new()
            return 503, _told("a worker process ended while it answered", "ask again")

    def close(self) -> None:
        """End all workers, whatever they do."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _told(error: str, hint: str) -> bytes:
    return msgspec.json.encode({"error": error, "looked_in": "", "hint": hint})
