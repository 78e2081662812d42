"""The CTC loss of speech recognisers as one op with known shapes; torch's own op reads lengths from tensors, which a capture
cannot.

It keeps the same tensor for the backward pass as torch: the log-probabilities of every state of the transcript with blanks in
between, (batch, frames, 2 · characters + 1).
"""

from __future__ import annotations

from typing import Any

import torch

from gpuwise.workload.capture.torch.aten import Kernel, register

__all__ = ["ctc_loss"]


def ctc_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean loss of (batch, frames, characters) scores against (batch, length) transcripts, all of full length."""
    chances = torch.nn.functional.log_softmax(scores, dim=-1, dtype=torch.float32).transpose(0, 1)
    losses, _ = torch.ops.gpuwise.ctc_loss(chances, labels)
    return (losses / labels.shape[1]).mean()


@torch.library.custom_op("gpuwise::ctc_loss", mutates_args=())
def _ctc(chances: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    raise NotImplementedError("recorded, never computed")


@_ctc.register_fake
def _ctc_shape(chances: Any, labels: Any) -> Any:
    frames, batch, _ = chances.shape
    return chances.new_empty(batch), chances.new_empty(batch, frames, 2 * labels.shape[1] + 1)


@torch.library.custom_op("gpuwise::ctc_loss_backward", mutates_args=())
def _ctc_backward(grad: torch.Tensor, chances: torch.Tensor, labels: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("recorded, never computed")


@_ctc_backward.register_fake
def _ctc_backward_shape(grad: Any, chances: Any, labels: Any, states: Any) -> Any:
    return torch.empty_like(chances)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, grad: Any, _: Any) -> Any:
    return torch.ops.gpuwise.ctc_loss_backward(grad, *ctx.saved_tensors), None


_ctc.register_autograd(_backward, setup_context=_setup)


def _kernel(args: Any, kwargs: Any, reads: Any, writes: Any) -> list[Kernel]:
    frames, batch, characters = args[1 if len(args) == 4 else 0].shape
    return [Kernel("loss", ((frames, batch), (characters,)), tuple(reads), tuple(writes))]


register("gpuwise::ctc_loss", _kernel)
register("gpuwise::ctc_loss_backward", _kernel)
