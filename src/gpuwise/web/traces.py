"""A dropped profiler file: streamed to a file of its own, diagnosed by a process of its own, and gone afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from starlette.requests import Request

__all__ = ["MOST_BYTES", "diagnose"]

MOST_BYTES = 2 * 2**30
_SECONDS = 300.0
_ENDINGS = (".json", ".json.gz", ".xplane.pb", ".pb", ".sqlite", ".gz")
_AT_ONCE = asyncio.Semaphore(1)  # traces are large: one at a time, the others wait


async def diagnose(request: Request, name: str, gpu: str = "") -> tuple[int, bytes]:
    """The answer of `gpuwise why` for the body of this request. The name only tells the format."""
    ending = next((end for end in sorted(_ENDINGS, key=len, reverse=True) if name.lower().endswith(end)), "")
    if not ending:
        return 400, _told(f"'{name}' does not end like a trace", f"known are {', '.join(_ENDINGS)}")
    with tempfile.TemporaryDirectory(prefix="gpuwise-") as folder:
        path = Path(folder) / f"trace{ending}"
        size = await _save(request.stream(), path)
        if size > MOST_BYTES:
            return 413, _told(f"more than {MOST_BYTES / 2**30:.0f} GiB", "`gpuwise why FILE` reads it from the disk")
        async with _AT_ONCE:
            return await _run(request, path, gpu)


async def _save(stream: AsyncIterator[bytes], path: Path) -> int:
    """Bytes written; stops behind the limit."""
    size = 0
    with path.open("wb") as file:
        async for chunk in stream:
            size += len(chunk)
            if size > MOST_BYTES:
                break
            await asyncio.to_thread(file.write, chunk)
    return size


async def _run(request: Request, path: Path, gpu: str) -> tuple[int, bytes]:
    """In a process that ends with the request."""
    arguments = ["why", str(path), "--json", *(["--gpu", gpu] if gpu else [])]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuwise", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    work = asyncio.ensure_future(asyncio.wait_for(process.communicate(), _SECONDS))
    try:
        while not work.done():
            await asyncio.wait([work], timeout=0.25)
            if not work.done() and await request.is_disconnected():
                return 499, _told("the page has gone", "")
        out, err = work.result()
    except TimeoutError:
        return 503, _told(f"this trace takes longer than {_SECONDS:.0f} s", "`gpuwise why FILE` has no limit")
    finally:
        work.cancel()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return (200, out) if process.returncode == 0 else (400, _complaint(err.decode("utf-8", "replace"), path))


def _complaint(text: str, path: Path) -> bytes:
    """What the process said, without the name of a file that the user does not know."""
    plain = text.replace(str(path), "the file").replace(path.name, "the file")
    error = re.search(r"error: (.*)", plain)
    hint = re.search(r"hint: (.*)", plain)
    return _told(error[1] if error else "the trace cannot be read", hint[1] if hint else "")


def _told(error: str, hint: str) -> bytes:
    return msgspec.json.encode({"error": error, "looked_in": "", "hint": hint})
