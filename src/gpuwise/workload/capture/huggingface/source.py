"""`hf:ID` and `path/config.json`: models of Hugging Face transformers, from their configuration alone, without weights.

    configs     finds the hyperparameters: local cache, built-in table (known), config.json
    hub_names   recognises fine-tuned models by their names
    tasks       what goes in and what the loss is
    generate    prefill and decode of language models
    experts     mixtures of experts
    steady      branches that would look at values
    subject     puts these together

Nothing is downloaded, and no code that comes with a model is run.
"""

from __future__ import annotations

import contextlib
import difflib
from typing import Any

from gpuwise.core.errors import BadFile, BadValue, MissingExtra, UnknownName
from gpuwise.core.text import either
from gpuwise.workload.capture.huggingface.configs import Found, find_config, reason
from gpuwise.workload.capture.request import Request

__all__ = ["subject"]

_PHASES = ("prefill", "decode")
_GENERATING = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")
_MOST_LAYERS = 2000


def subject(request: Request) -> Any:
    """Return the model with that id or file, with inputs for its task."""
    phase = _phase(request)
    found = find_config(request.model, classifying=request.variant == "top")
    config = _configuration(_transformers(), request, found)

    from gpuwise.workload.capture.huggingface.subject import Capture
    from gpuwise.workload.capture.huggingface.tasks import choose_task

    task, head = choose_task(config)
    if request.inputs:
        raise BadValue(f"{request.model} creates its own inputs for {task.name}", hint="leave out --input")
    if request.image is not None:
        _set_image(request, config, task)
    if phase and task.mapping not in _GENERATING:
        raise BadValue(f"{request.model} ({task.name}) generates no text, so it has no {phase}", hint="leave out --phase")
    if not phase and task.mapping == "CAUSAL_LM" and request.settings.mode == "infer":
        phase = "prefill"
    return Capture(request, config, task, head, phase, found.notes).subject()


def _phase(request: Request) -> str:
    if request.phase not in ("", *_PHASES):
        raise BadValue(f"unknown phase '{request.phase}'", known=", ".join(_PHASES), hint="try `decode`")
    if request.phase and request.settings.mode == "train":
        raise BadValue(f"training has no {request.phase} phase", hint=f"add `--mode infer` to capture the {request.phase}")
    return request.phase


def _transformers() -> Any:
    """Import transformers with torch. A torchvision whose compiled operators do not match torch is made importable first."""
    from gpuwise.workload.capture.torch.torchvision import import_torchvision

    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", extra="torch", needed_for="capturing a Hugging Face model") from None
    with contextlib.suppress(MissingExtra):  # transformers does not need it
        import_torchvision()
    try:
        import transformers
    except ImportError as fault:
        if fault.name != "transformers":
            raise BadValue(
                f"transformers is installed but cannot be imported: {reason(fault)}", hint="reinstall transformers"
            ) from None
        raise MissingExtra("transformers", extra="hf", needed_for="capturing a Hugging Face model") from None
    transformers.logging.set_verbosity_error()
    return transformers


def _configuration(transformers: Any, request: Request, found: Found) -> Any:
    """Return the configuration as transformers understands it; failed checks become our errors."""
    kind = found.config["model_type"]
    known = list(transformers.CONFIG_MAPPING.keys())
    if kind not in known:
        near = difflib.get_close_matches(kind, known, n=3, cutoff=0.6)
        guess = "did you mean " + either(f"`{other}`" for other in near) + "?" if near else "try a newer version of transformers"
        raise UnknownName(
            f"transformers {transformers.__version__} has no model type '{kind}', and gpuwise does not run a model's own code",
            looked_in=f"{len(known)} model types",
            hint=guess,
        )
    try:
        config = transformers.CONFIG_MAPPING[kind].from_dict(dict(found.config))
    except Exception as fault:
        raise BadFile(
            f"{request.model} is not a valid '{kind}' configuration: {reason(fault)}",
            hint="compare it with the one on the model page",
        ) from None
    layers = getattr(config.get_text_config(), "num_hidden_layers", None)
    if isinstance(layers, int) and layers > _MOST_LAYERS:
        raise BadValue(f"{request.model} has {layers:,} layers, more than any known model", hint=f"use at most {_MOST_LAYERS:,}")
    _without_chance(config)
    return config


def _without_chance(config: Any) -> None:
    """Make every layer run in every step: no layer drop, no random masking of the input, no cache in a plain forward pass."""
    for part in (config, config.get_text_config()):
        for name in vars(part):
            if name.endswith("layerdrop"):
                setattr(part, name, 0.0)
        for name, value in (("use_cache", False), ("apply_spec_augment", False)):
            if hasattr(part, name):
                setattr(part, name, value)


def _set_image(request: Request, config: Any, task: Any) -> None:
    if task.seq:
        raise BadValue(f"{request.model} ({task.name}) takes no images", hint="leave out --image")
    patch = getattr(config, "patch_size", 1)
    if isinstance(patch, int) and (request.image or 0) % patch:
        raise BadValue(
            f"images of {request.image} pixels cannot be divided into patches of {patch}", hint=f"use a multiple of {patch}"
        )
    config.image_size = request.image
