"""Turns the options of `predict` into its question."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.questions.common.gpu_list import how_many
from gpuwise.questions.common.language.ask import LanguageQuery, asked_for_text
from gpuwise.questions.common.language.bounds import check_text_bounds
from gpuwise.questions.common.media.images import ImageQuery, asked_for_images
from gpuwise.questions.common.media.speech import SpeechQuery, asked_for_speech
from gpuwise.questions.common.options import names
from gpuwise.questions.common.step import StepQuery, step_query
from gpuwise.questions.predict.options import PredictOptions
from gpuwise.questions.predict.service import asked_users, asks_for_curve
from gpuwise.workload.store.pipelines import makes_images

__all__ = ["ask", "ask_by_precision", "ask_for_images", "ask_for_speech", "ask_for_text"]


def ask(options: PredictOptions) -> StepQuery:
    """One model on some GPUs, checked and completed with stated defaults."""
    return step_query(
        options,
        link=options.link,
        image_decode=options.image_decode,
        workers=options.workers,
        on_this_machine=options.on_this_machine,
    )


def ask_by_precision(options: PredictOptions) -> list[StepQuery]:
    """The same as one question for each precision: without `--precision`, each GPU runs what it would run alone."""
    whole = ask(options)
    if options.precision or len(whole.gpus) == 1:
        return [whole]
    count, texts = how_many(names(options.gpu), options.gpus)
    alike: dict[str, list[str]] = {}
    for text in texts:
        alone = ask(replace(options, gpu=[text], gpus=count))
        alike.setdefault(alone.capture.request.settings.precision, []).append(text)
    return [ask(replace(options, gpu=group, gpus=count)) for group in alike.values()] if len(alike) > 1 else [whole]


def ask_for_text(options: PredictOptions) -> LanguageQuery | None:
    """Return the question for a language model that generates text; None for a step. A curve begins with its first number of
    users.
    """
    if options.on_this_machine or makes_images(options.model):
        return None
    check_text_bounds(options)
    users = asked_users(options) or ((1,) if asks_for_curve(options) else ())
    return asked_for_text(replace(options, users=users[0] if users else None), link=options.link)


def ask_for_images(options: PredictOptions) -> ImageQuery | None:
    """Return the question for a model that generates images; None for a step."""
    return None if options.on_this_machine else asked_for_images(options, options.steps, weights=options.weights)


def ask_for_speech(options: PredictOptions) -> SpeechQuery | None:
    """Return the question for a model that transcribes speech; None for a step."""
    return None if options.on_this_machine else asked_for_speech(options)
