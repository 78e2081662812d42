"""How much time does watching add to a step? Runs the same training with and without it, alternately, so that a noisy machine
affects both equally.

    OMP_NUM_THREADS=1 python benchmarks/watch_overhead.py

First it measures the marks of a step (in a loop that does nothing else), and the share of a core that the sampling thread takes.
Under `gpuwise watch -- ...`, this thread is in another process, and under `with gpuwise.live()`, it is in the program itself.
Then it compares the CPU seconds per step of a small training run without watching, with the marks (hook), and with marks and
thread (inside). Even CPU seconds vary by several percent on a shared machine, so the limit applies to the first measurements. The
profiler's window is left out, because its steps are few and not timed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from gpuwise.live.hook.gpuwise_steps import Marks, Timed
from gpuwise.live.sample.session import Session, environment

ROUNDS, STEPS, MARKS, WATCHED_S, LIMIT = 5, 150, 20_000, 20.0, 0.01
TRAINING = """
import contextlib, sys, time
import torch
from torch import nn
import gpuwise
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
update = torch.optim.SGD(model.parameters(), lr=1e-4)
data = torch.utils.data.TensorDataset(torch.randn(64 * STEPS, 512))
inside = gpuwise.live(quiet=True, profile=False) if sys.argv[1] == "inside" else contextlib.nullcontext()
times = []
with inside:
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=64):
        begun = time.process_time()
        update.zero_grad()
        model(batch).square().mean().backward()
        update.step()
        times.append(begun)
steps = sorted(after - before for before, after in zip(times, times[1:]))
print(sum(steps[: len(steps) * 3 // 4]) / (len(steps) * 3 // 4))
""".replace("STEPS", str(STEPS))


def marks_s() -> float:
    """Seconds that the marks of one step (a wait, a batch, a step) take."""
    with tempfile.TemporaryDirectory() as folder:
        marks = Marks(folder)
        begun = time.process_time()
        for _ in Timed(iter(range(MARKS)), marks):
            marks.stepped()
        return (time.process_time() - begun) / MARKS


def thread_share() -> float:
    """The share of a core that sampling the machine takes."""
    session = Session()
    begun = time.process_time()
    session.start(os.getpid())
    time.sleep(WATCHED_S)
    used = time.process_time() - begun
    session.finish()
    session.remove()
    return used / WATCHED_S


def step_s(way: str) -> float:
    """Mean CPU seconds of the fastest three quarters of the steps in one run."""
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(Path(folder), window=False) if way == "hook" else dict(os.environ)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", TRAINING, way], env=variables, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def main() -> None:
    """Measure alternately and print ratios."""
    marks, thread = marks_s(), thread_share()
    ways = ("plain", "hook", "inside")
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way in ways:
            seconds[way].append(step_s(way))
    step = median(seconds["plain"])
    print(f"marks: {marks * 1e6:.1f} µs a step: {marks / step:.2%} of {step * 1e3:.1f} ms, 1 % of {marks * 1e5:.2f} ms")
    print(f"sampling: {thread:.2%} of a core")
    total = marks / step + thread
    print(f"counted together {total:.2%} of a step, {'below' if total < LIMIT else 'ABOVE'} the limit of {LIMIT:.0%}")
    for way in ways[1:]:
        ratios = [one / plain for one, plain in zip(seconds[way], seconds["plain"], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        print(f"compared, {way}: {median(ratios) - 1:+.1%} (half of {ROUNDS} rounds {low - 1:+.1%} to {high - 1:+.1%})")


if __name__ == "__main__":
    main()
