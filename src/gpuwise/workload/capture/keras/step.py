"""One Keras model as a step to record: its symbolic inputs at a size, its torch module, its loss."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from gpuwise.core.errors import BadValue
from gpuwise.workload.capture.keras import ops as keras_ops
from gpuwise.workload.capture.keras.backend import import_keras
from gpuwise.workload.capture.keras.layers import leaf_class
from gpuwise.workload.capture.keras.leaf import DTYPES
from gpuwise.workload.capture.keras.losses import losses_of
from gpuwise.workload.capture.keras.module import Model, prepared
from gpuwise.workload.capture.keras.rnn import REWRITES
from gpuwise.workload.capture.keras.trace import Program, Tracer, reason_of
from gpuwise.workload.capture.request import Request

__all__ = ["KerasStep"]

_INPUT_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_IMAGE = 224


class KerasStep:
    """Traces the model once when created, then once for every requested size."""

    def __init__(self, model: Any, request: Request, seqs: tuple[int, int, int]) -> None:
        self._keras, self._model, self._request = import_keras(), model, request
        self._training = request.settings.mode == "train"
        self._shapes = self._input_shapes()
        self.seqs = seqs if any("seq" in shape for _, shape, _ in self._shapes) else None
        self._programs: dict[tuple[int, int | None], Program] = {}
        self._opened: list[str] | None = None
        self._first = self._program(2, seqs[0] if self.seqs else None)
        if self.seqs:
            self._program(2, seqs[2])  # a table of positions may end before the sequence does
        self.notes = list(dict.fromkeys(self._opened or ()))
        self._nhwc = not any(getattr(layer, "data_format", "") == "channels_first" for layer in model._flatten_layers())
        if self._training and not model.trainable_weights:
            raise BadValue(f"{request.model} has no weights to train", hint="capture it with `--mode infer`, or unfreeze a layer")
        self._losses, more = losses_of(model, self._first, self._keras) if self._training else ([], [])
        self.notes += more
        if any(len(shape) == 4 for _, shape, _ in self._shapes):
            self.notes.append(f"images are {'channels_last (NHWC)' if self._nhwc else 'channels_first (NCHW)'} in memory")

    # ------------------------------------------------------------ what Subject asks for

    def build(self) -> Model:
        """The torch module, with weights of the right shapes and no values."""
        return Model(self._model, self._first)

    def inputs(self, batch: int, seq: int | None) -> Any:
        """The program at this size, the inputs and, in training, the targets."""
        with unset_fake_temporarily():
            try:
                program = self._program(batch, seq)
            except ValueError as fault:
                where = f"batch {batch}" + (f" and sequence {seq}" if self.seqs else "")
                hint = "try a shorter --seq" if self.seqs else "run the model on its own at that batch"
                raise BadValue(f"{self._request.model} cannot be traced at {where}: {reason_of(fault)}", hint=hint) from None
        tensors = [self._handed_over(self._tensor(spec)) for spec in program.specs]
        targets = [
            None if loss is None else loss.target(spec) for loss, spec in zip(self._losses, program.result_specs, strict=False)
        ]
        return program, tensors, targets

    def forward(self, model: Any, batch: Any, training: bool) -> Any:
        """The outputs, or in training the sum of the losses."""
        program, tensors, targets = batch
        outputs = model(program, *(self._handed_over(tensor, back=True) for tensor in tensors))
        if not training:
            return outputs
        parts = [loss(out, target) for loss, out, target in zip(self._losses, outputs, targets, strict=False) if loss is not None]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        penalty = model.penalty()
        return total if penalty is None else total + penalty

    def _handed_over(self, tensor: torch.Tensor, back: bool = False) -> torch.Tensor:
        """Images are passed as (batch, channels, height, width) views, the form in which memory formats are applied to inputs."""
        if tensor.dim() != 4 or not self._nhwc:
            return tensor
        return tensor.movedim(1, -1) if back else tensor.movedim(-1, 1)

    @staticmethod
    def _tensor(spec: Any) -> torch.Tensor:
        dtype = DTYPES.get(spec.dtype, torch.float32)
        return torch.zeros(spec.shape, dtype=torch.float32 if dtype.is_floating_point else dtype)

    # ------------------------------------------------------------ tracing at a size

    def _program(self, batch: int, seq: int | None) -> Program:
        """Return the program at a size, with the same known and unknown layers as at the first size; raise ValueError
        otherwise.
        """
        key = (batch, seq)
        if key not in self._programs:
            tracer = Tracer(self._keras, lambda layer: leaf_class(layer) is not None, keras_ops.is_known, REWRITES)
            args, kwargs = self._symbols(batch, seq)
            program = tracer.trace(self._model.call, args, kwargs, self._training)
            if self._opened is not None and tracer.notes != self._opened:
                raise ValueError(
                    next((note for note in tracer.notes if note not in self._opened), "its layers depend on the size")
                )
            self._opened = tracer.notes
            self._programs[key] = prepared(program)
        return self._programs[key]

    def _symbols(self, batch: int, seq: int | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The model's inputs as symbolic tensors of this size, in the structure its `call` takes."""
        sizes = {"batch": batch, "seq": seq}
        flat = [
            self._keras.KerasTensor(tuple(sizes.get(part, part) for part in shape), dtype=dtype)
            for _, shape, dtype in self._shapes
        ]
        structure = getattr(self._model, "input", None) if hasattr(self._model, "_inputs_struct") else None
        if structure is not None and len(self._keras.tree.flatten(structure)) == len(flat):
            return (self._keras.tree.pack_sequence_as(structure, flat),), {}
        names = [name for name, _, _ in self._shapes]
        parameters = inspect.signature(self._model.call).parameters
        if len(flat) > 1 and all(name in parameters for name in names):
            return (), dict(zip(names, flat, strict=True))
        return (flat[0] if len(flat) == 1 else flat,), {}

    def _input_shapes(self) -> list[tuple[str, tuple[Any, ...], str]]:
        """(name, shape with `batch` and `seq`, dtype) of every input: from the command line, else from the model."""
        given = self._request.inputs
        known = self._known_inputs()
        if given and len(given) != len(known) and known:
            listed = f"{'input' if len(known) == 1 else 'inputs'} ({', '.join(name for name, _, _ in known)})"
            raise BadValue(
                f"{self._request.model} has {len(known)} {listed}, but {len(given)} {'was' if len(given) == 1 else 'were'} given",
                hint="pass all of them in this order, or none",
            )
        if given:
            return [
                (
                    spec.name,
                    tuple(part if part in ("batch", "seq") else int(part) for part in spec.shape),
                    _INPUT_DTYPES.get(spec.dtype, spec.dtype),
                )
                for spec in given
            ]
        if not known:
            raise BadValue(
                f"{self._request.model} is a Keras model that does not declare its inputs",
                hint="start the model with keras.Input(shape=...), or set the inputs with `--input x=batch,28,28,1:fp32`",
            )
        return [(name, self._shape(name, shape), self._dtype(name, dtype)) for name, shape, dtype in known]

    def _known_inputs(self) -> list[tuple[str, tuple[Any, ...], str]]:
        tensors = (
            getattr(self._model, "inputs", None)
            if hasattr(self._model, "_functional") or hasattr(self._model, "_inputs_struct")
            else None
        )
        if tensors:
            return [(tensor.name, tuple(tensor.shape), str(tensor.dtype)) for tensor in tensors]
        built = (self._model.get_build_config() or {}) if self._model.built else {}
        shapes = built.get("shapes_dict") or ({"x": built["input_shape"]} if built.get("input_shape") else {})
        flat = {
            name: shape
            for name, shape in shapes.items()
            if isinstance(shape, (tuple, list)) and all(not isinstance(s, (tuple, list)) for s in shape)
        }
        return (
            [(name.removesuffix("_shape"), tuple(shape), "float32") for name, shape in flat.items()]
            if len(flat) == len(shapes)
            else []
        )

    def _shape(self, name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        if shape and shape[0] is not None and hasattr(self._model, "_inputs_struct"):
            raise BadValue(
                f"input '{name}' of {self._request.model} only accepts batches of {shape[0]}",
                hint="leave the batch size of that keras.Input unset",
            )
        rest = shape[1:]
        image = len(rest) >= 3 and sum(size is None for size in rest) >= 2
        if image:
            return ("batch", *(self._request.image or _IMAGE if size is None else size for size in rest))
        return ("batch", *("seq" if size is None else size for size in rest))

    def _dtype(self, name: str, dtype: str) -> str:
        if dtype not in DTYPES:
            raise BadValue(
                f"input '{name}' of {self._request.model} is of type {dtype}, which GPUs do not support",
                hint="capture the model without its text or lookup layers",
            )
        return dtype
