"""Slow: a statistic is added up value by value, and each value is read from the tensor separately."""

import torch
from torch.utils.data import DataLoader

from training import BATCH, Samples, perceptron, train

if __name__ == "__main__":
    model = perceptron(512, 4)

    def count(batch: torch.Tensor) -> float:
        with torch.no_grad():
            return sum(value.item() for value in model[0](batch[:8]).flatten())

    train(DataLoader(Samples(), batch_size=BATCH), model, count)
