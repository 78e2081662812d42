"""Slow: the model processes a batch sixteen samples at a time."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from training import BATCH, Samples, perceptron, train


class Piecewise(nn.Module):
    """Processes the pieces of a batch one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = perceptron(64, 8)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.inner(piece) for piece in batch.split(16)])


if __name__ == "__main__":
    train(DataLoader(Samples(), batch_size=BATCH), Piecewise())
