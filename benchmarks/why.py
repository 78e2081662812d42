"""Compares the CPU time and peak memory of `gpuwise why` and HolisticTraceAnalysis on the same large trace, in the same run.

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis
    python benchmarks/why.py --source TRACE.json.gz --megabytes 480 --hta hta/bin/python

The large trace repeats the given Kineto trace, each time later and with new correlation ids, until it has the requested size.
Without `--source`, a run from the tests' generator is used. Both tools read the plain JSON. HTA then computes its breakdowns
(temporal, kernels, idle time, overlap), and gpuwise runs all checks. The tools run alternately,
and the fastest run of each counts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HTA = """
import logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
begun = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
loaded = time.perf_counter() - begun
for name in ("get_temporal_breakdown", "get_gpu_kernel_breakdown", "get_idle_time_breakdown", "get_comm_comp_overlap"):
    try:
        getattr(analysis, name)(visualize=False)
    except Exception as fault:
        print(f"{name}: {type(fault).__name__}: {fault}", file=sys.stderr)
print(loaded, time.perf_counter() - begun)
"""


def main() -> None:
    """Make the trace, run both, print the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=Path)
    parser.add_argument("--megabytes", type=int, default=480)
    parser.add_argument("--hta", help="the python of an environment with HolisticTraceAnalysis")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.json"
        write_large(path, source_events(options.source), options.megabytes * 10**6)
        print(f"{path.stat().st_size / 1e6:,.0f} MB")
        ours, theirs = alternately(path, options.hta, options.rounds)
        print(f"gpuwise why: {ours[0]:.2f} s of CPU time, {ours[1] / 1e6:,.0f} MB")
        if options.hta:
            print(f"HTA: {theirs[0]:.1f} s of CPU time, {theirs[1] / 1e6:,.0f} MB")
            print(f"times as fast: {theirs[0] / ours[0]:.1f}")
            print(f"share of its memory: {ours[1] / theirs[1]:.3f}")


def source_events(source: Path | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The text around the events, and the events, of the trace to repeat."""
    if source is None:
        sys.path.insert(0, str(ROOT / "tests"))
        from making_traces import training

        document = training(steps=20, kernels=400, kernel_us=30.0, load_us=500.0, reduce_us=900.0).document()
    else:
        raw = source.read_bytes()
        document = json.loads(gzip.decompress(raw) if source.suffix == ".gz" else raw)
    events = document.pop("traceEvents")
    return document, events


def write_large(path: Path, source: tuple[dict[str, Any], list[dict[str, Any]]], size_bytes: int) -> None:
    """Repeat the events, each time later and with other correlation ids, indented as Kineto writes them."""
    head, events = source
    times = [event["ts"] for event in events if event.get("ph") == "X"]
    length = max(times) - min(times) + 1_000_000
    highest = 1 + max((event.get("args", {}).get("correlation", 0) or 0) for event in events if event.get("ph") == "X")
    with path.open("w", encoding="utf-8") as out:
        out.write(json.dumps(head, indent=2)[:-2] + ',\n  "traceEvents": [\n')
        turn, joint = 0, ""
        while out.tell() < size_bytes:
            for event in events:
                if turn and event.get("ph") == "M":
                    continue
                if "ts" in event:
                    event = {**event, "ts": event["ts"] + turn * length}
                if "id" in event:
                    event = {**event, "id": event["id"] + turn * highest}
                if "correlation" in event.get("args", {}):
                    event = {**event, "args": {**event["args"], "correlation": event["args"]["correlation"] + turn * highest}}
                text = json.dumps(event)
                args = text.find('"args": {')
                text = text if args < 0 else f"{text[:args]}\n    {text[args : args + 9]}\n      {text[args + 9 :]}"
                out.write(f"{joint}  {{\n    {text[1:-1]}\n  }}")
                joint = ",\n"
            turn += 1
        out.write('\n  ],\n  "traceName": "large.json"\n}\n')


def alternately(path: Path, hta: str | None, rounds: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """CPU seconds and peak bytes of gpuwise and of HTA: the least time of each, our highest peak and HTA's lowest."""
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(run([sys.executable, "-m", "gpuwise", "why", str(path)]))
        if hta:
            theirs.append(run([hta, "-c", HTA, str(path)]))
    least = min((taken for taken, _ in theirs), default=0.0), min((memory for _, memory in theirs), default=0.0)
    return (min(taken for taken, _ in ours), max(memory for _, memory in ours)), least


def run(command: list[str]) -> tuple[float, float]:
    """CPU seconds and peak bytes of a separate process. Neither depends much on other work on the machine."""
    watched = (
        f"import resource, subprocess, sys; done = subprocess.run({command!r});"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss); sys.exit(done.returncode)"
    )
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True, check=False)  # noqa: S603
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise SystemExit("it failed")
    taken, memory = done.stdout.split()[-2:]
    return float(taken), float(memory) * 1024


if __name__ == "__main__":
    main()
