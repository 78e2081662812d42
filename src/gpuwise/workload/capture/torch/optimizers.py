"""Optimizers by name, as frameworks run them on a GPU, including three that torch lacks in a form that can be captured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from gpuwise.workload.capture.torch.aten import Kernel, register
from gpuwise.workload.model.types import Settings
from gpuwise.workload.transform.relatives import BLOCK, SMALLEST_IN_8_BITS

__all__ = ["make_optimizer"]


def make_optimizer(parameters: Iterable[torch.nn.Parameter], settings: Settings) -> Any:
    """Return the optimizer for these settings, or None for a step without one."""
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
            return _Adafactor(trained, {"lr": 1e-2})
        case "lion":
            return _Lion(trained, {"lr": 1e-4})
        case _:
            return _Adam8bit(trained, {"lr": 1e-3})


class _Lion(torch.optim.Optimizer):
    """Lion (Chen et al. 2023): updates by the sign of an interpolated momentum, as multi-tensor kernels."""

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


class _Adafactor(torch.optim.Optimizer):
    """Adafactor (Shazeer and Stern 2018): the second moment of a matrix is kept as a row and a column.

    torch's own reads norms back to the host, which a capture cannot; this one runs the same kernels, one tensor at a time.
    """

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
                self._update(parameter, parameter.grad, self.state[parameter])

    @staticmethod
    def _update(parameter: Any, grad: Any, state: Any) -> None:
        scale = torch.clamp(torch.linalg.vector_norm(parameter) / parameter.numel() ** 0.5, min=1e-3)
        parameter.mul_(1 - 1e-4)
        square = grad * grad
        if grad.dim() > 1:
            row = state.setdefault("row", torch.zeros_like(grad[..., :1]))
            column = state.setdefault("column", torch.zeros_like(grad[..., :1, :]))
            row.lerp_(square.mean(dim=-1, keepdim=True), 0.1)
            column.lerp_(square.mean(dim=-2, keepdim=True), 0.1)
            variance = (row * column).div_(row.mean(dim=-2, keepdim=True))
        else:
            variance = state.setdefault("variance", torch.zeros_like(grad)).lerp_(square, 0.1)
        update = variance.clamp(min=1e-8).rsqrt_().mul_(grad)
        update.mul_(scale / torch.clamp(torch.linalg.vector_norm(update) / update.numel() ** 0.5, min=1.0))
        parameter.add_(update, alpha=-1.0)


@torch.library.custom_op("gpuwise::adam8bit", mutates_args=("parameter", "first", "second", "scale1", "scale2"))
def _adam8bit(
    parameter: torch.Tensor,
    grad: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    scale1: torch.Tensor | None,
    scale2: torch.Tensor | None,
) -> None:
    raise NotImplementedError("recorded, never computed")


@_adam8bit.register_fake
def _adam8bit_shape(*tensors: Any) -> None:
    return None


def _adam8bit_kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    parameter = args[0]
    return [Kernel("optimizer", ((parameter.numel(),), (1,)), tuple(reads), tuple(writes), dtype=parameter.dtype)]


register("gpuwise::adam8bit", _adam8bit_kernel)


class _Adam8bit(torch.optim.Optimizer):
    """Adam with block-wise 8-bit states (Dettmers et al. 2022): one kernel per tensor, one fp32 scale per 256 values.

    As in bitsandbytes, tensors with fewer than 4096 values keep fp32 states.
    """

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
                state = self.state[parameter]
                if not state:
                    state |= self._made(parameter)
                scales = state.get("scale1"), state.get("scale2")
                torch.ops.gpuwise.adam8bit(parameter, parameter.grad, state["first"], state["second"], *scales)

    @staticmethod
    def _made(parameter: Any) -> dict[str, Any]:
        if parameter.numel() < SMALLEST_IN_8_BITS:
            return {name: torch.zeros_like(parameter, dtype=torch.float32) for name in ("first", "second")}
        blocks = -(-parameter.numel() // BLOCK)
        states = {name: torch.zeros_like(parameter, dtype=torch.uint8) for name in ("first", "second")}
        return states | {name: parameter.new_zeros(blocks, dtype=torch.float32) for name in ("scale1", "scale2")}
