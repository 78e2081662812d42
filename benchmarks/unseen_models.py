"""Small models that nobody looked at while the profile of `gpuwise bench` was developed; `this_machine.py` scores them too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

__all__ = ["OF_TOKENS", "UNSEEN"]


def _normed(before: int, after: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)]


def staged_cnn() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in pairwise((3, 20, 40, 80)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(80 * 9, 128), nn.ReLU(), nn.Linear(128, 10))


def tabular_mlp() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in pairwise((40, 300, 300, 100)):
        layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.ELU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(100, 10))


class Speech(nn.Module):
    """An LSTM in both directions over frames of sound."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.rnn = nn.Linear(40, 64), nn.LSTM(64, 72, bidirectional=True, batch_first=True)
        self.head = nn.Linear(144, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(torch.relu(self.cut(x)))[0].mean(1))


class Sentences(nn.Module):
    """A transformer encoder over tokens with learned positions and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(5000, 80), nn.Parameter(torch.zeros(48, 80))
        layer = nn.TransformerEncoderLayer(80, 5, 240, dropout=0.1, activation="gelu", batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(80, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.table(x) + self.places)[:, 0])


class UNet(nn.Module):
    """Two levels down, two up, with skips, as in segmentation."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (self._twice(before, after) for before, after in ((1, 12), (12, 24), (24, 48)))
        self.up_two, self.up_one = nn.ConvTranspose2d(48, 24, 2, stride=2), nn.ConvTranspose2d(24, 12, 2, stride=2)
        self.back_two, self.back_one = self._twice(48, 24), self._twice(24, 12)
        self.head = nn.Linear(12, 10)

    @staticmethod
    def _twice(before: int, after: int) -> nn.Module:
        return nn.Sequential(*_normed(before, after), nn.ReLU(), *_normed(after, after), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pool = nn.functional.max_pool2d
        one = self.one(x)
        two = self.two(pool(one, 2))
        x = self.back_two(torch.cat([self.up_two(self.three(pool(two, 2))), two], 1))
        x = self.back_one(torch.cat([self.up_one(x), one], 1))
        return self.head(x.mean((2, 3)))


class Mobile(nn.Module):
    """Depthwise convolutions with strides, and channels weighted by a small network of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_normed(3, 16, 2), nn.Hardswish())
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(before, before, 5, stride=2, padding=2, groups=before, bias=False),
                nn.BatchNorm2d(before),
                nn.Hardswish(),
                nn.Conv2d(before, after, 1, bias=False),
                nn.BatchNorm2d(after),
            )
            for before, after in ((16, 40), (40, 80))
        )
        self.weigh = nn.Sequential(nn.Linear(80, 20), nn.ReLU(), nn.Linear(20, 80), nn.Hardsigmoid())
        self.head = nn.Linear(80, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head((x * self.weigh(x.mean((2, 3)))[:, :, None, None]).mean((2, 3)))


class Towers(nn.Module):
    """Two tables of embeddings, and the products of what they hold for a user's and for an item's features."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(5000, 48), nn.Embedding(5000, 48)
        self.left, self.right = (nn.Sequential(nn.Linear(384, 96), nn.ReLU(), nn.Linear(96, 64)) for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        users, items = self.users(x[:, :8]).flatten(1), self.items(x[:, 8:]).flatten(1)
        return self.head(self.left(users) * self.right(items))


class Autoencoder(nn.Module):
    """Images to a short code and back."""

    def __init__(self) -> None:
        super().__init__()
        down = [nn.Conv2d(3, 24, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 4, stride=2, padding=1), nn.ReLU()]
        up = [nn.ConvTranspose2d(48, 24, 4, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(24, 3, 4, stride=2, padding=1)]
        self.down, self.up = nn.Sequential(*down), nn.Sequential(*up, nn.Sigmoid())
        self.code, self.back = nn.Linear(48 * 64, 32), nn.Linear(32, 48 * 64)
        self.head = nn.Linear(3, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.back(self.code(self.down(x).flatten(1))).unflatten(1, (48, 8, 8))
        return self.head(self.up(x).mean((2, 3)))


class Generator(nn.Module):
    """Random numbers to images, and the judge of these images, as in an adversarial pair."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(64, 64 * 49)
        self.draw = nn.Sequential(
            nn.BatchNorm2d(64),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )
        judge = [nn.Conv2d(1, 32, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, stride=2, padding=1)]
        self.judge = nn.Sequential(*judge, nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(64 * 49, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.judge(self.draw(self.start(x).unflatten(1, (64, 7, 7))))


class Graph(nn.Module):
    """Messages between the neighbours of a graph with fixed weights, and a network for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("near", torch.softmax(torch.randn(100, 100), 1))
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in ((32, 64), (64, 64), (64, 32)))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(self.near @ x))
        return self.head(x.amax(1))


class Waves(nn.Module):
    """Dilated convolutions over a series, each with a gate, and the sum of all."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(4, 32, 1)
        self.gated = nn.ModuleList(nn.Conv1d(32, 64, 3, padding=wide, dilation=wide) for wide in (1, 2, 4, 8))
        self.mixed = nn.ModuleList(nn.Conv1d(32, 32, 1) for _ in range(4))
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for gated, mixed in zip(self.gated, self.mixed, strict=True):
            value, gate = gated(x).chunk(2, 1)
            x = x + mixed(torch.tanh(value) * torch.sigmoid(gate))
        return self.head(x.mean(2))


class Residual(nn.Module):
    """Residual blocks, of which the second halves the image, as in the usual image classifiers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_normed(3, 24), nn.ReLU())
        self.first = nn.Sequential(*_normed(24, 24), nn.ReLU(), *_normed(24, 24))
        self.second = nn.Sequential(*_normed(24, 48, 2), nn.ReLU(), *_normed(48, 48))
        self.short, self.head = nn.Conv2d(24, 48, 1, stride=2, bias=False), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = torch.relu(x + self.first(x))
        x = torch.relu(self.short(x) + self.second(x))
        return self.head(x.mean((2, 3)))


UNSEEN: dict[str, tuple[Callable[[], nn.Module], int, tuple[int, ...]]] = {
    "staged_cnn": (staged_cnn, 24, (3, 24, 24)),
    "tabular_mlp": (tabular_mlp, 200, (40,)),
    "Speech": (Speech, 20, (50, 40)),
    "Sentences": (Sentences, 12, (48,)),
    "UNet": (UNet, 6, (1, 48, 48)),
    "Mobile": (Mobile, 12, (3, 64, 64)),
    "Towers": (Towers, 192, (16,)),
    "Autoencoder": (Autoencoder, 24, (3, 32, 32)),
    "Generator": (Generator, 20, (64,)),
    "Graph": (Graph, 16, (100, 32)),
    "Waves": (Waves, 12, (4, 256)),
    "Residual": (Residual, 16, (3, 32, 32)),
}
OF_TOKENS = ("Sentences", "Towers")
