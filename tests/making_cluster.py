"""A small exporter with the metrics of NVIDIA's DCGM exporter, and a real Prometheus (Debian's package) that scrapes it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

__all__ = ["HEALTHY", "FakeGpu", "free_port", "served", "start_exporter", "start_prometheus"]

HEALTHY: dict[str, float] = {  # an H100 in the middle of a training, in the units of exporters before 4.9
    "DCGM_FI_DEV_GPU_UTIL": 97,
    "DCGM_FI_DEV_MEM_COPY_UTIL": 40,
    "DCGM_FI_DEV_SM_CLOCK": 1950,
    "DCGM_FI_DEV_POWER_USAGE": 640.5,
    "DCGM_FI_DEV_GPU_TEMP": 62,
    "DCGM_FI_DEV_FB_USED": 60_000,
    "DCGM_FI_DEV_FB_FREE": 21_000,
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": 4,
    "DCGM_FI_PROF_PCIE_RX_BYTES": 4e8,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1e8,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.97,
    "DCGM_FI_PROF_SM_ACTIVE": 0.9,
    "DCGM_FI_DEV_XID_ERRORS": 0,
    "DCGM_FI_DEV_MEMORY_TEMP": 9223372036854775794,  # DCGM_INT64_BLANK: not known
}


@dataclass(frozen=True)
class FakeGpu:
    """One GPU of the exporter: who it is, and how it differs from a healthy one."""

    host: str
    index: int
    model: str = "NVIDIA H100 80GB HBM3"
    other: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        labels = {
            "gpu": str(self.index),
            "UUID": f"GPU-{self.host}-{self.index}",
            "device": f"nvidia{self.index}",
            "modelName": self.model,
            "Hostname": self.host,
            **self.labels,
        }
        inside = ",".join(f'{name}="{text}"' for name, text in labels.items())
        return [f"{name}{{{inside}}} {value}" for name, value in {**HEALTHY, **self.other}.items()]


@contextlib.contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A web server on a free port, as long as it is needed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def start_exporter(gpus: Callable[[], list[FakeGpu]]) -> Iterator[str]:
    """Serves /metrics of the GPUs there are at that moment."""

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = "\n".join(line for gpu in gpus() for line in gpu.lines()) + "\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with served(Metrics) as address:
        yield address


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        number: int = place.getsockname()[1]
        return number


@contextlib.contextmanager
def start_prometheus(folder: Path, *targets: str) -> Iterator[str]:
    """A Prometheus server that scrapes every second; the test is skipped where there is none. It never outlives it."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus here: apt-get install prometheus")
    hosts = ", ".join(f"'{target.removeprefix('http://')}'" for target in targets)
    jobs = f"scrape_configs:\n- job_name: dcgm\n  static_configs:\n  - targets: [{hosts}]\n" if targets else ""
    (folder / "prometheus.yml").write_text(f"global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n{jobs}", encoding="utf-8")
    port = free_port()
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
        preexec_fn=_die_with_us if sys.platform == "linux" else None,
    )
    try:
        _wait_until_ready(process, f"http://127.0.0.1:{port}", folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        log.close()


def _die_with_us() -> None:
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, log.read_text(errors="replace")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/-/ready", timeout=1):  # noqa: S310
            return
        time.sleep(0.1)
    raise AssertionError(f"prometheus does not get ready: {log.read_text(errors='replace')}")


def wait_for_scrapes(address: str, count: int) -> None:
    """Until the server has seen every GPU so often: it begins some seconds after it is ready."""
    asked = urllib.parse.urlencode({"query": "min(count_over_time(DCGM_FI_DEV_GPU_UTIL[1m]))"})
    for _ in range(600):
        with urllib.request.urlopen(f"{address}/api/v1/query?{asked}", timeout=5) as answer:  # noqa: S310
            found = json.load(answer)["data"]["result"]
        if found and float(found[0]["value"][1]) >= count:
            return
        time.sleep(0.1)
    raise AssertionError("prometheus does not scrape")
