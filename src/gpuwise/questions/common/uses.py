"""Decides what a model is used for: training only if an option implies it.

One rule covers language, image and speech models in every command (docs/decisions/0029): a model that generates text, images or
transcripts does so unless an option that only applies to training is given.
"""

from __future__ import annotations

from gpuwise.core.errors import BadValue

__all__ = ["SERVED_PRECISIONS", "TRAINING", "says_training", "trains"]

TRAINING = ("method", "rank", "targets", "optimizer", "accumulate", "checkpoint")  # options that only apply to training
SERVED_PRECISIONS = ("int4", "int8", "fp8", "fp16", "bf16")  # formats in which language models are served


def trains(options: object) -> bool:
    """Return whether these options mean that the model is trained."""
    return getattr(options, "mode", "") == "train" or bool(says_training(options))


def says_training(options: object) -> str:
    """Return the first given option that only applies to training, or an empty text. It is refused with `--mode infer`."""
    found = next((name for name in TRAINING if getattr(options, name, None) not in (None, "", False, "none")), "")
    if found and getattr(options, "mode", "") == "infer":
        raise BadValue(f"`--{found}` is a training option", hint=f"leave out `--{found}` or `--mode infer`")
    return found
