"""How fast will a model run on a GPU, and what limits it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuwise.core.provenance import Assumption
from gpuwise.core.text import both, the
from gpuwise.questions.common.gpu_list import how_many, named_gpus
from gpuwise.questions.common.options import names
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.common.predictions import predict as predict_step
from gpuwise.questions.face import face
from gpuwise.questions.predict.ask import ask_by_precision, ask_for_images, ask_for_speech, ask_for_text
from gpuwise.questions.predict.epochs import check_epochs, with_epochs
from gpuwise.questions.predict.options import PredictOptions
from gpuwise.questions.predict.service import asked_users, asks_for_curve, cached_fraction, service_level

__all__ = ["answer", "predict"]


def answer(options: PredictOptions, progress: Callable[[str], None] = lambda text: None) -> PredictAnswer:
    """Predict a step on each GPU, a grid of steps for several batches and precisions, or generated text, speech or images."""
    speech = ask_for_speech(options)
    text = ask_for_text(options) if speech is None else None
    images = ask_for_images(options) if speech is None and text is None else None
    check_epochs(options, generates=any(asked is not None for asked in (speech, text, images)))
    if speech is not None:
        from gpuwise.questions.common.media.speech import predict_speech  # each kind of answer imports its own modules

        return predict_speech(speech)
    if text is not None and asks_for_curve(options):
        from gpuwise.questions.predict.serving import predict_serving

        return predict_serving(text, asked_users(options), service_level(options), cached_fraction(options))
    if text is not None:
        from gpuwise.questions.common.language.answer import predict_text
        from gpuwise.questions.predict.priced import priced

        return priced(predict_text(text))
    if images is not None:
        from gpuwise.questions.common.media.images import predict_images

        return predict_images(images)
    from gpuwise.questions.predict.grid import is_grid, predict_grid  # runs in several processes, which single answers do not

    answer = predict_grid(options, progress) if is_grid(options) else _predict_steps(options, progress)
    return with_epochs(answer, options)


def _predict_steps(options: PredictOptions, progress: Callable[[str], None]) -> PredictAnswer:
    """A step on each GPU, in the order given; the GPUs may differ in precision."""
    first, *others = (predict_step(query, progress) for query in ask_by_precision(options))
    if not others:
        return first
    told = [_of_its_gpus(answer) for answer in (first, *others)]
    given, _ = named_gpus(how_many(names(options.gpu), options.gpus)[1])
    places = {gpu.name: place for place, gpu in enumerate(given)}
    return replace(
        first,
        results=tuple(sorted((one for answer in told for one in answer.results), key=lambda one: places[one.gpu.name])),
        assumptions=tuple(dict.fromkeys(note for answer in told for note in answer.assumptions)),
        notes=tuple(dict.fromkeys(note for answer in told for note in answer.notes)),
    )


def _of_its_gpus(answer: PredictAnswer) -> PredictAnswer:
    """Return the same with an assumed precision that says which GPUs it is for."""
    gpus = both([the(one.gpu.name) for one in answer.results])

    def named(notes: Sequence[Assumption]) -> tuple[Assumption, ...]:
        return tuple(replace(note, name=f"precision on {gpus}") if note.code == "precision" else note for note in notes)

    results = tuple(replace(one, assumptions=named(one.assumptions)) for one in answer.results)
    return replace(answer, results=results, assumptions=named(answer.assumptions))


predict = face(PredictOptions, answer)
