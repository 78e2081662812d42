"""A Prometheus server that is down, not a Prometheus server, failing or hostile: clear errors, exit code 2, no hang."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from gpuwise.core.errors import GpuwiseError
from gpuwise.live.sample.prometheus import LOGIN, TOKEN, Server, Window
from gpuwise.questions.watch.cluster import watch_cluster
from making_cluster import free_port, served

WINDOW = Window(start_s=1_800_000_000.0, end_s=1_800_000_600.0)


@contextlib.contextmanager
def answering(code: int, body: bytes, headers: dict[str, str] | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server that always says the same, and who logged in."""
    logins: list[str] = []

    class Says(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers.get("Authorization", ""))
            self.send_response(code)
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with served(Says) as address:
        yield address, logins


def complaint(address: str, **limits: float) -> GpuwiseError:
    with pytest.raises(GpuwiseError) as caught:
        Server(address, **limits).names("DCGM_.*", WINDOW)  # type: ignore[arg-type]
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (200, b"<html>Grafana</html>", "is not a Prometheus server: its response is not JSON"),
        (200, b'{"status": "succ', "is not JSON from Prometheus"),
        (200, b"\x00\xff\xfe garbage", "is not JSON from Prometheus"),
        (200, b"[1, 2]", "is not JSON from Prometheus"),
        (200, b'{"status": "success", "data": {"names": 3}}', "is not in the Prometheus format"),
        (200, b'{"status": "error", "error": "out of \\u001b[31mmemory"}', "reports an error: out of  [31mmemory"),
        (401, b"", "refused the request (HTTP 401): it requires credentials"),
        (403, b"", "refused the request (HTTP 403)"),
        (404, b"", "it has no /api/v1"),
        (422, b'{"status": "error", "error": "query processing would load too many samples"}', "would load too many samples"),
        (503, b"no", "responded with HTTP 503"),
    ],
)
def test_an_answer_that_is_none_is_said_in_words(code: int, body: bytes, words: str) -> None:
    with answering(code, body) as (address, _):
        assert words in complaint(address).message


def test_garbage_among_the_values_is_not_believed() -> None:
    one = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, "values": [[WINDOW.end_s, "garbage"]]}
    with answering(200, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [one]}}).encode()) as (
        address,
        _,
    ):
        samples = Server(address).samples(["DCGM_FI_DEV_GPU_UTIL"], WINDOW)
    assert str(samples.values) == "[nan]"


def test_nobody_there_is_said() -> None:
    assert "no response from" in complaint(f"http://127.0.0.1:{free_port()}").message
    assert "the host name in" in complaint("http://no-such-host.invalid:9090").message


def test_a_login_is_sent_and_stays_with_the_server_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"status": "success", "data": ["DCGM_FI_DEV_GPU_UTIL"]}).encode()
    with answering(200, body) as (address, logins):
        monkeypatch.setenv(LOGIN, "me:secret")
        assert Server(address).names("DCGM_.*", WINDOW) == ("DCGM_FI_DEV_GPU_UTIL",)
        monkeypatch.setenv(TOKEN, "abc")
        Server(address).names("DCGM_.*", WINDOW)
        assert logins == ["Basic bWU6c2VjcmV0", "Bearer abc"]
        with answering(302, b"", {"Location": f"{address}/elsewhere"}) as (other, _):
            assert "redirects to" in complaint(other).message
        assert len(logins) == 2


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://host",
        "http://",
        "http://me:secret@host:9090",
        "http://host:port",
        "http://host:9090/?a=b",
        "http://a b",
        "file:///x",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(GpuwiseError) as caught:
        Server(url)
    assert "secret" not in str(caught.value)


def test_an_answer_beyond_all_measure_is_not_read_to_its_end() -> None:
    with answering(200, b" " * 2_000_000) as (address, _):
        assert "is larger than 1 MB" in complaint(address, most_bytes=2**20).message


@contextlib.contextmanager
def raw(speak: bytes, *, again_s: float = 0.0, heard: threading.Event | None = None) -> Iterator[str]:
    """A port that says something that is not HTTP, or says it slowly for ever."""
    place = socket.create_server(("127.0.0.1", 0))
    end = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = place.accept()
                with caller, contextlib.suppress(OSError):
                    caller.recv(65536)
                    if heard is not None:
                        heard.set()
                    caller.sendall(speak)
                    while again_s and not end.wait(again_s):
                        caller.sendall(b"x")

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        end.set()
        place.close()


def test_a_port_that_does_not_speak_http_is_told() -> None:
    with raw(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        assert "does not use HTTP" in complaint(address).message
    with raw(b"") as address:
        assert "no response from" in complaint(address).message
    with raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{") as address:
        assert complaint(address).message


@pytest.mark.parametrize("speak", [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_server_that_never_ends_its_answer_is_left(speak: bytes) -> None:
    begun = time.monotonic()
    with raw(speak, again_s=0.1) as address:
        assert "did not respond within 0.5 s" in complaint(address, patience_s=0.5).message
    assert time.monotonic() - begun < 20.0


@pytest.mark.slow
def test_an_interrupt_ends_the_wait_for_a_server() -> None:
    heard = threading.Event()
    with raw(b"HTTP/1.1 200 OK\r\nX: ", again_s=0.1, heard=heard) as address:
        command = [sys.executable, "-m", "gpuwise", "watch", "--prometheus", address]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert heard.wait(60.0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said


@pytest.mark.parametrize("last", ["10", "ten", "-5m", "1s", "99d", "5 parsecs", ""])
def test_a_time_that_is_none_is_refused_before_anybody_is_asked(last: str) -> None:
    with pytest.raises(GpuwiseError, match=r"invalid duration|too short|too long"):
        watch_cluster("http://127.0.0.1:9", last=last)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--model", "resnet50"], ["--pid", "1"], ["--", "true"]])
def test_the_command_says_it_with_exit_code_2(more: list[str]) -> None:
    command = [sys.executable, "-m", "gpuwise", "watch", "--prometheus", f"127.0.0.1:{free_port()}", "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
