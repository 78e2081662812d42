"""What a diffusion pipeline runs around its denoiser: the text encoders, and the decoder that turns latents into pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, interpolate, mse_loss, scaled_dot_product_attention, silu

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["models"]

_DECODER_WIDTHS = (512, 512, 256, 128)  # from the latents upwards; each level except the last doubles the side
_TOKENS = 77


class _Residual(nn.Module):
    """Two normalised convolutions and a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.norm_one, self.one = nn.GroupNorm(32, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm_two, self.two = nn.GroupNorm(32, after), nn.Conv2d(after, after, 3, padding=1)
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = self.one(silu(self.norm_one(x)))
        return self.shortcut(x) + self.two(silu(self.norm_two(y)))


class _PixelAttention(nn.Module):
    """Attention with one head that is as wide as the number of channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Any) -> Any:
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (layer(y)[:, None] for layer in (self.query, self.key, self.value))
        y = self.out(scaled_dot_product_attention(q, k, v)[:, 0])
        return x + y.transpose(1, 2).unflatten(2, x.shape[-2:])


class _Decoder(nn.Module):
    """A middle with attention, then four levels of three residual blocks. The side doubles from one level to the next."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        first = _DECODER_WIDTHS[0]
        self.before = nn.Conv2d(4, 4, 1) if channels == 4 else nn.Identity()  # left out where latents have more channels
        self.into = nn.Conv2d(channels, first, 3, padding=1)
        self.middle = nn.Sequential(_Residual(first, first), _PixelAttention(first), _Residual(first, first))
        self.levels, self.widen, width = nn.ModuleList(), nn.ModuleList(), first
        for after in _DECODER_WIDTHS:
            self.levels.append(nn.Sequential(_Residual(width, after), _Residual(after, after), _Residual(after, after)))
            width = after
        self.widen.extend(nn.Conv2d(width, width, 3, padding=1) for width in _DECODER_WIDTHS[:-1])
        self.norm, self.out = nn.GroupNorm(32, width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        x = self.middle(self.into(self.before(x)))
        for number, level in enumerate(self.levels):
            x = level(x)
            if number < len(self.widen):
                x = self.widen[number](interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.out(silu(self.norm(x)))


def _towards(model: nn.Module, batch: tuple[Any, Any], training: bool) -> Any:
    """Return the result or, in training, its distance from the target."""
    found = model(batch[0])
    return mse_loss(found, batch[1]) if training else found


def _decoder(size: int, channels: int = 4) -> Subject:
    side = size * 2 ** (len(_DECODER_WIDTHS) - 1)
    return Subject(
        build=lambda: _Decoder(channels),
        inputs=lambda batch, seq: (torch.randn(batch, channels, size, size), torch.randn(batch, 3, side, side)),
        forward=_towards,
    )


# ---------------------------------------------------------------- text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """The sizes of a text encoder; `projected` is how wide the vector of the whole text is, where there is one: it is added to
    every token here, which costs next to nothing and keeps one result."""

    width: int
    layers: int
    heads: int
    projected: int = 0


_CLIP_L = _Text(width=768, layers=12, heads=12)
_CLIP_H = _Text(width=1024, layers=23, heads=16)
_CLIP_BIG_G = _Text(width=1280, layers=32, heads=20, projected=1280)


class _Layer(nn.Module):
    """Attention to the previous tokens, and two dense layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_one, self.norm_two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.norm_one(x)
        q, k, v = (layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        x = x + self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.narrow(gelu(self.wide(self.norm_two(x))))


class _TextEncoder(nn.Module):
    """Embeddings of words and positions, layers and, if the plan says so, a vector of the last token."""

    def __init__(self, plan: _Text) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(49_408, plan.width), nn.Embedding(_TOKENS, plan.width)
        self.layers = nn.ModuleList(_Layer(plan.width, plan.heads) for _ in range(plan.layers))
        self.norm = nn.LayerNorm(plan.width)
        self.projection = nn.Linear(plan.width, plan.projected, bias=False) if plan.projected else None

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(_TOKENS))
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return x if self.projection is None else x + self.projection(x[:, -1:])


def _text(plan: _Text) -> Subject:
    return Subject(
        build=lambda: _TextEncoder(plan),
        inputs=lambda batch, seq: (torch.zeros(batch, _TOKENS, dtype=torch.int64), torch.randn(batch, _TOKENS, plan.width)),
        forward=_towards,
    )


def models() -> list[Model]:
    """Return the decoder at 512 and 1024 pixels, and the text encoders of Stable Diffusion 1.5, 2 and XL."""
    decoder = "arXiv:2112.10752; sizes of the released configuration, which Stable Diffusion 1.5, 2 and XL share"
    return [
        Model(
            name="sd_vae_decoder",
            title="Stable Diffusion VAE decoder",
            family="diffusion",
            source=decoder,
            subject=plain(lambda: _decoder(64)),
            aliases=("sd_vae", "sdxl_vae_512"),
            published=49_490_199,
            batch=1,
            image=512,
            optimizer="adamw",
        ),
        Model(
            name="sd_vae_decoder_1024",
            title="Stable Diffusion VAE decoder at 1024 pixels",
            family="diffusion",
            source=decoder,
            subject=plain(lambda: _decoder(128)),
            aliases=("sdxl_vae_decoder", "sdxl_vae"),
            published=49_490_199,
            batch=1,
            image=1024,
            optimizer="adamw",
        ),
        *(
            Model(
                name=f"vae16_decoder_{image}",
                title=f"VAE decoder with 16 channels at {image} pixels",
                family="diffusion",
                source="arXiv:2403.03206; sizes of the released configuration, which Stable Diffusion 3 and Flux share",
                subject=plain(lambda image=image: _decoder(image // 8, 16)),  # type: ignore[misc]
                published=49_545_475,
                batch=1,
                image=image,
                optimizer="adamw",
                modes=("infer",),
            )
            for image in (512, 1024)
        ),
        Model(
            name="clip_l_text",
            title="CLIP ViT-L text encoder",
            family="diffusion",
            source="arXiv:2103.00020; sizes of the released ViT-L/14 configuration",
            subject=plain(lambda: _text(_CLIP_L)),
            aliases=("clip_text", "sd15_text"),
            published=123_060_480,
            batch=2,
            optimizer="adamw",
        ),
        Model(
            name="clip_h_text",
            title="OpenCLIP ViT-H text encoder (Stable Diffusion 2)",
            family="diffusion",
            source="arXiv:2212.07143; 23 of its 24 layers, as the released Stable Diffusion 2 takes it",
            subject=plain(lambda: _text(_CLIP_H)),
            aliases=("sd2_text",),
            published=340_387_840,
            batch=2,
            optimizer="adamw",
        ),
        Model(
            name="clip_big_g_text",
            title="OpenCLIP ViT-bigG text encoder",
            family="diffusion",
            source="arXiv:2212.07143; sizes of the released configuration of Stable Diffusion XL",
            subject=plain(lambda: _text(_CLIP_BIG_G)),
            aliases=("sdxl_text",),
            published=694_659_840,
            batch=2,
            optimizer="adamw",
        ),
    ]
