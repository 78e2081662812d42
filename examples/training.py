"""Code shared by the PyTorch examples: samples from slow storage, a small model and a loop. The computation uses one thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

STEPS = int(os.environ.get("STEPS", "70"))
BATCH, FEATURES = 64, 256
torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    """Samples that take a while to read, as if they came from a network drive."""

    def __init__(self, wait_s: float = 0.0) -> None:
        self.wait_s = wait_s

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, place: int) -> torch.Tensor:
        time.sleep(self.wait_s) if self.wait_s else None
        return torch.full((FEATURES,), place / len(self))


def perceptron(width: int, depth: int) -> nn.Sequential:
    """A model with a few layers."""
    layers: list[nn.Module] = [nn.Linear(FEATURES, width)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers)


def train(batches: Iterable[Any], model: nn.Module, also: Callable[[torch.Tensor], object] | None = None) -> None:
    """A typical training loop."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        if also is not None:
            also(batch)
        optimizer.step()
