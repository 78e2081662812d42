"""`keras:NAME`: the models in keras.applications, and any Keras 3 model returned by user code, without weights.

Keras, on any backend, only describes the graph: its layers, their settings and their symbolic shapes. The capture contains the
work a GPU does for those layers (one batch norm, one LSTM, one attention), not the pieces into which a backend splits them.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from gpuwise.core.errors import BadValue, GpuwiseError, MissingExtra, UnknownName
from gpuwise.core.text import either
from gpuwise.workload.capture.keras.backend import choose_backend, import_keras, without_weights
from gpuwise.workload.capture.keras.trace import reason_of
from gpuwise.workload.capture.request import Request

__all__ = ["compiled_optimizer", "subject", "subject_from_model"]

_OPTIMIZERS = {
    "SGD": "sgd",
    "Adam": "adam",
    "Nadam": "adam",
    "Adamax": "adam",
    "AdamW": "adamw",
    "Adafactor": "adafactor",
    "Lion": "lion",
    "RMSprop": "momentum",
}
_SEQS = ((64, 128, 192), (16, 32, 48), (4, 8, 12))


def subject(request: Request) -> Any:
    """The application of that name on images of its usual size."""
    _need_torch()
    note = choose_backend()
    keras = import_keras()
    name = request.model.partition(":")[2]
    known = sorted(other for other in dir(keras.applications) if inspect.isfunction(getattr(keras.applications, other)))
    if name not in known:
        folded = {other.lower(): other for other in known}
        near = [folded[other] for other in difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.5)]
        hint = "did you mean " + either(f"`keras:{other}`" for other in near) + "?" if near else f"try `keras:{known[0]}`"
        raise UnknownName(f"keras.applications has no model '{name}'", looked_in=f"{len(known)} models", hint=hint)
    options = {} if request.image is None else {"input_shape": _image_shape(keras, request.image)}
    try:
        with without_weights():
            model = getattr(keras.applications, name)(weights=None, **options)
    except ValueError as fault:
        hint = (
            "set KERAS_BACKEND to another backend that is installed"
            if request.image is None
            else "try another --image, or leave out the option"
        )
        raise BadValue(f"keras.applications.{name} cannot be built: {reason_of(fault)}", hint=hint) from None
    return subject_from_model(model, request, notes=(note,) if note else ())


def _need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="capturing a Keras model") from None


def _image_shape(keras: Any, size: int) -> tuple[int, int, int]:
    return (size, size, 3) if keras.config.image_data_format() == "channels_last" else (3, size, size)


def compiled_optimizer(model: Any) -> str | None:
    """Return our name for the optimizer with which a Keras model was compiled, or None."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # a loss-scaling wrapper
    name = _OPTIMIZERS.get(type(optimizer).__name__) if optimizer is not None else None
    return "momentum" if name == "sgd" and getattr(optimizer, "momentum", None) else name


def subject_from_model(keras_model: Any, request: Request, notes: tuple[str, ...] = ()) -> Any:
    """Return the subject to record for an existing Keras model, with or without weights in memory."""
    _need_torch()
    keras = import_keras()
    if not isinstance(keras_model, keras.Layer):
        kind = f"{type(keras_model).__module__}.{type(keras_model).__name__}"
        raise BadValue(f"{request.model} is a {kind}, not a Keras {keras.__version__} model", hint="build it with Keras 3")
    from gpuwise.workload.capture.keras.step import KerasStep
    from gpuwise.workload.capture.torch.step import Subject

    step = _first_step(keras_model, request, KerasStep)
    return Subject(
        build=step.build,
        inputs=step.inputs,
        forward=step.forward,
        seq=step.seqs[1] if step.seqs else None,
        notes=(*notes, *step.notes, *_remarks(keras_model, request)),
        **({"seqs": step.seqs} if step.seqs else {}),
    )


def _first_step(model: Any, request: Request, make: Any) -> Any:
    """Trace the model once; if long sequences fail (a position table that ends), try shorter ones."""
    for seqs in _SEQS:
        try:
            return make(model, request, seqs)
        except GpuwiseError:
            raise
        except Exception as fault:
            problem = fault
    raise BadValue(
        f"{request.model} could not be traced through Keras: {reason_of(problem)}",
        hint="check the shapes of its inputs, or set them with `--input x=batch,224,224,3:fp32`",
    ) from problem


def _remarks(model: Any, request: Request) -> list[str]:
    """Return notes for the reader about how this model was captured."""
    found = []
    trained = sum(_count(weight) for weight in model.trainable_weights)
    frozen = sum(_count(weight) for weight in model.non_trainable_weights)
    if frozen:
        found.append(
            f"parameters are counted as in Keras: {trained:,} trainable and {frozen:,} non-trainable, such as moving statistics"
        )
    policy = getattr(getattr(model, "dtype_policy", None), "name", "float32")
    if policy != "float32":
        found.append(
            f"the model's dtype policy {policy} is ignored, because the requested precision is {request.settings.precision}"
        )
    if request.settings.mode == "train":
        optimizer = compiled_optimizer(model)
        if optimizer is not None and optimizer != request.settings.optimizer:
            found.append(
                f"the model is compiled with {type(model.optimizer).__name__} but captured with {request.settings.optimizer}; "
                f"`--optimizer {optimizer}` is the closest match"
            )
        if request.settings.checkpoint:
            found.append("activation checkpointing is not applied to Keras models")
    return found


def _count(weight: Any) -> int:
    size = 1
    for dim in weight.shape:
        size *= int(dim)
    return size
