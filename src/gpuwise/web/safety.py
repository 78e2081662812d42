"""Who may ask: this machine's own pages. Foreign names of the host (DNS rebinding) and foreign origins are refused."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOCAL_HOSTS", "Guard"]

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
# Plotly writes styles into the page; scripts come from this server only, and nothing may be sent elsewhere.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Refuses foreign requests and adds the headers that keep a page to itself. `hosts` of `*` lets any name in."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["method"], Headers(scope=scope))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if refusal:
            response = JSONResponse(
                {"error": refusal, "looked_in": "", "hint": "open the address that `gpuwise serve` printed"}, 403
            )
            await response(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers) -> str:
        host = _name(headers.get("host", ""))
        if "*" not in self._hosts and host not in self._hosts:
            return "this name is not one of this server's"
        origin = headers.get("origin")
        asks = method not in ("GET", "HEAD", "OPTIONS")
        if asks and origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return "another site may not ask questions here"
        foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        followed = not asks and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if foreign and not followed:  # a link to the page may be followed; nothing of it may be fetched, framed or timed
            return "another site may not ask questions here"
        return ""


def _name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name("[::1]:8000"), _name("Localhost:80")
    ('::1', 'localhost')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
