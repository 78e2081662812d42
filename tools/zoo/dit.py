"""Diffusion transformers: Stable Diffusion 3 and 3.5, and Flux. Their sequence is the image in patches of 16 x 16 pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, rms_norm, scaled_dot_product_attention, silu

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["models"]

_PATCH = 64  # 2 x 2 latents of 16 channels
_TIME = 256
_TOKENS = 4096  # of an image of 1024 pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The sizes of a transformer. `joined` blocks keep image and text separate except in attention. `single` blocks do not."""

    width: int
    heads: int
    joined: int
    single: int = 0
    text: int = 4096
    tokens: int
    pooled: int
    normed: bool
    guided: bool = False
    rotates: bool = False
    ends_early: bool = False


_SD3 = _Plan(width=1536, heads=24, joined=24, tokens=333, pooled=2048, normed=False, ends_early=True)
_SD35_LARGE = _Plan(width=2432, heads=38, joined=38, tokens=333, pooled=2048, normed=True, ends_early=True)
_FLUX = _Plan(width=3072, heads=24, joined=19, single=38, tokens=512, pooled=768, normed=True, guided=True, rotates=True)


def _two(before: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(before, width), nn.SiLU(), nn.Linear(width, width))


def _shifted(x: Any, shift: Any, scale: Any) -> Any:
    return layer_norm(x, x.shape[-1:]) * (1 + scale) + shift


def _turned(x: Any, angles: Any) -> Any:
    """Rotate by the position of each token."""
    cos, sin = angles
    pairs = x.unflatten(-1, (-1, 2))
    return x * cos + torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2) * sin


class _Stream(nn.Module):
    """The part of a joined block that processes either the image or the text."""

    def __init__(self, plan: _Plan, last: bool = False) -> None:
        super().__init__()
        width, self.last = plan.width, last
        self.change = nn.Linear(width, (2 if last else 6) * width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        size = width // plan.heads
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(size)) for _ in range(2 if plan.normed else 0))
        self.heads = plan.heads
        if not last:
            self.out, self.wide, self.narrow = nn.Linear(width, width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def before(self, x: Any, vector: Any) -> Any:
        """Queries, keys, values, and what is needed after attention."""
        parts = self.change(silu(vector))[:, None].chunk(2 if self.last else 6, -1)
        y = _shifted(x, parts[0], parts[1])
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        if len(self.norms):
            q, k = (rms_norm(one, one.shape[-1:], scale) for one, scale in zip((q, k), self.norms, strict=True))
        return q, k, v, parts[2:]

    def after(self, x: Any, attended: Any, parts: Any) -> Any:
        gate, shift, scale, last = parts
        x = x + gate * self.out(attended)
        return x + last * self.narrow(gelu(self.wide(_shifted(x, shift, scale)), approximate="tanh"))


class _Joined(nn.Module):
    def __init__(self, plan: _Plan, last: bool) -> None:
        super().__init__()
        self.image, self.text, self.last = _Stream(plan), _Stream(plan, last), last

    def forward(self, image: Any, text: Any, vector: Any, angles: Any) -> Any:
        q, k, v, kept = self.text.before(text, vector)
        more_q, more_k, more_v, more_kept = self.image.before(image, vector)
        q, k, v = (torch.cat(pair, 2) for pair in ((q, more_q), (k, more_k), (v, more_v)))
        if angles is not None:
            q, k = _turned(q, angles), _turned(k, angles)
        found = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        length = text.shape[1]
        image = self.image.after(image, found[:, length:], more_kept)
        return image, text if self.last else self.text.after(text, found[:, :length], kept)


class _Single(nn.Module):
    """Attention and a dense layer side by side, on text and image as one sequence."""

    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        width, self.heads = plan.width, plan.heads
        self.change, self.into = nn.Linear(width, 3 * width), nn.Linear(width, 7 * width)
        self.out = nn.Linear(5 * width, width)
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(width // plan.heads)) for _ in range(2))

    def forward(self, x: Any, vector: Any, angles: Any) -> Any:
        shift, scale, gate = self.change(silu(vector))[:, None].chunk(3, -1)
        width = x.shape[-1]
        *parts, wide = self.into(_shifted(x, shift, scale)).split((width, width, width, 4 * width), -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        q, k = (rms_norm(one, one.shape[-1:], scale) for one, scale in zip((q, k), self.norms, strict=True))
        found = scaled_dot_product_attention(_turned(q, angles), _turned(k, angles), v).transpose(1, 2).flatten(2)
        return x + gate * self.out(torch.cat((found, gelu(wide, approximate="tanh")), -1))


class _Transformer(nn.Module):
    def __init__(self, plan: _Plan) -> None:
        super().__init__()
        width = plan.width
        self.rotates = plan.rotates
        self.into, self.text = nn.Linear(_PATCH, width), nn.Linear(plan.text, width)
        self.time, self.pooled = _two(_TIME, width), _two(plan.pooled, width)
        self.guidance = _two(_TIME, width) if plan.guided else None
        self.joined = nn.ModuleList(_Joined(plan, plan.ends_early and number == plan.joined - 1) for number in range(plan.joined))
        self.single = nn.ModuleList(_Single(plan) for _ in range(plan.single))
        self.change, self.out = nn.Linear(width, 2 * width), nn.Linear(width, _PATCH)

    def forward(self, image: Any, text: Any, time: Any, pooled: Any, places: Any) -> Any:
        vector = self.time(time) + self.pooled(pooled)
        vector = vector if self.guidance is None else vector + self.guidance(time)
        image, text = self.into(image), self.text(text)
        image, angles = (image, (places.cos(), places.sin())) if self.rotates else (image + places, None)
        for block in self.joined:
            image, text = block(image, text, vector, angles)
        if len(self.single):
            length, image = text.shape[1], torch.cat((text, image), 1)
            for block in self.single:
                image = block(image, vector, angles)
            image = image[:, length:]
        shift, scale = self.change(silu(vector))[:, None].chunk(2, -1)
        return self.out(_shifted(image, shift, scale))


def _transformer(plan: _Plan) -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        length = seq or _TOKENS
        size = plan.width // plan.heads
        places = torch.randn(length + plan.tokens, size) if plan.rotates else torch.randn(length, plan.width)
        image, text = torch.randn(batch, length, _PATCH), torch.randn(batch, plan.tokens, plan.text)
        return image, text, torch.randn(batch, _TIME), torch.randn(batch, plan.pooled), places

    def forward(model: nn.Module, batch: Sequence[Any], training: bool) -> Any:
        return model(*batch)

    return Subject(build=lambda: _Transformer(plan), inputs=inputs, forward=forward, seq=_TOKENS, seqs=(256, 1024, 576))


def _model(name: str, title: str, plan: _Plan, source: str, published: int, aliases: tuple[str, ...]) -> Model:
    return Model(
        name=name,
        title=title,
        family="diffusion",
        source=source,
        subject=plain(lambda: _transformer(plan)),
        aliases=aliases,
        published=published,
        tolerance=0.001,
        optimizer="adamw",
        batch=1,
        seq=_TOKENS,
        modes=("infer",),
    )


def models() -> list[Model]:
    """Return each model at 1024 pixels. Images of other sizes have sequences of other lengths."""
    sd3 = "arXiv:2403.03206; sizes of the released configuration"
    flux = "sizes of the released configuration of FLUX.1 [dev] (black-forest-labs/flux)"
    names = ("sd3", "stable_diffusion_3", "sd3_medium", "stable_diffusion_3_medium", "stable_diffusion_3_medium_diffusers")
    large = ("sd3.5_large", "sd35_large", "sd3.5", "stable_diffusion_3.5_large")
    dev = ("flux", "flux.1", "flux_dev", "flux.1_dev", "flux1_dev")
    return [
        _model("sd3_transformer", "Stable Diffusion 3 medium transformer", _SD3, sd3, 2_028_328_000, names),
        _model("sd35_large_transformer", "Stable Diffusion 3.5 large transformer", _SD35_LARGE, sd3, 8_056_627_520, large),
        _model("flux_transformer", "FLUX.1 transformer", _FLUX, flux, 11_901_408_320, dev),
    ]
