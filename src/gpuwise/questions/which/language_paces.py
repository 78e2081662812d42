"""How fast GPUs generate text with a language model, as a pace that `which` can compare: its samples are tokens.

Several GPUs hold one model together, so their memory adds up: two may hold a model that is too large for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from gpuwise.advise.candidates import TaskRun
from gpuwise.advise.jobs import Job, JobPace
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.prediction.choices import Choices
from gpuwise.prediction.generation import Generations, generate, generation_memory, room_bytes
from gpuwise.prediction.language_memory import HIGH
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.common.language.ask import LanguageQuery, language_query
from gpuwise.step.time.engines import find_engine, measured_gpus

__all__ = ["SAME_BITS", "LanguageAsked", "LanguagePace", "LanguagePacer", "format_rate", "pace_of", "price_text", "rate_text"]

_COMPUTED = "fp16"
_SERVED = 2 / 3  # of the speed with fewer bits is enough where models are served as they are published, assumed
_TOLD_BY_ALL = ("engine", "users", "prompt", "output", "weights")
# The weights in llama.cpp with about as many bits, if the bits were not asked for: on some GPUs, its kernels are the fastest.
SAME_BITS = {"int8": "q8_0", "int4": "q4_k_m"}
_FASTER = {"int8": "fp8"}  # as many bits, and no slower in any engine that runs both
_BITS = {"int8": "8-bit", "int4": "4-bit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageAsked:
    """How text is generated, as typed; empty is the usual."""

    weights: str = ""
    kv: str = ""
    engine: str = ""
    users: int | None = None
    prompt: int | None = None
    output: int | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagePace(JobPace):
    """Text from one model on one GPU, or on several of a kind that hold it together. `batch` counts requests at once, `low` and
    `high` are measured over predicted time; memory is that of the fullest GPU. `offloaded` is the share of the layers, or of the
    experts, that runs on the CPU. With several `groups`, each holds the whole model and serves its part of the requests."""

    tokens_per_s: float
    low: float
    high: float
    engine: str
    weights: str
    split: str
    offloaded: float = 0.0
    groups: int = 1

    @property
    def fits(self) -> bool:
        """Even at the upper end of the range; an engine that moves layers to the CPU moves as many as it must."""
        return self.offloaded > 0 or self.memory_bytes * HIGH <= self.usable_bytes

    @property
    def adds_up(self) -> bool:
        return True

    @property
    def samples_per_s(self) -> float:
        return self.tokens_per_s


class LanguagePacer:
    """One language model on many GPUs; each GPU runs it in the most usual engine that it has, unless one was asked for. With
    weights that are `also` good, it runs whichever are faster on that GPU in the usual engine for them.
    """

    def __init__(self, model: str, asked: LanguageAsked, cpu: str = "", also: tuple[str, ...] = ()) -> None:
        self._model, self._asked, self._cpu, self._also = model, asked, cpu, also
        self._faults: list[BadValue] = []
        self._paces: dict[tuple[Gpu, int], LanguagePace | None] = {}
        self._parts: dict[int, LanguagePacer] = {}

    def paces(self, gpus: Iterable[Gpu], gpu_count: int = 1) -> dict[str, JobPace]:
        """The pace of every GPU that can run it, whether it fits or not; in groups, if those serve the users faster."""
        gpus = list(gpus)
        best: dict[str, JobPace] = {**self._together(gpus, gpu_count)}
        users = self._asked.users or 1
        for groups in range(2, min(gpu_count, users) + 1):
            if gpu_count % groups:
                continue
            each = -(-users // groups)
            asked = replace(self._asked, users=each)
            part = self._parts.setdefault(each, LanguagePacer(self._model, asked, self._cpu, self._also))
            for name, pace in part._together(gpus, gpu_count // groups).items():
                rate, whole = pace.tokens_per_s * users / each, best.get(name)
                if pace.fits and (whole is None or not whole.fits or rate > whole.samples_per_s):
                    choices = replace(pace.choices, gpu_count=gpu_count)
                    best[name] = replace(pace, choices=choices, batch=users, tokens_per_s=rate, groups=groups)
        return best

    def _together(self, gpus: Sequence[Gpu], gpu_count: int) -> dict[str, LanguagePace]:
        """The same with one model over all GPUs of a set."""
        groups: dict[tuple[str, str], list[tuple[Gpu, LanguageQuery]]] = {}
        for gpu in gpus:
            if (gpu, gpu_count) in self._paces:
                continue
            self._paces[gpu, gpu_count] = None
            asked = [self.query(gpu, gpu_count, weights=weights) for weights in ("", *self._also)]
            for query in {one.serving.engine.name: one for one in asked if one is not None}.values():  # the last of each engine
                groups.setdefault((query.serving.engine.name, query.format_name), []).append((gpu, query))
        for members in groups.values():
            each = [gpu for gpu, _ in members]
            steps = generate(members[0][1].serving, each)
            held = generation_memory(steps.serving).total_bytes  # the same on all of them
            for place, gpu in enumerate(each):
                found, known = pace_of(steps, place, gpu, members[0][1].format_name, held), self._paces[gpu, gpu_count]
                if known is None or (found.fits, found.tokens_per_s) > (known.fits, known.tokens_per_s):
                    self._paces[gpu, gpu_count] = found
        return {gpu.name: pace for gpu in gpus if (pace := self._paces[gpu, gpu_count]) is not None}

    def shared(self, paces: Sequence[JobPace], gpu_count: int) -> dict[str, JobPace]:
        """The same model divided over this many of each GPU."""
        return self.paces([pace.gpu for pace in paces], gpu_count)

    def query(self, gpu: Gpu, gpu_count: int, usual_engine: str = "", weights: str = "") -> LanguageQuery | None:
        """Return the question for this many of this GPU; None if they cannot run it. Without an engine asked for, it is the most
        usual one, or `usual_engine`; `weights` replace those asked for.
        """
        asked = replace(self._asked, engine=self._asked.engine or usual_engine, weights=weights or self._asked.weights)
        try:
            return language_query(self._model, asked, [gpu], gpu_count=gpu_count, cpu=self._cpu)
        except BadValue as fault:
            self._faults.append(fault)
            return None

    def check(self) -> None:
        """Say why no GPU can run it, where none can."""
        if self._faults:
            raise self._faults[0]

    def notes(self, pace: JobPace) -> tuple[Assumption, ...]:
        """What is assumed on this GPU."""
        query = self.query(pace.gpu, 1, weights=pace.weights if self._also and isinstance(pace, LanguagePace) else "")
        return () if query is None else tuple(note for note in query.assumptions if note.code in _TOLD_BY_ALL)


def pace_of(steps: Generations, place: int, gpu: Gpu, weights: str, held_bytes: float | None = None) -> LanguagePace:
    """The pace of one of the GPUs for which these passes were predicted; `held_bytes` is their memory, if it is known already."""
    serving = steps.serving
    return LanguagePace(
        gpu=gpu,
        choices=Choices(precision=_COMPUTED, gpu_count=serving.gpu_count),
        batch=serving.users,
        step_s=float(steps.decode_s[place]),
        memory_bytes=generation_memory(serving).total_bytes if held_bytes is None else held_bytes,
        usable_bytes=room_bytes(serving, gpu),
        bound="copy" if serving.offloaded else steps.decode.bound_name(0, place),
        tokens_per_s=float(steps.tokens_per_s[place]),
        low=float(steps.decode.widths.low[0, place]),
        high=float(steps.decode.widths.high[0, place]),
        engine=serving.engine.title,
        weights=weights,
        split=serving.split,
        offloaded=serving.offloaded,
    )


def price_text(
    jobs: Sequence[Job],
    asked: LanguageAsked,
    near: Sequence[tuple[Gpu, int]],
    every: Sequence[Gpu],
    cpu: str = "",
    progress: Callable[[str], None] = lambda text: None,
) -> list[Priced]:
    """Each model on each GPU, in the one of its ways in which any of `near`, what the user can afford, generates text fastest.
    For one user, more bits win only a tie, so that more money never buys less speed; several are served with models as they are
    published, so more bits also win if they cost little speed."""
    share = 1.0 if (asked.users or 1) == 1 else _SERVED
    return [_priced(job, asked, near, every, cpu, progress, share) for job in jobs]


def _priced(
    job: Job,
    asked: LanguageAsked,
    near: Sequence[tuple[Gpu, int]],
    every: Sequence[Gpu],
    cpu: str,
    progress: Callable[[str], None],
    share: float,
) -> Priced:
    tried: list[tuple[str, LanguagePacer, dict[str, JobPace], float, str]] = []
    for way in job.ways:
        progress(f"predicting {job.model} on {len(every)} GPUs")
        make = LanguagePacer if Path(job.model).exists() else _kept_pacer  # a file may change between two questions
        also = _also(way, asked)
        pacer = make(job.model, asked if way == "usual" else replace(asked, weights=way), cpu, also)
        paces = pacer.paces(every)
        if not paces:
            pacer.check()
        tried.append((way, pacer, paces, *((0.0, "") if len(job.ways) == 1 else _fastest(pacer, near))))
    rates = [rate for *_, rate, _ in tried]
    taken = next(place for place, rate in enumerate(rates) if rate >= share * max(rates)) if any(rates) else len(tried) - 1
    way, pacer, paces, *_ = tried[taken]
    return Priced(
        job=job,
        way=way,
        skipped=tuple((other, _least(each)) for other, _, each, rate, _ in tried[:taken] if not rate),
        slower=tuple((_BITS.get(other) or _weights(each), rate, name) for other, _, each, rate, name in tried[:taken] if rate),
        paces=paces,
        pacer=pacer,
        decodes=False,
        notes=pacer.notes(next(iter(paces.values()))),
    )


def _also(way: str, asked: LanguageAsked) -> tuple[str, ...]:
    """The other formats with as many bits: for one user that of llama.cpp, whose kernels are made for one."""
    alone = not asked.engine and (asked.users or 1) == 1
    return tuple(each for each in (_FASTER.get(way, ""), SAME_BITS.get(way, "") if alone else "") if each)


_kept_pacer = lru_cache(maxsize=16)(LanguagePacer)  # what was priced for one question serves the next one


def _least(paces: dict[str, JobPace]) -> float:
    """What the model needs where it needs least."""
    return min(pace.memory_bytes for pace in paces.values())


def _weights(paces: dict[str, JobPace]) -> str:
    """The name of the weights."""
    return next(pace.weights for pace in paces.values() if isinstance(pace, LanguagePace))


def _fastest(pacer: LanguagePacer, near: Sequence[tuple[Gpu, int]]) -> tuple[float, str]:
    """The most tokens per second of the sets that hold the model, and which set that is; zero if none does."""
    counts: dict[int, list[Gpu]] = {}
    for gpu, count in near:
        counts.setdefault(count, []).append(gpu)
    paces = [pace for count, gpus in counts.items() for pace in pacer.paces(gpus, count).values()]
    best = max((pace for pace in paces if pace.fits), key=lambda pace: pace.samples_per_s, default=None)
    if best is None:
        return 0.0, ""
    return best.samples_per_s, f"{best.gpu_count}x {best.gpu.name}" if best.gpu_count > 1 else best.gpu.name


# ---------------------------------------------------------------- in words


def rate_text(run: TaskRun) -> str:
    """Tokens per second, with their range and the engine, since other engines are faster or slower."""
    rate, main = run.samples_per_s, run.paces[0]
    engine = ""
    if isinstance(main, LanguagePace):
        known = main.gpu.is_cpu or main.gpu.vendor in _measured_vendors(main.engine)
        doubt = "" if known else f", in which no {main.gpu.vendor} GPU was measured"
        engine = f" in {main.engine}{_on_cpu(main)}{doubt}"
    return f"{format_rate(rate)} tokens/s ({format_rate(rate / run.high)} to {format_rate(rate / run.low)}){engine}"


@cache
def _measured_vendors(engine: str) -> frozenset[str]:
    """The makers of the GPUs on which this engine was measured."""
    return frozenset(load_catalog().find(name).gpu.vendor for name in measured_gpus(find_engine(engine)))


def _on_cpu(pace: LanguagePace) -> str:
    """What runs on the CPU because it does not fit on the GPU."""
    return f", with {pace.offloaded:.0%} of the model on the CPU" if pace.offloaded else ""


def format_rate(value: float) -> str:
    """Tokens per second in few digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
