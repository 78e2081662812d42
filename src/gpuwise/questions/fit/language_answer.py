"""Does a language model that generates text fit, how fast is it, and what makes it fit if it does not?"""

from __future__ import annotations

from dataclasses import replace

from gpuwise.advise.ladder import Advice
from gpuwise.advise.language_remedies import LanguageWay, ladder, remedies
from gpuwise.advise.offers import offered
from gpuwise.advise.serving import PAGE, Serving
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook
from gpuwise.prediction import generation
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.generation import fits, generate, generation_memory, most_users, room_bytes
from gpuwise.prediction.language_memory import HIGH, longest_context, memory_of, with_context
from gpuwise.prediction.ways import Room, largest, room_of
from gpuwise.questions.common.language.answer import generated, placed
from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.questions.fit.language_types import LanguageFit, LanguageFitAnswer
from gpuwise.questions.fit.larger import larger_than
from gpuwise.step.memory.lifetimes import memory_data

__all__ = ["fit_text"]

_COMPUTED = "fp16"


def fit_text(query: LanguageQuery, *, display: bool = False, with_remedies: bool = True) -> LanguageFitAnswer:
    """The memory and the speed of this model on each of these GPUs, and what would make it fit."""
    name = query.serving.shape.name if query.model.endswith((".json", ".gguf")) else query.model
    results = tuple(_fit(query, gpu, display, with_remedies) for gpu in query.gpus)
    return LanguageFitAnswer(model=name, results=results, notes=(), data_date=tables.data_date())


def _fit(query: LanguageQuery, product: Gpu, display: bool, with_remedies: bool) -> LanguageFit:
    gpu, serving = _beside_a_desktop(product) if display else product, query.serving
    now = LanguageWay(serving=serving, gpu=gpu, weights=query.format_name)
    runs = placed(serving, gpu)
    (told,) = generated(runs, [gpu])
    memory, room = memory_of(serving), replace(room_of(gpu), usable_bytes=room_bytes(serving, gpu))
    return LanguageFit(
        gpu=product,
        gpu_count=serving.gpu_count,
        mode="infer",
        precision=_COMPUTED,
        optimizer="",
        batch=serving.users,
        seq=serving.context,
        memory=memory,
        room=room,
        fits=now.fits,
        survives=fits(runs, gpu),
        probability=memory.fits_probability(room.usable_bytes),
        max_batch=most_users(serving, gpu),
        safe_batch=_safe(serving, room),
        step_s=float(generate(runs, [gpu]).decode_s[0]),
        advice=_advice(now) if with_remedies else Advice(final=Choices(precision=_COMPUTED)),
        serving=_contexts(serving, gpu),
        assumptions=(*query.assumptions, *_notes(serving, room)),
        generation=replace(told, weights=query.format_name),
        longest_context=longest_context(serving, gpu),
        model_context=serving.shape.context,
    )


def _beside_a_desktop(gpu: Gpu) -> Gpu:
    """Return the GPU without the memory that a desktop takes."""
    return replace(gpu, usable_memory_bytes=gpu.usable_memory_bytes - memory_data().value("display_bytes"))


def _safe(serving: generation.Serving, room: Room) -> int:
    """Requests that fit even at the upper end of the range."""
    return largest(lambda users: HIGH * generation_memory(serving, users).total_bytes, room.usable_bytes)


def _advice(now: LanguageWay) -> Advice:
    found, refused = remedies(now, offered(larger_than(now.gpu), PriceBook.of()))
    return Advice(remedies=found, not_applicable=refused, ladder=ladder(now), final=Choices(precision=_COMPUTED))


def _contexts(serving: generation.Serving, gpu: Gpu) -> Serving:
    """Return how many contexts fit at once: with the requested tokens, and with as many as the model supports."""
    longest = max(serving.shape.context, serving.context)
    each = generation_memory(serving, 2).cache_bytes - generation_memory(serving, 1).cache_bytes
    return Serving(
        context=serving.context,
        reserved_context=longest,
        cache_bytes_per_token=each / serving.context,
        users_paged=most_users(serving, gpu),
        users_reserved=most_users(with_context(serving, longest), gpu),
        page=PAGE,
    )


def _notes(serving: generation.Serving, room: Room) -> list[Assumption]:
    engine = serving.engine
    notes = []
    if engine.reserves_fraction:
        value = f"{engine.reserves_fraction:.0%} usable"
        notes.append(assumed("GPU memory", value, f"the default limit of {engine.title}", code="engine_room"))
    if room.shared:
        notes.append(assumed("memory", f"{room.usable_bytes / 2**30:.1f} GiB usable", room.remark, code="shared_memory"))
    return notes
