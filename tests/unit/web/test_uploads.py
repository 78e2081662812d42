"""Traces that are dropped at the same time share one disk budget; clients that disconnect cause no error."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import serving
from making_traces import training
from serving import Server, served

pytest.importorskip("fastapi", reason="the page needs gpuwise[web]")
pytest.importorskip("uvicorn", reason="the page needs gpuwise[web]")

from gpuwise.surfaces.web.traces import NoRoom, Room

LIMIT = 4 * 2**20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with served(folder, LIMIT) as running:
        yield running


def _held(folder: Path) -> int:
    """Bytes that lie in the server's folder; what is deleted meanwhile does not."""
    whole = 0
    for path in folder.rglob("*"):
        try:
            whole += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return whole


def _begin(server: Server, size: int) -> socket.socket:
    """An upload that has sent so many bytes and is not at its end."""
    line = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    line.sendall(b"POST /api/why?name=t.json HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    piece = b" " * 65536
    try:
        for _ in range(size // len(piece)):
            line.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
    except OSError:  # refused meanwhile
        pass
    return line


def test_parallel_uploads_share_one_budget_and_give_it_back(server: Server, folder: Path, tmp_path: Path) -> None:
    lines = [_begin(server, LIMIT - 65536) for _ in range(5)]
    end = time.monotonic() + 30
    answers = b""
    most = 0
    while time.monotonic() < end and b"503" not in answers:
        most = max(most, _held(folder))
        for line in lines:
            line.settimeout(0.05)
            try:
                answers += line.recv(4096)
            except OSError:
                continue
    assert b"503" in answers
    assert b"busy with other traces" in answers
    assert most <= 2 * LIMIT
    for line in lines:
        line.close()
    end = time.monotonic() + 30
    while list(folder.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(folder.iterdir()) == []
    assert server.why(training(kernels=5).write(tmp_path / "t.json")).status == 200


def test_the_room_on_disk_is_counted_exactly(tmp_path: Path) -> None:
    room = Room(100)
    room.take(60, tmp_path)
    with pytest.raises(NoRoom):
        room.take(41, tmp_path)
    assert room.held_bytes == 60
    room.give(60)
    room.take(100, tmp_path)
    with pytest.raises(NoRoom):
        Room(2**62).take(2**61, tmp_path)  # more than any disk has


def test_only_so_many_uploads_wait(server: Server, folder: Path) -> None:
    lines = [_begin(server, 65536) for _ in range(8)]
    end = time.monotonic() + 20
    while len(list(folder.iterdir())) < 8 and time.monotonic() < end:
        time.sleep(0.02)
    assert server.send("POST", "/api/why?name=t.json", b"{}").status == 503
    for line in lines:
        line.close()


def test_to_leave_is_no_error_in_the_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", serving._CODE, str(LIMIT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        running = Server(int(process.stdout.readline()), process.pid)
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(process.stderr or ()))
        reader.start()
        for path in ("/api/why?name=t.json", "/api/own?name=config.json", "/api/predict"):
            with socket.create_connection(("127.0.0.1", running.port), timeout=30) as line:
                head = (
                    f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
                )
                line.sendall(head.encode() + b"x" * 1000)
                time.sleep(0.3)
        time.sleep(0.5)
        assert running.send("GET", "/").status == 200
        process.terminate()
        reader.join(timeout=30)
    assert [line for line in said if "Traceback" in line or "Error" in line or "Exception" in line] == []
