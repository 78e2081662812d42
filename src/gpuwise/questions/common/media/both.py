"""Programs that generate images or transcripts, whichever a question is about."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.media.images import ImagePrediction, ImageQuery, asked_for_images, predict_images
from gpuwise.questions.common.media.speech import SpeechPrediction, SpeechQuery, asked_for_speech, predict_speech
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.questions.common.rigs import Rig, Throughput
from gpuwise.workload.store.pipelines import makes_images
from gpuwise.workload.store.speech import transcribes

__all__ = ["MADE", "asked_for_media", "makes_media", "media_throughput", "predict_media", "seconds_each"]

MADE = {"images": "an image", "windows": "30 s of speech"}  # what is made, many and one


def makes_media(model: str) -> str:
    """Return what a model generates unless it is trained: images, transcripts of windows of speech, or neither."""
    return "images" if makes_images(model) else "windows" if transcribes(model) else ""


def asked_for_media(options: LanguageOptions, *, gpus: Sequence[Gpu] = ()) -> ImageQuery | SpeechQuery | None:
    """Return the question if these options ask for images or transcripts; None if they ask for a step or for text."""
    speech = asked_for_speech(options, gpus=gpus)
    return speech if speech is not None else asked_for_images(options, None, weights=options.weights, gpus=gpus)


def predict_media(query: ImageQuery | SpeechQuery) -> PredictAnswer:
    """Images or transcripts on each GPU of the question."""
    return predict_images(query) if isinstance(query, ImageQuery) else predict_speech(query)


def seconds_each(told: Prediction) -> float:
    """Return the seconds for one image, or for one window of speech."""
    if isinstance(told, ImagePrediction):
        return told.image_generation.seconds_per_image
    return told.transcription.window_s / told.transcription.windows if isinstance(told, SpeechPrediction) else told.step_s


def media_throughput(rig: Rig, asked: LanguageOptions) -> Throughput:
    """Return the images or windows per second on these GPUs: as one job, which is not divided, on the fastest of them; and with
    separate jobs on all."""
    queries = [asked_for_media(asked, gpus=[gpu]) for gpu, _ in rig.parts]
    answers = [predict_media(query) for query in queries if query is not None]
    told = [answer.results[0] for answer in answers]
    whole = sum(count / seconds_each(one) for one, (_, count) in zip(told, rig.parts, strict=True))
    return Throughput(
        together_per_s=max(1 / seconds_each(one) for one in told),
        separate_per_s=whole,
        slowest=min(told, key=lambda one: (one.fits, -seconds_each(one))),
        answers=tuple(answers),
        separate_fits=all(one.fits for one in told),
    )
