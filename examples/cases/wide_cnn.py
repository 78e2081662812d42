"""The network for "Why does a faster GPU give slower CNN training?": three convolutions of 7 by 7 with 512 channels each."""

from __future__ import annotations

import torch
from torch import nn


class Net(nn.Module):
    """3 to 512 to 512 to 512 channels, then ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 512, kernel_size=7, padding=3),
            nn.ReLU(),
            nn.Conv2d(512, 512, kernel_size=7, padding=3),
            nn.ReLU(),
            nn.Conv2d(512, 512, kernel_size=7, padding=3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)
