"""How many `predict` answers per second the page's server gives, and the 99th percentile of its response time.

    python benchmarks/serve.py [--seconds 10] [--new 0.005] [--kernels 15000]
    python benchmarks/serve.py --requests 50000       # only the memory, into docs/benchmarks.md

The requests imitate people who move sliders. They ask about one zoo model on 12 GPUs at 12 batch sizes, all equally likely, so
that nearly all questions have been asked before. A share `--new` of the batch sizes has not. Repeated questions are answered from
memory (4,096 are kept), and two worker processes compute the new ones. Requests are sent by `wrk` if it is installed, and by our
own loop otherwise. The first pass, which asks every question once, is reported separately, because none of its answers is in
memory. On a shared machine, look at the CPU time per answer as well, because it does not include waiting. `wrk` treats a waiting
connection as if it had continued to send requests (coordinated omission), so its p99 includes the slow answers to rare questions.

Then one person asks questions while a large trace (`--kernels` per step) is read repeatedly. The memory of the server and its
workers is printed before and after many new questions, and must not grow. With `--requests`, that many requests are sent over
eight connections, and one in fifty of them is new.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
LASTING = "## Memory of the page's server"
MODEL = "resnet50"
GPUS = (
    "RTX 2080 Ti|RTX 3060 12GB|RTX 3070|RTX 3080 10GB|RTX 3090|RTX 4070 Ti|RTX 4080|RTX 4090|RTX 5090|"
    "A100 PCIe 40GB|H100 SXM 80GB|T4"
).split("|")
BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
CONNECTIONS = 8
NEW_EACH = 50
_LUA = """
local gpus = {%s}
local batches = {%s}
local new = %s
local thread_count = 0
function setup(thread) thread_count = thread_count + 1; thread:set("id", thread_count) end
function init() math.randomseed(os.time() + id * 7919); asked = 0 end
function request()
  local batch = batches[math.random(#batches)]
  if math.random() < new then asked = asked + 1; batch = 130 + asked * 8 + id end
  local body = '{"model": "%s", "gpu": ["' .. gpus[math.random(#gpus)] .. '"], "batch": "' .. batch .. '"}'
  return wrk.format("POST", "/api/predict", {["Content-Type"] = "application/json"}, body)
end
function done(summary, latency, requests)
  local e = summary.errors
  local wrong = e.status + e.connect + e.read + e.write + e.timeout
  io.write(string.format("RESULT %%d %%f %%f %%f %%d\\n", summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, wrong))
end
"""


def main() -> None:
    """Start a server, send requests and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--new", type=float, default=0.005)
    parser.add_argument("--kernels", type=int, default=15_000)
    parser.add_argument("--requests", type=int, default=0)
    given = parser.parse_args()
    command = [sys.executable, "-m", "gpuwise", "serve", "--no-browser", "--port", "0", "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r":(\d+)/", server.stdout.readline())
            assert found, "the server did not start"
            if given.requests:
                _lasting(int(found[1]), server.pid, given.requests)
                return
            _measure(int(found[1]), server.pid, given.seconds, given.new)
            _beside_a_trace(int(found[1]), given.seconds, given.kernels)
            _memory(int(found[1]), server.pid)
        finally:
            server.terminate()


def _measure(port: int, pid: int, seconds: int, new: float) -> None:
    questions = [_body(gpu, batch) for gpu in GPUS for batch in BATCHES]
    for batch in (3, 5):
        _ask(port, _body(GPUS[0], batch))  # the workers load what they need
    begun, used = time.perf_counter(), _processor_s(pid)
    first = sorted(_ask(port, body) for body in questions)
    taken, used = time.perf_counter() - begun, _processor_s(pid) - used
    print(f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"first pass: {len(questions)} questions, none in memory, one after the other: {len(questions) / taken:.0f} a second, ",
        end="",
    )
    print(f"median {1e3 * first[len(first) // 2]:.0f} ms, slowest {1e3 * first[-1]:.0f} ms, ", end="")
    print(f"processor time {1e3 * used / len(questions):.1f} ms each")
    for share in dict.fromkeys((0.0, new)):
        run = _wrk if shutil.which("wrk") else _loop
        used = _processor_s(pid)
        name, rate, median, p99, wrong = run(port, seconds, share)
        used = (_processor_s(pid) - used) / (rate * seconds)
        print(
            f"{name}, {CONNECTIONS} connections, {seconds} s, {1 - share:.1%} of questions in memory: {rate:,.0f} a second, "
            f"median {median:.1f} ms, p99 {p99:.1f} ms, {wrong} errors, processor time {1e3 * used:.2f} ms each"
        )


def _beside_a_trace(port: int, seconds: int, kernels: int) -> None:
    """Small questions from one person, alternately in memory and new, while a trace is read."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from making_traces import Run, training

    with tempfile.TemporaryDirectory() as folder:
        trace = training(Run(), kernels=kernels, kernel_us=50.0).write(Path(folder) / "heavy.json.gz").read_bytes()
    end, read = time.perf_counter() + seconds, 0

    def diagnose() -> None:
        nonlocal read
        while time.perf_counter() < end:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/why?name=heavy.json.gz", trace)
            with urllib.request.urlopen(asked) as answer:
                answer.read()
            read += 1

    beside = threading.Thread(target=diagnose)
    beside.start()
    times: dict[str, list[float]] = {"in memory": [], "new": []}
    fresh = iter(range(20_000, 10**6))
    while time.perf_counter() < end:
        times["in memory"].append(_ask(port, _body(random.choice(GPUS), random.choice(BATCHES))))
        times["new"].append(_ask(port, _body(random.choice(GPUS), next(fresh))))
        time.sleep(0.02)
    beside.join()
    for name, found in times.items():
        found.sort()
        print(
            f"beside a trace of {len(trace) / 1e6:.1f} MB (read {read} times), {name}: "
            f"median {1e3 * found[len(found) // 2]:.1f} ms, p99 {1e3 * found[int(0.99 * len(found))]:.1f} ms of {len(found)}"
        )


def _memory(port: int, pid: int, rounds: int = 4, each: int = 300) -> None:
    """Memory of the server and its workers after each round of new questions, which are more than are kept in memory."""
    fresh, sizes = iter(range(100_000, 10**7)), []
    for _ in range(rounds):
        for _ in range(each):
            _ask(port, _body(random.choice(GPUS), next(fresh)))
        sizes.append(_memory_bytes(pid) / 2**20)
    print(f"memory after each {each} new questions, MiB: {', '.join(f'{size:.0f}' for size in sizes)}")


def _lasting(port: int, pid: int, requests: int) -> None:
    """Measure memory after each tenth of many requests, and write it to a section of the page."""
    sizes, wrong, begun, used = [], 0, time.perf_counter(), _processor_s(pid)
    for part in range(11):  # the first part fills the caches and is not counted
        wrong += _asked_at_once(port, requests // 10, fresh=iter(range(1000 + part * requests, 10**9)))
        sizes.append(_memory_bytes(pid) / 2**20)
        print(f"{part * requests // 10:,} requests: {sizes[-1]:.0f} MiB", flush=True)
    taken, used = time.perf_counter() - begun, _processor_s(pid) - used
    answers = requests + requests // 10
    text = f"""{LASTING}

This section was generated by `benchmarks/serve.py --requests {requests}` ({date.today()}, {os.cpu_count()} CPU cores, shared).
After a warm-up of {requests // 10:,} requests, a server with two worker processes answered {requests:,} more.
One in {NEW_EACH} of these requests contained a new question.
The resident memory of the three processes was measured after the warm-up and after each tenth of the requests. In MiB, it was
{", ".join(f"{size:.0f}" for size in sizes)}.
On average, the server gave {answers / taken:,.0f} answers per second, and each took {1e3 * used / answers:.1f} ms of CPU time.
Number of failed requests: {wrong}.
"""
    print(text)
    sys.path.insert(0, str(ROOT / "tools"))
    from record_live import spliced

    page = ROOT / "docs" / "benchmarks.md"
    page.write_text(spliced(page.read_text(encoding="utf-8"), text, LASTING), encoding="utf-8")


def _asked_at_once(port: int, count: int, fresh: Iterator[int]) -> int:
    """Ask `count` questions over several connections, and return how many failed."""
    wrong, left = 0, iter(range(count))

    def person() -> None:
        nonlocal wrong
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for number in left:
            batch = next(fresh) if number % NEW_EACH == 0 else random.choice(BATCHES)
            line.request("POST", "/api/predict", _body(random.choice(GPUS), batch), {"Content-Type": "application/json"})
            answer = line.getresponse()
            told = answer.read()
            wrong += answer.status != 200
            if answer.status != 200:
                print(answer.status, told[:200], flush=True)
        line.close()

    people = [threading.Thread(target=person) for _ in range(CONNECTIONS)]
    for one in people:
        one.start()
    for one in people:
        one.join()
    return wrong


def _memory_bytes(pid: int) -> int:
    """Resident memory of a server and its workers, without the accuracy page's `validate`, which is only temporary, or 0 without
    /proc."""
    whole = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            passing = b"validate" in stat.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if pid in (int(stat.parent.name), int(fields[1])) and not passing:
            whole += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return whole


def _processor_s(pid: int) -> float:
    """CPU seconds of a process and its children so far, or NaN without /proc."""
    whole = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if pid in (int(stat.parent.name), int(fields[1])):
            whole += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return whole or float("nan")


def _body(gpu: str, batch: int) -> bytes:
    return json.dumps({"model": MODEL, "gpu": [gpu], "batch": str(batch)}).encode()


def _ask(port: int, body: bytes) -> float:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/predict", body, {"Content-Type": "application/json"})
    begun = time.perf_counter()
    with urllib.request.urlopen(asked) as answer:
        answer.read()
    return time.perf_counter() - begun


def _wrk(port: int, seconds: int, new: float) -> tuple[str, float, float, float, int]:
    script = _LUA % (", ".join(f'"{gpu}"' for gpu in GPUS), ", ".join(map(str, BATCHES)), new, MODEL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mix.lua"
        path.write_text(script)
        command = [
            "wrk",
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{seconds}s",
            "--timeout",
            "10s",
            "-s",
            str(path),
            f"http://127.0.0.1:{port}",
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = re.search(r"RESULT (\d+) ([\d.]+) ([\d.]+) ([\d.]+) (\d+)", out)
    assert result, out
    return "wrk", int(result[1]) / float(result[2]), float(result[3]), float(result[4]), int(result[5])


def _loop(port: int, seconds: int, new: float) -> tuple[str, float, float, float, int]:
    """The same with plain sockets, if wrk is not installed."""
    times: list[float] = []
    wrong, fresh = 0, iter(range(1000, 10**6))
    end = time.perf_counter() + seconds

    async def person() -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            batch = next(fresh) if random.random() < new else random.choice(BATCHES)
            body = _body(random.choice(GPUS), batch)
            kind = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            head = f"POST /api/predict HTTP/1.1\r\n{kind}\r\n\r\n"
            begun = time.perf_counter()
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            size = re.search(rb"content-length: (\d+)", answer)
            await reader.readexactly(int(size[1]) if size else 0)
            times.append(time.perf_counter() - begun)
            wrong += not answer.startswith(b"HTTP/1.1 200")
        writer.close()

    async def people() -> None:
        await asyncio.gather(*(person() for _ in range(CONNECTIONS)))

    asyncio.run(people())
    times.sort()
    return "our loop", len(times) / seconds, 1e3 * times[len(times) // 2], 1e3 * times[int(0.99 * len(times))], wrong


if __name__ == "__main__":
    main()
