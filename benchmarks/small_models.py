"""The small models of `this_machine.py`. None of them is part of the profile that `gpuwise bench` measures."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

__all__ = ["MODELS", "OF_TOKENS"]


class LastOfLstm(nn.Module):
    """A recurrent classifier."""

    def __init__(self, width: int = 64, hidden: int = 128, layers: int = 1) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(width, hidden, layers, batch_first=True), nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


class Encoder(nn.Module):
    """A small transformer."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, layers), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean(1))


class WideEncoder(Encoder):
    """A wider one."""

    def __init__(self) -> None:
        super().__init__(128, 8, 2)


class DeepLstm(LastOfLstm):
    """Two layers of LSTM."""

    def __init__(self) -> None:
        super().__init__(32, 64, 2)


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def wide_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def deep_mlp() -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(12):
        layers += [nn.Linear(128, 128), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(128, 10))


def small_cnn() -> nn.Module:
    body = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(32 * 16 * 16, 10))


def norm_cnn() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def pool_cnn() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 10))


MODELS: dict[str, tuple[Callable[[], nn.Module], int, tuple[int, ...]]] = {
    "small_mlp": (small_mlp, 128, (784,)),
    "wide_mlp": (wide_mlp, 64, (256,)),
    "deep_mlp": (deep_mlp, 256, (128,)),
    "small_cnn": (small_cnn, 32, (3, 32, 32)),
    "norm_cnn": (norm_cnn, 16, (3, 32, 32)),
    "pool_cnn": (pool_cnn, 32, (3, 32, 32)),
    "LastOfLstm": (LastOfLstm, 32, (48, 64)),
    "DeepLstm": (DeepLstm, 16, (32, 32)),
    "Encoder": (Encoder, 16, (64, 64)),
    "WideEncoder": (WideEncoder, 8, (128, 128)),
}


class OfTokens(nn.Module):
    """Embeddings, a GRU and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.rnn, self.head = nn.Embedding(5000, 96), nn.GRU(96, 96, batch_first=True), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.table(x))[0][:, -1])


class Bottleneck(nn.Module):
    """Two residual blocks with group norms."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.first, self.second = (
            nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1))
            for _ in range(2)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = x + self.first(x)
        x = x + self.second(x)
        return self.head(x.mean((2, 3)))


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 96, 4, stride=4)
        layer = nn.TransformerEncoderLayer(96, 6, 192, dropout=0.0, batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.cut(x).flatten(2).transpose(1, 2)).mean(1))


class Mixer(nn.Module):
    """Products over tokens and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
        self.channels = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128))
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
        return self.head((x + self.channels(x)).mean(1))


def narrow_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))


def normed_mlp() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in ((512, 384), (384, 256)):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def separable_cnn() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1)]
    for _ in range(2):
        layers += [nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 32, 1), nn.BatchNorm2d(32), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def wide_kernel_cnn() -> nn.Module:
    body = [nn.Conv2d(1, 24, 7, stride=2, padding=3), nn.LeakyReLU(), nn.Conv2d(24, 48, 5, stride=2, padding=2), nn.LeakyReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(48 * 49, 10))


def series_cnn() -> nn.Module:
    body = [nn.Conv1d(8, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))


def squeezed() -> nn.Module:
    sizes = (784, 256, 64, 16, 64, 256)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


# Kept aside until the profile measured GRUs, short rows and further convolutions, which their errors suggested.
MODELS |= {
    "narrow_mlp": (narrow_mlp, 512, (64,)),
    "normed_mlp": (normed_mlp, 128, (512,)),
    "squeezed": (squeezed, 256, (784,)),
    "separable_cnn": (separable_cnn, 16, (3, 32, 32)),
    "wide_kernel_cnn": (wide_kernel_cnn, 64, (1, 28, 28)),
    "series_cnn": (series_cnn, 32, (8, 128)),
    "Bottleneck": (Bottleneck, 16, (3, 24, 24)),
    "Patches": (Patches, 16, (3, 32, 32)),
    "Mixer": (Mixer, 32, (64, 128)),
    "OfTokens": (OfTokens, 32, (40,)),
}


class Tagger(nn.Module):
    """A GRU in both directions over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.rnn = nn.Embedding(5000, 48), nn.GRU(48, 80, bidirectional=True, batch_first=True)
        self.head = nn.Linear(160, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.table(x))[0].mean(1))


class Inverted(nn.Module):
    """Inverted residuals, as in mobile networks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(24, 96, 1),
                nn.BatchNorm2d(96),
                nn.Hardswish(),
                nn.Conv2d(96, 96, 3, padding=1, groups=96),
                nn.BatchNorm2d(96),
                nn.Hardswish(),
                nn.Conv2d(96, 24, 1),
            )
            for _ in range(3)
        )
        self.head = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Words(nn.Module):
    """Convolutions of three widths over tokens, and the largest value of each."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(5000, 64), nn.Linear(144, 10)
        self.widths = nn.ModuleList(nn.Conv1d(64, 48, width) for width in (3, 4, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.table(x).transpose(1, 2)
        return self.head(torch.cat([torch.relu(layer(x)).amax(2) for layer in self.widths], 1))


class DownAndUp(nn.Module):
    """Down to half the size and up again, as in image-to-image networks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 48, 3, stride=2, padding=1)
        self.inner, self.up = nn.Conv2d(48, 48, 3, padding=1), nn.ConvTranspose2d(48, 16, 2, stride=2)
        self.last, self.head = nn.Conv2d(32, 16, 3, padding=1), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        y = torch.relu(self.up(torch.relu(self.inner(torch.relu(self.down(x))))))
        return self.head(torch.relu(self.last(torch.cat([x, y], 1))).mean((2, 3)))


class Causal(nn.Module):
    """A decoder over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.qkv, self.out = nn.Embedding(5000, 96), nn.Linear(96, 288), nn.Linear(96, 96)
        self.norms = nn.ModuleList(nn.LayerNorm(96) for _ in range(2))
        self.wide, self.narrow, self.head = nn.Linear(96, 384), nn.Linear(384, 96), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.table(x)
        q, k, v = (part.unflatten(2, (6, 16)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, 2))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        x = x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x)), approximate="tanh"))
        return self.head(x[:, -1])


class Blocks(nn.Module):
    """Wide windows for each channel alone, then products over channels with the channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.window = nn.Conv2d(3, 64, 4, stride=4), nn.Conv2d(64, 64, 7, padding=3, groups=64)
        self.norm, self.wide, self.narrow = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.norm(self.window(x).permute(0, 2, 3, 1))
        x = x + self.narrow(nn.functional.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return self.head(x.mean((2, 3)))


class Ratings(nn.Module):
    """A table of items, and a network over the sum of a user's items."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5000, 128)
        self.body = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 128), nn.ReLU())
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.table(x).mean(1)))


def coded_mlp() -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in pairwise((784, 192, 48, 192, 784)):
        layers += [nn.Linear(before, after), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Linear(784, 10))


def residual_free_cnn() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)]
    for before, after in ((24, 48), (48, 96)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.SiLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.1), nn.Linear(96 * 16, 10))


class Sensors(nn.Module):
    """Two plain recurrent layers over a series of measurements."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.RNN(24, 96, 2, batch_first=True), nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


# Kept aside until the profile measured memory that is fresh from the operating system.
MODELS |= {
    "coded_mlp": (coded_mlp, 128, (784,)),
    "residual_free_cnn": (residual_free_cnn, 16, (3, 32, 32)),
    "Inverted": (Inverted, 8, (3, 48, 48)),
    "DownAndUp": (DownAndUp, 8, (3, 32, 32)),
    "Blocks": (Blocks, 16, (3, 48, 48)),
    "Sensors": (Sensors, 32, (60, 24)),
    "Tagger": (Tagger, 24, (30,)),
    "Words": (Words, 32, (50,)),
    "Causal": (Causal, 16, (64,)),
    "Ratings": (Ratings, 256, (20,)),
}
OF_TOKENS = ("OfTokens", "Tagger", "Words", "Causal", "Ratings")
