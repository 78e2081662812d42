"""Does a model fit, what is the largest batch, and what makes it fit if it does not?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import msgspec

from gpuwise.advise.ladder import Advice, advise
from gpuwise.advise.offers import offered
from gpuwise.advise.serving import Serving, serving
from gpuwise.advise.trial import Trial, check_addressable
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.types import supported
from gpuwise.money.prices import PriceBook
from gpuwise.prediction import correction_by
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ranges import Correction
from gpuwise.prediction.ways import Ways, largest, room_of
from gpuwise.questions.common.capturing import asker, check_precision
from gpuwise.questions.common.device_notes import device_notes
from gpuwise.questions.common.language.ask import asked_for_text
from gpuwise.questions.common.media.images import asked_for_images
from gpuwise.questions.common.media.speech import asked_for_speech
from gpuwise.questions.common.predictions import sized
from gpuwise.questions.common.rewriting import choices_of
from gpuwise.questions.common.step import StepQuery
from gpuwise.questions.face import face
from gpuwise.questions.fit.ask import FitQuery, ask
from gpuwise.questions.fit.catalogue import CatalogueFit, catalogue_query, fit_catalogue
from gpuwise.questions.fit.larger import larger_than
from gpuwise.questions.fit.options import FitOptions
from gpuwise.questions.fit.types import Fit, FitAnswer
from gpuwise.workload.model.types import Workload
from gpuwise.workload.store import zoo

__all__ = ["answer", "fit", "fit_step"]


def answer(options: FitOptions, progress: Callable[[str], None] = lambda text: None) -> FitAnswer | CatalogueFit:
    """Return the memory of a step on each GPU, or with `all` on every GPU in the catalogue; for text if the model generates
    it.
    """
    if not options.all:
        generated = _fit_generated(options)
        return fit_step(ask(options), progress) if generated is None else generated
    if options.gpu:
        raise BadValue("--all and --gpu cannot be combined", hint="leave out one of them")
    if options.asks_for_text:
        raise BadValue(
            "`--all` does not support text generation",
            hint="name GPUs with `--gpu`, or use `gpuwise which` to choose one for the model",
        )
    return fit_catalogue(catalogue_query(options), progress)


def _fit_generated(options: FitOptions) -> FitAnswer | None:
    """Return the memory for speech, images or text, or None if the model generates none of them. Each answer imports its own
    remedies.
    """
    speech = asked_for_speech(options)
    if speech is not None:
        from gpuwise.questions.fit.media_answer import fit_speech

        return fit_speech(speech)
    images = asked_for_images(options, options.steps, weights=options.weights)
    if images is not None:
        from gpuwise.questions.fit.media_answer import fit_images

        return fit_images(images, with_remedies=options.remedies)
    text = asked_for_text(options)
    if text is None:
        return None
    from gpuwise.questions.fit.language_answer import fit_text

    return fit_text(text, display=options.display, with_remedies=options.remedies and not text.serving.shares)


def fit_step(asked: FitQuery, progress: Callable[[str], None] = lambda text: None) -> FitAnswer:
    """The memory of a step of this model on each of these GPUs, and what would make it fit."""
    query = asked.step
    ask = asker(query.capture, query.gpus, progress)
    workload = ask(None)
    check_precision(workload.precision, query.gpus)
    now = choices_of(query.capture, query.tuning, query.run, workload)
    ways = Ways(lambda choices: ask(choices if _asks_more(choices, now) else None))
    found = _correction(workload, query)
    shared = (*query.assumptions, *_size_notes(query, workload), *found.notes())
    results = []
    for gpu in query.gpus:
        if asked.remedies:
            progress(f"trying remedies on the {gpu.name}")
        batch = query.batch or workload.batch
        trial = Trial(gpu=gpu, room=room_of(gpu), batch=batch, now=now, ways=ways, run=query.run, correction=found)
        trial.display = asked.display
        results.append(_fit(asked, workload, trial, shared))
    return FitAnswer(model=workload.model, results=tuple(results), notes=workload.notes, data_date=tables.data_date())


def _correction(workload: Workload, query: StepQuery) -> Correction:
    """The correction from the steps that the user measured."""
    return correction_by(workload, sized(workload, query)[0]) if query.run.measured else Correction()


def _fit(asked: FitQuery, workload: Workload, trial: Trial, shared: Iterable[Assumption]) -> Fit:
    query, gpu, room, now = asked.step, trial.gpu, trial.room, trial.now
    if query.batch == 0 and "batch" not in workload.symbols:
        raise BadValue(f"{workload.model} was captured only at batch {workload.batch}", hint="leave out `--batch auto`")
    most = trial.max_batch(now)
    if query.batch == 0:
        trial.batch = max(1, most)
    check_addressable(workload, trial.batch)
    memory = trial.memory(now)
    larger = [other for other in larger_than(gpu) if workload.precision in supported(other)] if asked.remedies else []
    advice = advise(trial, offered(larger, PriceBook.of())) if asked.remedies else Advice(final=now)
    notes = (
        [assumed(f"memory of {gpu.name}", f"{room.usable_bytes / 2**30:.1f} GiB usable", room.remark, code="shared_memory")]
        if room.shared
        else []
    )
    return Fit(
        gpu=gpu,
        gpu_count=query.run.gpu_count,
        mode=workload.mode,
        precision=workload.precision,
        optimizer=trial.workload(now).optimizer,
        method=query.tuning.title(workload.precision) if query.tuning else "",
        batch=trial.batch,
        seq=workload.seq,
        memory=memory,
        room=room,
        fits=trial.fits(now),
        survives=trial.survives(now),
        probability=memory.fits_probability(room.usable_bytes),
        max_batch=most,
        safe_batch=_safe(trial, most),
        step_s=trial.now_s,
        advice=advice,
        serving=_serving(query, trial, advice.final, workload),
        assumptions=(*shared, *notes, *device_notes(gpu, query.run.setting.stack, memory.total_bytes, ranged=False)),
    )


def _safe(trial: Trial, most: int) -> int:
    """The largest batch that fits even at the upper end of its range."""
    if "batch" not in trial.workload(trial.now).symbols:
        return most if trial.memory(trial.now).high_bytes <= trial.room.usable_bytes else 0
    parts = trial.now.accumulate
    if not most:
        return 0
    return parts * largest(
        lambda size: trial.memory(trial.now, size * parts).high_bytes, trial.room.usable_bytes, top=max(1, most // parts)
    )


# ---------------------------------------------------------------- the model under other choices


def _asks_more(choices: Choices, now: Choices) -> bool:
    """Return whether these choices need a different workload from the user's own."""
    names = ("precision", "optimizer", "implementation", "channels_last", "image")
    return any(getattr(choices, name) != getattr(now, name) for name in names)


def _size_notes(query: StepQuery, workload: Workload) -> list[Assumption]:
    notes = []
    if query.batch is None:
        notes.append(
            assumed(
                "batch", str(workload.batch), "the usual batch for this model; use `--batch auto` for the largest batch that fits"
            )
        )
    if workload.seq is not None and query.capture.request.seq is None:
        notes.append(assumed("seq", str(workload.seq), "the usual length for this model"))
    return notes


def _serving(query: StepQuery, trial: Trial, final: Choices, workload: Workload) -> Serving | None:
    """How many contexts a generating language model can hold at once."""
    if workload.mode != "infer" or not workload.options.get("phase"):
        return None
    decode = query.capture.request
    if workload.options["phase"] != "decode":
        decode = msgspec.structs.replace(decode, phase="decode", batch=None)
    asked = replace(query, capture=replace(query.capture, request=decode))
    ask = asker(asked.capture, asked.gpus, lambda text: None)
    ways = Ways(lambda choices: ask(choices))
    longest = zoo.entry(decode.model).longest if zoo.has(decode.model) else None
    return serving(replace(trial, ways=ways, _memories={}), final, longest)


fit = face(FitOptions, answer)
