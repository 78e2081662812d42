"""Queries a Prometheus server over its HTTP API, only if the user names one. Nothing here is specific to DCGM.

API: https://prometheus.io/docs/prometheus/latest/querying/api/ (`query_range`, `label/NAME/values`).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuwise.core.errors import BadValue, GpuwiseError

__all__ = ["LOGIN", "TOKEN", "Samples", "Server", "Window"]

LOGIN = "GPUWISE_PROMETHEUS_LOGIN"
TOKEN = "GPUWISE_PROMETHEUS_TOKEN"
_PATIENCE_S = 30.0
_MOST_BYTES = 256 * 2**20  # of one response; about ten thousand GPUs at sixty moments take 20 MB
_POINTS = 60
_LONGEST = 200  # of the server's message that our error quotes
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The start and end of a time window, in seconds since 1970, and the distance between its moments."""

    start_s: float
    end_s: float

    @property
    def step_s(self) -> float:
        """Sixty moments, at most one per second, which is enough for shares and means, and small even for thousands of GPUs."""
        return max((self.end_s - self.start_s) / _POINTS, 1.0)

    @property
    def times_s(self) -> NDArray[np.float64]:
        """The moments of the window."""
        count = int((self.end_s - self.start_s) / self.step_s + 1e-6) + 1
        return np.asarray(self.start_s + self.step_s * np.arange(count), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All values of a response in one column, for thousands of series. `series` is the position of each value's series in
    `labels`.
    """

    labels: tuple[Mapping[str, str], ...]
    series: NDArray[np.int64]
    at_s: NDArray[np.float64]
    values: NDArray[np.float64]


class _Answer(msgspec.Struct):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _One(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Matrix(msgspec.Struct):
    result: list[_One]


class _Scalar(msgspec.Struct):
    result: tuple[float, str]


class Server:
    """A Prometheus server, or one with the same API (Thanos, Mimir, VictoriaMetrics)."""

    def __init__(self, url: str, *, patience_s: float = _PATIENCE_S, most_bytes: int = _MOST_BYTES) -> None:
        self.address = _address(url)
        self._patience_s, self._most_bytes = patience_s, most_bytes
        self._headers = {"Accept": "application/json", **_login(os.environ)}
        self._opener = urllib.request.build_opener(_NoRedirects)

    def last(self, seconds: float) -> Window:
        """Return a window that ends now by the server's clock, because ours may be wrong or jump."""
        now = float(int(self._decoded(self._ask("query", {"query": "time()"}), _Scalar).result[0]))
        return Window(start_s=now - max(round(seconds), 1), end_s=now)

    def names(self, pattern: str, window: Window) -> tuple[str, ...]:
        """Return the metrics of this window whose whole name matches the pattern."""
        asked = {"match[]": f'{{__name__=~"{pattern}"}}', "start": f"{window.start_s:.0f}", "end": f"{window.end_s:.0f}"}
        return tuple(sorted(self._decoded(self._ask("label/__name__/values", asked), list[str])))

    def samples(self, names: Sequence[str], window: Window) -> Samples:
        """Return all series of these metrics, with one request."""
        asked = {
            "query": f'{{__name__=~"{"|".join(names)}"}}',
            "start": f"{window.start_s:.0f}",
            "end": f"{window.end_s:.0f}",
            "step": f"{window.step_s:.3f}",
            "timeout": f"{self._patience_s:.0f}s",
        }
        return _samples(self._decoded(self._ask("query_range", asked), _Matrix).result)

    def _decoded(self, data: msgspec.Raw, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            raise self._not_prometheus("its response is not in the Prometheus format") from None

    def _ask(self, path: str, asked: Mapping[str, str]) -> msgspec.Raw:
        request = urllib.request.Request(  # noqa: S310 - http or https, see `_address`
            f"{self.address}/api/v1/{path}?{urlencode(asked)}", headers=self._headers
        )
        try:
            body = _within(self._patience_s + 1.0, lambda: self._read(request))
        except urllib.error.HTTPError as fault:
            with contextlib.closing(fault):
                raise self._refusal(fault) from None
        except (OSError, http.client.HTTPException) as fault:
            raise self._silence(fault) from None
        try:
            answer = msgspec.json.decode(body, type=_Answer)
        except msgspec.DecodeError:
            raise self._not_prometheus("its response is not JSON from Prometheus") from None
        if answer.status != "success":
            raise GpuwiseError(
                f"Prometheus at {self.address} reports an error: {_plain(answer.error or answer.status)}", hint=_SMALLER
            )
        return answer.data

    def _read(self, request: urllib.request.Request) -> bytes:
        with self._opener.open(request, timeout=self._patience_s) as response:
            body: bytes = response.read(self._most_bytes + 1)
        if len(body) > self._most_bytes:
            raise GpuwiseError(
                f"the response from {self.address} is larger than {self._most_bytes / 2**20:.0f} MB", hint=_SMALLER
            )
        return body

    def _refusal(self, fault: urllib.error.HTTPError) -> GpuwiseError:
        """Return the error for a response with a code other than 200."""
        code = fault.code
        if code in (401, 403):
            login = f"set {LOGIN}=user:password or {TOKEN}=... in the environment"
            return GpuwiseError(
                f"{self.address} refused the request (HTTP {code}): it requires credentials, or different ones", hint=login
            )
        if code in (301, 302, 303, 307, 308):
            where = _plain(fault.headers.get("Location", "another address"))
            return GpuwiseError(f"{self.address} redirects to {where}", hint="pass the address of the server itself")
        if code == 404:
            return self._not_prometheus("it has no /api/v1 (HTTP 404)")
        try:
            said = msgspec.json.decode(fault.read(65536), type=_Answer).error
        except (msgspec.DecodeError, OSError, http.client.HTTPException):
            said = ""
        return GpuwiseError(f"{self.address} responded with HTTP {code}" + (f": {_plain(said)}" if said else ""), hint=_SMALLER)

    def _silence(self, fault: Exception) -> GpuwiseError:
        """Return the error for a missing response."""
        reason = getattr(fault, "reason", fault)
        if isinstance(reason, TimeoutError):
            return GpuwiseError(f"{self.address} did not respond within {self._patience_s:g} s", hint=_SMALLER)
        if isinstance(reason, socket.gaierror):
            return GpuwiseError(f"the host name in {self.address} is unknown", hint="check the name and the network")
        if isinstance(reason, ssl.SSLError):
            return GpuwiseError(
                f"cannot establish a secure connection to {self.address}: {_plain(str(reason))}",
                hint="check whether the server uses http:// instead, or whether its certificate is trusted",
            )
        if isinstance(reason, http.client.HTTPException) and not isinstance(reason, http.client.RemoteDisconnected):
            return self._not_prometheus("it does not use HTTP, or its response was incomplete")
        told = getattr(reason, "strerror", None) or str(reason)
        return GpuwiseError(
            f"no response from {self.address}: {_plain(told).lower()}",
            hint="check that Prometheus is running, and that the address and port are right",
        )

    def _not_prometheus(self, why: str) -> GpuwiseError:
        return GpuwiseError(
            f"{self.address} is not a Prometheus server: {why}",
            hint="pass the address without /api or /graph, such as `--prometheus http://prometheus:9090`",
        )


_SMALLER = "use a shorter time window, such as `--last 5m`, or check the server's log"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, because credentials are meant only for the named server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _address(url: str) -> str:
    """Return the address to query, without the path that a browser shows.

    >>> _address("localhost:9090/")
    'http://localhost:9090'
    """
    example = "try `--prometheus http://localhost:9090`"
    text = url.strip()
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise BadValue(f"invalid address '{_plain(url)}'", hint=example) from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or any(sign.isspace() or not sign.isprintable() for sign in text)
    ):
        raise BadValue(f"invalid server address '{_plain(url)}': it must start with http:// or https://", hint=example)
    if "@" in parts.netloc:  # it would be visible in the list of processes, the shell history and in reports
        raise BadValue("the address must not contain credentials", hint=f"set {LOGIN}=user:password in the environment")
    if parts.query or parts.fragment:
        raise BadValue(f"'{_plain(url)}' already contains a query", hint=example)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _login(variables: Mapping[str, str]) -> dict[str, str]:
    if token := variables.get(TOKEN, "").strip():
        return {"Authorization": f"Bearer {token}"}
    if login := variables.get(LOGIN, "").strip():
        return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    return {}


def _samples(found: list[_One]) -> Samples:
    counts = np.array([len(one.values) for one in found], dtype=np.int64)
    texts = [text for one in found for _, text in one.values]
    try:
        values = np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        values = np.array([_number(text) for text in texts], dtype=np.float64)
    return Samples(
        labels=tuple({key: _plain(text) for key, text in one.metric.items()} for one in found),
        series=np.repeat(np.arange(len(found), dtype=np.int64), counts),
        at_s=np.fromiter((moment for one in found for moment, _ in one.values), dtype=np.float64, count=len(texts)),
        values=values,
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _plain(text: str) -> str:
    """Return a server's message for a terminal: on one line, without control characters, and shortened."""
    if len(text) <= _LONGEST and text.isprintable():
        return text
    shown = "".join(sign if sign.isprintable() else " " for sign in text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _within(seconds: float, work: Callable[[], _T]) -> _T:
    """Return the result, or raise TimeoutError. The timeout of a socket alone is not enough, because an occasional byte resets
    it.
    """
    done: list[_T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as fault:
            failed.append(fault)

    thread = threading.Thread(target=run, name="gpuwise-prometheus", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise TimeoutError
    return done[0]
