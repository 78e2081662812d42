"""Training loops that are slow for a known reason, each with a healthy twin. `record_pathologies.py` runs them."""

from __future__ import annotations

import gc
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["CASES", "Case"]

Step = Callable[[Any], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A fault, with functions that build the loop with and without it, and the finding that names it."""

    name: str
    expected: tuple[str, ...]
    build: Callable[[bool], tuple[Iterable[Any], Step]]
    ranks: int = 1
    steps: int = 9  # recorded
    uneven: bool = False
    where: str = ""


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    """Samples that are slow to read, as from a slow disk."""

    def __init__(self, wait_s: float, *, every: int = 1, size: int = 256) -> None:
        self._wait_s, self._every, self._size = wait_s, every, size

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, place: int) -> torch.Tensor:
        if self._wait_s and place % self._every == 0:
            time.sleep(self._wait_s)
        return torch.ones(self._size)


def loader(dataset: Samples, batch: int, workers: int) -> Iterable[Any]:
    """A loader as people write it."""
    more: dict[str, Any] = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
    return torch.utils.data.DataLoader(dataset, batch_size=batch, num_workers=workers, **more)


def same(value: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same batch forever."""
    while True:
        yield value


def perceptron(width: int = 512, depth: int = 4, first: int = 256) -> nn.Sequential:
    """Layers wide enough for each op to take some time."""
    layers: list[nn.Module] = [nn.Linear(first, width)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers)


def training(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Step:
    """Forward, backward, update."""
    update = optimizer or torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step(batch: torch.Tensor) -> object:
        update.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        update.step()
        return loss

    return step


def slow_loader(sick: bool) -> tuple[Iterable[Any], Step]:
    return loader(Samples(0.0006 if sick else 0.0), 64, 0), training(perceptron())


def zero_workers(sick: bool) -> tuple[Iterable[Any], Step]:
    return loader(Samples(0.0004), 64, 0 if sick else 4), training(perceptron())


def one_worker(sick: bool) -> tuple[Iterable[Any], Step]:
    return loader(Samples(0.0012), 64, 1 if sick else 6), training(perceptron())


def bursts(sick: bool) -> tuple[Iterable[Any], Step]:
    return loader(Samples(0.12 if sick else 0.0, every=192), 64, 0), training(perceptron())


def item_in_the_loop(sick: bool) -> tuple[Iterable[Any], Step]:
    model = perceptron()
    step = training(model)

    def counted(batch: torch.Tensor) -> object:
        step(batch)
        with torch.no_grad():
            scores = model[0](batch[:32]).flatten()[:4000]
        return sum(value.item() for value in scores) if sick else float(scores.sum())

    return same(torch.ones(128, 256)), counted


def sample_by_sample(sick: bool) -> tuple[Iterable[Any], Step]:
    model = perceptron(width=64, depth=8)
    update = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step(batch: torch.Tensor) -> object:
        update.zero_grad()
        pieces = batch.split(8) if sick else (batch,)
        loss = torch.stack([model(piece).square().mean() for piece in pieces]).mean()
        loss.backward()
        update.step()
        return loss

    return same(torch.ones(64, 256)), step


def many_small_layers(sick: bool) -> tuple[Iterable[Any], Step]:
    depth = 150
    scales = [nn.Parameter(torch.ones(32)) for _ in range(depth)]

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scales = nn.ParameterList(scales)
            self.last = nn.Linear(32, 32)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            if sick:
                for scale in self.scales:
                    batch = batch * scale + 0.001
                return self.last(batch)
            return self.last(batch * torch.stack(list(self.scales)).prod(0))

    return same(torch.ones(32, 32)), training(Scaled())


def optimizer_by_parameter(sick: bool) -> tuple[Iterable[Any], Step]:
    model = nn.Sequential(*(nn.Linear(48, 48) for _ in range(60)))
    update = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False, fused=not sick)
    return same(torch.ones(64, 48)), training(model, update)


def layout_flips(sick: bool) -> tuple[Iterable[Any], Step]:
    convolution = nn.Conv2d(32, 32, 1)

    class Flipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = convolution

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            for _ in range(4):
                batch = self.layer(batch)
                for _ in range(3 if sick else 0):
                    batch = batch.contiguous(memory_format=torch.channels_last).contiguous(memory_format=torch.contiguous_format)
            return batch

    return same(torch.ones(16, 32, 64, 64)), training(Flipping())


def unfused_chain(sick: bool) -> tuple[Iterable[Any], Step]:
    model = nn.Linear(256, 1024)

    def gelu(value: torch.Tensor) -> torch.Tensor:
        return 0.5 * value * (1.0 + torch.tanh(0.79788456 * (value + 0.044715 * value * value * value)))

    def step(batch: torch.Tensor) -> object:
        model.zero_grad()
        hidden = model(batch)
        for _ in range(4):
            hidden = gelu(hidden) if sick else nn.functional.gelu(hidden, approximate="tanh")
        hidden.mean().backward()
        return None

    return same(torch.ones(512, 256)), step


def slow_rank(sick: bool) -> tuple[Iterable[Any], Step]:
    step = _parallel(perceptron(width=256, depth=2))
    late = sick and torch.distributed.get_rank() == 1

    def uneven(batch: torch.Tensor) -> object:
        if late:
            time.sleep(0.03)
        return step(batch)

    return same(torch.ones(64, 256)), uneven


def heavy_gradients(sick: bool) -> tuple[Iterable[Any], Step]:
    model = nn.parallel.DistributedDataParallel(perceptron(width=1024, depth=3))
    update = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step(batch: torch.Tensor) -> object:
        update.zero_grad()
        for place in range(4):
            with nullcontext() if sick or place == 3 else model.no_sync():
                model(batch).square().mean().backward()
        update.step()
        return None

    return same(torch.ones(32, 256)), step


def recompiling(sick: bool) -> tuple[Iterable[Any], Step]:
    model = torch.compile(perceptron(width=1024, depth=6), backend="eager")
    step = training(model)

    def compiled(batch: torch.Tensor) -> object:
        if sick:
            torch.compiler.reset()
        return step(batch)

    return same(torch.ones(512, 256)), compiled


def logging_every_step(sick: bool) -> tuple[Iterable[Any], Step]:
    model = perceptron()
    step = training(model)

    def log_weights() -> int:
        return len(json.dumps([parameter.detach().numpy().ravel()[:40_000].tolist() for parameter in model.parameters()]))

    def logged(batch: torch.Tensor) -> object:
        step(batch)
        return log_weights() if sick else None

    return same(torch.ones(128, 256)), logged


def cpu_tensor_ops(sick: bool) -> tuple[Iterable[Any], Step]:
    step = training(perceptron())

    def noisy(batch: torch.Tensor) -> object:
        noise = torch.ones(100, 128, 256)
        for _ in range(6 if sick else 1):
            noise = noise * 1.01 + 0.1
        return step(batch + noise[0])

    return same(torch.ones(128, 256)), noisy


def images_in_the_loop(sick: bool) -> tuple[Iterable[Any], Step]:
    step = training(perceptron())
    image = np.random.default_rng(0).random((64, 256, 64))

    def preprocess() -> torch.Tensor:
        scaled = np.sort(np.sqrt(image), axis=2)[:, :, :4].mean(axis=2)
        return torch.from_numpy(np.concatenate([scaled, scaled]).astype(np.float32))

    ready = preprocess()

    def prepared(batch: torch.Tensor) -> object:
        return step(preprocess() if sick else ready)

    return same(torch.ones(1)), prepared


def saving_checkpoints(sick: bool) -> tuple[Iterable[Any], Step]:
    model = perceptron(width=1024)
    step = training(model)

    def save_checkpoint() -> int:
        torch.save(model.state_dict(), target := io.BytesIO())
        return target.tell()

    def saved(batch: torch.Tensor) -> object:
        step(batch)
        return save_checkpoint() if sick else None

    return same(torch.ones(64, 256)), saved


def collecting_garbage(sick: bool) -> tuple[Iterable[Any], Step]:
    step = training(perceptron())
    kept = [{"number": number} for number in range(100_000)]

    def clean_up() -> int:
        return gc.collect() + len(kept)

    def cleaned(batch: torch.Tensor) -> object:
        step(batch)
        return clean_up() if sick else None

    return same(torch.ones(128, 256)), cleaned


def healthy(sick: bool) -> tuple[Iterable[Any], Step]:
    return same(torch.ones(512, 256)), training(perceptron(width=1024))


def _parallel(model: nn.Module) -> Step:
    wrapped = nn.parallel.DistributedDataParallel(model)
    return training(wrapped)


CASES = (
    Case(name="slow_loader", expected=("input_starved", "single_process_loader"), build=slow_loader),
    Case(name="zero_workers", expected=("single_process_loader", "input_starved"), build=zero_workers),
    Case(name="one_worker", expected=("input_starved",), build=one_worker),
    Case(name="bursts", expected=("input_starved", "single_process_loader"), build=bursts, uneven=True),
    Case(name="item_in_the_loop", expected=("host_sync",), build=item_in_the_loop),
    Case(name="sample_by_sample", expected=("launch_bound",), build=sample_by_sample),
    Case(name="many_small_layers", expected=("launch_bound",), build=many_small_layers),
    Case(name="optimizer_by_parameter", expected=("unfused_optimizer",), build=optimizer_by_parameter),
    Case(name="layout_flips", expected=("layout_transposes",), build=layout_flips),
    Case(name="unfused_chain", expected=("bandwidth_bound",), build=unfused_chain),
    Case(name="slow_rank", expected=("straggler",), build=slow_rank, ranks=2),
    Case(name="heavy_gradients", expected=("exposed_comm",), build=heavy_gradients, ranks=2),
    Case(name="recompiling", expected=("compiling",), build=recompiling, steps=5),  # each step writes 40 MB of stacks
    Case(name="logging_every_step", expected=("host_work",), build=logging_every_step, where="log_weights"),
    Case(name="cpu_tensor_ops", expected=("bandwidth_bound",), build=cpu_tensor_ops),
    Case(name="images_in_the_loop", expected=("host_work",), build=images_in_the_loop, where="preprocess"),
    Case(name="saving_checkpoints", expected=("host_work",), build=saving_checkpoints, where="save_checkpoint"),
    Case(name="collecting_garbage", expected=("host_work",), build=collecting_garbage, where="clean_up"),
    Case(name="healthy", expected=(), build=healthy),
)
