"""Makes fake CPU tensors take the path that CUDA would take, through torch's public operator registry.

PyTorch decides by device how an operator falls apart: on a CPU, attention and LSTMs become dozens of small ops, dropout becomes
three, and autocast has other lists than on CUDA. `torch.library` lets us say otherwise for one dispatch key:

- attention and RNNs stay whole, as the ops `gpuwise::attention` and `gpuwise::rnn` with their backward passes;
- dropout is the fused `native_dropout`;
- autocast follows the lists published for CUDA (the low-precision ones CPU autocast shares; the rest is added here).

Installed once for the life of the capturing process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_map

__all__ = ["install"]

# https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float16 and the two lists after it.
_TO_LOW = "addbmm addmm addmv addr baddbmm bmm chain_matmul linalg_multi_dot linear matmul mm mv prelu".split()
_TO_FP32 = (
    "pow reciprocal acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist cosine_similarity "
    "cross_entropy_loss cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss "
    "layer_norm log log10 log_softmax log1p log2 margin_ranking_loss mse_loss multilabel_margin_loss "
    "multi_margin_loss nll_loss nll_loss_nd norm linalg_vector_norm linalg_norm pdist poisson_nll_loss prod rsqrt "
    "sinh smooth_l1_loss huber_loss soft_margin_loss softmax softplus sum renorm tan triplet_margin_loss nuclear_norm"
).split()
_WIDEST = "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot".split()
_RNNS = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "rnn", "rnn_relu": "rnn"}


@cache
def install() -> torch.library.Library:
    """Register everything; the library must stay alive for it to last."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", _attention, "AutogradCPU")
    library.impl("dropout", _dropout, "AutogradCPU")
    for name in _RNNS:
        library.impl(f"{name}.input", _rnn(name), "AutogradCPU")
        library.impl(f"{name}.input", _casting(getattr(torch.ops.aten, name).input, _low), "AutocastCPU")
    for names, cast in ((_TO_LOW, _low), (_TO_FP32, _fp32), (_WIDEST, _widest)):
        for name in names:
            _register_cast(library, name, cast)
    return library


# ---------------------------------------------------------------- attention


def _attention(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **_: Any) -> Any:
    return torch.ops.gpuwise.attention(q, k, v, attn_mask, dropout_p, is_causal)[0]


@torch.library.custom_op("gpuwise::attention", mutates_args=())
def _attention_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, dropout: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_attention_op.register_fake
def _attention_shape(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool) -> Any:
    # What flash attention keeps for the backward pass: the output and one fp32 per query.
    # Its output is laid out (batch, query, head, width), as the fused kernels return it.
    *lead, heads, queries, _ = q.shape
    out = q.new_empty(*lead, queries, heads, v.shape[-1]).transpose(-2, -3)
    return out, q.new_empty(q.shape[:-1], dtype=torch.float32)


@torch.library.custom_op("gpuwise::attention_backward", mutates_args=())
def _attention_backward_op(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_attention_backward_op.register_fake
def _attention_backward_shape(grad: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, mask: Any, causal: bool) -> Any:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _attention_setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, mask, _, ctx.causal = inputs
    ctx.save_for_backward(q, k, v, *output, mask)
    ctx.set_materialize_grads(False)


def _attention_grad(ctx: Any, grad: Any, _: Any) -> Any:
    return (*torch.ops.gpuwise.attention_backward(grad, *ctx.saved_tensors, ctx.causal), None, None, None)


_attention_op.register_autograd(_attention_grad, setup_context=_attention_setup)


# ---------------------------------------------------------------- dropout


def _dropout(x: Any, p: float, train: bool) -> Any:
    return torch.native_dropout(x, p, train)[0] if train and p > 0 else x


# ---------------------------------------------------------------- recurrent networks


def _rnn(name: str) -> Callable[..., Any]:
    def run(
        x: Any, hx: Any, weights: Any, biases: bool, layers: int, dropout: float, train: bool, both: bool, batch_first: bool
    ) -> Any:
        states = list(hx) if name == "lstm" else [hx]
        outputs = torch.ops.gpuwise.rnn(x, states, list(weights), name, layers, both, batch_first, train)
        return tuple(outputs[: 1 + len(states)])

    return run


@torch.library.custom_op("gpuwise::rnn", mutates_args=())
def _rnn_op(
    x: torch.Tensor,
    hx: list[torch.Tensor],
    weights: list[torch.Tensor],
    cell: str,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> list[torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_rnn_op.register_fake
def _rnn_shape(x: Any, hx: Any, weights: Any, cell: str, layers: int, both: bool, batch_first: bool, train: bool) -> Any:
    directions = 2 if both else 1
    out = x.new_empty(*x.shape[:-1], hx[0].shape[-1] * directions)
    # cuDNN's reserve for the backward pass: the gates and states of every step; its exact size is not published.
    kept = {"lstm": 6, "gru": 5}.get(cell, 2) if train else 0
    reserve = x.new_empty(kept, layers * directions, *x.shape[:-1], hx[-1].shape[-1])
    return [out, *(torch.empty_like(state) for state in hx), reserve]


@torch.library.custom_op("gpuwise::rnn_backward", mutates_args=())
def _rnn_backward_op(
    grad: torch.Tensor,
    x: torch.Tensor,
    hx: list[torch.Tensor],
    weights: list[torch.Tensor],
    out: torch.Tensor,
    reserve: torch.Tensor,
    cell: str,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_rnn_backward_op.register_fake
def _rnn_backward_shape(grad: Any, x: Any, hx: Any, weights: Any, *_: Any) -> Any:
    return [torch.empty_like(tensor) for tensor in (x, *hx, *weights)]


def _rnn_setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, hx, weights, ctx.cell, ctx.layers, ctx.both, ctx.batch_first, _ = inputs
    ctx.states, ctx.count = len(hx), len(weights)
    ctx.save_for_backward(x, *hx, *weights, output[0], output[-1])


def _rnn_grad(ctx: Any, grads: Any) -> Any:
    x, *rest = ctx.saved_tensors
    hx, weights = rest[: ctx.states], rest[ctx.states : ctx.states + ctx.count]
    out, reserve = rest[-2:]
    found = torch.ops.gpuwise.rnn_backward(
        grads[0], x, hx, weights, out, reserve, ctx.cell, ctx.layers, ctx.both, ctx.batch_first
    )
    dx, dhx, dweights = found[0], found[1 : 1 + ctx.states], found[1 + ctx.states :]
    return dx, dhx, dweights, None, None, None, None, None


_rnn_op.register_autograd(_rnn_grad, setup_context=_rnn_setup)


# ---------------------------------------------------------------- autocast


def _low(value: Any) -> Any:
    eligible = isinstance(value, torch.Tensor) and value.dtype is torch.float32
    return value.to(torch.get_autocast_dtype("cpu")) if eligible else value


def _fp32(value: Any) -> Any:
    eligible = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if eligible else value


def _widest(value: Any) -> Any:
    return _fp32(value)


def _casting(operator: Any, cast: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(cast, args), tree_map(cast, kwargs)
        with torch.autocast("cpu", enabled=False):
            return operator(*args, **kwargs)

    return run


def _register_cast(library: torch.library.Library, name: str, cast: Callable[[Any], Any]) -> None:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:  # not in this version of torch
        return
    for overload in packet.overloads():
        operator = getattr(packet, overload)
        if not operator._schema.is_mutable and _is_free(operator.name()):
            library.impl(operator.name().removeprefix("aten::"), _casting(operator, cast), "AutocastCPU")


def _is_free(name: str) -> bool:
    """Whether the dispatcher knows the operator and CPU autocast has no rule of its own for it."""
    try:
        return not torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutocastCPU")
    except RuntimeError:  # an overload that only TorchScript knows
        return False
