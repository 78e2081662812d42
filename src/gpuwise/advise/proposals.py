"""The type for a remedy: a name, what it requires from the user, and a function from choices to other choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuwise.advise.trial import Trial
from gpuwise.prediction.choices import Choices, DoesNotApply

__all__ = ["Proposal", "Remedy", "inference_only", "training_only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Other choices, with words for what changes and what to write or set. `effect` is set if it differs from the remedy's
    own.
    """

    choices: Choices
    title: str
    how: str
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A named remedy and what it requires from the user (`EFFECTS`)."""

    name: str
    effect: str
    propose: Callable[[Trial, Choices], Proposal]


def training_only(trial: Trial) -> None:
    """Refuse in inference."""
    if trial.ways.plain(trial.now).mode != "train":
        raise DoesNotApply("for training only")


def inference_only(trial: Trial) -> None:
    """Refuse in training."""
    if trial.ways.plain(trial.now).mode == "train":
        raise DoesNotApply("for inference only")
