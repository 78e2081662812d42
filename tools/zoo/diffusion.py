"""The U-Nets of Stable Diffusion, which work on latents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, interpolate, mse_loss, scaled_dot_product_attention, silu

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["SD15", "SDXL", "Denoiser", "Plan", "Residual", "Stage", "models", "waves"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What differs between the models: depth of the transformers at each level, heads, width of the text, extra conditions."""

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    middle: int
    heads: tuple[int, ...]
    text: int
    linear: bool
    added: int = 0


SD15 = Plan(widths=(320, 640, 1280, 1280), depths=(1, 1, 1, 0), middle=1, heads=(8, 8, 8, 8), text=768, linear=False)
_SD2 = Plan(widths=(320, 640, 1280, 1280), depths=(1, 1, 1, 0), middle=1, heads=(5, 10, 20, 20), text=1024, linear=True)
SDXL = Plan(widths=(320, 640, 1280), depths=(0, 2, 10), middle=10, heads=(5, 10, 20), text=2048, linear=True, added=2816)


class Residual(nn.Module):
    """Two normalised convolutions, with the time embedding added between them."""

    def __init__(self, before: int, after: int, time: int, groups: int = 32, bias: bool = True) -> None:
        super().__init__()
        self.norm_one, self.one = nn.GroupNorm(groups, before), nn.Conv2d(before, after, 3, padding=1, bias=bias)
        self.time = nn.Linear(time, after)
        self.norm_two, self.two = nn.GroupNorm(groups, after), nn.Conv2d(after, after, 3, padding=1, bias=bias)
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        y = self.one(silu(self.norm_one(x))) + self.time(silu(time))[:, :, None, None]
        return self.shortcut(x) + self.two(silu(self.norm_two(y)))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, other: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(other, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, other: Any) -> Any:
        q, k, v = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, y in ((self.query, x), (self.key, other), (self.value, other))
        )
        return self.out(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _Block(nn.Module):
    """Attention within the image, attention to the text, a gated dense layer."""

    def __init__(self, width: int, heads: int, text: int) -> None:
        super().__init__()
        self.own, self.cross = _Attention(width, heads, width), _Attention(width, heads, text)
        self.gate, self.out = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Any, text: Any) -> Any:
        y = self.norms[0](x)
        x = x + self.own(y, y)
        x = x + self.cross(self.norms[1](x), text)
        value, gate = self.gate(self.norms[2](x)).chunk(2, -1)
        return x + self.out(value * gelu(gate))


class _Spatial(nn.Module):
    """Transformer blocks on the pixels of a feature map."""

    def __init__(self, width: int, heads: int, depth: int, plan: Plan) -> None:
        super().__init__()
        self.norm, self.linear = nn.GroupNorm(32, width), plan.linear
        self.into, self.out = (nn.Linear(width, width) if plan.linear else nn.Conv2d(width, width, 1) for _ in range(2))
        self.blocks = nn.ModuleList(_Block(width, heads, plan.text) for _ in range(depth))

    def forward(self, x: Any, text: Any) -> Any:
        size = x.shape[-2:]
        y = self.norm(x) if self.linear else self.into(self.norm(x))
        y = y.flatten(2).transpose(1, 2)
        y = self.into(y) if self.linear else y
        for block in self.blocks:
            y = block(y, text)
        y = self.out(y) if self.linear else y
        y = y.transpose(1, 2).unflatten(2, size)
        return x + (y if self.linear else self.out(y))


class Stage(nn.Module):
    """One residual block and, where the level has them, transformer blocks."""

    def __init__(self, before: int, after: int, heads: int, depth: int, plan: Plan) -> None:
        super().__init__()
        self.residual = Residual(before, after, 4 * plan.widths[0])
        self.attention = _Spatial(after, heads, depth, plan) if depth else None

    def forward(self, x: Any, time: Any, text: Any) -> Any:
        x = self.residual(x, time)
        return x if self.attention is None else self.attention(x, text)


class Denoiser(nn.Module):
    """Two stages per level on the way down, a middle, and three on the way up, with shortcuts from every map on the way down."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        first, time = plan.widths[0], 4 * plan.widths[0]
        self.first = first
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time))
        self.added = nn.Sequential(nn.Linear(plan.added, time), nn.SiLU(), nn.Linear(time, time)) if plan.added else None
        self.into = nn.Conv2d(4, first, 3, padding=1)
        shortcuts = [first]
        self.down, before = nn.ModuleList(), first
        for level, (width, depth, heads) in enumerate(zip(plan.widths, plan.depths, plan.heads, strict=True)):
            for _ in range(2):
                self.down.append(Stage(before, width, heads, depth, plan))
                shortcuts.append(width)
                before = width
            if level < len(plan.widths) - 1:
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                shortcuts.append(width)
        self.shortcuts = tuple(shortcuts)
        self.middle = Stage(before, before, plan.heads[-1], plan.middle, plan)
        self.middle_end = Residual(before, before, time)
        self.up = nn.ModuleList()
        levels = list(zip(plan.widths, plan.depths, plan.heads, strict=True))
        for level, (width, depth, heads) in reversed(list(enumerate(levels))):
            for _ in range(3):
                self.up.append(Stage(before + shortcuts.pop(), width, heads, depth, plan))
                before = width
            if level:
                self.up.append(nn.Conv2d(width, width, 3, padding=1))
        self.norm, self.out = nn.GroupNorm(32, first), nn.Conv2d(first, 4, 3, padding=1)

    def forward(self, x: Any, step: Any, text: Any, added: Any) -> Any:
        time = self.time(waves(step.to(x.dtype), self.first))
        time = time if self.added is None else time + self.added(added)
        x = self.into(x)
        kept = [x]
        for block in self.down:
            x = block(x, time, text) if isinstance(block, Stage) else block(x)
            kept.append(x)
        x = self.middle_end(self.middle(x, time, text), time)
        for block in self.up:
            if isinstance(block, Stage):
                x = block(torch.cat((x, kept.pop()), 1), time, text)
            else:
                x = block(interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.out(silu(self.norm(x)))


def waves(step: Any, width: int) -> Any:
    """Return sines and cosines of the time step."""
    rates = torch.exp(torch.arange(width // 2, dtype=step.dtype) * (-9.21 / (width // 2)))
    angles = step[:, None] * rates[None]
    return torch.cat((angles.cos(), angles.sin()), -1)


def _denoiser(plan: Plan, size: int) -> Subject:
    """Return the U-Net alone, on latents of size x size. In training, the noise is the target."""

    def inputs(batch: int, seq: int | None) -> Any:
        added = torch.randn(batch, plan.added) if plan.added else None
        latents, text = torch.randn(batch, 4, size, size), torch.randn(batch, 77, plan.text)
        return latents, torch.zeros(batch, dtype=torch.int64), text, added, torch.randn(batch, 4, size, size)

    def forward(model: nn.Module, batch: Sequence[Any], training: bool) -> Any:
        noise = model(*batch[:4])
        return mse_loss(noise, batch[4]) if training else noise

    return Subject(build=lambda: Denoiser(plan), inputs=inputs, forward=forward)


def models() -> list[Model]:
    """Return the models at the latents of 256, 512 and 1024 pixels."""
    return [
        Model(
            name="sd15_unet",
            title="Stable Diffusion 1.5 U-Net",
            family="diffusion",
            source="arXiv:2112.10752; sizes of the released v1.5 configuration",
            subject=plain(lambda: _denoiser(SD15, 64)),
            aliases=(
                "stable_diffusion",
                "sd1.5",
                "sd_v1_5",
                "sd15",
                "stable_diffusion_v1_5",
                "stable_diffusion_1.5",
                "stable_diffusion_v1_4",
            ),
            published=859_520_964,
            optimizer="adamw",
            batch=4,
            image=512,
        ),
        Model(
            name="sd15_unet_1024",
            title="Stable Diffusion 1.5 U-Net at 1024 pixels",
            family="diffusion",
            source="arXiv:2112.10752; sizes of the released v1.5 configuration",
            subject=plain(lambda: _denoiser(SD15, 128)),
            published=859_520_964,
            optimizer="adamw",
            batch=1,
            image=1024,
            modes=("infer",),
        ),
        Model(
            name="sdxl_unet",
            title="SDXL U-Net",
            family="diffusion",
            source="arXiv:2307.01952; sizes of the released base 1.0 configuration",
            subject=plain(lambda: _denoiser(SDXL, 128)),
            aliases=("sdxl", "stable_diffusion_xl", "stable_diffusion_xl_base_1.0", "sdxl_base"),
            published=2_567_463_684,
            optimizer="adamw",
            batch=1,
            image=1024,
        ),
        Model(
            name="sdxl_unet_512",
            title="SDXL U-Net at 512 pixels",
            family="diffusion",
            source="arXiv:2307.01952; sizes of the released base 1.0 configuration",
            subject=plain(lambda: _denoiser(SDXL, 64)),
            aliases=("sdxl_512",),
            published=2_567_463_684,
            optimizer="adamw",
            batch=1,
            image=512,
        ),
        Model(
            name="sd2_unet",
            title="Stable Diffusion 2 base U-Net",
            family="diffusion",
            source="arXiv:2112.10752; sizes of the released v2 base configuration",
            subject=plain(lambda: _denoiser(_SD2, 64)),
            aliases=(
                "sd2",
                "stable_diffusion_2",
                "stable_diffusion_2_base_unet",
                "stable_diffusion_2_base",
                "stable_diffusion_2_1",
                "stable_diffusion_2_1_base",
                "sd2.1",
            ),
            published=865_910_724,
            optimizer="adamw",
            batch=4,
            image=512,
        ),
        Model(
            name="sd2_unet_256",
            title="Stable Diffusion 2 base U-Net at 256 pixels",
            family="diffusion",
            source="arXiv:2112.10752; sizes of the released v2 base configuration",
            subject=plain(lambda: _denoiser(_SD2, 32)),
            aliases=("sd2_256",),
            published=865_910_724,
            optimizer="adamw",
            batch=4,
            image=256,
        ),
    ]
