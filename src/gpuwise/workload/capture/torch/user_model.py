"""A PyTorch model created by user code, as a subject: its inputs, its loss, and a first check that it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.failures import message_of, user_line
from gpuwise.workload.capture.request import Request
from gpuwise.workload.capture.torch.default_loss import default_loss, given_loss
from gpuwise.workload.capture.torch.example_inputs import Candidate, Passed, candidates, signature_text
from gpuwise.workload.capture.torch.overrides import install
from gpuwise.workload.capture.torch.stand_ins import OnCpu, gpu_names, swapped
from gpuwise.workload.capture.torch.step import Subject

__all__ = ["Made", "NoOutput", "check_loss", "loss_of", "parsed", "subject_from_maker"]

_NO_IMAGE = "leave out --image, or set the inputs yourself, such as `--input x=batch,3,64,64:fp32`"
_DATA_DEPENDENT = ("DataDependentOutputException", "DynamicOutputShapeException")


class NoOutput(BadValue):
    """A model that returns nothing for any input."""


@dataclass(frozen=True, slots=True)
class Made:
    """The objects that user code returned."""

    model: torch.nn.Module
    inputs: Any = None
    loss: Callable[..., Any] | None = None


def subject_from_maker(make: Callable[[], Any], request: Request, remarks: tuple[str, ...] = ()) -> Subject:
    """Return the model that `make()` returns, after running it once on fake tensors to learn what it takes."""
    library, notes = install(), list(remarks)
    training = request.settings.mode == "train"
    with FakeTensorMode(allow_non_fake_inputs=True):
        with _believing(notes, real_constants=True):
            made = parsed(make(), request.model)
            _adopt(made.model)
        made.model.train(training)
        found, assumed = _first_that_runs(made, request, training, notes)
    del library

    def build() -> torch.nn.Module:
        with _believing(notes, real_constants=True):
            return _adopt(parsed(make(), request.model).model)

    def forward(model: torch.nn.Module, passed: Passed, is_training: bool) -> Any:
        with _believing(notes):
            return loss_of(model, made.loss, passed, is_training)[0]

    return Subject(
        build=build,
        inputs=found.inputs,
        forward=forward,
        batch=found.batch,
        seq=found.seq,
        seqs=found.seqs,
        notes=tuple(dict.fromkeys((*notes, *assumed))),
    )


@contextlib.contextmanager
def _believing(notes: list[str], real_constants: bool = False) -> Iterator[None]:
    """User code inside sees a GPU."""
    with swapped(gpu_names(notes.append)), OnCpu(real_constants):
        yield


def parsed(value: Any, label: str) -> Made:
    """Return the parts of the result of user code by name."""
    parts = value if isinstance(value, tuple) else (value,)
    if not parts or len(parts) > 3 or not isinstance(parts[0], torch.nn.Module):
        what = (
            f"a tuple of {', '.join(type(part).__name__ for part in parts)}"
            if isinstance(value, tuple)
            else f"a {type(value).__name__}"
        )
        raise BadValue(
            f"{label} returns {what}, not a model",
            hint="return a torch.nn.Module or a Keras model, or (model, inputs), or (model, inputs, loss_function)",
        )
    if len(parts) == 3 and parts[2] is not None and not callable(parts[2]):
        raise BadValue(f"{label} returns a loss of type {type(parts[2]).__name__}", hint="return a function as the third value")
    return Made(*parts)


def _adopt(model: torch.nn.Module) -> torch.nn.Module:
    """Replace parameters that are real, or from an earlier trial, with fake ones for this capture, because a model may allow only
    one build.
    """
    mode, twins = torch.empty(0).fake_mode, dict[int, torch.nn.Parameter | torch.Tensor]()

    def twin(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor) and tensor.fake_mode is mode and tensor.device.type != "meta":
            return tensor
        if id(tensor) not in twins:
            fresh = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            twins[id(tensor)] = torch.nn.Parameter(fresh, tensor.requires_grad) if is_parameter else fresh
        return twins[id(tensor)]

    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if torch.nn.parameter.is_lazy(parameter):
                raise BadValue(
                    f"the layer '{path}' ({type(module).__name__}) has no known sizes until the model has run",
                    hint="set its sizes, such as nn.Linear(784, 10) instead of nn.LazyLinear(10)",
                )
            if parameter is not None:
                module._parameters[name] = twin(parameter)
        for name, buffer in module._buffers.items():
            if isinstance(buffer, FakeTensor) or (
                buffer is not None and buffer.is_meta
            ):  # real ones may hold values that the model reads
                module._buffers[name] = twin(buffer)
    return model


def _first_that_runs(made: Made, request: Request, training: bool, notes: list[str]) -> tuple[Candidate, list[str]]:
    """Return the first candidate inputs with which a step runs, and the notes about inputs and loss."""
    first: tuple[Candidate, Exception] | None = None
    for candidate in candidates(made.model, made.inputs, request):
        try:
            with _believing(notes):
                remark = _trial(made, candidate, training)
        except Exception as fault:
            if candidate.is_certain and request.inputs and isinstance(fault, (RuntimeError, TypeError)) and not _is_models(fault):
                raise _wrong_inputs(made.model, request, fault) from None
            if candidate.is_certain or _is_models(fault):
                raise
            first = first or (candidate, fault)
            continue
        if request.image is not None and not candidate.uses_image:
            raise BadValue(
                f"{request.model} does not accept images of different sizes, but --image {request.image} was given",
                hint=_NO_IMAGE,
            )
        settled = candidate.settled()
        return settled, [text for text in (settled.note, remark) if text]
    raise _wrong_guess(made.model, request, *first) if first is not None else _no_guess(made.model, request)


def _is_models(fault: Exception) -> bool:
    """Return whether no other inputs would avoid this error: it depends on values, or is a mistake in the model's own code."""
    if isinstance(fault, AttributeError):
        return not isinstance(getattr(fault, "obj", None), torch.Tensor)  # otherwise it expects something other than a tensor
    return type(fault).__name__ in _DATA_DEPENDENT or isinstance(fault, (NameError, RecursionError, NoOutput))


def _no_guess(model: torch.nn.Module, request: Request) -> Exception:
    text, example = signature_text(model)
    return BadValue(
        f"the inputs of {request.model} cannot be guessed: its forward method takes {text}",
        hint=f"set the inputs yourself, such as `{example}`, or name a function that returns (model, inputs)",
    )


def _wrong_guess(model: torch.nn.Module, request: Request, candidate: Candidate, fault: Exception) -> Exception:
    """The model runs with none of the guessed inputs: report the error for the first guess, which is the likeliest."""
    line, (text, example) = user_line(fault.__traceback__), signature_text(model)
    guess = candidate.note.partition(";")[0] + (f", seq {candidate.seq}" if candidate.seq is not None else "")
    shorter = "use a shorter --seq, or " if request.seq is not None else ""
    return BadValue(
        f"{request.model} does not run with {guess}{f', at {line}' if line else ''}: "
        f"{message_of(fault) or type(fault).__name__}; its forward method takes {text}",
        hint=f"correct that line if it is wrong; {shorter}set the inputs yourself, such as `{example}`, "
        "or name a function that returns (model, inputs)",
    )


def _wrong_inputs(model: torch.nn.Module, request: Request, fault: Exception) -> Exception:
    """The inputs given by hand do not suit the model."""
    line = user_line(fault.__traceback__)
    return BadValue(
        f"{request.model} does not run with the inputs given{f', at {line}' if line else ''}: {message_of(fault)}",
        hint=f"check the shape and dtype of each `--input`; the forward method takes {signature_text(model)[0]}",
    )


def _trial(made: Made, candidate: Candidate, training: bool) -> str:
    """Run one small step; if a sequence may vary, at two lengths. Returns the notes about the loss."""
    batch = candidate.batch if candidate.is_certain else 2
    loss, remark = loss_of(made.model, made.loss, candidate.inputs(batch, candidate.seq), training)
    if training:
        check_loss(loss)
    if candidate.seq is not None:
        try:
            loss_of(made.model, made.loss, candidate.inputs(batch, candidate.seqs[0]), training)
        except Exception:
            candidate.fix_length()
    return remark


def loss_of(
    model: torch.nn.Module, loss: Callable[..., Any] | None, passed: Passed, training: bool, *, real: bool = False
) -> tuple[Any, str]:
    """Return the loss of a step, or in inference the model's output, and the notes about it."""
    output = model(*passed["args"], **passed["kwargs"])
    if not training:
        return output, ""
    if output is None:
        raise NoOutput(
            f"the forward method of {type(model).__name__} returns None, so it has no loss",
            hint="return its result, or use `--mode infer`, which needs no loss",
        )
    if loss is not None:
        return given_loss(loss, output, passed["targets"], real=real)
    return default_loss(output, passed, real=real)


def check_loss(loss: Any) -> None:
    """Refuse a loss without a gradient."""
    if not isinstance(loss, torch.Tensor) or loss.dim() or not loss.requires_grad:
        what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
        raise BadValue(
            f"the loss is {what}, from which no gradient can be computed",
            hint="return one number that depends on the parameters, or use `--mode infer`, which needs no loss",
        )
