"""Who may ask, and how much. Foreign names of the host (DNS rebinding), foreign origins and bodies too large are refused."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOCAL_HOSTS", "Guard"]

_MOST_BYTES = 2**20
_OPEN_PAGE = "open the address that `gpuwise serve` printed"
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
    """Refuses foreign requests and large ones, and adds the headers that keep a page to itself.

    `hosts` of `*` lets any name in; paths in `uploads` see to the size of their bodies themselves.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], uploads: Sequence[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._uploads = frozenset(uploads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        error, hint = self._refusal(scope["method"], headers)
        if error:
            await _refused(403, error, hint)(scope, receive, guarded)
            return
        if scope["path"] not in self._uploads:
            whole = await _whole(headers, receive)
            if whole is None:
                too_large = _refused(413, f"the request is larger than {_MOST_BYTES / 2**20:.0f} MiB", "send a smaller request")
                await too_large(scope, receive, guarded)
                return
            receive = _again(whole, receive)
        await self._app(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers) -> tuple[str, str]:
        host = _name(headers.get("host", ""))
        if "*" not in self._hosts and host not in self._hosts:
            return "this server does not accept this host name", f"{_OPEN_PAGE}, or start the server with `--allow-host NAME`"
        ours = headers.get("host", "").lower()
        asks = method not in ("GET", "HEAD", "OPTIONS")
        if asks and any(_netloc(origin) != ours for origin in headers.getlist("origin")):
            return "requests from other sites are not allowed", _OPEN_PAGE
        foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        followed = not asks and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        if foreign and not followed:  # a link to the page may be followed; nothing of it may be fetched, framed or timed
            return "requests from other sites are not allowed", _OPEN_PAGE
        return "", ""


def _netloc(origin: str) -> str:
    """The name and port of an origin; empty where it has none that can be read.

    >>> _netloc("http://Localhost:80"), _netloc("null"), _netloc("http://[")
    ('localhost:80', '', '')
    """
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _refused(status: int, error: str, hint: str) -> JSONResponse:
    closing = {"Connection": "close"} if status == 413 else None  # what is still sent is not read
    return JSONResponse({"error": error, "looked_in": "", "hint": hint}, status, headers=closing)


async def _whole(headers: Headers, receive: Receive) -> Message | None:
    """The body as one message, or None where it is too large; it is not read further than that."""
    said = headers.get("content-length", "0")
    if said.isdecimal() and int(said) > _MOST_BYTES:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        if len(body) > _MOST_BYTES:
            return None
        if not message.get("more_body", False):
            return {"type": "http.request", "body": bytes(body), "more_body": False}


def _again(first: Message, receive: Receive) -> Receive:
    """Gives what was already received, then what comes."""
    waiting = [first]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


def _name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name("[::1]:8000"), _name("Localhost:80")
    ('::1', 'localhost')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
