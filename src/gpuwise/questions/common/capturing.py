"""A model to capture, as a user gives it: which one, how, and the time limit; and the same model for other choices."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import both, the
from gpuwise.core.units import parse_memory
from gpuwise.hardware.types import Gpu, supported
from gpuwise.prediction.choices import Choices
from gpuwise.workload import find
from gpuwise.workload.capture.request import InputSpec, Request, parse_input
from gpuwise.workload.model.types import CATEGORIES, MODES, OPTIMIZERS, PRECISIONS, Settings, Workload
from gpuwise.workload.store import zoo

__all__ = ["CaptureQuery", "asker", "capture_query", "captured", "check_precision", "takes_images"]

_EXAMPLES = {"mode": "train", "precision": "amp", "optimizer": "adamw"}
_TRAINING_ONLY = {
    "optimizer": "--optimizer",
    "implementation": "--optimizer-impl",
    "accumulate": "--accumulate",
    "checkpoint": "--checkpoint",
    "clip": "--clip",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureQuery:
    """Which model to capture, how, and the time limit. `asked` names the settings that the user gave."""

    request: Request
    compiled: bool = False
    timeout_s: float = 120.0
    memory_limit_bytes: float = 8 * 2**30
    output: Path | None = None
    asked: frozenset[str] = frozenset()
    assumptions: tuple[Assumption, ...] = ()


def capture_query(
    *,
    model: str,
    arguments: Sequence[str] = (),
    batch: int | None = None,
    seq: int | None = None,
    image: int | None = None,
    precision: str = "",
    mode: str = "",
    optimizer: str = "",
    implementation: str = "",
    accumulate: int | None = None,
    checkpoint: bool = False,
    channels_last: bool = False,
    clip: bool = False,
    compiled: bool = False,
    phase: str = "",
    inputs: Sequence[str] = (),
    timeout_s: float = 120.0,
    memory_limit: str = "8GB",
    output: Path | None = None,
) -> CaptureQuery:
    """Return the question as typed, checked and completed with stated defaults."""
    if phase not in ("", "prefill", "decode"):
        raise BadValue(
            f"unknown phase '{phase}'",
            known="prefill, decode",
            hint="leave out `--phase` for models that do not generate text",
        )
    mode = mode or ("infer" if phase else "")  # only inference has phases
    given: dict[str, Any] = {"mode": mode, "precision": precision, "optimizer": optimizer, "implementation": implementation}
    given |= {"accumulate": accumulate, "checkpoint": checkpoint, "channels_last": channels_last, "clip": clip}
    chosen = {name: value for name, value in given.items() if value is not None and value is not False and value != ""}
    _check_known(chosen)
    own = find.tells_itself(model)
    notes = () if own else _assumptions(model, mode or "train", chosen)
    settings = Settings(**({"optimizer": "none"} | {note.code: note.value for note in notes} | chosen))
    if settings.mode == "infer" and not own:
        _refuse_training_only(chosen)
    sizes = {"image": image, "phase": phase, "inputs": tuple(inputs)}
    request = Request(
        model=model,
        batch=batch,
        seq=seq,
        image=image,
        phase=phase,
        settings=settings,
        inputs=_inputs(inputs),
        arguments=tuple(arguments),
    )
    return CaptureQuery(
        request=request,
        compiled=compiled,
        timeout_s=_timeout(timeout_s),
        memory_limit_bytes=_memory(memory_limit),
        output=output,
        asked=frozenset((*chosen, *(name for name, value in sizes.items() if value not in (None, "", ())))),
        assumptions=notes,
    )


def _check_known(chosen: Mapping[str, object]) -> None:
    for name, known in (("mode", MODES), ("precision", PRECISIONS), ("optimizer", OPTIMIZERS)):
        if chosen.get(name, known[0]) not in known:
            raise _unknown(name, str(chosen[name]), known)


def _unknown(name: str, value: str, known: Sequence[str]) -> BadValue:
    near = difflib.get_close_matches(value.lower(), known, n=1)
    hint = f"did you mean `--{name} {near[0]}`?" if near else f"try `--{name} {_EXAMPLES[name]}`"
    return BadValue(f"unknown {name} '{value}'", known=", ".join(known), hint=hint)


def _inputs(texts: Sequence[str]) -> tuple[InputSpec, ...]:
    found = tuple(parse_input(text) for text in texts)
    names = [spec.name for spec in found]
    for name in names:
        if names.count(name) > 1:
            raise BadValue(f"the input '{name}' was given {names.count(name)} times", hint="give each `--input` only once")
    return found


def _timeout(timeout_s: float) -> float:
    if not (math.isfinite(timeout_s) and timeout_s > 0):
        raise BadValue(f"the timeout must be above 0 s, not {timeout_s:g} s", hint="try `--timeout 120`")
    return timeout_s


def _memory(text: str) -> float:
    limit = parse_memory(text)
    if not 1 <= limit < 2**60:
        raise BadValue(f"invalid memory limit '{text}': it must be between 1 byte and 1 EB", hint="try `--memory-limit 8GB`")
    return limit


def _refuse_training_only(chosen: Mapping[str, object]) -> None:
    for name, flag in _TRAINING_ONLY.items():
        if name in chosen and (name, chosen[name]) not in (("optimizer", "none"), ("accumulate", 1)):
            raise BadValue(f"{flag} has no effect on inference", hint=f"leave out {flag}, or use `--mode train`")


def _assumptions(model: str, mode: str, chosen: Mapping[str, object]) -> tuple[Assumption, ...]:
    """Return what was assumed because the user did not say."""
    found = []
    if "precision" not in chosen:
        found.append(assumed("precision", "fp32", "PyTorch's default; `--precision amp` is faster"))
    if "optimizer" not in chosen and mode == "train":
        usual = zoo.entry(model).optimizer if zoo.has(model) else ""
        reason = "the usual optimizer for this model" if usual else "the most common choice"
        found.append(assumed("optimizer", usual or "adamw", f"{reason}; change it with `--optimizer`"))
    return tuple(found)


def captured(query: CaptureQuery, progress: Callable[[str], None] = lambda text: None) -> Workload:
    """Return only the workload, for questions that build on it."""
    return find.workload(
        query.request,
        asked=query.asked,
        compiled=query.compiled,
        timeout_s=query.timeout_s,
        memory_bytes=query.memory_limit_bytes,
        progress=progress,
    )


def check_precision(precision: str, gpus: Sequence[Gpu]) -> None:
    """Refuse a precision that one of these GPUs does not support."""
    for gpu in gpus:
        able = supported(gpu)
        if precision not in able:
            raise BadValue(
                f"{the(gpu.name)} does not support {precision}; it supports only {both(able)}",
                hint=f"try `--precision {'amp' if 'amp' in able and precision != 'tf32' else able[0]}`",
            )


def asker(query: CaptureQuery, gpus: Sequence[Gpu], progress: Callable[[str], None]) -> Callable[[Choices | None], Workload]:
    """Return a function that gives the model as the user has it (None), or as choices require it."""
    request, own = query.request, find.tells_itself(query.request.model)
    if not own:
        check_precision(request.settings.precision, gpus)
        request = msgspec.structs.replace(request, settings=replace(request.settings, accumulate=1, checkpoint=False))

    def ask(choices: Choices | None) -> Workload:
        wanted = request
        if choices is not None:
            if own:
                raise BadValue(f"{request.model} sets its own run options", hint=f"change them in {request.model}")
            settings = replace(
                request.settings,
                precision=choices.precision,
                optimizer=choices.optimizer or request.settings.optimizer,
                implementation=choices.implementation,
                channels_last=choices.channels_last,
            )
            wanted = msgspec.structs.replace(request, settings=settings, image=choices.image or request.image)
        return find.workload(
            wanted,
            asked=query.asked,
            timeout_s=query.timeout_s,
            memory_bytes=query.memory_limit_bytes,
            progress=progress,
        )

    return ask


def takes_images(workload: Workload) -> bool:
    """Whether an input is a square grid of numbers."""
    inputs = [workload.tensors[buffer.tensor] for buffer in workload.buffers if CATEGORIES[buffer.category] == "input"]
    shapes = [workload.products[tensor.elements] for tensor in inputs if "int" not in tensor.dtype]
    return any(len(shape) >= 3 and shape[-1] == shape[-2] for shape in shapes)
