"""The page's files and Plotly's script, packed once and then sent from memory; browsers ask again only whether they changed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["page_routes", "plotly_script"]

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".gz": "application/octet-stream",
}
_LEAST_PACKED_BYTES = 1024


class _File:
    """One file, read when it is first asked for or has changed, with its packed form and a mark of its content."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self._plain = self._packed = b""
        self._mark = ""
        self._turn = asyncio.Lock()

    async def sent(self, request: Request) -> Response:
        async with self._turn:
            if (changed := self._path.stat().st_mtime_ns) != self._seen:
                await asyncio.to_thread(self._load)
                self._seen = changed
        headers = {"ETag": self._mark, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self._mark:
            return Response(status_code=304, headers=headers)
        body = self._plain
        if self._packed and "gzip" in request.headers.get("accept-encoding", ""):
            body = self._packed
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers, media_type=_KINDS[self._path.suffix])

    def _load(self) -> None:
        self._plain = self._path.read_bytes()
        packs = len(self._plain) >= _LEAST_PACKED_BYTES and self._path.suffix != ".gz"
        self._packed = gzip.compress(self._plain, 6, mtime=0) if packs else b""
        self._mark = f'"{hashlib.sha256(self._plain).hexdigest()[:20]}"'


def page_routes() -> list[Route]:
    """One route for each file of the page; `/` is its first. Nothing else on disk can be asked for."""
    root = Path(str(files("gpuwise.surfaces.web") / "static"))
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.suffix in _KINDS}
    routes = [Route(f"/{name}", _endpoint(path), include_in_schema=False) for name, path in sorted(found.items())]
    routes.append(Route("/", _endpoint(root / "index.html"), include_in_schema=False))
    if (script := plotly_script()) is not None:
        routes.append(Route("/plotly.js", _endpoint(script), include_in_schema=False))
    return routes


def plotly_script() -> Path | None:
    """Plotly's script in its installed package; None where it is not installed."""
    spec = find_spec("plotly")
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js" if spec and spec.origin else None
    return path if path is not None and path.is_file() else None


def _endpoint(path: Path) -> Callable[[Request], Awaitable[Response]]:
    file = _File(path)

    async def send(request: Request) -> Response:
        return await file.sent(request)

    return send
