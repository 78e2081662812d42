"""Compares predicted and measured times on this machine, for thirty small models trained on its CPU, ten of them unseen.

    OMP_NUM_THREADS=1 python benchmarks/this_machine.py [--cpu-time]

Measures the device as `gpuwise bench --device cpu` does, predicts a training step of each model as `predict --on-this-machine`
does, then times real steps. Both sides are lower quartiles, because other programs can only add time. On a shared machine, use
--cpu-time to compare CPU time instead of wall-clock time on both sides. None of the models is part of the profile.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from small_models import MODELS, OF_TOKENS, UNSEEN
from torch import nn

from gpuwise.live.bench.price import price
from gpuwise.live.bench.run import measure
from gpuwise.questions.common.capturing import capture_query, captured

STEPS, WARM_UP = 25, 3


def measured_s(name: str, clock: Callable[[], float]) -> float:
    """The lower quartile of real training steps."""
    build, batch, shape = MODELS[name]
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randint(0, 5000, (batch, *shape)) if name in OF_TOKENS else torch.randn(batch, *shape)
    labels = torch.randint(0, 10, (batch,))
    times = []
    for step in range(WARM_UP + STEPS):
        begun = clock()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if step >= WARM_UP:
            times.append(clock() - begun)
    return quantiles(times, n=4)[0]


def predicted(name: str, profile: Any) -> Any:
    """What the profile predicts for a captured step."""
    _, batch, shape = MODELS[name]
    given = ["input=batch," + ",".join(map(str, shape)) + f":{'int64' if name in OF_TOKENS else 'fp32'}"]
    query = capture_query(
        model=f"{Path(__file__).with_name('small_models.py')}:{name}",
        batch=batch,
        precision="fp32",
        optimizer="adam",
        mode="train",
        inputs=_named(name, given),
    )
    return price(captured(query), profile)


def _named(name: str, given: list[str]) -> list[str]:
    """`nn.Sequential` calls its input `input`, and our classes call it `x`."""
    return [given[0].replace("input=", "x=", 1)] if name[0].isupper() else given


def main() -> None:
    """Measure, predict, time, print."""
    clock = time.process_time if "--cpu-time" in sys.argv else time.perf_counter
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        profile = measure("cpu", Path(folder), seconds=50.0, progress=lambda text, share: None, clock=clock)
    spent = time.perf_counter() - begun
    print(f"profile: {len(profile.rows)} rows in {spent:.0f} s, {profile.threads} thread(s), clock {clock.__name__}")
    errors = {}
    first = {name: measured_s(name, clock) for name in MODELS}  # twice, some time apart, like the profile
    for name in MODELS:
        found, real = predicted(name, profile), min(first[name], measured_s(name, clock))
        errors[name] = abs(found.seconds / real - 1.0)
        top = sorted(found.by_kind.items(), key=lambda pair: -pair[1])[:3]
        parts = ", ".join(f"{kind} {seconds / found.seconds:.0%}" for kind, seconds in top)
        print(
            f"{name:<12} predicted {found.seconds * 1e3:7.2f} ms, measured {real * 1e3:7.2f} ms, "
            f"{found.seconds / real:.2f}x; {parts}"
        )
    for group, names in (("looked at", MODELS.keys() - UNSEEN.keys()), ("unseen", UNSEEN.keys())):
        found = [errors[name] for name in names]
        near = sum(error <= 0.2 for error in found)
        print(f"{group}: median error {median(found):.0%}, worst {max(found):.0%}, {near} of {len(found)} within 20%")


if __name__ == "__main__":
    main()
