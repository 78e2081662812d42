"""The network for "Why does a 2070 Max-Q train slower than a GTX 960M?": two small convolutions on digits of 28 by 28 pixels."""

from __future__ import annotations

import torch
from torch import nn


class Net(nn.Module):
    """1 to 16 to 32 channels, then ten classes: 29,000 parameters in total."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)
