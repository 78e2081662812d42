"""Does the model of bucketed overlap predict DistributedDataParallel, measured here on two processes?

    .venv/bin/python benchmarks/gloo_ddp.py [rounds]

Two processes with one thread each average gradients with gloo over this machine's loopback. First the machine is calibrated, as
`bench` would do it. This measures the step of each model in one process while the other one is busy, all-reduces of several
sizes, and how much an ongoing all-reduce slows down a step. Then `scale/split/data_parallel.py` predicts the DDP step from the
captured graph, and the measured step is printed next to it. All measurements are interleaved in rounds and reported as medians,
because machines are noisy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROUNDS = 15
WARM_UP = 3
SIZES = [2**power for power in range(12, 27, 2)]
PROBE_BYTES = 2**24
LEARNING_RATE = 1e-4


def dense() -> Any:
    """Many parameters, little work: 42 MB of gradients."""
    from torch import nn

    width = 1800
    return nn.Sequential(
        nn.Linear(512, width), nn.ReLU(), *(layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU()))
    )


def convolutional() -> Any:
    """Few parameters, much work: 4 MB of gradients."""
    from torch import nn

    layers: list[Any] = []
    widths = (3, 32, 64, 128, 256, 256)
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, padding=1, stride=2 if after > 32 else 1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100))


def transformer() -> Any:
    """In between: 25 MB of gradients."""
    from torch import nn

    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 8, enable_nested_tensor=False), nn.Linear(256, 256))


# model -> the input of one process, in the format of `gpuwise capture --input`
MODELS = {"dense": "input=batch,512", "convolutional": "input=batch,3,64,64", "transformer": "input=batch,64,256"}
BATCHES = {"dense": 64, "convolutional": 16, "transformer": 8}


# ---------------------------------------------------------------- the two processes


def worker(path: str, rounds: int) -> None:
    """Measures everything in turn and writes it as JSON."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    steps = {name: (_step(name, shared=False), _step(name, shared=True)) for name in MODELS}
    buffers = {size: torch.zeros(size // 4) for size in SIZES}
    found: dict[str, list[float]] = {}

    def note(key: str, seconds: float) -> None:
        slowest = torch.tensor([seconds])
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        found.setdefault(key, []).append(float(slowest))

    for turn in range(rounds + WARM_UP):
        if turn == WARM_UP:
            found.clear()
        for size, buffer in buffers.items():
            note(f"all_reduce/{size}", _timed(lambda buffer=buffer: dist.all_reduce(buffer)))
        for name, (alone, shared) in steps.items():
            note(f"{name}/alone", _timed(alone))
            note(f"{name}/ddp", _timed(shared))
        note("probe/both", _timed(lambda: _while_sending(steps["transformer"][0])))
    if dist.get_rank() == 0:
        Path(path).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _step(name: str, *, shared: bool) -> Any:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = globals()[name]()
    model = DistributedDataParallel(model, gradient_as_bucket_view=True) if shared else model
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    shape = [int(part) for part in MODELS[name].split("=")[1].split(",")[1:]]
    data = torch.randn(BATCHES[name], *shape)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()

    return step


def _while_sending(step: Any) -> None:
    """A step during which messages are always in flight."""
    import torch
    import torch.distributed as dist

    waiting = dist.all_reduce(torch.zeros(PROBE_BYTES // 4), async_op=True)
    step()
    waiting.wait()


def _timed(what: Any) -> float:
    import torch.distributed as dist

    dist.barrier()
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


# ---------------------------------------------------------------- prediction


def predicted_s(name: str, alone_s: float, sizes: list[int], seconds: list[float], slowed: float) -> tuple[float, int, float]:
    """The DDP step, its number of buckets and the total time of its messages, from the captured graph and the calibration."""
    from gpuwise.hardware.catalog import load_catalog
    from gpuwise.hardware.machines import find_host
    from gpuwise.scale.split.data_parallel import gradients_of, overlapped, timeline_of
    from gpuwise.step.time.setting import default_stack
    from gpuwise.step.types import Setting
    from gpuwise.workload.capture.process import capture
    from gpuwise.workload.capture.request import Request, parse_input
    from gpuwise.workload.model.types import Settings

    request = Request(
        model=f"{Path(__file__).resolve()}:{name}",
        batch=BATCHES[name],
        inputs=(parse_input(MODELS[name]),),
        settings=Settings(mode="train", precision="fp32", optimizer="momentum"),
    )
    workload = capture(request)
    setting = Setting(stack=default_stack(), host=find_host("server"))
    line = timeline_of(workload, load_catalog().find("EPYC 9654").gpu, setting)
    gradients = gradients_of(workload)
    found = overlapped(
        line.call_end_s[gradients.call] * alone_s / line.step_s,
        gradients.size_bytes,
        line.backward_end_s * alone_s / line.step_s,
        lambda size: np.exp(np.interp(np.log(size), np.log(sizes), np.log(seconds))),
        slowed_fraction=slowed,
    )
    return alone_s + found.exposed_s, len(found.bucket_bytes), found.comm_s


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "measured.json")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", __file__]
        whole = [*command, "--worker", path, str(rounds)]
        subprocess.run(whole, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})  # noqa: S603
        measured = {key: median(values) for key, values in json.loads(Path(path).read_text(encoding="utf-8")).items()}
    seconds = [measured[f"all_reduce/{size}"] for size in SIZES]
    for size, taken in zip(SIZES, seconds, strict=True):
        print(f"all-reduce of {size / 2**20:9.3f} MiB  {taken * 1e3:8.2f} ms")
    probe = float(np.interp(PROBE_BYTES, SIZES, seconds))
    slowed = float(np.clip((measured["probe/both"] - measured["transformer/alone"]) / probe, 0.0, 1.0))
    print(f"a step is slowed down by {slowed:.0%} while messages are under way\n")
    print(f"{'model':14} {'alone':>9} {'buckets':>8} {'messages':>9} {'predicted':>10} {'measured':>9} {'off':>7}")
    for name in MODELS:
        alone, ddp = measured[f"{name}/alone"], measured[f"{name}/ddp"]
        guess, buckets, messages = predicted_s(name, alone, SIZES, seconds, slowed)
        times = f"{alone * 1e3:6.1f} ms {buckets:8} {messages * 1e3:6.1f} ms {guess * 1e3:7.1f} ms {ddp * 1e3:6.1f} ms"
        print(f"{name:14} {times} {guess / ddp - 1:+7.1%}")


if __name__ == "__main__":
    if "--worker" in sys.argv:
        worker(sys.argv[-2], int(sys.argv[-1]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
