"""The loss for a model if the user named none, or gave one without targets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from gpuwise.core.errors import BadValue

__all__ = ["default_loss", "given_loss"]

_CLASSES = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss")


def default_loss(output: Any, passed: Any, *, real: bool = False) -> tuple[torch.Tensor, str]:
    """Return a loss for this output, and a sentence that names it: the model's own, cross-entropy, or the mean of squares.

    Targets have no values unless they are to be `real`.
    """
    own = _own_loss(output)
    if own is not None:
        return own, ""
    scores = _main(output)
    if not scores.is_floating_point():
        raise _no_loss(f"a tensor of {str(scores.dtype).removeprefix('torch.')}")
    inputs = [leaf for leaf in tree_leaves((passed["args"], passed["kwargs"])) if isinstance(leaf, torch.Tensor)]
    is_reconstruction = any(leaf.shape == scores.shape and leaf.is_floating_point() for leaf in inputs)
    if scores.dim() in (2, 3) and scores.shape[-1] > 1 and not is_reconstruction:
        rows = scores.reshape(-1, scores.shape[-1])
        target = (rows.new_zeros if real else rows.new_empty)(rows.shape[0], dtype=torch.int64)
        return torch.nn.functional.cross_entropy(rows, target), f"loss assumed: cross-entropy over {scores.shape[-1]} classes"
    return scores.pow(2).mean(), "loss assumed: the mean of the squared output"


def given_loss(loss: Callable[..., Any], output: Any, targets: Sequence[Any], *, real: bool = False) -> tuple[Any, str]:
    """Return the user's loss function on this output, with targets of the right form if none were given."""
    if targets:
        return loss(output, *targets), ""
    if _needed(loss) < 2:
        return loss(output), ""
    scores = _main(output)
    if type(loss).__name__ in _CLASSES or getattr(loss, "__name__", "") in _CLASSES:
        shape = (scores.shape[0], *scores.shape[2:]) if scores.dim() > 1 else ()
        blank = scores.new_zeros if real else scores.new_empty
        return loss(output, blank(shape, dtype=torch.int64)), "targets assumed: class numbers"
    like = torch.zeros_like if real else torch.empty_like
    return loss(output, like(scores, requires_grad=False)), "targets assumed: the same shape as the output"


def _needed(loss: Callable[..., Any]) -> int:
    function = loss.forward if isinstance(loss, torch.nn.Module) else loss
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    positional = [
        parameter for parameter in parameters if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return sum(parameter.default is parameter.empty for parameter in positional) or min(1, len(positional))


def _own_loss(output: Any) -> torch.Tensor | None:
    """Return a loss that the model itself returns: one number, alone or as `.loss`, `["loss"]` or among a tuple's values."""
    if isinstance(output, torch.Tensor):
        return output if output.dim() == 0 and output.requires_grad else None
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    values = [named, *(output if isinstance(output, (tuple, list)) else ())]
    for value in values:
        if isinstance(value, torch.Tensor) and value.dim() == 0 and value.requires_grad:
            return value
    return None


def _main(output: Any) -> torch.Tensor:
    """Return the main tensor of what a model returns: `logits`, or else the first."""
    named = getattr(output, "logits", None)
    if isinstance(named, torch.Tensor):
        return named
    found = [leaf for leaf in tree_leaves(dict(output) if isinstance(output, dict) else output) if isinstance(leaf, torch.Tensor)]
    if not found:
        raise _no_loss(f"a {type(output).__name__} without any tensor")
    return found[0]


def _no_loss(what: str) -> BadValue:
    return BadValue(
        f"the model returns {what}, from which no loss can be computed",
        hint="name a function that returns (model, inputs, loss_function), or capture with `--mode infer`",
    )
