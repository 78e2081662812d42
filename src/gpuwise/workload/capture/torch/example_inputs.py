"""Inputs for a model: given by hand, returned by the user's function, or guessed from its first layer.

Each candidate creates its inputs at any batch (and sequence, if it has one); the first one that the model runs with is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.request import InputSpec, Request

__all__ = ["Candidate", "Passed", "candidates", "signature_text"]

Passed = dict[str, Any]  # args, kwargs, targets
_LAYERS_LOOKED_AT = 6
_DEFAULT_SEQ = 128
_LENGTHS = (128, 64, 32, 16, 8)
_DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "bool": torch.bool,
    "uint8": torch.uint8,
}


@dataclass(slots=True)
class Candidate:
    """One way to create inputs. A certain one comes from the user: if the model does not run with it, that is reported."""

    make: Callable[[int, int | None], Passed]
    note: str = ""
    batch: int = 32
    seq: int | None = None
    is_certain: bool = False
    has_fixed_length: bool = False
    uses_image: bool = False

    @property
    def seqs(self) -> tuple[int, int, int]:
        """Return lengths on which to fit the symbolic form, within what the model accepts."""
        length = self.seq or _DEFAULT_SEQ
        return (length // 4, length // 2, 3 * length // 4) if length >= 8 else (2, 3, 4)

    def inputs(self, batch: int, seq: int | None) -> Passed:
        return self.make(batch, self.seq if self.has_fixed_length else seq)

    def fix_length(self) -> None:
        """Fix the length: the model takes only one."""
        self.has_fixed_length = True

    def settled(self) -> Candidate:
        """Return the candidate that the capture should use: without a sequence if its length cannot vary."""
        if not self.has_fixed_length:
            return self
        length, make = self.seq, self.make
        note = f"{self.note}; the model accepts only the length {length}"
        return replace(self, make=lambda batch, seq: make(batch, length), note=note, seq=None, has_fixed_length=False)


def candidates(model: torch.nn.Module, returned: Any, request: Request) -> Iterator[Candidate]:
    """Ways to make inputs for this model, the best first."""
    if request.inputs:
        yield _by_hand(model, request)
    elif returned is not None:
        yield _returned(model, returned, request)
    else:
        names, needed = _parameters(model)
        if needed <= 1 and names:
            for number, guess in enumerate(_guesses(model, request)):
                if number < 4 * _LAYERS_LOOKED_AT:
                    yield guess


def signature_text(model: torch.nn.Module) -> tuple[str, str]:
    """`(src, tgt, mask=None)`, and how its inputs would be given by hand."""
    names, needed = _parameters(model)
    first = next((layer for layer in model.modules() if any(isinstance(layer, kind) for kind, _ in _BY_LAYER)), None)
    form = "batch,seq:int64" if isinstance(first, (torch.nn.Embedding, torch.nn.EmbeddingBag)) else "batch,16:fp32"
    example = " ".join(f"--input {name}={form}" for name in names[: max(1, needed)]) or "--input x=batch,3,224,224:fp32"
    return str(inspect.signature(model.forward)), example


def _parameters(model: torch.nn.Module) -> tuple[list[str], int]:
    """Return the names that forward takes by position, and how many of them it needs; with *args, any number more."""
    found = inspect.signature(model.forward).parameters.values()
    positional = [
        parameter for parameter in found if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [parameter for parameter in positional if parameter.default is parameter.empty]
    names = [parameter.name for parameter in positional]
    if not names and any(parameter.kind is parameter.VAR_POSITIONAL for parameter in found):
        return ["x"], 1
    return names, len(needed)


def _passed(*args: Any, targets: tuple[Any, ...] = (), **kwargs: Any) -> Passed:
    return {"args": args, "kwargs": kwargs, "targets": targets}


def _new(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


# ---------------------------------------------------------------- by hand


def _by_hand(model: torch.nn.Module, request: Request) -> Candidate:
    names, needed = _parameters(model)
    given = {spec.name: spec for spec in request.inputs}
    found = inspect.signature(model.forward).parameters
    kinds = {parameter.kind for parameter in found.values()}
    unknown = [name for name in given if name not in found]
    by_place = bool(unknown) and inspect.Parameter.VAR_POSITIONAL in kinds
    takes_any = by_place or inspect.Parameter.VAR_KEYWORD in kinds
    missing = [name for name in names[:needed] if name not in given and name in found]
    if (unknown or missing) and not takes_any:
        text, example = signature_text(model)
        what = f"unknown input {', '.join(unknown)}" if unknown else f"its input {', '.join(missing)} is missing"
        raise BadValue(f"{request.model}: {what}; its forward method takes {text}", hint=f"try `{example}`")
    if not any("batch" in spec.shape for spec in request.inputs):
        sizes = ",".join(("batch", *request.inputs[0].shape[1:]))
        raise BadValue(
            f"no input of {request.model} has a batch dimension",
            hint=f"write `batch` for that dimension, such as `--input {request.inputs[0].name}={sizes}`",
        )

    def make(batch: int, seq: int | None) -> Passed:
        tensors = {name: _of_spec(spec, batch, seq) for name, spec in given.items()}
        return _passed(*tensors.values()) if by_place else _passed(**tensors)

    has_seq = any("seq" in spec.shape for spec in request.inputs)
    return Candidate(make, seq=(request.seq or _DEFAULT_SEQ) if has_seq else None, is_certain=True)


def _of_spec(spec: InputSpec, batch: int, seq: int | None) -> torch.Tensor:
    return _new(spec.sizes(batch, seq), _DTYPES[spec.dtype])


# ---------------------------------------------------------------- returned by the user's function


def _returned(model: torch.nn.Module, returned: Any, request: Request) -> Candidate:
    names, _ = _parameters(model)
    tensors = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    if not tensors:
        raise BadValue(
            f"the inputs that {request.model} returns contain no tensor with a batch dimension",
            hint="return tensors with the batch as their first dimension",
        )
    first = tensors[0]
    batch, length = first.shape[0], first.shape[1] if first.dim() == 2 and not first.is_floating_point() else None
    takes_any = any(
        parameter.kind is parameter.VAR_POSITIONAL for parameter in inspect.signature(model.forward).parameters.values()
    )

    def resized(value: Any, new_batch: int, seq: int | None) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        shape = list(value.shape)
        if shape and shape[0] == batch:
            shape[0] = new_batch
        if length is not None and seq is not None:
            shape = [shape[0] if not position else seq if size == length else size for position, size in enumerate(shape)]
        return _new(tuple(shape), value.dtype)

    def make(new_batch: int, seq: int | None) -> Passed:
        fresh = tree_map(lambda value: resized(value, new_batch, seq), returned)
        if isinstance(fresh, dict):
            inside = {key: value for key, value in fresh.items() if key in inspect.signature(model.forward).parameters}
            extra = tuple(value for key, value in fresh.items() if key not in inside)
            return _passed(targets=extra, **inside) if inside else _passed(**fresh)
        values = tuple(fresh) if isinstance(fresh, (tuple, list)) else (fresh,)
        count = len(values) if takes_any else len(names)
        return _passed(*values[:count], targets=values[count:])

    note = f"the first dimension of the inputs ({batch}) is assumed to be the batch"
    return Candidate(make, note, batch=batch, seq=(request.seq or length) if length is not None else None, is_certain=True)


# ---------------------------------------------------------------- guessed from the first layers


def _guesses(model: torch.nn.Module, request: Request) -> Iterator[Candidate]:
    layers = [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))]
    for layer in layers[:_LAYERS_LOOKED_AT]:
        for kind, guess in _BY_LAYER:
            if isinstance(layer, kind):
                yield from guess(layer, request)
                break


def _plain(note: str, dtype: torch.dtype, *sizes: int) -> Candidate:
    text = " × ".join(("batch", *map(str, sizes)))
    return Candidate(
        lambda batch, seq: _passed(_new((batch, *sizes), dtype)),
        f"inputs guessed from {note}: {text}; set other inputs with `--input` or `--image`",
    )


def _sequences(
    note: str, request: Request, dtype: torch.dtype, features: tuple[int, ...], batch_first: bool = True
) -> Iterator[Candidate]:
    lead = "batch × seq" if batch_first else "seq × batch"
    text = " × ".join((lead, *map(str, features)))

    def make(batch: int, seq: int | None) -> Passed:
        length = seq or _DEFAULT_SEQ
        return _passed(_new((*((batch, length) if batch_first else (length, batch)), *features), dtype))

    for length in (request.seq,) if request.seq else _LENGTHS:
        yield Candidate(make, f"inputs guessed from {note}: {text}; set other inputs with `--input`", seq=length)


def _images(layer: Any, request: Request) -> Iterator[Candidate]:
    usual = {3: (224, 32, 28), 1: (28, 32, 224)}.get(layer.in_channels, (224, 64, 32))
    for size in (request.image,) if request.image else usual:
        guess = _plain(f"the {type(layer).__name__} layer", torch.float32, layer.in_channels, size, size)
        yield replace(guess, uses_image=True)


def _signals(layer: Any, request: Request) -> Iterator[Candidate]:
    yield from (_plain("the Conv1d layer", torch.float32, layer.in_channels, length) for length in (1024, 128))


def _volumes(layer: Any, request: Request) -> Iterator[Candidate]:
    yield from (_plain("the Conv3d layer", torch.float32, layer.in_channels, 16, size, size) for size in (112, 32))


def _features(layer: Any, request: Request) -> Iterator[Candidate]:
    yield _plain("the Linear layer", torch.float32, layer.in_features)
    yield from _sequences("the Linear layer", request, torch.float32, (layer.in_features,))


def _tokens(layer: Any, request: Request) -> Iterator[Candidate]:
    yield from _sequences(f"the {type(layer).__name__} layer", request, torch.int64, ())


def _steps(layer: Any, request: Request) -> Iterator[Candidate]:
    yield from _sequences(f"the {type(layer).__name__} layer", request, torch.float32, (layer.input_size,), layer.batch_first)


def _attention(layer: Any, request: Request) -> Iterator[Candidate]:
    yield from _sequences("the attention layer", request, torch.float32, (layer.embed_dim,), layer.batch_first)


def _normalized(layer: Any, request: Request) -> Iterator[Candidate]:
    yield _plain("the LayerNorm layer", torch.float32, *layer.normalized_shape)
    if len(layer.normalized_shape) == 1:
        yield from _sequences("the LayerNorm layer", request, torch.float32, tuple(layer.normalized_shape))


def _per_channel(layer: Any, request: Request) -> Iterator[Candidate]:
    yield _plain("the BatchNorm layer", torch.float32, layer.num_features)
    yield from (_plain("the BatchNorm layer", torch.float32, layer.num_features, size, size) for size in (224, 32))


_BY_LAYER: tuple[tuple[Any, Callable[[Any, Request], Iterator[Candidate]]], ...] = (
    (torch.nn.MultiheadAttention, _attention),
    (torch.nn.Conv1d, _signals),
    (torch.nn.Conv2d, _images),
    (torch.nn.ConvTranspose2d, _images),
    (torch.nn.Conv3d, _volumes),
    (torch.nn.Linear, _features),
    ((torch.nn.Embedding, torch.nn.EmbeddingBag), _tokens),
    (torch.nn.RNNBase, _steps),
    (torch.nn.LayerNorm, _normalized),
    (torch.nn.modules.batchnorm._BatchNorm, _per_channel),
)
