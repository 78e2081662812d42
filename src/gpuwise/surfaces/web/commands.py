"""`gpuwise` as a process of its own, for what takes seconds: it ends with the one who asked, and holds nothing else up."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from gpuwise.core.encoding import to_json
from gpuwise.core.errors import GpuwiseError
from gpuwise.core.files import write_whole

__all__ = ["Done", "Once", "most_memory", "run", "step_back", "told"]

_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended: 0 answered, None stopped because the client left or it took too long."""

    code: int | None
    out: bytes = b""
    complaint: str = ""

    @property
    def answer(self) -> tuple[int, bytes]:
        """As a status and one JSON object."""
        if self.code == 0:
            return 200, self.out
        if "MemoryError" in self.complaint:
            return 400, told(
                "reading this trace needs more memory than the page allows", "run `gpuwise why FILE`, which has no limit"
            )
        return 400, told(self._part("error") or "the trace could not be read", self._part("hint"))

    def _part(self, name: str) -> str:
        """What follows `error: ` or `hint: ` in the complaint, on one line; lines that continue it are indented."""
        found = re.search(rf"^{name}: (.*(?:\n    .*)*)", self.complaint, re.MULTILINE)
        return " ".join(found[1].split()) if found else ""


async def _never() -> bool:
    return False


async def run(
    arguments: Sequence[str],
    *,
    seconds: float,
    gone: Callable[[], Awaitable[bool]] = _never,
    most_memory_bytes: int | None = None,
) -> Done:
    """Run one command; it is killed when `gone` says so, when it takes too long, and when the server stops.

    With a limit it fails before it takes more memory, where the system can hold a process to one (Linux).
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "gpuwise", *arguments, stdout=pipe, stderr=pipe)
    step_back(process.pid, by=15)  # behind the workers that answer small questions
    if most_memory_bytes is not None:
        _hold(process.pid, most_memory_bytes)
    work = asyncio.ensure_future(process.communicate())
    begun = asyncio.get_running_loop().time()
    try:
        while not work.done():
            await asyncio.wait([work], timeout=_LOOK_EVERY_S)
            late = asyncio.get_running_loop().time() - begun > seconds
            if not work.done() and (late or await gone()):
                return Done(code=None)
        out, err = work.result()
        return Done(code=process.returncode, out=out, complaint=err.decode("utf-8", "replace"))
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await asyncio.shield(work)


class Once:
    """The answer of a command that always answers the same: worked out when first asked for, then kept.

    With a `folder` it outlives the server, until any file of gpuwise changes. A folder that cannot be used is no error.
    """

    def __init__(self, *arguments: str, seconds: float = 300.0, folder: Path | None = None) -> None:
        self._arguments = arguments
        self._seconds = seconds
        self._folder = folder
        self._work: asyncio.Task[Done] | None = None

    async def ask(self) -> tuple[int, bytes]:
        """The answer; those who ask meanwhile wait for the same work."""
        if self._work is None or (self._work.done() and (self._work.cancelled() or self._work.result().code != 0)):
            self._work = asyncio.create_task(self._found())
        done = await asyncio.shield(self._work)
        return done.answer if done.code is not None else (503, told("the request took too long", "try again"))

    async def _found(self) -> Done:
        path = None if self._folder is None else self._folder / f"{'-'.join(self._arguments).strip('-')}.{_edition()}.json"
        with contextlib.suppress(OSError, msgspec.DecodeError):
            if path is not None:
                stored = path.read_bytes()
                msgspec.json.decode(stored)  # a damaged one is worked out again
                return Done(code=0, out=stored)
        done = await run(self._arguments, seconds=self._seconds)
        with contextlib.suppress(OSError, GpuwiseError):
            if path is not None and done.code == 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                for old in path.parent.glob(f"{path.name.partition('.')[0]}.*.json"):
                    old.unlink()
                write_whole(path, done.out)
        return done

    async def close(self) -> None:
        """Stop the work, if there is any."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work


@cache
def _edition() -> str:
    """Changes with any file of this package: its code, its data, its fits."""
    root = Path(str(files("gpuwise")))
    kinds = (".py", ".json", ".csv", ".toml", ".gz", ".parquet")
    seen = [(path, path.stat()) for path in sorted(root.rglob("*")) if path.suffix in kinds]
    told = "\n".join(f"{path.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in seen)
    return hashlib.sha256(f"{sys.version}\n{told}".encode()).hexdigest()[:16]


def step_back(process: int = 0, by: int = 5) -> None:
    """Let others run first: answers that are at hand must not wait for work that takes long. Not on Windows."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process, by)


def most_memory() -> int | None:
    """Three quarters of this machine's memory, so that a file that unpacks without end harms nobody; None where it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    except (AttributeError, OSError, ValueError):
        return None


def _hold(process: int, most_bytes: int) -> None:
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):
            resource.prlimit(process, resource.RLIMIT_DATA, (most_bytes, most_bytes))


def told(error: str, hint: str) -> bytes:
    """What went wrong, in the names that every refusal has."""
    return to_json({"error": error, "looked_in": "", "hint": hint})
