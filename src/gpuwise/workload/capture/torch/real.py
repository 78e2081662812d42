"""Builds a model with real values and inputs on a device, to be run rather than captured. User code sees the machine as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.failures import is_lack_of_memory, message_of
from gpuwise.workload.capture.registry import source_of, subject_of
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.script.user_code import is_keras, maker
from gpuwise.workload.capture.script.user_files import plainly
from gpuwise.workload.capture.torch.example_inputs import Candidate, Passed, candidates, signature_text
from gpuwise.workload.capture.torch.user_model import Made, check_loss, loss_of, parsed

__all__ = ["Real", "real"]

_LOW = {"fp16": torch.float16, "bf16": torch.bfloat16}
_SMALL = 0.02  # spread of uninitialised weights: avoids zeros and infinities, which run slower or faster on some devices
_FEW = 2  # samples in a first trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """A model on its device, one batch, and the step that runs on them."""

    model: torch.nn.Module
    inputs: Any
    forward: Callable[[torch.nn.Module, Any, bool], Any]


def real(request: Request, device: str) -> Real:
    """Return this request's model at its batch, in its precision and layout, on this device."""
    source = source_of(request.model)
    if source == "keras":
        raise _not_torch(request.model)
    found = _users(request, device) if source == "user_code" else _named(request, source)
    settings = request.settings
    dtype, layout = _LOW.get(settings.precision), torch.channels_last if settings.channels_last else torch.preserve_format
    model = found.model.to(device=device, dtype=dtype).train(settings.mode == "train")
    if settings.channels_last:
        model = model.to(memory_format=layout)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.to(device=device, dtype=dtype if value.is_floating_point() else None)
        return value.contiguous(memory_format=layout) if value.dim() == 4 and settings.channels_last else value

    return Real(model=model, inputs=tree_map(moved, found.inputs), forward=found.forward)


def _not_torch(model: str) -> BadValue:
    return BadValue(
        f"{model} is a Keras model, but only PyTorch models can be run here",
        hint="name the training script: `gpuwise tune train.py`",
    )


# ---------------------------------------------------------------- of a library


def _named(request: Request, source: str) -> Real:
    subject = subject_of(request)
    model = subject.build()
    if source == "huggingface":
        _initialise(model)
    inputs = subject.inputs(request.batch or subject.batch, request.seq or subject.seq)
    return Real(model=model, inputs=_with_tokens(inputs, model), forward=subject.forward)


def _initialise(model: torch.nn.Module) -> None:
    """Give values to weights that were only allocated."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=_SMALL)


def _with_tokens(inputs: Any, model: torch.nn.Module) -> Any:
    """Use random tokens: with a single token everywhere, look-ups and gradient sums would all hit one place."""
    if not isinstance(inputs, dict):
        return inputs
    count = _vocabulary(model)
    return {
        name: torch.randint(count, value.shape) if name.endswith("input_ids") and isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }


def _vocabulary(model: torch.nn.Module) -> int:
    """Return the number of rows in the largest look-up table, or 1 if there is none."""
    tables = [layer.num_embeddings for layer in model.modules() if isinstance(layer, (torch.nn.Embedding, torch.nn.EmbeddingBag))]
    return max(tables, default=1)


# ---------------------------------------------------------------- of the user


def _users(request: Request, device: str) -> Real:
    value = maker(request.model, [], plainly)()
    if is_keras(value):
        raise _not_torch(request.model)
    made, training = parsed(value, request.model), request.settings.mode == "train"
    made.model.to(device).train(training)
    found = _first_that_runs(made, request, device, training)
    inputs = _valued(found.inputs(request.batch or found.batch, request.seq or found.seq), made)

    def forward(model: torch.nn.Module, passed: Passed, is_training: bool) -> Any:
        return loss_of(model, made.loss, passed, is_training, real=True)[0]

    return Real(model=made.model, inputs=inputs, forward=forward)


def _first_that_runs(made: Made, request: Request, device: str, training: bool) -> Candidate:
    """Return the first way of creating inputs with which a small step runs."""
    fault: Exception | None = None
    for candidate in candidates(made.model, made.inputs, request):
        batch = candidate.batch if candidate.is_certain else _FEW
        try:
            passed = _valued(candidate.inputs(batch, request.seq or candidate.seq), made)
            passed = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, passed)
            loss = loss_of(made.model, made.loss, passed, training, real=True)[0]
            if training:
                check_loss(loss)
        except Exception as found:
            if candidate.is_certain or is_lack_of_memory(f"{found!r} {found}"):
                raise
            fault = fault or found
            continue
        return candidate
    text, example = signature_text(made.model)
    why = f": {message_of(fault)}" if fault is not None else ""
    raise BadValue(
        f"{request.model} does not run with any of the inputs guessed for it{why}; its forward method takes {text}",
        hint=f"set the inputs yourself, such as `{example}`, or name a function that returns (model, inputs)",
    )


def _valued(passed: Passed, made: Made) -> Passed:
    """Return the same inputs with random values; integers stay below what the model's tables or the user's own inputs allow."""
    own = [leaf for leaf in tree_leaves(made.inputs) if isinstance(leaf, torch.Tensor) and leaf.numel()]
    tables = [layer.num_embeddings for layer in made.model.modules() if hasattr(layer, "num_embeddings")]

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.is_floating_point():
            return torch.randn(leaf.shape, dtype=leaf.dtype)
        if leaf.dtype is torch.bool:
            return torch.zeros_like(leaf)
        alike = [int(other.max()) + 1 for other in own if (other.dtype, other.dim()) == (leaf.dtype, leaf.dim())]
        limit = min(alike, default=tables[0] if tables and not own else 1)
        return torch.randint(max(limit, 1), leaf.shape, dtype=leaf.dtype)

    return dict(tree_map(value, passed))
