"""How fast will a model run on a GPU, and what limits it?"""

from __future__ import annotations

from collections.abc import Callable

from gpuwise.questions.common.media.images import predict_images
from gpuwise.questions.common.media.speech import predict_speech
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.questions.common.text.answer import predict_text
from gpuwise.questions.face import face
from gpuwise.questions.predict.ask import ask, ask_for_images, ask_for_speech, ask_for_text
from gpuwise.questions.predict.epochs import check_epochs, with_epochs
from gpuwise.questions.predict.options import PredictOptions
from gpuwise.questions.predict.priced import priced
from gpuwise.questions.predict.service import asked_users, asks_for_curve, cached_fraction, service_level
from gpuwise.questions.predict.serving import predict_serving

__all__ = ["answer", "predict"]


def answer(options: PredictOptions, progress: Callable[[str], None] = lambda text: None) -> PredictAnswer:
    """Predict a step on each GPU, a grid of steps for several batches and precisions, or generated text, speech or images."""
    speech = ask_for_speech(options)
    text = ask_for_text(options) if speech is None else None
    images = ask_for_images(options) if speech is None and text is None else None
    check_epochs(options, generates=any(asked is not None for asked in (speech, text, images)))
    if speech is not None:
        return predict_speech(speech)
    if text is not None and asks_for_curve(options):
        return predict_serving(text, asked_users(options), service_level(options), cached_fraction(options))
    if text is not None:
        return priced(predict_text(text))
    if images is not None:
        return predict_images(images)
    from gpuwise.questions.predict.grid import is_grid, predict_grid  # runs in several processes, which single answers do not

    answer = predict_grid(options, progress) if is_grid(options) else predict_step(ask(options), progress)
    return with_epochs(answer, options)


predict = face(PredictOptions, answer)
