"""Does a program that generates images or transcripts fit, how fast is it, and what makes it fit if it does not?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuwise.advise.ladder import Advice
from gpuwise.advise.offers import offered
from gpuwise.advise.types import Rung
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.images import Drawings
from gpuwise.prediction.ways import largest, room_of
from gpuwise.questions.common.media.images import ImagePrediction, ImageQuery, drawings, predict_images
from gpuwise.questions.common.media.speech import SpeechPrediction, SpeechQuery, predict_speech, transcripts
from gpuwise.questions.fit.larger import larger_than
from gpuwise.questions.fit.media_types import MediaFit, MediaFitAnswer

__all__ = ["fit_images", "fit_speech"]

_MOST = 4096  # images or windows at once
_REMEDIES = (
    ("int8-weights", "int8 weights", "numerics", "int8"),
    ("int4-weights", "int4 weights", "quality", "int4"),
)
_UNLOADED = "text encoders unloaded"
_STREAMED = "weights partly in RAM"
_LOW_VRAM = (
    "keep only as many weights on the GPU as fit, and copy the others from RAM at every step, as `--lowvram` in ComfyUI does; "
    "`enable_sequential_cpu_offload()` in diffusers copies all of them"
)
_IN_TURN = (
    "load the text encoders, the denoiser and the decoder one after another, as `enable_model_cpu_offload()` in diffusers does"
)


def fit_images(query: ImageQuery, *, with_remedies: bool = True) -> MediaFitAnswer:
    """The memory and the speed of image generation on each of these GPUs, and what would make it fit."""
    drawn, told = drawings(query), predict_images(query)
    results = []
    for place, result in enumerate(told.results):
        if isinstance(result, ImagePrediction):
            most = _most(lambda images, place=place: drawn.held_bytes(images, place), result.gpu)  # type: ignore[misc]
            rungs = _image_rungs(query, result, most) if with_remedies else ()
            seconds = result.image_generation.seconds_per_image
            results.append(_fit(result, query.images, most, seconds, rungs))
    return MediaFitAnswer(model=query.model, results=tuple(results), notes=(), data_date=tables.data_date())


def fit_speech(query: SpeechQuery) -> MediaFitAnswer:
    """The memory and the speed of transcripts on each of these GPUs."""
    found, told = transcripts(query), predict_speech(query)
    results = []
    for place, result in enumerate(told.results):
        if isinstance(result, SpeechPrediction):
            most = _most(lambda windows, place=place: found.held_bytes(windows, place), result.gpu)  # type: ignore[misc]
            results.append(_fit(result, query.windows, most, result.transcription.window_s / query.windows, ()))
    return MediaFitAnswer(model=told.model, results=tuple(results), notes=(), data_date=tables.data_date())


def _most(need: Callable[[int], float], gpu: Gpu) -> int:
    return largest(need, room_of(gpu).usable_bytes, top=_MOST)


def _fit(told: ImagePrediction | SpeechPrediction, batch: int, most: int, seconds: float, rungs: tuple[Rung, ...]) -> MediaFit:
    room = room_of(told.gpu)
    return MediaFit(
        gpu=told.gpu,
        gpu_count=1,
        mode="infer",
        precision=told.precision,
        optimizer="",
        batch=batch,
        seq=None,
        memory=told.memory,
        room=room,
        fits=told.fits,
        survives=told.fits,
        probability=told.memory.fits_probability(room.usable_bytes),
        max_batch=most,
        safe_batch=most if told.memory.high_bytes <= room.usable_bytes else 0,
        step_s=seconds,
        advice=Advice(final=Choices(precision=told.precision), remedies=rungs, ladder=_ladder(told, rungs)),
        serving=None,
        assumptions=told.assumptions,
        told=told,
    )


def _ladder(told: ImagePrediction | SpeechPrediction, rungs: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """Return the first remedy that makes it fit, if it does not."""
    return () if told.fits else tuple(rung for rung in rungs if rung.fits)[:1]


def _image_rungs(query: ImageQuery, told: ImagePrediction, most: int) -> tuple[Rung, ...]:
    """Text encoders unloaded before denoising, weights in fewer bits, one image at a time, a smaller image, and a larger GPU."""
    now = told.image_generation.seconds_per_image
    here = replace(query, step=replace(query.step, gpus=(told.gpu,)))
    found = [] if told.fits else [_unloaded("unloaded", _UNLOADED, "same", _IN_TURN, drawings(here), now)]
    streamed = _streamed("streamed", _STREAMED, "same", _LOW_VRAM, drawings(here), now) if found and not found[0].fits else []
    for name, title, effect, weights in _REMEDIES:
        if query.weights == weights:
            continue
        drawn, how = drawings(here, weights), f"`--weights {weights}`"
        found.append(_rung(name, title, effect, how, drawn, now, at_once=True))
        if not found[-1].fits:
            found.append(_unloaded(f"{name}-unloaded", f"{title}, {_UNLOADED}", effect, f"{how}; {_IN_TURN}", drawn, now))
        if not found[-1].fits:
            streamed += _streamed(f"{name}-streamed", f"{title}, partly in RAM", effect, f"{how}; {_LOW_VRAM}", drawn, now)
    found += streamed  # last: copying weights at every step takes time
    if query.images > 1:
        one = drawings(replace(here, images=1))
        found.append(_rung("one-at-a-time", "one image at a time", "same", "`--batch 1`", one, now))
    half = query.image // 2
    if half >= 512:
        small = drawings(replace(here, image=half))
        found.append(_rung("smaller-image", f"images of {half} pixels", "task", f"`--image {half}`", small, now))
    if not told.fits:
        found += _larger(here, told, now)
    return tuple(found)


def _larger(query: ImageQuery, told: ImagePrediction, now: float) -> list[Rung]:
    """Return the cheapest card from the same maker that holds it."""
    sold = [(one.price.usd, one.gpu) for one in offered(larger_than(told.gpu), PriceBook.of()) if one.price is not None]
    for usd, gpu in sorted(sold, key=lambda one: one[0]):
        drawn = drawings(replace(query, step=replace(query.step, gpus=(gpu,))))
        if drawn.fits(0):
            return [_rung("bigger-gpu", f"{gpu.name} instead (${usd:,.0f})", "hardware", "use this GPU", drawn, now)]
    return []


def _unloaded(name: str, title: str, effect: str, how: str, drawn: Drawings, now: float) -> Rung:
    """With the parts on the GPU in turn: the one that needs most must fit, and the time to load them is added."""
    moved_s = 0.0 if drawn.moves(0) else drawn.loading_s(0)
    found = _rung(name, title, effect, how, drawn, now)
    seconds = found.step_s + moved_s / drawn.images
    return replace(found, memory=drawn.largest_part(0), step_s=seconds, cost=seconds / now)


def _streamed(name: str, title: str, effect: str, how: str, drawn: Drawings, now: float) -> list[Rung]:
    """With as much of the weights in RAM as necessary, if the rest then fits."""
    if (held := drawn.streamed(0)) is None:
        return []
    memory, moved_s = held
    found = _rung(name, title, effect, how, drawn, now)
    seconds = found.step_s + moved_s / drawn.images
    return [replace(found, memory=memory, fits=True, max_batch=drawn.images, step_s=seconds, cost=seconds / now)]


def _rung(name: str, title: str, effect: str, how: str, drawn: Drawings, now: float, *, at_once: bool = False) -> Rung:
    """A remedy; with all parts in memory `at_once`, or as this GPU can hold them."""
    gpu, seconds = drawn.denoiser.gpus[0], float(drawn.call_s[0]) / drawn.images
    memory = drawn.at_once(0) if at_once else drawn.memory(0)
    fits = memory.total_bytes <= room_of(gpu).usable_bytes
    return Rung(
        name=name,
        title=title,
        effect=effect,
        how=how,
        gpu=gpu.name,
        gpu_count=1,
        batch=drawn.images,
        memory=memory,
        fits=fits,
        max_batch=_most(lambda images: drawn.held_bytes(images, 0), gpu) if fits else 0,
        step_s=seconds,
        cost=seconds / now,
    )
