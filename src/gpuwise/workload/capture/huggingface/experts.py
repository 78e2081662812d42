"""Mixture of experts independent of the data: every expert gets an equal share of the tokens, as one grouped matrix product.

transformers stores the weights of all experts of a layer in one tensor, (experts, out, in), and multiplies it with the tokens,
sorted by expert. The number of tokens per expert depends on the data; a capture assumes the balance that training aims for. If
there are fewer token-expert pairs than experts (decoding a few sequences), each pair reads its own expert.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from gpuwise.workload.capture.torch.aten import Kernel, register

__all__ = ["balance_experts"]


def balance_experts(model: torch.nn.Module, few: bool) -> int:
    """Give every bank of experts a forward pass with fixed shapes, and return the number of banks. `few`: fewer pairs than
    experts.
    """
    banks = [module for module in model.modules() if _is_bank(module)]
    for bank in banks:
        bank.forward = partial(_forward, bank, few)
    return len(banks)


def _is_bank(module: Any) -> bool:
    weight = getattr(module, "down_proj", None)
    return hasattr(module, "has_gate") and isinstance(weight, torch.nn.Parameter) and weight.dim() == 3


def _forward(bank: Any, few: bool, hidden: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Sort the token-expert pairs by expert, multiply group by group, restore the order and sum the results for each token."""
    choices = index.shape[-1]
    experts, order = torch.sort(index.reshape(-1))
    ends = torch.cumsum(torch.histc(experts.float(), bins=bank.down_proj.shape[0]), dim=0, dtype=torch.int32)
    rows = hidden[torch.div(order, choices, rounding_mode="floor")]
    inner = _linear(bank, "gate_up_proj" if bank.has_gate else "up_proj", rows, experts, ends, few)
    inner = bank._apply_gate(inner) if bank.has_gate else bank.act_fn(inner)
    out = _linear(bank, "down_proj", inner, experts, ends, few)
    if getattr(bank, "has_post_expert_norm", False):
        out = bank.post_expert_norm(out)
    out = out * weights.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return out[back].view(-1, choices, out.shape[-1]).sum(dim=1).to(hidden.dtype)


def _linear(bank: Any, name: str, rows: Any, experts: Any, ends: Any, few: bool) -> Any:
    weight = getattr(bank, name)
    if not bank.is_transposed:
        weight = weight.transpose(-2, -1)
    if torch.is_autocast_enabled("cpu"):
        low = torch.get_autocast_dtype("cpu")
        rows, weight = rows.to(low), weight.to(low)
    out = torch.ops.gpuwise.grouped_matmul(rows.to(weight.dtype), weight, ends, few)
    return out + getattr(bank, f"{name}_bias")[experts] if bank.has_bias else out


# ---------------------------------------------------------------- the grouped product as one op


@torch.library.custom_op("gpuwise::grouped_matmul", mutates_args=())
def _grouped(rows: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor, few: bool) -> torch.Tensor:
    raise NotImplementedError("recorded, never computed")


@_grouped.register_fake
def _grouped_shape(rows: Any, weight: Any, ends: Any, few: bool) -> Any:
    return rows.new_empty(rows.shape[0], weight.shape[-1])


@torch.library.custom_op("gpuwise::grouped_matmul_weight", mutates_args=())
def _grouped_weight(rows: torch.Tensor, grad: torch.Tensor, ends: torch.Tensor, experts: int) -> torch.Tensor:
    raise NotImplementedError("recorded, never computed")


@_grouped_weight.register_fake
def _grouped_weight_shape(rows: Any, grad: Any, ends: Any, experts: int) -> Any:
    return rows.new_empty(experts, rows.shape[-1], grad.shape[-1])


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    rows, weight, ends, ctx.few = inputs
    ctx.save_for_backward(rows, weight, ends)


def _backward(ctx: Any, grad: Any) -> Any:
    rows, weight, ends = ctx.saved_tensors
    d_rows = torch.ops.gpuwise.grouped_matmul(grad, weight.transpose(-2, -1), ends, ctx.few)
    d_weight = torch.ops.gpuwise.grouped_matmul_weight(rows, grad, ends, weight.shape[0])
    return d_rows, d_weight, None, None


_grouped.register_autograd(_backward, setup_context=_setup)


def _grouped_kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    """(experts, pairs / experts, out, in): an equal share, possibly fractional. With few pairs, one expert per pair."""
    rows, weight, _, few = args
    pairs, experts = rows.shape[0], weight.shape[0]
    attrs: dict[str, Any] = {"trans_a": False, "trans_b": weight.stride(-2) == 1, "groups": "experts"}
    batch, share = ((pairs,), (1,)) if few else ((experts,), (_ratio(pairs, experts),))
    if few:  # what is read of the experts: one matrix per pair, represented by a view of that size
        weight = weight.as_strided((pairs, *weight.shape[1:]), (1, 1, 1))
    sizes: Any = (batch, share, (weight.shape[-1],), (weight.shape[-2],))
    return [Kernel("matmul", sizes, (rows, weight), tuple(writes), attrs, dtype=rows.dtype)]


def _grouped_weight_kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    rows, grad, _, experts = args
    attrs: dict[str, Any] = {"trans_a": True, "trans_b": False, "groups": "experts"}
    sizes: Any = ((experts,), (rows.shape[-1],), (grad.shape[-1],), (_ratio(rows.shape[0], experts),))
    return [Kernel("matmul", sizes, (rows, grad), tuple(writes), attrs, dtype=rows.dtype)]


def _ratio(pairs: int, experts: int) -> float:
    return pairs // experts if pairs % experts == 0 else pairs / experts


register("gpuwise::grouped_matmul", _grouped_kernel)
register("gpuwise::grouped_matmul_weight", _grouped_weight_kernel)
