"""The types of an answer about the memory of a program that generates images or transcripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gpuwise.questions.common.media.images import ImagePrediction
from gpuwise.questions.common.media.speech import SpeechPrediction
from gpuwise.questions.fit.types import Fit, FitAnswer

__all__ = ["MediaFit", "MediaFitAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFit(Fit):
    """One program on one GPU. `batch` and `max_batch` count images or windows of sound at once; `step_s` is the time of one."""

    told: ImagePrediction | SpeechPrediction

    def to_dict(self) -> dict[str, Any]:
        """The keys of `fit`, with what `predict` says of an image or a transcript."""
        said = self.told.to_dict()
        names = ("rate", "rate_unit", "image_generation", "transcription")
        return Fit.to_dict(self) | {name: said[name] for name in names if name in said}


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFitAnswer(FitAnswer):
    """One result for each GPU, in the order requested."""

    TEXT: ClassVar[str] = "questions.fit.media_text.render"
