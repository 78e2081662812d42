"""How a capture describes one kernel, before sizes become symbolic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gpuwise.workload.model.types import AttrValue

__all__ = ["Handler", "Kernel", "Shape", "Tensors"]

Shape = tuple[int, ...]
Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The work of one kernel: its kind, sizes (products of dimensions), constants and the tensors it touches."""

    kind: str
    sizes: tuple[Shape, ...]
    reads: tuple[torch.Tensor, ...]
    writes: tuple[torch.Tensor, ...]
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    dtype: torch.dtype | None = None
    suffix: str = ""
    looked_up: Shape | None = None  # how much of the first tensor is read, if not all of it


Handler = Callable[[Sequence[Any], dict[str, Any], Tensors, Tensors], list[Kernel]]
