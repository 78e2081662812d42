"""Single-stage detectors of the YOLO line: v3 as published, and v5 and v8 with the sizes from their configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, interpolate, max_pool2d, smooth_l1_loss

from gpuwise.workload.capture.torch.step import Subject
from zoo.model import Model, plain

__all__ = ["models"]

_CLASSES = 80
_MATCHES = 32  # predictions per image that the loss treats as objects; the actual number depends on the image


class _Conv(nn.Sequential):
    """Convolution, batch norm, activation."""

    def __init__(
        self, before: int, after: int, kernel: int = 1, stride: int = 1, padding: int | None = None, leaky: bool = False
    ) -> None:
        super().__init__(
            nn.Conv2d(before, after, kernel, stride, kernel // 2 if padding is None else padding, bias=False),
            nn.BatchNorm2d(after),
            nn.LeakyReLU(0.1, True) if leaky else nn.SiLU(True),
        )


class _Bottleneck(nn.Module):
    def __init__(self, width: int, first: int, shortcut: bool, inner: int | None = None, leaky: bool = False) -> None:
        super().__init__()
        self.one = _Conv(width, inner or width, first, leaky=leaky)
        self.two = _Conv(inner or width, width, 3, leaky=leaky)
        self.shortcut = shortcut

    def forward(self, x: Any) -> Any:
        y = self.two(self.one(x))
        return x + y if self.shortcut else y


class _C3(nn.Module):
    """Two paths, one through bottlenecks, joined by a third convolution."""

    def __init__(self, before: int, after: int, count: int, shortcut: bool = True) -> None:
        super().__init__()
        half = after // 2
        self.deep, self.flat, self.out = _Conv(before, half), _Conv(before, half), _Conv(2 * half, after)
        self.blocks = nn.Sequential(*(_Bottleneck(half, 1, shortcut) for _ in range(count)))

    def forward(self, x: Any) -> Any:
        return self.out(torch.cat((self.blocks(self.deep(x)), self.flat(x)), 1))


class _C2f(nn.Module):
    """One convolution whose result is split in two, a chain of bottlenecks on the second half, and all parts joined."""

    def __init__(self, before: int, after: int, count: int, shortcut: bool = False) -> None:
        super().__init__()
        half = after // 2
        self.into, self.out = _Conv(before, 2 * half), _Conv((2 + count) * half, after)
        self.blocks = nn.ModuleList(_Bottleneck(half, 3, shortcut) for _ in range(count))

    def forward(self, x: Any) -> Any:
        parts = list(self.into(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.out(torch.cat(parts, 1))


class _Spatial(nn.Module):
    """Three max pools one after the other, joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into, self.out = _Conv(width, width // 2), _Conv(2 * width, width)

    def forward(self, x: Any) -> Any:
        parts = [self.into(x)]
        for _ in range(3):
            parts.append(max_pool2d(parts[-1], 5, 1, 2))
        return self.out(torch.cat(parts, 1))


class _Pyramid(nn.Module):
    """A backbone with four levels, an upward and a downward path, and three maps of predictions. Only v5 narrows before going
    up."""

    def __init__(self, widths: Sequence[int], depths: Sequence[int], version: int) -> None:
        super().__init__()
        block: Any = _C3 if version == 5 else _C2f
        one, two, three, four, five = widths
        self.narrows = version == 5
        stem = _Conv(3, one, 6, 2, 2) if version == 5 else _Conv(3, one, 3, 2)
        self.low = nn.Sequential(stem, _Conv(one, two, 3, 2), block(two, two, depths[0], True), _Conv(two, three, 3, 2))
        self.low_end = block(three, three, depths[1], True)
        self.mid = nn.Sequential(_Conv(three, four, 3, 2), block(four, four, depths[2], True))
        self.high = nn.Sequential(_Conv(four, five, 3, 2), block(five, five, depths[3], True), _Spatial(five))
        count, kept = depths[0], (four, three) if self.narrows else (five, four)
        self.side = nn.ModuleList((_Conv(five, four), _Conv(four, three))) if self.narrows else None
        self.up_mid = block(kept[0] + four, four, count, False)
        self.up_low = block((three if self.narrows else four) + three, three, count, False)
        self.down_mid, self.down_high = _Conv(three, three, 3, 2), _Conv(four, four, 3, 2)
        self.end_mid = block(three + (three if self.narrows else four), four, count, False)
        self.end_high = block(four + (four if self.narrows else five), five, count, False)
        levels = (three, four, five)
        self.heads = (
            nn.ModuleList(nn.Conv2d(level, 3 * (_CLASSES + 5), 1) for level in levels) if version == 5 else _Split(levels)
        )

    def forward(self, x: Any) -> Any:
        low = self.low_end(self.low(x))
        mid = self.mid(low)
        high = self.high(mid)
        high = self.side[0](high) if self.side is not None else high
        mid = self.up_mid(torch.cat((interpolate(high, scale_factor=2.0), mid), 1))
        mid = self.side[1](mid) if self.side is not None else mid
        low = self.up_low(torch.cat((interpolate(mid, scale_factor=2.0), low), 1))
        mid = self.end_mid(torch.cat((self.down_mid(low), mid), 1))
        high = self.end_high(torch.cat((self.down_high(mid), high), 1))
        if isinstance(self.heads, _Split):
            return self.heads((low, mid, high))
        return _joined([head(y) for head, y in zip(self.heads, (low, mid, high), strict=True)], _CLASSES + 5)


class _Split(nn.Module):
    """Separate branches for boxes (a distribution over 16 distances a side) and classes, without anchors."""

    def __init__(self, levels: Sequence[int]) -> None:
        super().__init__()
        box, kind = max(16, levels[0] // 4, 64), max(levels[0], _CLASSES)
        self.boxes, self.classes = (
            nn.ModuleList(
                nn.Sequential(_Conv(level, width, 3), _Conv(width, width, 3), nn.Conv2d(width, out, 1)) for level in levels
            )
            for width, out in ((box, 64), (kind, _CLASSES))
        )
        self.distances = nn.Conv2d(16, 1, 1, bias=False).requires_grad_(False)

    def forward(self, maps: Sequence[Any]) -> Any:
        found = [torch.cat((box(x), kind(x)), 1) for box, kind, x in zip(self.boxes, self.classes, maps, strict=True)]
        joined = _joined(found, 64 + _CLASSES)
        box, kind = joined.split((64, _CLASSES), -1)
        spread = box.unflatten(-1, (4, 16)).permute(0, 3, 2, 1).softmax(1)
        return torch.cat((self.distances(spread).squeeze(1).transpose(1, 2), kind), -1)


def _joined(maps: Sequence[Any], width: int) -> Any:
    """Return the predictions of all maps, one row each."""
    return torch.cat([x.unflatten(1, (-1, width)).permute(0, 1, 3, 4, 2).flatten(1, 3) for x in maps], 1)


class _Darknet(nn.Module):
    """YOLOv3: Darknet-53 and three heads of alternating 1x1 and 3x3 convolutions (Redmon and Farhadi 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stages = _Conv(3, 32, 3, leaky=True), nn.ModuleList()
        for width, count in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
            blocks = (_Bottleneck(width, 1, True, width // 2, leaky=True) for _ in range(count))
            self.stages.append(nn.Sequential(_Conv(width // 2, width, 3, 2, leaky=True), *blocks))
        self.necks = nn.ModuleList(_neck(before, half) for before, half in ((1024, 512), (768, 256), (384, 128)))
        self.sides = nn.ModuleList((_Conv(512, 256, leaky=True), _Conv(256, 128, leaky=True)))
        out = 3 * (_CLASSES + 5)
        self.heads = nn.ModuleList(
            nn.Sequential(_Conv(half, 2 * half, 3, leaky=True), nn.Conv2d(2 * half, out, 1)) for half in (512, 256, 128)
        )

    def forward(self, x: Any) -> Any:
        x, maps, found = self.stem(x), [], []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        for number, (neck, head) in enumerate(zip(self.necks, self.heads, strict=True)):
            if number:
                x = torch.cat((interpolate(self.sides[number - 1](x), scale_factor=2.0), maps[-1 - number]), 1)
            x = neck(x)
            found.append(head(x))
        return _joined(found, _CLASSES + 5)


def _neck(before: int, half: int) -> nn.Sequential:
    sizes = [(before, half, 1), (half, 2 * half, 3), (2 * half, half, 1), (half, 2 * half, 3), (2 * half, half, 1)]
    return nn.Sequential(*(_Conv(one, two, kernel, leaky=True) for one, two, kernel in sizes))


def _detector(build: Any, size: int) -> Subject:
    """Return a detector. Its loss covers all scores, and the boxes of a fixed number of matches."""

    def inputs(batch: int, seq: int | None) -> Any:
        return torch.randn(batch, 3, size, size), torch.zeros(batch, _MATCHES, dtype=torch.int64)

    def forward(model: nn.Module, batch: Any, training: bool) -> Any:
        rows = model(batch[0])
        if not training:
            return torch.cat((rows[..., :4], rows[..., 4:].sigmoid()), -1)
        matched = rows.gather(1, batch[1].unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
        boxes = smooth_l1_loss(matched[..., :4], torch.zeros_like(matched[..., :4]))
        return boxes + binary_cross_entropy_with_logits(rows[..., 4:], torch.zeros_like(rows[..., 4:]))

    notes = (f"the loss assumes {_MATCHES} matches per image; non-maximum suppression is not included",)
    return Subject(build=build, inputs=inputs, forward=forward, notes=notes)


def _pyramid(width: float, depth: float, version: int, most: int = 1024) -> Any:
    widths = [int(min(size, most) * width) for size in (64, 128, 256, 512, 1024)]
    counts = (3, 6, 9, 3) if version == 5 else (3, 6, 6, 3)
    return lambda: _Pyramid(widths, [max(1, round(count * depth)) for count in counts], version)


def _entry(name: str, title: str, source: str, build: Any, published: int, batch: int, *aliases: str, size: int = 640) -> Model:
    return Model(
        name=name,
        title=title,
        family="yolo",
        source=source,
        subject=plain(lambda: _detector(build, size)),
        aliases=aliases,
        published=published,
        batch=batch,
        image=size,
    )


def models() -> list[Model]:
    """Return the models at 640 pixels, and YOLOv3 at 416."""
    v5, v8 = "Ultralytics YOLOv5 6.0, published sizes", "Ultralytics YOLOv8, published sizes"
    return [
        _entry("yolov3", "YOLOv3", "arXiv:1804.02767", _Darknet, 61_949_149, 16, "darknet53_yolo", size=416),
        _entry("yolov5s", "YOLOv5s", v5, _pyramid(0.5, 0.33, 5), 7_235_389, 16, "yolo", "yolov5"),
        _entry("yolov5m", "YOLOv5m", v5, _pyramid(0.75, 0.67, 5), 21_190_557, 16),
        _entry("yolov8n", "YOLOv8n", v8, _pyramid(0.25, 0.33, 8), 3_157_200, 16),
        _entry("yolov8s", "YOLOv8s", v8, _pyramid(0.5, 0.33, 8), 11_166_560, 16, "yolov8"),
    ]
