"""How long it takes to search all plans for Llama-2-70B on 512 GPUs, compared with Calculon's search for the same question.

    python benchmarks/plan_search.py
    python benchmarks/plan_search.py --calculon DIR [--calculon-python VENV/bin/python]

DIR is a checkout of https://github.com/calculon-ai/calculon, whose `llm-optimal-execution` runs with the Python of its own venv
(it needs psutil, numpy and pandas). The package `calculon` on PyPI is a different project. Measures CPU time on one core for
both. Calculon's whole search space has 6.2 million executions here, which would take about ten hours. We therefore restrict it to
the part that is closest to ours, without offload, without a choice of overlap for tensor and data parallelism, and without the
debug records that take most of its time by default. All of these restrictions favour Calculon.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpuwise

GPUS, BATCH = 512, 1024
LLAMA = {
    "name": "llama-2-70b",
    "hidden": 8192,
    "feedforward": 28672,
    "seq_size": 4096,
    "attn_heads": 64,
    "attn_size": 128,
    "num_blocks": 80,
}


def main() -> None:
    """Both searches in one run, and their ratio."""
    arguments = _arguments()
    begun, wall = time.process_time(), time.perf_counter()
    answer = gpuwise.plan("llama-2-70b", cluster="64x8xH100 SXM", batch=BATCH, precision="bf16", scaling=False)
    ours, passed = time.process_time() - begun, time.perf_counter() - wall
    print(f"gpuwise: {answer.tried:,} plans in {ours:.2f} s of processor time ({passed:.2f} s by the clock)")
    if arguments.calculon is None:
        print("Calculon: not measured; give --calculon with a checkout of it")
        return
    theirs, count = calculon(arguments.calculon, arguments.calculon_python)
    print(f"Calculon: {count:,} plans in {theirs:.2f} s of processor time")
    print(f"ratio: {theirs / ours:.1f} times the processor time, {(theirs / count) / (ours / answer.tried):.1f} times a plan")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Search all plans of Llama-2-70B on 512 GPUs.")
    parser.add_argument("--calculon", type=Path)
    parser.add_argument("--calculon-python", default=sys.executable)
    return parser.parse_args()


def calculon(
    folder: Path, python: str, *, gpus: int = GPUS, batch: int = BATCH, seconds: float | None = None
) -> tuple[float, int]:
    """CPU seconds and number of plans of Calculon's search, on its own H100 system without offload memory."""
    with tempfile.TemporaryDirectory() as scratch:
        model, system, out = (Path(scratch) / name for name in ("model.json", "system.json", "out.json"))
        model.write_text(json.dumps(LLAMA))
        shipped = json.loads((folder / "systems" / "h100_80g_nvl8.json").read_text())
        system.write_text(json.dumps({**shipped, "mem2": {**shipped["mem2"], "GiB": 0}}))  # no memory to offload to
        (Path(scratch) / "sitecustomize.py").write_text("import logging\n\nlogging.disable(logging.DEBUG)\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        command = [python, str(folder / "bin" / "calculon"), "llm-optimal-execution", "--cpus", "1"]
        command += ["--no-tp-overlap", "--no-dp-overlap", str(model), str(gpus), str(batch), "float16", str(system), str(out)]
        around = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), scratch])}
        said = _run(command, around, seconds)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    found = re.search(r"Total executions: (\d+)", said)
    return after - before, int(found[1]) if found else 0


def _run(command: list[str], around: dict[str, str], seconds: float | None) -> str:
    """Its output. When the time is up, it and its child processes are ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=around, start_new_session=True)  # noqa: S603
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, err)
    return out + err


if __name__ == "__main__":
    main()
