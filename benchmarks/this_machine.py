"""Compares predicted and measured times on this machine, for small models trained on its CPU, twelve of them unseen.

    python benchmarks/this_machine.py [--cpu-time] [--looked-at]

Measures the device as `gpuwise bench --device cpu` does, predicts a training step of each model as `predict --on-this-machine`
does, and times real steps before and after, each model in a process of its own, as in a training run. Both sides are lower
quartiles, because other programs can only add time. On a shared machine, use OMP_NUM_THREADS=1 and --cpu-time to compare CPU time
instead of wall-clock time on both sides. None of the models is part of the profile. --looked-at leaves out the unseen ones.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import small_models
import torch
import unseen_models
from torch import nn

from gpuwise.live.bench.price import price
from gpuwise.live.bench.run import measure
from gpuwise.questions.common.capturing import capture_query, captured
from gpuwise.workload.model.types import Workload

STEPS, WARM_UP = 40, 5
MODELS = small_models.MODELS | unseen_models.UNSEEN
OF_TOKENS = (*small_models.OF_TOKENS, *unseen_models.OF_TOKENS)


def stepper(name: str) -> Callable[[], None]:
    """Return the training step of a model."""
    build, batch, shape = MODELS[name]
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randint(0, 5000, (batch, *shape)) if name in OF_TOKENS else torch.randn(batch, *shape)
    labels = torch.randint(0, 10, (batch,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def measured_s(name: str, of_process: bool) -> float:
    """The lower quartile of real training steps."""
    step, clock, times = stepper(name), time.process_time if of_process else time.perf_counter, []
    for _ in range(WARM_UP):
        step()
    for _ in range(STEPS):
        begun = clock()
        step()
        times.append(clock() - begun)
    return quantiles(times, n=4)[0]


def measured(names: list[str], of_process: bool) -> dict[str, float]:
    """Each model in a fresh process, because what the C library keeps depends on what ran before."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"])  # imported once; nothing has run in the process that is forked
    found = {}
    for name in names:
        with context.Pool(1) as pool:
            found[name] = pool.apply(measured_s, (name, of_process))
    return found


def workload_of(name: str) -> Workload:
    """Return a model's captured step."""
    build, batch, shape = MODELS[name]
    given = "x" if inspect.isclass(build) else "input"  # as `nn.Sequential` calls it
    query = capture_query(
        model=f"{inspect.getfile(build)}:{name}",
        batch=batch,
        precision="fp32",
        optimizer="adam",
        mode="train",
        inputs=[f"{given}=batch,{','.join(map(str, shape))}:{'int64' if name in OF_TOKENS else 'fp32'}"],
    )
    return captured(query)


def profiled(of_process: bool) -> Any:
    """Measure the machine, and say how long that took."""
    begun, clock = time.perf_counter(), time.process_time if of_process else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        profile = measure("cpu", Path(folder), seconds=50.0, progress=lambda text, share: None, clock=clock)
    spent = time.perf_counter() - begun
    print(f"profile: {len(profile.rows)} rows in {spent:.0f} s, {profile.threads} thread(s), clock {clock.__name__}")
    return profile


def main() -> None:
    """Time, measure, time again, predict, print."""
    of_process = "--cpu-time" in sys.argv
    names = list(small_models.MODELS if "--looked-at" in sys.argv else MODELS)
    print(f"load before: {os.getloadavg()[0]:.2f}")
    first = measured(names, of_process)
    profile = profiled(of_process)
    second = measured(names, of_process)
    print(f"load after: {os.getloadavg()[0]:.2f}")
    errors = {}
    for name in names:
        found, real = price(workload_of(name), profile), min(first[name], second[name])
        errors[name] = abs(found.seconds / real - 1.0)
        top = sorted(found.by_kind.items(), key=lambda pair: -pair[1])[:3]
        parts = ", ".join(f"{kind} {seconds / found.seconds:.0%}" for kind, seconds in top)
        print(
            f"{name:<17} predicted {found.seconds * 1e3:7.2f} ms, measured {real * 1e3:7.2f} ms, "
            f"{found.seconds / real:.2f}x; {parts}"
        )
    for group, models in (("looked at", small_models.MODELS), ("unseen", unseen_models.UNSEEN)):
        found = [errors[name] for name in models if name in errors]
        if found:
            near = sum(error <= 0.2 for error in found)
            print(f"{group}: median error {median(found):.0%}, worst {max(found):.0%}, {near} of {len(found)} within 20%")


if __name__ == "__main__":
    main()
