"""Keras convolutions, pools, paddings and resizings as single GPU kernels, in the layout the layer asks for.

One-dimensional layers run as two-dimensional ones of height one, as in TensorFlow and cuDNN. Asymmetric `same` padding is a
padding kernel for the odd row and column, followed by a symmetric convolution.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from gpuwise.workload.capture.keras.leaf import Leaf, as_tuple, channels_first, channels_last, type_name

__all__ = ["LEAVES", "convolve", "pool", "transposed_convolve"]

Sizes = tuple[int, ...]


def _open(x: torch.Tensor, last: bool) -> torch.Tensor:
    """Return the tensor as (batch, channels, spatial…) with at least two spatial dimensions."""
    x = channels_first(x) if last else x
    return x.unsqueeze(2) if x.dim() == 3 else x


def _close(x: torch.Tensor, last: bool, rank: int) -> torch.Tensor:
    x = x.squeeze(2) if rank == 1 else x
    return channels_last(x) if last else x


def _wide(sizes: Sizes, fill: int = 1) -> Sizes:
    """One-dimensional sizes for a two-dimensional kernel."""
    return (fill, *sizes) if len(sizes) == 1 else sizes


def _same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return how many cells `same` adds before and after: https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2"""
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def convolve(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    stride: Sizes,
    padding: str,
    dilation: Sizes,
    groups: int,
    last: bool,
    extra: Sizes | None = None,
) -> torch.Tensor:
    """A convolution with Keras' padding; `weight` is (out, in / groups, kernel…), and `extra` is the padding of a preceding
    layer.
    """
    rank = len(stride)
    x = _open(x, last)
    stride, dilation = _wide(stride), _wide(dilation)
    sizes, kernel = x.shape[2:], weight.shape[2:]
    if padding == "same":
        pads = [_same(*parts) for parts in zip(sizes, kernel, stride, dilation, strict=True)]
    elif padding == "causal":
        pads = [((size - 1) * step, 0) for size, step in zip(kernel, dilation, strict=True)]
    else:
        pads = [(amount, amount) for amount in _wide(extra or (0,) * rank, 0)]
    both = [min(pair) for pair in pads]
    odd = [part - common for pair, common in zip(reversed(pads), reversed(both), strict=True) for part in pair]
    x = F.pad(x, odd) if any(odd) else x
    run = F.conv3d if rank == 3 else F.conv2d
    return _close(run(x, weight, bias, stride, both, dilation, groups), last, rank)


def transposed_convolve(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *, stride: Sizes, dilation: Sizes, last: bool, out: Sizes
) -> torch.Tensor:
    """A transposed convolution to the spatial sizes `out`; `weight` is (in, out, kernel…)."""
    rank = len(stride)
    x = _open(x, last)
    stride, dilation, out = _wide(stride), _wide(dilation), _wide(out)
    whole = [
        (size - 1) * step + gap * (kernel - 1) + 1
        for size, step, gap, kernel in zip(x.shape[2:], stride, dilation, weight.shape[2:], strict=True)
    ]
    padding = [max(0, -(-(full - wanted) // 2)) for full, wanted in zip(whole, out, strict=True)]
    more = [wanted - full + 2 * pad for full, wanted, pad in zip(whole, out, padding, strict=True)]
    run = F.conv_transpose3d if rank == 3 else F.conv_transpose2d
    return _close(run(x, weight, bias, stride, padding, more, 1, dilation), last, rank)


def pool(
    x: torch.Tensor, how: str, size: Sizes, stride: Sizes, padding: str, last: bool, extra: Sizes | None = None
) -> torch.Tensor:
    """A max or average pool with Keras' padding, as one kernel."""
    rank = len(size)
    x = _open(x, last)
    size, stride = _wide(size), _wide(stride)
    before = [0] * len(size)
    if padding == "same":
        before = [_same(*parts, 1)[0] for parts in zip(x.shape[2:], size, stride, strict=True)]
    elif extra is not None:
        before = list(_wide(extra, 0))
    rounding = padding == "same"
    if how == "max":
        y = (F.max_pool3d if rank == 3 else F.max_pool2d)(x, size, stride, before, ceil_mode=rounding)
    else:
        average = F.avg_pool3d if rank == 3 else F.avg_pool2d
        y = average(x, size, stride, before, ceil_mode=rounding, count_include_pad=not rounding)
    return _close(y, last, rank)


class _Spatial(Leaf):
    """A layer over spatial dimensions; knows its rank and layout."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.last = getattr(layer, "data_format", "channels_last") == "channels_last"
        self.rank = int(next(digit for digit in type_name(layer) if digit in "123"))


class _Conv(_Spatial):
    takes_padding = True

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        kernel = layer.kernel.shape
        self.stride, self.dilation = as_tuple(layer.strides, self.rank), as_tuple(layer.dilation_rate, self.rank)
        self.padding, self.groups = layer.padding, getattr(layer, "groups", 1)
        self.weight = self.new(kernel[-1], kernel[-2], *_wide(tuple(kernel[:-2])), nhwc=self.last)
        self.bias = self.new(kernel[-1]) if layer.use_bias else None

    def forward(self, x: torch.Tensor, *, training: bool, extra: Sizes | None = None) -> torch.Tensor:
        y = convolve(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            last=self.last,
            extra=extra,
        )
        return self.activation(y)


class _Depthwise(_Conv):
    def __init__(self, layer: Any) -> None:
        _Spatial.__init__(self, layer)
        *size, channels, multiplier = layer.kernel.shape
        self.stride, self.dilation = as_tuple(layer.strides, self.rank), as_tuple(layer.dilation_rate, self.rank)
        self.padding, self.groups = layer.padding, channels
        self.weight = self.new(channels * multiplier, 1, *_wide(tuple(size)), nhwc=self.last)
        self.bias = self.new(channels * multiplier) if layer.use_bias else None


class _Separable(_Spatial):
    takes_padding = True

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        *size, channels, multiplier = layer.depthwise_kernel.shape
        self.stride, self.dilation = as_tuple(layer.strides, self.rank), as_tuple(layer.dilation_rate, self.rank)
        self.padding, self.channels = layer.padding, channels
        self.depthwise = self.new(channels * multiplier, 1, *_wide(tuple(size)), nhwc=self.last)
        ones = (1,) * max(2, self.rank)
        self.pointwise = self.new(layer.pointwise_kernel.shape[-1], channels * multiplier, *ones, nhwc=self.last)
        self.bias = self.new(layer.pointwise_kernel.shape[-1]) if layer.use_bias else None

    def forward(self, x: torch.Tensor, *, training: bool, extra: Sizes | None = None) -> torch.Tensor:
        ones = (1,) * self.rank
        x = convolve(
            x,
            self.depthwise,
            None,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.channels,
            last=self.last,
            extra=extra,
        )
        y = convolve(x, self.pointwise, self.bias, stride=ones, padding="valid", dilation=ones, groups=1, last=self.last)
        return self.activation(y)


class _Transpose(_Spatial):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        *size, filters, channels = layer.kernel.shape
        self.stride, self.dilation = as_tuple(layer.strides, self.rank), as_tuple(layer.dilation_rate, self.rank)
        self.weight = self.new(channels, filters, *_wide(tuple(size)), nhwc=self.last)
        self.bias = self.new(filters) if layer.use_bias else None
        self.shape_of = layer.compute_output_shape

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        shape = self.shape_of(tuple(x.shape))
        out = tuple(shape[1:-1] if self.last else shape[2:])
        y = transposed_convolve(x, self.weight, self.bias, stride=self.stride, dilation=self.dilation, last=self.last, out=out)
        return self.activation(y)


class _Pool(_Spatial):
    takes_padding = True

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.how = "max" if "Max" in type_name(layer) else "average"
        self.size = as_tuple(layer.pool_size, self.rank)
        self.stride = self.size if layer.strides is None else as_tuple(layer.strides, self.rank)
        self.padding = layer.padding

    def forward(self, x: torch.Tensor, *, training: bool, extra: Sizes | None = None) -> torch.Tensor:
        return pool(x, self.how, self.size, self.stride, self.padding, self.last, extra)


class _GlobalPool(_Spatial):
    takes_mask = True

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.keep, self.max = bool(layer.keepdims), "Max" in type_name(layer)
        self.dims = tuple(range(1, self.rank + 1)) if self.last else tuple(range(2, self.rank + 2))

    def forward(self, x: torch.Tensor, *, training: bool, mask: Any = None) -> torch.Tensor:
        if self.max:
            return x.amax(self.dims, self.keep)
        if mask is None:
            return x.mean(self.dims, self.keep)
        mask = mask.unsqueeze(-1 if self.last else 1)
        kept = torch.where(mask, x, 0.0)
        return kept.sum(self.dims, self.keep) / mask.to(x.dtype).sum(self.dims, self.keep)


class _AdaptivePool(_Spatial):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        how = "max" if "Max" in type_name(layer) else "avg"
        self.run = getattr(F, f"adaptive_{how}_pool{max(2, self.rank)}d")
        self.size = _wide(as_tuple(layer.output_size, self.rank))

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return _close(self.run(_open(x, self.last), self.size), self.last, self.rank)


class _Edges(_Spatial):
    """Zero padding and cropping: how many cells before and after, by spatial dimension."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.crop = "Cropping" in type_name(layer)
        edges = layer.cropping if self.crop else layer.padding
        self.edges = (tuple(edges),) if self.rank == 1 else tuple(tuple(pair) for pair in edges)

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        first = 1 if self.last else 2
        if self.crop:
            for dim, (before, after) in enumerate(self.edges, start=first):
                x = x.narrow(dim, before, x.shape[dim] - before - after)
            return x
        flat = [amount for pair in reversed(self.edges) for amount in pair]
        return F.pad(x, [0, 0, *flat] if self.last else flat)


class _UpSampling(_Spatial):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.factors = as_tuple(layer.size, self.rank)
        self.mode = getattr(layer, "interpolation", "nearest")

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        x = _open(x, self.last)
        size = [have * factor for have, factor in zip(x.shape[2:], _wide(self.factors), strict=True)]
        return _close(F.interpolate(x, size, mode=self.mode), self.last, self.rank)

    @classmethod
    def fits(cls, layer: Any) -> bool:
        return getattr(layer, "interpolation", "nearest") in ("nearest", "bilinear", "bicubic")


def _every(pattern: str, leaf: type[Leaf], ranks: str = "123") -> dict[str, type[Leaf]]:
    return {pattern.format(rank): leaf for rank in ranks}


LEAVES: dict[str, type[Leaf]] = (
    _every("Conv{}D", _Conv)
    | _every("DepthwiseConv{}D", _Depthwise, "12")
    | _every("SeparableConv{}D", _Separable, "12")
    | _every("Conv{}DTranspose", _Transpose)
    | _every("MaxPooling{}D", _Pool)
    | _every("AveragePooling{}D", _Pool)
    | _every("GlobalMaxPooling{}D", _GlobalPool)
    | _every("GlobalAveragePooling{}D", _GlobalPool)
    | _every("AdaptiveMaxPooling{}D", _AdaptivePool)
    | _every("AdaptiveAveragePooling{}D", _AdaptivePool)
    | _every("ZeroPadding{}D", _Edges)
    | _every("Cropping{}D", _Edges)
    | _every("UpSampling{}D", _UpSampling)
)
