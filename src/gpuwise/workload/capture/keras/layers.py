"""Keras layers and the GPU work they do: dense, embedding, normalization, dropout, activations, merging, reshaping.

Each class is one layer. Layers that are not here, in keras_conv or in keras_rnn are opened by keras_trace and recorded as their
parts.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpuwise.workload.capture.keras import conv as keras_conv
from gpuwise.workload.capture.keras import rnn as keras_rnn
from gpuwise.workload.capture.keras.leaf import Leaf, parameter, relu, type_name

__all__ = ["leaf_class"]


def leaf_class(layer: Any) -> type[Leaf] | None:
    """Return the translation of a layer, or None if it has to be opened because it is unknown or has its own `call`."""
    for base in type(layer).__mro__:
        leaf = _LEAVES.get(base.__name__) if base.__module__.startswith("keras.") else None
        if leaf is not None:
            return leaf if getattr(type(layer), "call", None) is getattr(base, "call", None) and leaf.fits(layer) else None
    return None


# ---------------------------------------------------------------- products and tables


class _Dense(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        inputs, units = layer.kernel.shape
        self.weight = self.new(units, inputs)
        self.bias = self.new(units) if layer.use_bias else None
        self.export(layer.kernel, lambda: self.weight.t())

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return self.activation(F.linear(x, self.weight, self.bias))


class _EinsumDense(Leaf):
    """A single matrix product if the equation is one (`abc,cde->abde`), otherwise an einsum."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.shape = tuple(layer.kernel.shape)
        left, _, self.out_labels = layer.equation.replace(" ", "").partition("->")
        self.in_labels, self.kernel_labels = left.split(",")
        self.summed = self._summed()
        bias = getattr(layer, "bias", None)
        self.bias_shape = None if bias is None else tuple(bias.shape)
        if self.summed:
            inner = math.prod(self.shape[: self.summed])
            self.weight = self.new(math.prod(self.shape[self.summed :]), inner)
        else:
            self.weight = self.new(*self.shape)
        self.bias = None if bias is None else self.new(math.prod(bias.shape))

    def _summed(self) -> int:
        """Return how many labels are summed over, if they end the input and begin the kernel in the same order; otherwise 0."""
        count = len([label for label in self.kernel_labels if label in self.in_labels and label not in self.out_labels])
        same = self.in_labels.endswith(self.kernel_labels[:count])
        plain = self.out_labels == self.in_labels[: len(self.in_labels) - count] + self.kernel_labels[count:]
        return count if same and plain else 0

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        if not self.summed:
            y = torch.einsum(f"{self.in_labels},{self.kernel_labels}->{self.out_labels}", x, self.weight)
            return self.activation(y if self.bias is None else y + self.bias.view(self.bias_shape))
        fused = self.bias is not None and self.bias.numel() == self.weight.shape[0]
        y = F.linear(x.flatten(-self.summed), self.weight, self.bias if fused else None).unflatten(-1, self.shape[self.summed :])
        return self.activation(y if fused or self.bias is None else y + self.bias.view(self.bias_shape))


class _Embedding(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.weight = self.new(*layer.embeddings.shape)
        self.export(layer.embeddings, lambda: self.weight)

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return F.embedding(x if x.dtype in (torch.int32, torch.int64) else x.to(torch.int32), self.weight)


class _ReversibleEmbedding(_Embedding):
    """An embedding that is also the output projection of a language model, on the same table or a second one."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.reverse = None if layer.tie_weights else self.new(*reversed(layer.embeddings.shape))
        self.cap = getattr(layer, "logit_soft_cap", None)

    def forward(self, x: torch.Tensor, reverse: bool = False, *, training: bool) -> torch.Tensor:
        if not reverse:
            return super().forward(x, training=training)
        y = F.linear(x, self.weight if self.reverse is None else self.reverse.t())
        return y if self.cap is None else torch.tanh(y / self.cap) * self.cap


# ---------------------------------------------------------------- normalization


class _BatchNorm(Leaf):
    """One kernel. A layer that is not trained uses its moving statistics, as in Keras."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        channels = layer.moving_mean.shape[0]
        self.axis, self.epsilon, self.momentum = layer.axis, layer.epsilon, 1 - layer.momentum
        self.weight = self.new(channels) if layer.scale else None
        self.bias = self.new(channels) if layer.center else None
        self.mean, self.variance = parameter(channels, trainable=False), parameter(channels, trainable=False)

    @classmethod
    def fits(cls, layer: Any) -> bool:
        return super().fits(layer) and not getattr(layer, "renorm", False)

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        moved = x.movedim(self.axis, 1)
        train = training and self.trainable
        y = F.batch_norm(moved, self.mean, self.variance, self.weight, self.bias, train, self.momentum, self.epsilon)
        return y.movedim(1, self.axis)


class _LayerNorm(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        axis = layer.axis
        self.axes = (axis,) if isinstance(axis, int) else tuple(axis)
        self.epsilon, self.rms = layer.epsilon, type_name(layer).startswith("RMS") or bool(getattr(layer, "rms_scaling", False))
        scale, shift = (getattr(layer, name, None) for name in ("gamma", "beta"))
        scale = layer.scale if type_name(layer).startswith("RMS") else scale
        self.weight = None if scale is None else self.new(*scale.shape)
        self.bias = None if shift is None else self.new(*shift.shape)

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        axes = sorted(axis % x.dim() for axis in self.axes)
        last = list(range(x.dim() - len(axes), x.dim()))
        moved = x.movedim(axes, last)
        shape = moved.shape[last[0] :]
        weight, bias = (None if part is None else part.view(shape) for part in (self.weight, self.bias))
        y = F.rms_norm(moved, shape, weight, self.epsilon) if self.rms else F.layer_norm(moved, shape, weight, bias, self.epsilon)
        return y.movedim(last, axes)


class _GroupNorm(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.groups, self.axis, self.epsilon = layer.groups, layer.axis, layer.epsilon
        self.weight = self.new(*layer.gamma.shape) if layer.scale else None
        self.bias = self.new(*layer.beta.shape) if layer.center else None

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        moved = x.movedim(self.axis, 1)
        groups = moved.shape[1] if self.groups == -1 else self.groups
        return F.group_norm(moved, groups, self.weight, self.bias, self.epsilon).movedim(1, self.axis)


class _Normalization(Leaf):
    """Subtracts the known mean from the features and divides them by the known deviation."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.statistics = nn.ParameterList([parameter(*weight.shape, trainable=False) for weight in layer.weights])

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        x = x if x.is_floating_point() else x.float()
        return (x - 0.0) / 1.0


# ---------------------------------------------------------------- regularization and activation


class _Dropout(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.rate, self.kind = layer.rate, type_name(layer)
        self.noise_shape = getattr(layer, "noise_shape", None)
        self.last = getattr(layer, "data_format", "channels_last") == "channels_last"

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        if not training or not self.rate:
            return x
        if self.kind == "GaussianDropout":
            return x * torch.randn_like(x).mul_(self.rate).add_(1)
        if self.kind == "AlphaDropout":
            return torch.where(torch.rand_like(x) < self.rate, -1.758, x).mul(0.9).add(0.1)
        if self.noise_shape is None and not self.kind.startswith("Spatial"):
            return F.dropout(x, self.rate, True)
        mask = x.new_empty(self._mask_shape(x)).bernoulli_(1 - self.rate).div_(1 - self.rate)
        return x * mask

    def _mask_shape(self, x: torch.Tensor) -> tuple[int, ...]:
        if self.noise_shape is not None:
            return tuple(have if want is None else want for have, want in zip(x.shape, self.noise_shape, strict=True))
        kept = (0, x.dim() - 1) if self.last else (0, 1)
        return tuple(size if dim in kept else 1 for dim, size in enumerate(x.shape))


class _GaussianNoise(Leaf):
    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return x + torch.randn_like(x) if training else x


class _Identity(Leaf):
    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return x


class _Activation(Leaf):
    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return self.activation(x)


class _ReLU(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.numbers = (layer.max_value, float(layer.negative_slope), float(layer.threshold))

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return relu(x, *self.numbers)


class _Slope(Leaf):
    """LeakyReLU and ELU: one kernel with one number."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.run = F.elu if type_name(layer) == "ELU" else F.leaky_relu

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return self.run(x)


class _PReLU(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.alpha = self.new(*layer.alpha.shape)

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return torch.where(x > 0, x, self.alpha * x)


class _Softmax(Leaf):
    takes_mask = True

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        axis = layer.axis
        self.axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def forward(self, x: torch.Tensor, *, training: bool, mask: Any = None) -> torch.Tensor:
        x = x if mask is None else torch.where(mask, x, -1e4)
        y = F.softmax(x, self.axes[0]) if len(self.axes) == 1 else torch.exp(x - torch.logsumexp(x, self.axes, keepdim=True))
        return y if mask is None else torch.where(mask, y, 0.0)


# ---------------------------------------------------------------- merging


_MERGES = {"Multiply": "mul", "Subtract": "sub", "Maximum": "maximum", "Minimum": "minimum"}


class _Merge(Leaf):
    """Add, Multiply and their like: one kernel for each input after the first."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.run = getattr(torch, _MERGES.get(type_name(layer), "add"))
        self.average = type_name(layer) == "Average"

    def forward(self, parts: Any, *, training: bool) -> torch.Tensor:
        total = parts[0]
        for part in parts[1:]:
            total = self.run(total, part)
        return total / len(parts) if self.average else total


class _Concatenate(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.axis = layer.axis

    def forward(self, parts: Any, *, training: bool) -> torch.Tensor:
        return torch.cat(list(parts), self.axis)


# ---------------------------------------------------------------- reshaping and scaling


class _Reshape(Leaf):
    """Reshape and Flatten; a channels-first Flatten moves the channels last, which is a copy."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.target = getattr(layer, "target_shape", (-1,))
        self.moves = type_name(layer) == "Flatten" and layer.data_format == "channels_first"

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        x = x.movedim(1, -1) if self.moves and x.dim() > 1 else x
        return x.reshape(x.shape[0], *self.target)


class _Permute(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.dims = (0, *layer.dims)

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return x.permute(self.dims)


class _RepeatVector(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.count = layer.n

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return x.unsqueeze(1).repeat(1, self.count, 1)


class _Rescaling(Leaf):
    """A product and a sum; a scale or offset of one channel each is folded into them."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.shifts = not isinstance(layer.offset, (int, float)) or layer.offset != 0

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        y = (x if x.is_floating_point() else x.float()) * 0.5
        return y + 0.5 if self.shifts else y


class _Masking(Leaf):
    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        return x * (x != 0).any(-1, keepdim=True).to(x.dtype)


class _Resizing(Leaf):
    def __init__(self, layer: Any) -> None:
        super().__init__(layer)
        self.size, self.mode = (layer.height, layer.width), layer.interpolation
        self.last = layer.data_format == "channels_last"

    @classmethod
    def fits(cls, layer: Any) -> bool:
        plain = not layer.crop_to_aspect_ratio and not getattr(layer, "pad_to_aspect_ratio", False)
        return plain and layer.interpolation in ("nearest", "bilinear", "bicubic")

    def forward(self, x: torch.Tensor, *, training: bool) -> torch.Tensor:
        x = x if x.is_floating_point() else x.float()
        moved = x.movedim(-1, 1) if self.last else x
        y = F.interpolate(moved, self.size, mode=self.mode)
        return y.movedim(1, -1) if self.last else y


_LEAVES: dict[str, type[Leaf]] = {
    "Dense": _Dense,
    "EinsumDense": _EinsumDense,
    "Embedding": _Embedding,
    "ReversibleEmbedding": _ReversibleEmbedding,
    "BatchNormalization": _BatchNorm,
    "LayerNormalization": _LayerNorm,
    "RMSNormalization": _LayerNorm,
    "GroupNormalization": _GroupNorm,
    "Normalization": _Normalization,
    **dict.fromkeys("Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianDropout AlphaDropout".split(), _Dropout),
    "GaussianNoise": _GaussianNoise,
    "Identity": _Identity,
    "ActivityRegularization": _Identity,
    "Activation": _Activation,
    "ReLU": _ReLU,
    "LeakyReLU": _Slope,
    "ELU": _Slope,
    "PReLU": _PReLU,
    "Softmax": _Softmax,
    **dict.fromkeys("Add Subtract Multiply Average Maximum Minimum".split(), _Merge),
    "Concatenate": _Concatenate,
    "Reshape": _Reshape,
    "Flatten": _Reshape,
    "Permute": _Permute,
    "RepeatVector": _RepeatVector,
    "Rescaling": _Rescaling,
    "Masking": _Masking,
    "Resizing": _Resizing,
    **keras_conv.LEAVES,
    **keras_rnn.LEAVES,
}
