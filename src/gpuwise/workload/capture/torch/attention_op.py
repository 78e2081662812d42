"""Attention as a single op, like the fused kernels: `gpuwise::attention` and `gpuwise::attention_backward`."""

from __future__ import annotations

from typing import Any

import torch

from gpuwise.workload.capture.torch.aten import Kernel, register
from gpuwise.workload.model.types import AttrValue

__all__ = ["attention"]


def attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    """Replaces `aten::scaled_dot_product_attention`, and refuses the same inputs as torch.

    Fused kernels share keys between heads only where `enable_gqa` asks for it. Heads that are broadcast (multi-query attention
    without it) are computed by separate kernels.
    """
    lead = _lead(q, k, v, enable_gqa)
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: attn_mask must not be set when is_causal=True")
    if tuple(q.shape[:-2]) != lead:
        q = q.expand(*lead, *q.shape[-2:])
    if attn_mask is not None:
        whole = (*lead, q.shape[-2], k.shape[-2])
        _check(_broadcasts(attn_mask.shape, whole), f"a mask of {_text(attn_mask)} does not fit scores of {list(whole)}")
        if attn_mask.requires_grad:  # fused kernels write the gradient of every score, and torch sums it to the mask's shape
            attn_mask = attn_mask.expand(whole)
    apart = not enable_gqa and q.dim() > 2 and not q.shape[-3] == k.shape[-3] == v.shape[-3]
    return torch.ops.gpuwise.attention(q, k, v, attn_mask, dropout_p, is_causal, apart)[0]


def _lead(q: Any, k: Any, v: Any, grouped: bool) -> tuple[int, ...]:
    """Return the dimensions before (length, width), after checking that the three match."""
    shapes = f"query {_text(q)}, key {_text(k)}, value {_text(v)}"
    _check(min(tensor.dim() for tensor in (q, k, v)) >= 2, f"at least two dimensions are needed: {shapes}")
    _check(q.dtype == k.dtype == v.dtype, f"query, key and value must have the same dtype: {q.dtype}, {k.dtype}, {v.dtype}")
    _check(q.shape[-1] == k.shape[-1], f"the widths of query and key differ: {shapes}")
    _check(k.shape[-2] == v.shape[-2], f"the lengths of key and value differ: {shapes}")
    if grouped and min(tensor.dim() for tensor in (q, k, v)) >= 3:
        for other in (k, v):
            _check(
                q.shape[-3] % other.shape[-3] == 0,
                f"the number of query heads is not a multiple of the number of key-value heads: {shapes}",
            )
        return tuple(q.shape[:-2])
    try:
        return tuple(torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2]))
    except RuntimeError:
        raise RuntimeError(f"scaled_dot_product_attention: batch or heads differ: {shapes}") from None


def _broadcasts(shape: Any, whole: tuple[int, ...]) -> bool:
    return len(shape) <= len(whole) and all(size in (1, fit) for size, fit in zip(reversed(shape), reversed(whole), strict=False))


def _text(tensor: Any) -> str:
    return str(list(tensor.shape))


def _check(fits: bool, message: str) -> None:
    if not fits:
        raise RuntimeError(f"scaled_dot_product_attention: {message}")


@torch.library.custom_op("gpuwise::attention", mutates_args=())
def _attention_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, dropout: float, causal: bool, apart: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_attention_op.register_fake
def _attention_shape(q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, apart: bool) -> Any:
    # What flash attention keeps for the backward pass: the output and one fp32 per query.
    # Its output is laid out (batch, query, head, width), as the fused kernels return it.
    logsumexp = q.new_empty(q.shape[:-1], dtype=torch.float32)
    if q.dim() == 2:
        return q.new_empty(q.shape[0], v.shape[-1]), logsumexp
    *lead, heads, queries, _ = q.shape
    return q.new_empty(*lead, queries, heads, v.shape[-1]).transpose(-2, -3), logsumexp


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
    apart: bool,
    learns_mask: bool,
) -> list[torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_attention_backward_op.register_fake
def _attention_backward_shape(
    grad: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, mask: Any, causal: bool, apart: bool, learns_mask: bool
) -> Any:
    found = [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)]
    return [*found, mask.new_empty(mask.shape)] if learns_mask else found


def _attention_setup(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, v, mask, _, ctx.causal, ctx.apart = inputs
    ctx.save_for_backward(q, k, v, *output, mask)
    ctx.set_materialize_grads(False)


def _attention_grad(ctx: Any, grad: Any, _: Any) -> Any:
    learns = ctx.needs_input_grad[3]
    found = torch.ops.gpuwise.attention_backward(grad, *ctx.saved_tensors, ctx.causal, ctx.apart, learns)
    return (*found[:3], found[3] if learns else None, None, None, None)


_attention_op.register_autograd(_attention_grad, setup_context=_attention_setup)


# ---------------------------------------------------------------- its kernels


def _kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    q, k, v, mask = args[:4]
    attrs: dict[str, AttrValue] = {"causal": bool(args[5]), "mask": mask is not None, "pass": "forward", **_apart(args[6])}
    return [Kernel("attention", _sizes(q, k, v), tuple(reads), tuple(writes), attrs, dtype=q.dtype)]


def _backward_kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    _, q, k, v, _, _, mask, causal, apart, _ = args
    attrs: dict[str, AttrValue] = {"causal": bool(causal), "mask": mask is not None, "pass": "backward", **_apart(apart)}
    return [Kernel("attention", _sizes(q, k, v), tuple(reads), tuple(writes), attrs, dtype=q.dtype)]


def _apart(apart: bool) -> dict[str, AttrValue]:
    return {"apart": True} if apart else {}


def _sizes(q: Any, k: Any, v: Any) -> tuple[tuple[int, ...], ...]:
    batch = tuple(q.shape[:-3])
    heads, kv_heads = (q.shape[-3], k.shape[-3]) if min(q.dim(), k.dim()) > 2 else (q.shape[0] if q.dim() > 2 else 1, 1)
    return (batch, (heads,), (kv_heads,), (q.shape[-2],), (k.shape[-2],), (q.shape[-1],), (v.shape[-1],))


register("gpuwise::attention", _kernel)
register("gpuwise::attention_backward", _backward_kernel)
