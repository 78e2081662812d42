"""What becomes of the GPUs that the user has: kept, with layers on the CPU where a language model does not fit otherwise; joined
by more of the same kind; or sharing a language model with a new card of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpuwise.advise.candidates import Candidate, TaskRun, buy_kind, kept, owned, price_for, run_on, whole
from gpuwise.advise.jobs import JobPace
from gpuwise.box.parts import is_card
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import in_server, more_machine_usd
from gpuwise.money.prices import age_of_machine
from gpuwise.money.types import Price
from gpuwise.prediction.generation import Serving, generate, generation_memory, mixed, room_bytes
from gpuwise.prediction.language_memory import HIGH
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.common.language.answer import placed
from gpuwise.questions.common.language.ask import LanguageQuery
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.language_paces import SAME_BITS, LanguagePace, LanguagePacer, pace_of
from gpuwise.step.time.engines import refusal

__all__ = ["affordable", "joined", "more_of_the_same", "with_own"]

_LAYERED = "llama.cpp"  # the usual engine for layers on the CPU, and for GPUs of several kinds

_Runs = Callable[[Gpu, int], TaskRun | None]  # all jobs on this many of a GPU
_More = Sequence[tuple[Gpu, int, Price]]  # a GPU, how many there would be, and the price of one
_Sold = Sequence[tuple[Gpu, Price | None]]


def more_of_the_same(query: WhichQuery, counts: Sequence[int]) -> list[tuple[Gpu, int, Price]]:
    """More of the cards that the user has: the GPU, how many there would be, and the price of one. Modules come in boards."""
    found = []
    for gpu, held in query.have:
        price = price_for(gpu, query.book, query.wanted.condition) if _joins_others(gpu) else None
        if price is not None:
            found += [(gpu, count, price) for count in counts if held < count <= query.most_gpus]
    return found


def affordable(query: WhichQuery, more: _More) -> list[tuple[Gpu, int]]:
    """Those that the budget covers."""
    budget, held = query.limits.budget_usd, {gpu.name: count for gpu, count in query.have}
    return [(gpu, count) for gpu, count, price in more if budget is None or (count - held[gpu.name]) * price.usd <= budget]


def with_own(query: WhichQuery, priced: Sequence[Priced], runs: _Runs, more: _More, sold: _Sold) -> Iterator[Candidate]:
    """Every option that uses what the user has."""
    for gpu, held in query.have:
        if run := _faster_run(runs(gpu, held), runs(gpu, 1)):
            yield kept(_with_cpu(priced, run) if query.text and not run.fits else run, query.terms)
    for gpu, count, price in more:
        held = next(number for one, number in query.have if one.name == gpu.name)
        if run := runs(gpu, count):
            yield from joined(query, run, price, held)
    for gpu, held in query.have if query.text else ():
        run = runs(gpu, held)
        if run and not run.fits and held < query.most_gpus and _joins_others(gpu):  # else another card makes nothing possible
            for shared, price in _shared_runs(priced, gpu, held, sold):
                yield from joined(query, shared, price, held)


def _faster_run(every: TaskRun | None, one: TaskRun | None) -> TaskRun | None:
    """Return the run on all GPUs of the user, or on one of them if that is faster: sending gradients over a slow link can take
    longer than a second GPU saves.
    """
    return one if every and one and one.fits and one.seconds < every.seconds else every


def _joins_others(gpu: Gpu) -> bool:
    """Whether it is a card that works beside another one."""
    return is_card(gpu) and not gpu.is_cpu


def joined(query: WhichQuery, run: TaskRun, price: Price, held: int) -> Iterator[Candidate]:
    """Cards that join those in the user's machine, if their condition is one that was asked for."""
    kind = buy_kind(run.gpu, price, query.book.today)
    if kind in query.kinds:
        age = age_of_machine(run.gpu, price, query.book.today)
        usd = 0.0 if query.machine_given else more_machine_usd(run.gpu, run.gpu_count, age, [(run.parts[0][0], held)])
        terms = replace(query.terms, machine_usd=usd)
        yield owned(run, terms, price, kind=kind, upfront_usd=usd, added=run.gpu_count - held)


# ---------------------------------------------------------------- layers on the CPU, and on cards of two kinds


def _with_cpu(priced: Sequence[Priced], run: TaskRun) -> TaskRun:
    """Return the run with layers on the CPU for each model that does not fit on the GPUs otherwise."""
    paces = [pace if pace.fits else _helped(found, pace) or pace for found, pace in zip(priced, run.paces, strict=True)]
    return run if tuple(paces) == run.paces else _run(priced, paces)


def _helped(found: Priced, pace: JobPace) -> LanguagePace | None:
    """Return how fast one model runs with layers on the CPU; None if it does not, or not in the engine asked for."""
    for engine in ("", _LAYERED):
        query = _asked(found, pace.gpu, pace.gpu_count, engine)
        if query is not None and (serving := placed(query.serving, pace.gpu)).offloaded:
            return pace_of(generate(serving, [pace.gpu]), 0, pace.gpu, query.format_name)
    return None


def _asked(found: Priced, gpu: Gpu, count: int, engine: str) -> LanguageQuery | None:
    """Return the question for this many of this GPU in an engine (empty: the most usual), unless another one was asked for. The
    weights have as many bits as on all other GPUs.
    """
    usual = found.paces.get(gpu.name)
    if not isinstance(found.pacer, LanguagePacer) or not isinstance(usual, LanguagePace):
        return None
    return found.pacer.query(gpu, count, engine, SAME_BITS.get(found.way, usual.weights) if engine else "")


def _shared_runs(priced: Sequence[Priced], own: Gpu, held: int, sold: _Sold) -> list[tuple[TaskRun, Price]]:
    """Return the runs on each card for sale together with the user's own, where every model fits on both. Layers are divided
    among them by memory, as in `predict`.
    """
    servings = []
    for found in priced:
        query = _asked(found, own, 1, _LAYERED)
        if query is None or query.serving.engine.splits[:1] != ("layers",):
            return []
        servings.append((query.serving, query.format_name))
    runs = []
    for gpu, price in sold:
        if price is None or gpu.name == own.name or gpu.vendor != own.vendor or whole(gpu) or in_server(gpu):
            continue
        paces = [_shared(serving, weights, own, held, gpu) for serving, weights in servings]
        able = [pace for pace in paces if pace is not None]
        if len(able) == len(priced):
            runs.append((_run(priced, able, (own, held)), price))
    return runs


def _shared(serving: Serving, weights: str, own: Gpu, held: int, gpu: Gpu) -> LanguagePace | None:
    """Return how fast one model runs on the user's cards and a new one; None if it does not fit or the engine lacks the new."""
    if refusal(serving.engine, gpu, weights, serving.cache) is not None:
        return None
    both, fullest = mixed(serving, [*[own] * held, gpu], gpu.name)
    if generation_memory(both).total_bytes * HIGH > room_bytes(both, fullest):
        return None
    return replace(pace_of(generate(both, [fullest]), 0, fullest, weights), gpu=gpu)


def _run(priced: Sequence[Priced], paces: Sequence[JobPace], beside: tuple[Gpu, int] | None = None) -> TaskRun:
    """The run at these paces, with the range of the longest job."""
    jobs = [found.job for found in priced]
    longest = max(range(len(jobs)), key=lambda place: jobs[place].samples / paces[place].samples_per_s)
    span = paces[longest]
    low, high = (span.low, span.high) if isinstance(span, LanguagePace) else (1.0, 1.0)
    in_turn = all(isinstance(pace, LanguagePace) and pace.split == "layers" for pace in paces)
    return run_on(jobs, paces, low, high, beside=beside, takes_turns=in_turn)
