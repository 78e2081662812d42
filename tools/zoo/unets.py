"""U-Nets that work on pixels: two for segmentation and one for denoising."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, interpolate, mse_loss

from gpuwise.workload.capture.torch.step import Subject
from zoo.diffusion import Residual, waves
from zoo.model import Model, plain

__all__ = ["models"]


def _double(before: int, after: int, padded: bool) -> nn.Sequential:
    """Return two convolutions. Padded ones are normalised, as in most code since the paper."""
    layers: list[nn.Module] = []
    for width in (before, after):
        layers.append(nn.Conv2d(width, after, 3, padding=int(padded), bias=not padded))
        layers += [nn.BatchNorm2d(after), nn.ReLU(True)] if padded else [nn.ReLU(True)]
    return nn.Sequential(*layers)


class _Unet(nn.Module):
    """Four levels down and up with cropped shortcuts; convolutions without padding turn 572 pixels into 388."""

    def __init__(self, channels: int = 1, classes: int = 2, padded: bool = False) -> None:
        super().__init__()
        sizes = (64, 128, 256, 512, 1024)
        self.down = nn.ModuleList(_double(before, after, padded) for before, after in pairwise((channels, *sizes)))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(before, after, 2, 2) for before, after in pairwise(sizes[::-1]))
        self.up = nn.ModuleList(_double(before, after, padded) for before, after in pairwise(sizes[::-1]))
        self.pool, self.scores = nn.MaxPool2d(2), nn.Conv2d(64, classes, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for number, block in enumerate(self.down):
            x = block(self.pool(x) if number else x)
            kept.append(x)
        for widen, block, shortcut in zip(self.widen, self.up, kept[-2::-1], strict=True):
            x = widen(x)
            edge = (shortcut.shape[-1] - x.shape[-1]) // 2
            x = block(torch.cat((shortcut[:, :, edge : edge + x.shape[-1], edge : edge + x.shape[-1]], x), 1))
        return self.scores(x)


def _unet(channels: int, classes: int, size: int, drawn: int) -> Subject:
    """Return a U-Net that assigns a class to each of the `drawn` pixels in the middle."""

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        scores = model(batch[0])
        return cross_entropy(scores, batch[1]) if training else scores

    return Subject(
        build=lambda: _Unet(channels, classes, padded=drawn == size),
        inputs=lambda batch, seq: (
            torch.randn(batch, channels, size, size),
            torch.zeros(batch, drawn, drawn, dtype=torch.int64),
        ),
        forward=forward,
    )


# ---------------------------------------------------------------- diffusion of pixels


class _Heads(nn.Module):
    """Every pixel attends to all others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.heads = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        y = self.norm(x).flatten(2).transpose(1, 2)
        y, _ = self.heads(y, y, y, need_weights=False)
        return x + y.transpose(1, 2).unflatten(2, x.shape[-2:])


class _Pixels(nn.Module):
    """Four levels of two residual blocks down and up, with attention at 16 x 16 pixels and between the two."""

    def __init__(self, widths: tuple[int, ...] = (128, 256, 384, 512), attended: int = 2, time: int = 512) -> None:
        super().__init__()
        self.attended, last = attended, widths[-1]

        def pair(before: int, after: int) -> nn.ModuleList:
            return nn.ModuleList(Residual(width, after, time, groups=8, bias=False) for width in (before, after))

        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.into = nn.Conv2d(3, widths[0], 3, padding=1)
        self.down = nn.ModuleList(pair(before, after) for before, after in pairwise((widths[0], *widths)))
        self.narrow = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for width in widths[:-1])
        self.middle, self.between = pair(last, last), _Heads(last)
        self.up = nn.ModuleList(pair(before + after, after) for before, after in pairwise((last, *widths[::-1])))
        self.widen = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for width in widths[:0:-1])
        self.heads = nn.ModuleList(_Heads(widths[attended]) for _ in range(2))
        self.out = nn.Sequential(nn.GroupNorm(8, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 3, 3, padding=1))

    def forward(self, x: Any, step: Any) -> Any:
        time, kept, levels = self.time(waves(step, 128)), [], len(self.down)
        x = self.into(x)
        for level, (one, two) in enumerate(self.down):
            x = two(one(self.narrow[level - 1](x) if level else x, time), time)
            x = self.heads[0](x) if level == self.attended else x
            kept.append(x)
        x = self.middle[1](self.between(self.middle[0](x, time)), time)
        for number, (one, two) in enumerate(self.up):
            x = self.widen[number - 1](interpolate(x, scale_factor=2.0, mode="nearest")) if number else x
            x = two(one(torch.cat((x, kept.pop()), 1), time), time)
            x = self.heads[1](x) if levels - 1 - number == self.attended else x
        return self.out(x)


def _pixels(size: int) -> Subject:
    """Return a model of images with noise of random strength. In training, the noise is the target."""

    def inputs(batch: int, seq: int | None) -> Any:
        return torch.randn(batch, 3, size, size), torch.randn(batch, 3, size, size), torch.zeros(batch)

    def forward(model: nn.Module, batch: Sequence[Any], training: bool) -> Any:
        images, noise, step = batch
        kept = (1.0 - step / 1000.0)[:, None, None, None]
        found = model(kept.sqrt() * images + (1.0 - kept).sqrt() * noise, step)
        return mse_loss(found, noise) if training else found

    return Subject(build=_Pixels, inputs=inputs, forward=forward)


def models() -> list[Model]:
    """Return the U-Net with the paper's tile size and as in most code, and one that denoises small images."""
    return [
        Model(
            name="unet",
            title="U-Net",
            family="unet",
            source="arXiv:1505.04597",
            subject=plain(lambda: _unet(1, 2, 572, 388)),
            aliases=("u_net",),
            published=31_031_000,
            tolerance=0.001,
            batch=4,
            image=572,
        ),
        Model(
            name="unet_256",
            title="U-Net at 256 pixels, padded and batch-normalised",
            family="unet",
            source="arXiv:1505.04597; sizes as in xiaoran007/GPU-Insights benchmark/models/unet.py",
            subject=plain(lambda: _unet(3, 21, 256, 256)),
            aliases=("unet_31m",),
            published=31_000_000,
            tolerance=0.002,
            batch=16,
            image=256,
        ),
        Model(
            name="ddpm_64",
            title="DDPM U-Net at 64 pixels",
            family="diffusion",
            source="arXiv:2102.09672; sizes as in xiaoran007/GPU-Insights benchmark/models/ddpm.py",
            subject=plain(lambda: _pixels(64)),
            aliases=("ddpm", "ddpm_62m"),
            published=62_300_000,
            tolerance=0.002,
            optimizer="adam",
            batch=64,
            image=64,
        ),
    ]
