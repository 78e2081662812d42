"""Recurrent layers as single ops, like cuDNN: `gpuwise::rnn` and `gpuwise::rnn_backward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuwise.workload.capture.torch.aten import Kernel, register
from gpuwise.workload.model.types import AttrValue

__all__ = ["CELLS", "rnn"]

CELLS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def rnn(name: str) -> Callable[..., Any]:
    """Replaces `aten::lstm` and related ops."""

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
    grads: list[torch.Tensor],
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
def _rnn_backward_shape(grads: Any, x: Any, hx: Any, weights: Any, *_: Any) -> Any:
    return [torch.empty_like(tensor) for tensor in (x, *hx, *weights)]


def _rnn_setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, hx, weights, ctx.cell, ctx.layers, ctx.both, ctx.batch_first, _ = inputs
    ctx.states, ctx.count = len(hx), len(weights)
    ctx.save_for_backward(x, *hx, *weights, output[0], output[-1])
    ctx.set_materialize_grads(False)


def _rnn_grad(ctx: Any, grads: Any) -> Any:
    x, *rest = ctx.saved_tensors
    hx, weights = rest[: ctx.states], rest[ctx.states : ctx.states + ctx.count]
    out, reserve = rest[-2:]
    # cuDNN needs the gradient of every step; those of the last states may be missing
    given = [torch.zeros_like(out) if grads[0] is None else grads[0], *(grad for grad in grads[1:-1] if grad is not None)]
    found = torch.ops.gpuwise.rnn_backward(given, x, hx, weights, out, reserve, ctx.cell, ctx.layers, ctx.both, ctx.batch_first)
    dx, dhx, dweights = found[0], found[1 : 1 + ctx.states], found[1 + ctx.states :]
    return dx, dhx, dweights, None, None, None, None, None


_rnn_op.register_autograd(_rnn_grad, setup_context=_rnn_setup)


# ---------------------------------------------------------------- its kernels


def _kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    x, hx, _, cell, layers, both, batch_first, _ = args
    return [_whole(x, hx, cell, layers, both, batch_first, "forward", reads, writes)]


def _backward_kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    _, x, hx, _, _, _, cell, layers, both, batch_first = args
    return [_whole(x, hx, cell, layers, both, batch_first, "backward", reads, writes)]


def _whole(
    x: Any, hx: Any, cell: str, layers: int, both: bool, batch_first: bool, direction: str, reads: Any, writes: Any
) -> Kernel:
    steps, batch = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1] if x.dim() == 3 else 1)
    hidden, given = hx[-1].shape[-1], hx[0].shape[-1]
    sizes: tuple[tuple[int, ...], ...] = ((steps,), (batch,), (x.shape[-1],), (hidden,), (layers,), (2 if both else 1,))
    attrs: dict[str, AttrValue] = {"cell": cell, "pass": direction}
    if given != hidden:  # an LSTM with a projection outputs less than it keeps
        attrs["projection"] = given
    return Kernel("rnn", sizes, tuple(reads), tuple(writes), attrs, dtype=x.dtype)


register("gpuwise::rnn", _kernel)
register("gpuwise::rnn_backward", _backward_kernel)
