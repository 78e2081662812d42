"""The loss for a Keras model: the compiled one if there is one, otherwise the usual one for its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812

from gpuwise.workload.capture.keras.trace import Program, Ref, Spec

__all__ = ["Loss", "losses_of"]


class Loss:
    """One output's loss: the targets it needs and how it is computed."""

    def __init__(self, name: str, logits: bool) -> None:
        self.name, self.logits = name, logits

    def target(self, spec: Spec) -> torch.Tensor:
        """Made-up targets for an output of this shape."""
        if self.name == "sparse_categorical_crossentropy":
            return torch.zeros(spec.shape[:-1], dtype=torch.int64)
        return torch.zeros(spec.shape)

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if self.name == "sparse_categorical_crossentropy":
            scores, labels = output.flatten(0, -2), target.flatten()
            return F.cross_entropy(scores, labels) if self.logits else F.nll_loss(_log(scores), labels)
        target = target.to(output.dtype) if target.is_floating_point() else target
        if self.name == "categorical_crossentropy":
            scores = F.log_softmax(output, -1) if self.logits else _log(output)
            return -(scores * target).sum(-1).mean()
        if self.name == "binary_crossentropy":
            # with probabilities, torch's own kernel is unsafe under autocast; Keras takes logarithms too
            return F.binary_cross_entropy_with_logits(output, target) if self.logits else _binary(output, target)
        return _POINTWISE.get(self.name, F.mse_loss)(output, target)


def _log(probabilities: torch.Tensor) -> torch.Tensor:
    return torch.log(probabilities.clamp(1e-7, 1 - 1e-7))


def _binary(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    output = output.clamp(1e-7, 1 - 1e-7)
    return -(target * torch.log(output) + (1 - target) * torch.log(1 - output)).mean()


_POINTWISE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mean_squared_error": F.mse_loss,
    "mean_absolute_error": F.l1_loss,
    "huber": F.huber_loss,
    "kl_divergence": lambda output, target: (target * (torch.log(target.clamp(1e-7, 1)) - _log(output))).sum(-1).mean(),
    "poisson": lambda output, target: (output - target * torch.log(output + 1e-7)).mean(),
    "hinge": lambda output, target: (1 - target * output).clamp_min(0).mean(),
    "squared_hinge": lambda output, target: (1 - target * output).clamp_min(0).square().mean(),
    "log_cosh": lambda output, target: F.softplus(-2 * (output - target)).add(output - target).mean(),
    "cosine_similarity": lambda output, target: -F.cosine_similarity(output, target, -1).mean(),
}
_ALIASES = {
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "kld": "kl_divergence",
    "kullback_leibler_divergence": "kl_divergence",
    "bce": "binary_crossentropy",
    "logcosh": "log_cosh",
}
_KNOWN = frozenset((*_POINTWISE, "sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy"))


def losses_of(model: Any, program: Program, keras: Any) -> tuple[list[Loss | None], list[str]]:
    """Return one loss for each output (None if the output is not trained), and notes about the choice."""
    compiled = _by_output(model, len(program.results))
    losses: list[Loss | None] = []
    notes = []
    for number, spec in enumerate(program.result_specs):
        last = _last_activation(program, number)
        if compiled is not None:
            given = compiled[number]
            loss = None if given is None else _known(keras, given)
            if given is not None and loss is None:
                loss = _usual(spec, last)
                notes.append(f"the loss {_called(given)} is unknown, so {loss.name} is used instead")
        else:
            loss = _usual(spec, last)
            notes.append(
                f"the model is compiled without a loss, so {loss.name} is assumed for its {len(spec.shape)}-dimensional output"
            )
        losses.append(loss)
    if all(loss is None for loss in losses):
        losses[0] = Loss("mean_squared_error", False)
    return losses, list(dict.fromkeys(notes))


def _by_output(model: Any, count: int) -> list[Any] | None:
    """Return the compiled losses in the order of the outputs, or None if the model is not compiled with one."""
    loss = getattr(model, "loss", None)
    if loss is None:
        return None
    if isinstance(loss, dict):
        names = list(getattr(model, "output_names", None) or sorted(loss))
        return [loss.get(name) for name in names][:count] + [None] * (count - len(names))
    if isinstance(loss, (list, tuple)):
        return [*loss, *[None] * count][:count]
    return [loss] * count


def _known(keras: Any, given: Any) -> Loss | None:
    """Return a loss given by its name, as an object or as a function."""
    name = _called(given)
    try:
        found = keras.losses.get(given) if isinstance(given, str) else given
    except ValueError:
        return None
    if isinstance(found, keras.losses.Loss):
        if not type(found).__module__.startswith("keras."):
            return None
        name = getattr(getattr(found, "fn", None), "__name__", name)
    elif not str(getattr(found, "__module__", "")).startswith("keras."):
        return None
    else:
        name = found.__name__
    logits = getattr(found, "from_logits", getattr(found, "_fn_kwargs", {}).get("from_logits", False))
    name = _ALIASES.get(name, name)
    return Loss(name, bool(logits)) if name in _KNOWN else None


def _called(given: Any) -> str:
    return str(getattr(given, "name", None) or getattr(given, "__name__", None) or given)


def _usual(spec: Spec, activation: str) -> Loss:
    """Class scores get cross-entropy, a single sigmoid gets binary cross-entropy, and anything else gets squared errors."""
    if not spec.dtype.startswith(("float", "bfloat")):
        return Loss("mean_squared_error", False)
    if spec.shape[-1:] != (1,) and (len(spec.shape) == 2 or activation == "softmax"):
        return Loss("sparse_categorical_crossentropy", activation != "softmax")
    if activation == "sigmoid":
        return Loss("binary_crossentropy", False)
    return Loss("mean_squared_error", False)


def _last_activation(program: Program, number: int) -> str:
    """Return the name of the activation that produced an output, also inside nested models; empty if there is none."""
    result = program.results[number]
    for step in reversed(program.steps):
        if isinstance(result, Ref) and result.index in step.outputs:
            if step.inner is not None and step.kind == "block":
                return _last_activation(step.inner, step.outputs.index(result.index))
            if step.kind == "op" or type(step.operation).__name__ == "Softmax":
                return type(step.operation).__name__.lower()
            return str(getattr(getattr(step.operation, "activation", None), "__name__", ""))
    return ""
