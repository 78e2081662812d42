"""How fast GPUs generate images or transcripts, as a pace that `which` can compare: its samples are images or transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuwise.advise.jobs import Job, JobPace, ways_on
from gpuwise.core.provenance import Assumption
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.ways import room_of, safe_bytes
from gpuwise.questions.common.jobs import Asked, Priced
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.media.both import asked_for_media, predict_media, seconds_each
from gpuwise.questions.common.media.images import ImagePrediction
from gpuwise.questions.common.prediction_types import Prediction

__all__ = ["MediaPace", "price_media"]

_TOLD_BY_ALL = ("steps", "image", "guidance", "output", "stack", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaPace(JobPace):
    """Images or windows of speech on one GPU, or on several that each make their own. `low` and `high` are measured over
    predicted time."""

    low: float
    high: float


class _Pacer:
    """One model on many GPUs, each in the precision that is usual on it."""

    def __init__(self, model: str, asked: Asked, weights: str = "") -> None:
        self._model, self._asked, self._weights = model, asked, weights
        self._paces: dict[str, JobPace] = {}
        self.notes: tuple[Assumption, ...] = ()

    def paces(self, gpus: Iterable[Gpu]) -> dict[str, JobPace]:
        """The pace of every GPU that can run it, whether it fits or not."""
        gpus = list(gpus)
        groups: dict[str, list[Gpu]] = {}
        for gpu in gpus:
            ways = ways_on(gpu, "usual", mode="infer", precision=self._asked.precision)
            if gpu.name not in self._paces and ways:
                groups.setdefault(ways[0].precision, []).append(gpu)
        for precision, members in groups.items():
            query = asked_for_media(self._options(precision), gpus=members)
            if query is None:
                continue
            self.notes = tuple(note for note in query.assumptions if note.code in _TOLD_BY_ALL)
            told = predict_media(query).results
            self._paces |= {gpu.name: _pace(gpu, one) for gpu, one in zip(members, told, strict=True)}
        return {gpu.name: self._paces[gpu.name] for gpu in gpus if gpu.name in self._paces}

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]:
        """The same on this many of each GPU."""
        return {pace.gpu.name: replace(pace, choices=replace(pace.choices, gpu_count=gpu_count)) for pace in paces}

    def _options(self, precision: str) -> LanguageOptions:
        asked = self._asked
        return LanguageOptions(
            self._model,
            precision=precision,
            batch=asked.size,
            image=asked.image,
            weights=self._weights,
            cpu=asked.cpu,
            stack=asked.stack,
        )


def _pace(gpu: Gpu, told: Prediction) -> MediaPace:
    """The pace on one GPU. If it may be too small for all parts of an image model at once, they are loaded in turn."""
    seconds, needed = seconds_each(told), told.memory.total_bytes
    if isinstance(told, ImagePrediction) and needed > safe_bytes(gpu) >= told.image_generation.parts_bytes:
        seconds += (told.image_generation.loading_s - told.image_generation.moved_s) / told.image_generation.images
        needed = told.image_generation.parts_bytes
    return MediaPace(
        gpu=gpu,
        choices=Choices(precision=told.precision),
        batch=1,
        step_s=seconds,
        memory_bytes=needed,
        usable_bytes=room_of(gpu).usable_bytes,
        bound=told.bound,
        low=told.step_low_s / told.step_s,
        high=told.step_high_s / told.step_s,
    )


def price_media(
    jobs: Sequence[Job],
    near: Sequence[Gpu],
    gpus: Sequence[Gpu],
    asked: Asked,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Priced]:
    """Each model on each of these GPUs, in the first of its ways that fits any of `near`, what the user can afford."""
    return [_priced(job, near, gpus, asked, progress) for job in jobs]


def _priced(job: Job, near: Sequence[Gpu], gpus: Sequence[Gpu], asked: Asked, progress: Callable[[str], None]) -> Priced:
    skipped: list[tuple[str, float]] = []
    for way in job.ways:
        progress(f"predicting {job.model} on {len(gpus)} GPUs")
        pacer = _kept_pacer(job.model, asked, "" if way == "usual" else way)
        reached = pacer.paces(near)
        if way == job.ways[-1] or any(pace.fits for pace in reached.values()):
            break
        skipped.append((way, min(pace.memory_bytes for pace in reached.values())))
    paces = pacer.paces(gpus)
    return Priced(job=job, way=way, skipped=tuple(skipped), paces=paces, pacer=pacer, decodes=False, notes=pacer.notes)


_kept_pacer = lru_cache(maxsize=16)(_Pacer)  # what was priced for one question serves the next one
