"""Dropped profiler files: streamed to files of their own, diagnosed by a process of its own, and gone afterwards.

All uploads together may hold only so many bytes on disk, and only so many may wait for their turn: more are refused at once.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request

from gpuwise.core.encoding import to_json
from gpuwise.surfaces.web.commands import Done, most_memory, run, told

__all__ = ["MOST_BYTES", "MOST_FILES", "NoRoom", "Room", "Traces"]

MOST_BYTES = 2 * 2**30
MOST_FILES = 64
_MOST_WAITING = 8
_LEAST_FREE_FRACTION = 0.1  # of the disk stays free, whatever is dropped
_SECONDS = 300.0
_ENDINGS = (
    ".xplane.pb",
    ".json.gz",
    ".sqlite",
    ".pickle",
    ".json",
    ".rpd",
    ".pkl",
    ".csv",
    ".txt",
    ".db",
    ".gz",
    ".pb",
    ".et",
)  # longer ones first


class NoRoom(Exception):
    """The disk, or its share for traces, is full."""


class Room:
    """The bytes that all uploads together may hold on disk."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0

    def take(self, size: int, folder: Path) -> None:
        """So many more bytes; NoRoom where that is too much for this server or for its disk."""
        disk = shutil.disk_usage(folder)
        if self.held_bytes + size > self._most_bytes or disk.free - size < _LEAST_FREE_FRACTION * disk.total:
            raise NoRoom
        self.held_bytes += size

    def give(self, size: int) -> None:
        """What was deleted."""
        self.held_bytes -= size


class Traces:
    """Diagnoses what is sent. Traces are large: one at a time, the others wait."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._turn = asyncio.Semaphore(1)
        self._room = Room(2 * most_bytes)
        self._waiting = 0

    async def diagnose(
        self,
        request: Request,
        names: Sequence[str],
        sizes: Sequence[int],
        options: Sequence[str],
        *,
        compare: bool = False,
    ) -> tuple[int, bytes]:
        """The answer of `gpuwise why` for the files in the body, one after the other; the names only tell their formats.

        With `compare` the last of them is a second run."""
        endings = [next((end for end in _ENDINGS if name.lower().endswith(end)), "") for name in names]
        if not all(endings):
            return 400, told(
                f"'{names[endings.index('')]}' does not have a supported trace file extension",
                f"use one of these extensions: {', '.join(_ENDINGS)}",
            )
        if len(names) > 1 and len(sizes) != len(names):
            return 400, told(f"{len(names)} names but {len(sizes)} sizes were given", "pass the size of each file in bytes")
        if compare and len(names) < 2:
            return 400, told("one file cannot be compared with itself", "send the files of both runs")
        if int(request.headers.get("content-length", 0)) > self._most_bytes:
            return self._too_large()
        if self._waiting >= _MOST_WAITING:
            return _busy()
        self._waiting += 1
        try:
            return await self._received(request, names, endings, sizes[:-1] if len(names) > 1 else [], options, compare)
        except NoRoom:
            return _busy()
        finally:
            self._waiting -= 1

    async def _received(
        self,
        request: Request,
        names: Sequence[str],
        endings: Sequence[str],
        sizes: Sequence[int],
        options: Sequence[str],
        compare: bool,
    ) -> tuple[int, bytes]:
        """Save the files, read them when it is their turn, and delete them."""
        with tempfile.TemporaryDirectory(prefix="gpuwise-") as folder:
            own = secrets.token_hex(8)  # no text of a trace looks like one of our names
            paths = [Path(folder) / f"{own}-{place}{ending}" for place, ending in enumerate(endings)]
            held = [0]
            try:
                if await self._save(request.stream(), paths, sizes, held) > self._most_bytes:
                    return self._too_large()
                asked = [*map(str, paths[:-1]), f"--compare={paths[-1]}"] if compare else list(map(str, paths))
                done = await self._diagnosed(request, [*asked, *options])
            finally:
                self._room.give(held[0])
        if done.code is None:
            return _left()
        status, content = done.answer
        return status, _renamed(content, folder, dict(zip((path.name for path in paths), names, strict=True)))

    async def _diagnosed(self, request: Request, arguments: Sequence[str]) -> Done:
        """The command's end, when it is this one's turn; one that nobody waits for any more does not take it."""
        async with self._turn:
            if await request.is_disconnected():
                return Done(code=None)
            return await run(
                ["why", "--json", *arguments],
                seconds=_SECONDS,
                gone=request.is_disconnected,
                most_memory_bytes=most_memory(),
            )

    def _too_large(self) -> tuple[int, bytes]:
        return 413, told(
            f"the files are larger than {self._most_bytes / 2**20:,.0f} MiB",
            "run `gpuwise why FILE`, which reads files of any size",
        )

    async def _save(self, stream: AsyncIterator[bytes], paths: Sequence[Path], sizes: Sequence[int], held: list[int]) -> int:
        """Bytes written, each file's to its own, the rest to the last; stops behind the limit. `held` counts what was taken of
        the room on disk."""
        whole, room = 0, list(sizes)
        files = [path.open("wb") for path in paths]
        try:
            async for chunk in stream:
                whole += len(chunk)
                if whole > self._most_bytes:
                    break
                self._room.take(len(chunk), paths[0].parent)
                held[0] += len(chunk)
                while room and len(chunk) >= room[0]:
                    place = len(sizes) - len(room)
                    await asyncio.to_thread(files[place].write, chunk[: room[0]])
                    chunk = chunk[room.pop(0) :]
                place = len(sizes) - len(room)
                if room:
                    room[0] -= len(chunk)
                await asyncio.to_thread(files[place].write, chunk)
        finally:
            for file in files:
                file.close()
        return whole


def _busy() -> tuple[int, bytes]:
    return 503, told("the server is busy with other traces", "try again in a moment, or run `gpuwise why FILE`")


def _left() -> tuple[int, bytes]:
    return 503, told(
        f"the request was cancelled, or took longer than {_SECONDS:.0f} s", "run `gpuwise why FILE`, which has no limit"
    )


def _renamed(content: bytes, folder: str, names: dict[str, str]) -> bytes:
    """The answer with the names that the user gave in place of those on this server's disk."""
    longer_first = sorted(names, key=len, reverse=True)
    ours = re.compile(f"{re.escape(folder)}/|{'|'.join(map(re.escape, longer_first))}")

    def named(value: Any) -> Any:
        if isinstance(value, str):
            return ours.sub(lambda found: names.get(found[0], ""), value)
        if isinstance(value, list):
            return [named(entry) for entry in value]
        return {key: named(entry) for key, entry in value.items()} if isinstance(value, dict) else value

    return to_json(named(msgspec.json.decode(content)))
