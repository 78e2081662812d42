"""Models that control a denoiser or provide its input: ControlNets, and the T5 text encoder of Stable Diffusion 3 and Flux."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import silu

from gpuwise.workload.capture.torch.step import Subject
from zoo.diffusion import SD15, SDXL, Denoiser, Plan, Stage, waves
from zoo.model import Model, plain

__all__ = ["models"]

_HINT_WIDTHS = (16, 32, 96, 256)  # of the control picture; the side is halved from one to the next


class _Control(nn.Module):
    """The downward half of a denoiser, which also gets a picture, with a 1x1 convolution for every shortcut."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        whole = Denoiser(plan)
        self.first, self.time, self.added, self.into = whole.first, whole.time, whole.added, whole.into
        self.down, self.middle, self.middle_end = whole.down, whole.middle, whole.middle_end
        self.hint = nn.ModuleList([nn.Conv2d(3, _HINT_WIDTHS[0], 3, padding=1)])
        for before, after in pairwise(_HINT_WIDTHS):
            self.hint.extend((nn.Conv2d(before, before, 3, padding=1), nn.Conv2d(before, after, 3, 2, 1)))
        self.hinted = nn.Conv2d(_HINT_WIDTHS[-1], plan.widths[0], 3, padding=1)
        self.outs = nn.ModuleList(nn.Conv2d(width, width, 1) for width in (*whole.shortcuts, plan.widths[-1]))

    def forward(self, x: Any, step: Any, text: Any, added: Any, picture: Any) -> Any:
        time = self.time(waves(step.to(x.dtype), self.first))
        time = time if self.added is None else time + self.added(added)
        for layer in self.hint:
            picture = silu(layer(picture))
        x = self.into(x) + self.hinted(picture)
        kept = [x]
        for block in self.down:
            x = block(x, time, text) if isinstance(block, Stage) else block(x)
            kept.append(x)
        kept.append(self.middle_end(self.middle(x, time, text), time))
        return [out(y) for out, y in zip(self.outs, kept, strict=True)]


def _control(plan: Plan, size: int) -> Subject:
    def inputs(batch: int, seq: int | None) -> Any:
        added = torch.randn(batch, plan.added) if plan.added else None
        latents, text = torch.randn(batch, 4, size, size), torch.randn(batch, 77, plan.text)
        return latents, torch.zeros(batch, dtype=torch.int64), text, added, torch.randn(batch, 3, 8 * size, 8 * size)

    def forward(model: nn.Module, batch: Sequence[Any], training: bool) -> Any:
        return model(*batch)

    return Subject(build=lambda: _Control(plan), inputs=inputs, forward=forward)


def _t5() -> Subject:
    def build() -> nn.Module:
        from transformers import T5Config, T5EncoderModel

        sizes = {"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64, "vocab_size": 32128}
        return T5EncoderModel(T5Config(feed_forward_proj="gated-gelu", **sizes))

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        return model(batch).last_hidden_state

    return Subject(
        build=build,
        inputs=lambda batch, seq: torch.zeros(batch, seq or 256, dtype=torch.int64),
        forward=forward,
        seq=256,
        seqs=(128, 256, 192),
    )


def models() -> list[Model]:
    """Return ControlNets at 512 and 1024 pixels, and T5-XXL at the sequence length of Stable Diffusion 3."""
    source = "arXiv:2302.05543; sizes of the released configuration"
    found = []
    for name, title, plan, published in (
        ("sd15_controlnet", "ControlNet of Stable Diffusion 1.5", SD15, 361_279_120),
        ("sdxl_controlnet", "ControlNet of SDXL", SDXL, 1_250_000_000),
    ):
        for image in (512, 1024):
            found.append(
                Model(
                    name=f"{name}_{image}",
                    title=f"{title} at {image} pixels",
                    family="diffusion",
                    source=source,
                    subject=plain(lambda plan=plan, image=image: _control(plan, image // 8)),  # type: ignore[misc]
                    published=published,
                    tolerance=0.001,
                    optimizer="adamw",
                    batch=1,
                    image=image,
                    modes=("infer",),
                )
            )
    t5 = Model(
        name="t5_xxl_text",
        title="T5 v1.1 XXL encoder",
        family="diffusion",
        source="hf:google/t5-v1_1-xxl, its encoder",
        subject=plain(_t5),
        published=4_762_310_656,
        optimizer="adamw",
        batch=1,
        seq=256,
        modes=("infer",),
    )
    return [*found, t5]
