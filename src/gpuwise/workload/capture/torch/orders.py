"""Memory orders: which inputs a CUDA kernel must copy first, and which ops read one order while they write another.

PyTorch makes these copies inside an op (a layer norm copies a transposed input, cuDNN a slice of channels), so no separate op
shows them. They are separate from `aten.py`, because they depend on strides, which no other rule there uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gpuwise.workload.capture.torch.kernel import Kernel, Tensors

__all__ = ["is_channels_last", "reordering", "with_copies"]

_IMAGE = 4
_ROWS = {  # the arguments that must be contiguous
    "native_layer_norm": (0,),
    "native_layer_norm_backward": (0, 1),
    "_fused_rms_norm": (0,),
    "_fused_rms_norm_backward": (0, 1),
    "_softmax": (0,),
    "_safe_softmax": (0,),
    "_log_softmax": (0,),
    "_softmax_backward_data": (0, 1),
    "_log_softmax_backward_data": (0, 1),
}
_CONVOLUTIONS = {"convolution": (0,), "convolution_backward": (0, 1)}
_WEIGHT = {"convolution": 1, "convolution_backward": 2}


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Return whether the channels of these images are next to each other in memory, even if they are a slice of more."""
    if tensor.dim() != _IMAGE or 0 in tensor.shape or tensor.stride(1) == 0:
        return False
    least = 0
    for dim in (1, 3, 2, 0):
        if tensor.stride(dim) < least or (dim == 0 and least == tensor.stride(1)):
            return False
        least = tensor.stride(dim) * tensor.shape[dim]
    return True


def with_copies(name: str, args: Sequence[Any], kernels: list[Kernel]) -> list[Kernel]:
    """Return the kernels of an op, after the copies that it makes of inputs in another memory order than its kernels read."""
    if name in _ROWS:
        wanted, layout = _ROWS[name], torch.contiguous_format
    elif name in _CONVOLUTIONS and args[0].dim() == _IMAGE:
        wanted = _CONVOLUTIONS[name]
        last = any(is_channels_last(args[place]) for place in (*wanted, _WEIGHT[name]))
        layout = torch.channels_last if last else torch.contiguous_format
    else:
        return kernels
    copied: dict[int, torch.Tensor] = {}
    before: list[Kernel] = []
    for tensor in (args[place] for place in wanted):
        if not tensor.is_contiguous(memory_format=layout):
            copied[id(tensor)] = copy = torch.empty_like(tensor, memory_format=layout)
            before.append(
                Kernel("copy", (tuple(tensor.shape),), (tensor,), (copy,), reordering((tensor,), (copy,)), suffix=".copy")
            )
    if not copied:
        return kernels
    reading = [replace(one, reads=tuple(copied.get(id(tensor), tensor) for tensor in one.reads)) for one in kernels]
    return [*before, *reading]


def reordering(reads: Tensors, writes: Tensors) -> dict[str, Any]:
    """Return the attribute of an op whose tensors have different dimensions next to each other in memory: "image" if the
    channels-last layout would make them equal, otherwise "other".
    """
    if not writes:
        return {}
    whole = [tensor for tensor in (*reads, writes[0]) if tensor.shape == writes[0].shape]
    if len({_closest(tensor) for tensor in whole}) == 1:
        return {}
    return {"reordered": "image" if any(map(_is_image, whole)) else "other"}


def _closest(tensor: torch.Tensor) -> int:
    """Return the dimension whose values are next to each other; of several that qualify, the last one."""
    steps = [(stride, -dim) for dim, (stride, size) in enumerate(zip(tensor.stride(), tensor.shape, strict=True)) if size > 1]
    return -min(steps)[1] if steps else 0


def _is_image(tensor: torch.Tensor) -> bool:
    """Return whether these are images in the default order (NCHW) seen with their channels last, as rows of channels or not."""
    if tensor.dim() == _IMAGE:
        return tensor.permute(0, 3, 1, 2).is_contiguous() or is_channels_last(tensor)
    return tensor.dim() == _IMAGE - 1 and tensor.transpose(1, 2).is_contiguous()
