"""Makes fake CPU tensors take the same path as on CUDA, through torch's public operator registry.

How PyTorch decomposes an operator depends on the device: on a CPU, attention and LSTMs become dozens of small ops, dropout
becomes three, and autocast uses different lists from those on CUDA. `torch.library` lets us change this for one dispatch key:

- attention and RNNs stay whole, as the ops `gpuwise::attention` and `gpuwise::rnn` with their backward passes;
- dropout, RMS norm and the cells of LSTMs and GRUs are the fused ops that CUDA has;
- group norm reads and writes only the default layout (NCHW), whatever the layout of its input;
- softmax of fp16 to fp32 casts in its own kernel;
- autocast follows the lists of CUDA (`autocast.py`).

Installed once for the life of the capturing process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from gpuwise.workload.capture.torch.attention_op import attention
from gpuwise.workload.capture.torch.autocast import install_autocast
from gpuwise.workload.capture.torch.rnn_op import CELLS, rnn

__all__ = ["install"]


@cache
def install() -> torch.library.Library:
    """Register everything; the library must stay alive for it to last."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", attention, "AutogradCPU")
    library.impl("dropout", _dropout, "AutogradCPU")
    library.impl("group_norm", _group_norm, "AutogradCPU")
    for name in CELLS:
        library.impl(f"{name}.input", rnn(name), "AutogradCPU")
    library.impl("softmax.int", _softmax(torch.ops.aten._softmax), "AutogradCPU")
    library.impl("log_softmax.int", _softmax(torch.ops.aten._log_softmax), "AutogradCPU")
    library.impl("lstm_cell", _lstm_cell, "AutogradCPU")
    library.impl("gru_cell", _gru_cell, "AutogradCPU")
    library.impl("_thnn_fused_gru_cell", _gru_cell_shape, "Meta")
    library.impl("_thnn_fused_gru_cell_backward", _gru_cell_backward_shape, "Meta")
    if hasattr(torch.ops.aten, "_fused_rms_norm_backward"):  # torch 2.9
        library.impl("_fused_rms_norm", _rms_norm, "AutogradCPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about rules that are replaced
        install_autocast(library)
    return library


def _dropout(x: Any, p: float, train: bool) -> Any:
    return torch.native_dropout(x, p, train)[0] if train and p > 0 else x


def _group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True) -> Any:
    x = x.contiguous()
    images, channels = x.shape[:2]
    positions = x.numel() // max(1, images * channels)
    return torch.native_group_norm(x, weight, bias, images, channels, positions, groups, eps)[0]


def _softmax(operator: Any) -> Callable[..., Any]:
    """CUDA casts fp16 to fp32 within the kernel, and nothing else."""

    def run(x: Any, dim: int, dtype: Any = None) -> Any:
        if x.dtype is torch.float16 and dtype is torch.float32:
            return operator(x, dim, True)
        return operator(x if dtype is None else x.to(dtype), dim, False)

    return run


# ---------------------------------------------------------------- RMS norm


class _RmsNorm(torch.autograd.Function):
    """`_fused_rms_norm` has a derivative, but not for a tensor on the CPU."""

    @staticmethod
    def forward(ctx: Any, x: Any, shape: Any, weight: Any, eps: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            out, scale = torch.ops.aten._fused_rms_norm(x, shape, weight, eps)
        ctx.save_for_backward(x, scale, weight)
        ctx.shape = shape
        ctx.mark_non_differentiable(scale)
        ctx.set_materialize_grads(False)
        return out, scale

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        x, scale, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        dx, dweight = torch.ops.aten._fused_rms_norm_backward(grad, x, ctx.shape, scale, weight, wanted)
        return dx, None, dweight, None


def _rms_norm(x: Any, shape: Any, weight: Any, eps: Any) -> Any:
    return _RmsNorm.apply(x, shape, weight, eps)


# ---------------------------------------------------------------- cells


def _lstm_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    gates = torch.matmul(x, w_ih.t()), torch.matmul(hx[0], w_hh.t())
    return tuple(torch.ops.aten._thnn_fused_lstm_cell(*gates, hx[1], b_ih, b_hh)[:2])


def _gru_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    gates = torch.matmul(x, w_ih.t()), torch.matmul(hx, w_hh.t())
    return torch.ops.aten._thnn_fused_gru_cell(*gates, hx, b_ih, b_hh)[0]


def _gru_cell_shape(gates: Any, hidden_gates: Any, hx: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    return torch.empty_like(hx), hx.new_empty(hx.shape[0], 5 * hx.shape[1])


def _gru_cell_backward_shape(grad: Any, workspace: Any, has_bias: bool) -> Any:
    gates = [grad.new_empty(grad.shape[0], 3 * grad.shape[1]) for _ in range(2)]
    biases = [grad.new_empty(3 * grad.shape[1]) if has_bias else None for _ in range(2)]
    return (*gates, torch.empty_like(grad), *biases)
