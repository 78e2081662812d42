"""The page's server in a separate process, for tests that query it over a socket, and one-line questions."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_CODE = """
import socket, sys, uvicorn
from gpuwise.surfaces.web.app import create_app
listener = socket.socket(proto=socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
app = create_app(workers=2, most_trace_bytes=int(sys.argv[1]))
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Reply(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def ask(self, question: str, headers: Mapping[str, str] | None = None, **options: Any) -> Reply:
        kind = {"Content-Type": "application/json"}
        return self.send("POST", f"/api/{question}", json.dumps(options).encode(), {**kind, **(headers or {})})

    def why(self, *files: Path, names: list[str] | None = None) -> Reply:
        sizes = [file.stat().st_size for file in files]
        query = urlencode({"name": names or [file.name for file in files], "size": sizes}, doseq=True)
        return self.send("POST", f"/api/why?{query}", b"".join(file.read_bytes() for file in files))

    def children(self) -> list[str]:
        """The command lines of the processes that this server has started; Linux only."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == self.pid:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found


@contextlib.contextmanager
def served(temporary: Path, most_trace_bytes: int = 2**30) -> Iterator[Server]:
    """A server that writes its temporary files into a folder of the test's."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(most_trace_bytes)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        server = Server(int(process.stdout.readline()), process.pid)
        yield server
    finally:
        process.terminate()
        process.communicate(timeout=30)
