"""`gpuwise serve`: the whole tool as a page in the local browser."""

from __future__ import annotations

import socket
import sys
from importlib.util import find_spec
from typing import Annotated, Optional

import typer

from gpuwise.core.errors import BadValue, MissingExtra

__all__ = ["serve"]

_LAST_SECONDS = 3  # that running requests have after Ctrl-C
_NEEDED = ("fastapi", "uvicorn", "plotly")


def serve(
    port: Annotated[int, typer.Option(help="The port to listen on; 0 picks a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any address other than the default lets other machines connect.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        Optional[list[str]], typer.Option("--allow-host", help="An additional host name that this server accepts.")
    ] = None,
    workers: Annotated[int, typer.Option(help="The number of worker processes.")] = 2,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Serve gpuwise as a local web page with a JSON API. All data stays on this machine, and Ctrl-C stops the server."""
    for package in _NEEDED:
        if find_spec(package) is None:
            raise MissingExtra(package, extra="web", needed_for="the web page")
    if not 0 <= port <= 65535:
        raise BadValue(f"invalid --port {port}", hint="pass a number between 1 and 65535, or 0 for a free port")
    if not 1 <= workers <= 64:
        raise BadValue(f"invalid --workers {workers}", hint="pass a number between 1 and 64")
    listener = _listen(host, port)
    _run(listener, host, allow_host or [], workers, browser)


def _listen(host: str, port: int) -> socket.socket:
    """The open socket, or a clear complaint before anything else starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # told so, asyncio sends without delay
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # a browser that is quicker than the server waits
    except (OSError, UnicodeError) as fault:
        listener.close()
        reason = fault.strerror if isinstance(fault, OSError) else "invalid address"
        raise BadValue(f"cannot listen on {host}:{port}: {reason}", hint="use another port: `gpuwise serve --port 0`") from None
    return listener


def _run(listener: socket.socket, host: str, names: list[str], workers: int, browser: bool) -> None:
    import webbrowser

    import uvicorn

    from gpuwise.surfaces.web.app import create_app
    from gpuwise.surfaces.web.safety import LOCAL_HOSTS

    port = listener.getsockname()[1]
    address = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}/"  # noqa: S104
    sys.stdout.write(f"gpuwise is running at {address}  (press Ctrl-C to stop)\n")
    sys.stdout.flush()
    if browser:
        webbrowser.open(address)
    app = create_app((*LOCAL_HOSTS, host, *names), workers, prepare=True)
    # Ctrl-C does not wait for an upload that stalls.
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_LAST_SECONDS))
    server.run(sockets=[listener])
