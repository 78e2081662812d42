"""Code shared by all translated Keras layers: weights without values, activations by name, and Keras' view of its variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from gpuwise.core.errors import GpuwiseError

__all__ = ["DTYPES", "Leaf", "activation_of", "as_tuple", "channels_first", "channels_last", "parameter", "relu", "type_name"]

Activation = Callable[[torch.Tensor], torch.Tensor]

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}

_ACTIVATIONS: dict[str, Activation] = {
    "linear": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "log_sigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hard_sigmoid": F.hardsigmoid,
    "hard_silu": F.hardswish,
    "hard_tanh": F.hardtanh,
    "exponential": torch.exp,
    "tanh_shrink": F.tanhshrink,
    "soft_shrink": F.softshrink,
    "hard_shrink": F.hardshrink,
    "glu": lambda x: F.glu(x, -1),
}


def relu(x: torch.Tensor, top: float | None, slope: float, threshold: float) -> torch.Tensor:
    """Keras' general ReLU in as few kernels as its arguments allow."""
    if threshold:
        x = F.threshold(x, threshold, 0.0)
    elif slope:
        x = F.leaky_relu(x, slope)
    if top is not None:
        return F.hardtanh(x, -math.inf if slope else 0.0, top)
    return x if threshold or slope else F.relu(x)


def activation_of(function: Any) -> Activation | None:
    """Return the torch function for a Keras activation, or None if it is not one of Keras' own."""
    if function is None:
        return _ACTIVATIONS["linear"]
    if not str(getattr(function, "__module__", "")).startswith("keras."):
        return None
    return _ACTIVATIONS.get(getattr(function, "__name__", ""))


def parameter(*shape: int, trainable: bool = True, nhwc: bool = False) -> nn.Parameter:
    """Return a weight of this shape; convolution kernels of channels-last models are stored the way cuDNN reads them."""
    tensor = torch.empty(shape)
    if nhwc:
        tensor = tensor.to(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    return nn.Parameter(tensor, requires_grad=trainable)


def as_tuple(value: Any, rank: int) -> tuple[int, ...]:
    """Return one number per dimension: Keras may give a single number for all of them."""
    return (int(value),) * rank if isinstance(value, int) else tuple(int(part) for part in value)


def type_name(layer: Any) -> str:
    """The name of the Keras class a layer is or is derived from."""
    return next(base.__name__ for base in type(layer).__mro__ if base.__module__.startswith("keras."))


def channels_first(x: torch.Tensor) -> torch.Tensor:
    """(batch, …, channels) viewed as (batch, channels, …): in memory it stays channels-last."""
    return x.movedim(-1, 1)


def channels_last(x: torch.Tensor) -> torch.Tensor:
    """The inverse of `channels_first`."""
    return x.movedim(1, -1)


class Leaf(nn.Module):
    """One Keras layer as the work a GPU does for it. `fits` says whether this translation is valid for a layer."""

    takes_mask = False
    takes_padding = False

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer_name, self.trainable = layer.name, bool(layer.trainable)
        self.exports: dict[int, Callable[[], torch.Tensor]] = {}
        self.activation = activation_of(getattr(layer, "activation", None)) or _ACTIVATIONS["linear"]

    @classmethod
    def fits(cls, layer: Any) -> bool:
        """Return whether the layer does exactly what this class translates."""
        special = getattr(layer, "quantization_mode", None) is not None or getattr(layer, "lora_enabled", False)
        return not special and activation_of(getattr(layer, "activation", None)) is not None

    def new(self, *shape: int, nhwc: bool = False) -> nn.Parameter:
        """Return a weight, which is trained if its layer is."""
        return parameter(*shape, trainable=self.trainable, nhwc=nhwc)

    def export(self, variable: Any, view: Callable[[], torch.Tensor]) -> None:
        """Let others use a variable of this layer in Keras' layout (tied weights)."""
        if variable is not None:
            self.exports[id(variable)] = view

    def check(self, layer: Any) -> None:
        """Check that there are as many weights as Keras counts; otherwise the translation is wrong."""
        here = sum(weight.numel() for weight in self.parameters())
        there = sum(math.prod(weight.shape) for weight in layer.weights)
        if here != there:
            raise GpuwiseError(
                f"layer '{layer.name}' ({type(layer).__name__}) has {there:,} weights in Keras but {here:,} in gpuwise",
                hint="please report this layer and its arguments",
            )
