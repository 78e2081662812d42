"""Compares predicted and measured times on this machine, for twenty small models trained on its CPU, ten of them unseen.

    OMP_NUM_THREADS=1 python benchmarks/this_machine.py [--cpu-time]

Measures the device as `gpuwise bench --device cpu` does, predicts a training step of each model as `predict --on-this-machine`
does, then times real steps. Both sides are lower quartiles, because other programs can only add time. On a shared machine, use
--cpu-time to compare CPU time instead of wall-clock time on both sides. None of the models is part of the profile.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import nn

from gpuwise.live.bench.price import price
from gpuwise.live.bench.run import measure
from gpuwise.questions.common.capturing import capture_query, captured

STEPS, WARM_UP = 25, 3


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


# Added after the last change to the profile, and never used while it was developed.
UNSEEN: dict[str, tuple[Callable[[], nn.Module], int, tuple[int, ...]]] = {
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
MODELS |= UNSEEN
OF_TOKENS = ("OfTokens",)


def measured_s(name: str, clock: Callable[[], float]) -> float:
    """The lower quartile of real training steps."""
    build, batch, shape = MODELS[name]
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randint(0, 5000, (batch, *shape)) if name in OF_TOKENS else torch.randn(batch, *shape)
    labels = torch.randint(0, 10, (batch,))
    times = []
    for step in range(WARM_UP + STEPS):
        begun = clock()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if step >= WARM_UP:
            times.append(clock() - begun)
    return quantiles(times, n=4)[0]


def predicted(name: str, profile: Any) -> Any:
    """What the profile predicts for a captured step."""
    _, batch, shape = MODELS[name]
    given = ["input=batch," + ",".join(map(str, shape)) + f":{'int64' if name in OF_TOKENS else 'fp32'}"]
    query = capture_query(
        model=f"{__file__}:{name}", batch=batch, precision="fp32", optimizer="adam", mode="train", inputs=_named(name, given)
    )
    return price(captured(query), profile)


def _named(name: str, given: list[str]) -> list[str]:
    """`nn.Sequential` calls its input `input`, and our classes call it `x`."""
    return [given[0].replace("input=", "x=", 1)] if name[0].isupper() else given


def main() -> None:
    """Measure, predict, time, print."""
    clock = time.process_time if "--cpu-time" in sys.argv else time.perf_counter
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        profile = measure("cpu", Path(folder), seconds=50.0, progress=lambda text, share: None, clock=clock)
    spent = time.perf_counter() - begun
    print(f"profile: {len(profile.rows)} rows in {spent:.0f} s, {profile.threads} thread(s), clock {clock.__name__}")
    errors = {}
    first = {name: measured_s(name, clock) for name in MODELS}  # twice, some time apart, like the profile
    for name in MODELS:
        found, real = predicted(name, profile), min(first[name], measured_s(name, clock))
        errors[name] = abs(found.seconds / real - 1.0)
        top = sorted(found.by_kind.items(), key=lambda pair: -pair[1])[:3]
        parts = ", ".join(f"{kind} {seconds / found.seconds:.0%}" for kind, seconds in top)
        print(
            f"{name:<12} predicted {found.seconds * 1e3:7.2f} ms, measured {real * 1e3:7.2f} ms, "
            f"{found.seconds / real:.2f}x; {parts}"
        )
    for group, names in (("looked at", MODELS.keys() - UNSEEN.keys()), ("unseen", UNSEEN.keys())):
        found = [errors[name] for name in names]
        near = sum(error <= 0.2 for error in found)
        print(f"{group}: median error {median(found):.0%}, worst {max(found):.0%}, {near} of {len(found)} within 20%")


if __name__ == "__main__":
    main()
