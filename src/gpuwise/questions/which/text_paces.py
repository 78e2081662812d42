"""How fast GPUs generate text with a language model, as a pace that `which` can compare: its samples are tokens.

Several GPUs hold one model together, so their memory adds up: two may hold a model that is too large for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gpuwise.advise.jobs import Job, JobPace
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption
from gpuwise.engine.choices import Choices
from gpuwise.engine.generation import Generations, generate, generation_memory, room_bytes
from gpuwise.engine.text_memory import HIGH
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.common.text.ask import TextQuery, text_query

__all__ = ["TextAsked", "TextPace", "TextPacer", "price_text"]

_COMPUTED = "fp16"
_TOLD_BY_ALL = ("engine", "users", "prompt", "output", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAsked:
    """How text is generated, as typed; empty is the usual."""

    weights: str = ""
    kv: str = ""
    engine: str = ""
    users: int | None = None
    prompt: int | None = None
    output: int | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPace(JobPace):
    """Text from one model on one GPU, or on several of a kind that hold it together. `batch` counts requests at once, `low` and
    `high` are measured over predicted time; memory is that of the fullest GPU."""

    tokens_per_s: float
    low: float
    high: float
    engine: str
    weights: str
    split: str

    @property
    def fits(self) -> bool:
        """Even at the upper end of the range."""
        return self.memory_bytes * HIGH <= self.usable_bytes

    @property
    def adds_up(self) -> bool:
        return True

    @property
    def samples_per_s(self) -> float:
        return self.tokens_per_s


class TextPacer:
    """One language model on many GPUs; each GPU runs it in the most usual engine that it has, unless one was asked for."""

    def __init__(self, model: str, asked: TextAsked, cpu: str = "") -> None:
        self._model, self._asked, self._cpu = model, asked, cpu
        self._faults: list[BadValue] = []
        self._paces: dict[tuple[Gpu, int], JobPace | None] = {}

    def paces(self, gpus: Iterable[Gpu], gpu_count: int = 1) -> dict[str, JobPace]:
        """The pace of every GPU that can run it, whether it fits or not."""
        gpus = list(gpus)
        groups: dict[str, list[tuple[Gpu, TextQuery]]] = {}
        for gpu in gpus:
            if (gpu, gpu_count) in self._paces:
                continue
            query = self._query(gpu, gpu_count)
            self._paces[gpu, gpu_count] = None
            if query is not None:
                groups.setdefault(query.serving.engine.name, []).append((gpu, query))
        for members in groups.values():
            each = [gpu for gpu, _ in members]
            steps = generate(members[0][1].serving, each)
            for place, gpu in enumerate(each):
                self._paces[gpu, gpu_count] = _pace(steps, place, gpu, members[0][1])
        return {gpu.name: pace for gpu in gpus if (pace := self._paces[gpu, gpu_count]) is not None}

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]:
        """The same model divided over so many of each GPU."""
        return self.paces([pace.gpu for pace in paces], gpu_count)

    def _query(self, gpu: Gpu, gpu_count: int) -> TextQuery | None:
        try:
            return text_query(self._model, self._asked, [gpu], gpu_count=gpu_count, cpu=self._cpu)
        except BadValue as fault:
            self._faults.append(fault)
            return None

    def check(self) -> None:
        """Say why no GPU can run it, where none can."""
        if self._faults:
            raise self._faults[0]

    def notes(self, gpu: Gpu) -> tuple[Assumption, ...]:
        """What is assumed on this GPU."""
        query = self._query(gpu, 1)
        return () if query is None else tuple(note for note in query.assumptions if note.code in _TOLD_BY_ALL)


def _pace(steps: Generations, place: int, gpu: Gpu, query: TextQuery) -> TextPace:
    serving = steps.serving
    return TextPace(
        gpu=gpu,
        choices=Choices(precision=_COMPUTED, gpu_count=serving.gpu_count),
        batch=serving.users,
        step_s=float(steps.decode_s[place]),
        memory_bytes=generation_memory(serving).total_bytes,
        usable_bytes=room_bytes(serving, gpu),
        bound=steps.decode.bound_name(0, place),
        tokens_per_s=float(steps.tokens_per_s[place]),
        low=float(steps.decode.widths.low[0, place]),
        high=float(steps.decode.widths.high[0, place]),
        engine=serving.engine.title,
        weights=query.format_name,
        split=serving.split,
    )


def price_text(
    jobs: Sequence[Job],
    asked: TextAsked,
    near: Sequence[tuple[Gpu, int]],
    every: Sequence[Gpu],
    cpu: str = "",
    progress: Callable[[str], None] = lambda text: None,
) -> list[Priced]:
    """Each model on each GPU, in the first of its ways that fits any of `near`, what the user can afford."""
    return [_priced(job, asked, near, every, cpu, progress) for job in jobs]


def _priced(
    job: Job,
    asked: TextAsked,
    near: Sequence[tuple[Gpu, int]],
    every: Sequence[Gpu],
    cpu: str,
    progress: Callable[[str], None],
) -> Priced:
    skipped: list[tuple[str, float]] = []
    for way in job.ways:
        progress(f"predicting {job.model} on {len(every)} GPUs")
        make = TextPacer if Path(job.model).exists() else _kept_pacer  # a file may change between two questions
        wished = asked if way == "usual" else replace(asked, weights=way)
        pacer = make(job.model, wished, cpu)
        paces = pacer.paces(every)
        if not paces:
            pacer.check()
        if way == job.ways[-1] or _any_fits(pacer, near):
            break
        skipped.append((way, min(pace.memory_bytes for pace in paces.values())))
    first = next(iter(paces.values()))
    return Priced(job=job, way=way, skipped=tuple(skipped), paces=paces, pacer=pacer, decodes=False, notes=pacer.notes(first.gpu))


_kept_pacer = lru_cache(maxsize=16)(TextPacer)  # what was priced for one question serves the next one


def _any_fits(pacer: TextPacer, near: Sequence[tuple[Gpu, int]]) -> bool:
    counts: dict[int, list[Gpu]] = {}
    for gpu, count in near:
        counts.setdefault(count, []).append(gpu)
    return any(pace.fits for count, gpus in counts.items() for pace in pacer.paces(gpus, count).values())
