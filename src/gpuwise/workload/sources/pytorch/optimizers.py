"""Optimizers by name, as frameworks run them on a GPU, including two that torch does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from gpuwise.workload.sources.settings import Settings

__all__ = ["make_optimizer"]


def make_optimizer(parameters: Iterable[torch.nn.Parameter], settings: Settings) -> Any:
    """The optimizer of these settings, or None for a step without one."""
    how = {
        "foreach": {"foreach": True, "fused": False},
        "fused": {"foreach": False, "fused": True},
        "for-loop": {"foreach": False, "fused": False},
    }[settings.implementation]
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    match settings.optimizer:
        case "none":
            return None
        case "sgd":
            return torch.optim.SGD(trained, lr=0.1, **how)
        case "momentum":
            return torch.optim.SGD(trained, lr=0.1, momentum=0.9, weight_decay=1e-4, **how)
        case "adam":
            return torch.optim.Adam(trained, **how)
        case "adamw":
            return torch.optim.AdamW(trained, **how)
        case "adafactor":
            return torch.optim.Adafactor(trained, foreach=how["foreach"])
        case "lion":
            return _Lion(trained, {"lr": 1e-4})
        case _:
            return _Adam8bit(trained, {"lr": 1e-3})


class _Lion(torch.optim.Optimizer):
    """Lion (Chen et al. 2023): the sign of an interpolated momentum, as multi-tensor kernels."""

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
                grads = [parameter.grad for parameter in parameters]
                moments = [self.state[p].setdefault("exp_avg", torch.zeros_like(p)) for p in parameters]
                updates = torch._foreach_lerp(moments, grads, 0.1)
                torch._foreach_sign_(updates)
                torch._foreach_mul_(parameters, 1 - group["lr"] * 0.01)
                torch._foreach_add_(parameters, updates, alpha=-group["lr"])
                torch._foreach_lerp_(moments, grads, 0.01)


@torch.library.custom_op("gpuwise::adam8bit", mutates_args=("parameter", "first", "second", "scale1", "scale2"))
def _adam8bit(
    parameter: torch.Tensor,
    grad: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    scale1: torch.Tensor,
    scale2: torch.Tensor,
) -> None:
    raise NotImplementedError("recorded, never computed")


@_adam8bit.register_fake
def _adam8bit_shape(*tensors: Any) -> None:
    return None


class _Adam8bit(torch.optim.Optimizer):
    """Adam with block-wise 8-bit states (Dettmers et al. 2022): one kernel a tensor, one fp32 scale per 256 values."""

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
                state = self.state[parameter]
                if not state:
                    blocks = (parameter.numel() + 255) // 256
                    state["first"] = torch.zeros_like(parameter, dtype=torch.uint8)
                    state["second"] = torch.zeros_like(parameter, dtype=torch.uint8)
                    state["scale1"] = parameter.new_zeros(blocks, dtype=torch.float32)
                    state["scale2"] = parameter.new_zeros(blocks, dtype=torch.float32)
                torch.ops.gpuwise.adam8bit(
                    parameter, parameter.grad, state["first"], state["second"], state["scale1"], state["scale2"]
                )
