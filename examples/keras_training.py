"""What the Keras examples share: samples from slow storage, a small model. One thread computes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch

STEPS = int(os.environ.get("STEPS", "50"))
BATCH, FEATURES = 64, 256
torch.set_num_threads(1)


class Samples(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches that take a while to read, as from a disk on the network."""

    def __init__(self, wait_s: float = 0.0, **workers: Any) -> None:
        super().__init__(**workers)
        self.wait_s = wait_s

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, place: int) -> Any:
        time.sleep(self.wait_s) if self.wait_s else None
        return np.full((BATCH, FEATURES), place / STEPS, "float32"), np.zeros((BATCH, 1), "float32")


def perceptron(width: int, depth: int) -> Any:
    """A model of a few layers."""
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    return keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])


def train(data: Any, model: Any, callbacks: Sequence[Any] = ()) -> None:
    """A training as people write it."""
    model.compile(optimizer="sgd", loss="mse")
    model.fit(data, epochs=1, verbose=0, callbacks=list(callbacks))
