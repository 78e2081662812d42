"""Who may ask the page's server, what a request can reach, and what it leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwise.surfaces.web.commands import run
from making_traces import Run, training
from serving import Server, served

pytest.importorskip("fastapi", reason="the page needs gpuwise[web]")
pytest.importorskip("uvicorn", reason="the page needs gpuwise[web]")

SCRIPT = "<script>alert(1)</script>"
LIMIT = 20 * 2**20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with served(folder, LIMIT) as running:
        yield running


def _trace(path: Path, kernels: int = 40, name: str = "volta_sgemm_128x64_nn", rank: int | None = None) -> Path:
    run = Run(rank=rank, world_size=None if rank is None else 3)
    return training(run, kernels=kernels, kernel_us=50.0, name=name).write(path)


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that takes some seconds to read."""
    return _trace(tmp_path_factory.mktemp("heavy") / "heavy.json.gz", kernels=15_000)


def test_a_foreign_host_is_refused_even_for_reading(server: Server) -> None:
    for path in ("/", "/api/choices", "/js/main.js"):
        assert server.send("GET", path, headers={"Host": "evil.example"}).status == 403
        assert server.send("GET", path, headers={"Host": f"evil.example:{server.port}"}).status == 403
    assert server.send("GET", "/", headers={"Host": f"localhost:{server.port}"}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Origin": "http://a]b"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_cannot_ask(server: Server, headers: dict[str, str]) -> None:
    refused = server.ask("predict", headers, model="resnet50", gpu=["RTX 3090"])
    assert refused.status == 403
    assert "other sites" in refused.json["error"]


def test_one_foreign_origin_among_several_is_enough(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/api/gpus")
        for name, value in (("Origin", server.address), ("Origin", "http://evil.example"), ("Content-Length", "0")):
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 403


@pytest.mark.parametrize("path", ["/", "/api/choices", "/api/accuracy", "/js/main.js", "/plotly.js"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_cannot_fetch_or_frame_but_its_links_can_be_followed(server: Server, path: str, site: str) -> None:
    for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        assert server.send("GET", path, headers=headers).status == 403, (mode, dest)
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.send("GET", "/", headers=followed).status == 200


def test_the_page_itself_can_ask(server: Server) -> None:
    headers = {"Origin": server.address, "Sec-Fetch-Site": "same-origin"}
    answer = server.ask("predict", headers, model="resnet50", gpu=["RTX 3090"])
    assert answer.status == 200
    assert answer.json["results"][0]["step_s"] > 0


@pytest.mark.parametrize("path", ["/", "/api/choices", "/js/main.js", "/nothing", "/api/docs"])
def test_every_answer_keeps_a_page_to_itself(server: Server, path: str) -> None:
    for host in ({}, {"Host": "evil.example"}):
        headers = server.send("GET", path, headers=host).headers
        policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_has_no_script_in_its_markup_and_none_from_elsewhere(server: Server) -> None:
    for path in ("/", "/api.html"):
        page = server.send("GET", path).body.decode()
        assert page.count("<script") == page.count('<script type="module" src="js/')
        assert " on" + "click=" not in page
        assert "//" not in page.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/..%2f..%2fapp.py", "/js/../../app.py", "/%2e%2e/app.py", "//etc/passwd"]
)
def test_no_path_leads_out_of_the_pages_folder(server: Server, path: str) -> None:
    answer = server.send("GET", path)
    assert answer.status == 404 or answer.body.startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    "model",
    ["../../etc/passwd", "/etc/passwd", "net.py:Net", "os:system", "hf:bert-base-uncased", "timm:resnet50", "config.json", "."],
)
def test_no_request_names_a_file_or_code(server: Server, model: str) -> None:
    for question, options in (
        ("predict", {"model": model, "gpu": ["RTX 3090"]}),
        ("fit", {"model": model, "gpu": ["RTX 3090"]}),
        ("compare", {"names": ["RTX 3090", "RTX 4090"], "model": [model]}),
        ("which", {"model": [model]}),
        ("cost", {"gpu": "RTX 3090", "model": model}),
        ("matters", {"topic": "pcie-lanes", "model": model}),
        ("sweep", {"model": model, "gpu": ["RTX 3090"], "batches": [1]}),
    ):
        refused = server.ask(question, **options)
        assert refused.status == 400, question
        assert refused.json["error"].startswith("unknown model")


def test_options_that_name_files_are_not_known(server: Server) -> None:
    assert server.ask("which", prices="/etc/passwd").status == 422
    assert server.ask("gpus", catalog="/etc").status == 422
    assert server.ask("predict", model="resnet50", gpu=["RTX 3090"], timeout_s=1).status == 422


@pytest.mark.parametrize(
    "body",
    [rb'{"names": ["\ud800"]}', rb'{"\ud800": 1}', b'{"names": [', b'"\xff"', b"[" * 100_000, b'{"names": [NaN]}', b"null"],
)
def test_what_is_no_question_is_refused_in_words_and_not_sent_back(server: Server, body: bytes) -> None:
    refused = server.send("POST", "/api/gpus", body, {"Content-Type": "application/json"})
    assert refused.status in (400, 422)
    assert set(refused.json) == {"error", "looked_in", "hint"}
    assert len(refused.body) < 1000


def test_what_is_not_served_is_said_in_the_same_shape(server: Server) -> None:
    for method, path in (("POST", "/api/nothing"), ("GET", "/nothing.html"), ("GET", "/api/predict"), ("DELETE", "/api/choices")):
        refused = server.send(method, path)
        assert refused.status in (404, 405)
        assert set(refused.json) == {"error", "looked_in", "hint"}


def test_too_large_a_question_is_refused_whether_or_not_its_size_is_said(server: Server) -> None:
    head = f"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    for size in (f"Content-Length: {400 * 2**20}\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
            line.sendall((head + size).encode())
            with contextlib.suppress(OSError):
                for _ in range(40):
                    line.sendall(b"10000\r\n" + b" " * 2**16 + b"\r\n")
            answer = b""
            with contextlib.suppress(OSError):
                while part := line.recv(4096):
                    answer += part
        assert b" 413 " in answer.partition(b"\r\n")[0]
        assert b"looked_in" in answer
    assert server.ask("gpus", names=["RTX 3090"]).status == 200


def test_a_name_that_is_not_allowed_says_how_to_allow_it(server: Server) -> None:
    assert "--allow-host" in server.send("GET", "/", headers={"Host": "desk.local"}).json["hint"]


def test_a_trace_is_diagnosed_and_its_file_removed(server: Server, folder: Path, tmp_path: Path) -> None:
    answer = server.why(_trace(tmp_path / "mine.json.gz"))
    assert answer.status == 200
    assert answer.json["files"] == ["mine.json.gz"]
    assert list(folder.iterdir()) == []


def test_the_ranks_of_a_run_are_told_apart(server: Server, tmp_path: Path) -> None:
    files = [_trace(tmp_path / f"rank{rank}.json.gz", kernels=40 + 20 * rank, rank=rank) for rank in range(3)]
    answer = server.why(*files)
    assert answer.status == 200
    alone = [server.why(file).json["step_s"] for file in files]
    assert sorted(rank["step_s"] for rank in answer.json["ranks"]) == pytest.approx(sorted(alone))
    assert {rank["file"] for rank in answer.json["ranks"]} == {file.name for file in files}


def test_names_like_our_own_are_not_mixed_up(server: Server, tmp_path: Path) -> None:
    ranks = {f"trace{rank}.json": _trace(tmp_path / f"trace{rank}.json", kernels=40 + 20 * rank, rank=rank) for rank in range(2)}
    alone = {name: server.why(file).json["step_s"] for name, file in ranks.items()}
    answer = server.why(ranks["trace1.json"], ranks["trace0.json"])
    assert {rank["file"]: rank["step_s"] for rank in answer.json["ranks"]} == pytest.approx(alone)


def test_a_name_never_becomes_a_path(server: Server, folder: Path, tmp_path: Path) -> None:
    trace = _trace(tmp_path / "trace.json")
    for name in ("../../evil.json", "/etc/evil.json", "--help.json", "a\nb.json"):
        answer = server.why(trace, names=[name])
        assert answer.status == 200, answer.body
        assert answer.json["files"] == [name]
    assert list(folder.iterdir()) == []


def test_a_gpu_that_no_command_could_take_is_refused_in_words(server: Server, folder: Path) -> None:
    refused = server.send("POST", "/api/why?name=a.json&gpu=a%00b", b"{}")
    assert refused.status == 422
    assert refused.json["error"].startswith("gpu:")
    assert not any(folder.iterdir())


def test_markup_in_a_kernel_name_stays_text(server: Server, tmp_path: Path) -> None:
    answer = server.why(_trace(tmp_path / "trace.json", name=f"sgemm{SCRIPT}"))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert SCRIPT in json.dumps(answer.json["timeline"])


@pytest.mark.parametrize("content", [b"", b"{", b"\x1f\x8b broken", b"null", b'{"traceEvents": 3}'])
def test_a_broken_trace_is_refused_without_paths(server: Server, folder: Path, tmp_path: Path, content: bytes) -> None:
    broken = tmp_path / "broken.json"
    broken.write_bytes(content)
    answer = server.why(broken)
    assert answer.status == 400
    assert str(folder) not in answer.body.decode()
    assert "Traceback" not in answer.body.decode()
    assert list(folder.iterdir()) == []


def test_too_large_a_trace_is_refused_whether_or_not_its_size_is_said(server: Server, folder: Path) -> None:
    assert server.send("POST", "/api/why?name=a.json", headers={"Content-Length": str(LIMIT + 1)}, body=b"").status == 413
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(
            f"POST /api/why?name=a.json HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        chunk = b" " * 2**20
        with contextlib.suppress(OSError):
            for _ in range(LIMIT // len(chunk) + 2):
                line.sendall(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        assert b" 413 " in line.recv(4096).partition(b"\r\n")[0]
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems hold no process to its memory")
def test_a_trace_that_unpacks_without_end_ends_at_its_limit(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    event = b'{"ph": "X", "cat": "kernel", "name": "a", "ts": 1, "dur": 1, "pid": 0, "tid": 7},'
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        file.write(b'{"traceEvents": [' + 1_000_000 * event + event[:-1] + b"]}")
    assert bomb.stat().st_size < 2**20
    done = asyncio.run(run(["why", str(bomb), "--json"], seconds=120, most_memory_bytes=2**27))
    status, content = done.answer
    assert status == 400
    assert b"more memory" in content
    assert b"Traceback" not in content


@pytest.mark.slow
def test_small_answers_come_while_a_heavy_trace_is_read(server: Server, heavy: Path) -> None:
    done: list[int] = []
    work = threading.Thread(target=lambda: done.append(server.why(heavy).status))
    work.start()
    while not any("why" in child for child in server.children()):
        time.sleep(0.01)
    for batch in (3, 5, 7):
        assert server.ask("predict", model="resnet18", gpu=["RTX 3090"], batch=str(batch)).status == 200
    assert not done, "the trace was read before the small answers came: make it heavier"
    work.join()
    assert done == [200]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_work_ends_when_the_page_goes_away(server: Server, folder: Path, heavy: Path) -> None:
    body = heavy.read_bytes()
    head = f"POST /api/why?name=a.json.gz HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(head.encode())
        line.sendall(body)
        while not any("why" in child for child in server.children()):
            time.sleep(0.01)
    begun = time.monotonic()
    while any("why" in child for child in server.children()) or list(folder.iterdir()):
        assert time.monotonic() - begun < 2.0, "still at work"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_workers_that_die_are_replaced(server: Server) -> None:
    assert server.ask("gpus", names=["RTX 3090"]).status == 200  # they have started
    workers = [child for child in server.children() if "spawn_main" in child]
    assert workers
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            ours = entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == server.pid
            if ours and b"spawn_main" in (entry / "cmdline").read_bytes():
                subprocess.run(["kill", "-9", entry.name], check=False)
    statuses = [server.ask("predict", model="resnet18", gpu=["RTX 3090"], batch=str(batch)).status for batch in (11, 13, 17)]
    assert set(statuses[:1]) <= {200, 503}
    assert statuses[-1] == 200


def test_ctrl_c_does_not_wait_for_an_upload_that_stalls() -> None:
    command = [sys.executable, "-m", "gpuwise", "serve", "--no-browser", "--port", "0", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(f"GET /api/choices HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            line.recv(100)  # it serves
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(
                f"POST /api/why?name=a.json HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9999\r\n\r\n{{".encode()
            )
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
    finally:
        process.kill()
        process.communicate()


def test_serve_says_what_is_wrong_before_it_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [sys.executable, "-m", "gpuwise", "serve", "--no-browser", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot listen on")
