"""Code shared by the Keras examples: samples from slow storage, and a small model. The computation uses one thread."""

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
    """Batches that take a while to read, as if they came from a network drive."""

    def __init__(self, wait_s: float = 0.0, **workers: Any) -> None:
        super().__init__(**workers)
        self.wait_s = wait_s

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, place: int) -> Any:
        time.sleep(self.wait_s) if self.wait_s else None
        return np.full((BATCH, FEATURES), place / STEPS, "float32"), np.zeros((BATCH, 1), "float32")


def perceptron(width: int, depth: int) -> Any:
    """A model with a few layers."""
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    return keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)])


def train(data: Any, model: Any, callbacks: Sequence[Any] = ()) -> None:
    """A typical Keras training run."""
    model.compile(optimizer="sgd", loss="mse")
    model.fit(data, epochs=1, verbose=0, callbacks=list(callbacks))
