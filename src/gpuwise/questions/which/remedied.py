"""Cards that hold a model with the remedies of `fit`, if `which` finds none that holds it without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from gpuwise.advise.candidates import Candidate, run_on
from gpuwise.advise.choosing import Selection, shortfall
from gpuwise.advise.jobs import JobPace
from gpuwise.advise.ladder import sparing
from gpuwise.advise.types import Rung
from gpuwise.core.text import a
from gpuwise.core.units import GIB, format_si
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.fit_command import fit_command
from gpuwise.questions.common.jobs import trial_on, width
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.survey import Survey, price_kind, time_text

__all__ = ["Remedied", "describe_remedy", "describe_spared", "remedied", "wants_remedies"]

_EFFECTS = ("same", "numerics")  # another method, task or machine would no longer be what was asked for
_MOST = 2  # memory sizes to try where nothing else can be bought, else one: each takes seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedied:
    """A card that holds the jobs as asked with remedies: its time and cost, and the remedies of each model."""

    option: Candidate
    rungs: dict[str, tuple[Rung, ...]]


def remedied(survey: Survey, chosen: Selection, progress: Callable[[str], None]) -> tuple[Remedied, ...]:
    """Return cards within the limits that hold every job as requested. With a budget the fastest is first, otherwise the one
    with the lowest cost per run.

    The user's own GPU is tried first, then from most memory to least. Less memory never holds more, so after a failure only
    larger ones are tried.
    """
    found: list[Remedied] = []
    too_little = 0.0
    for option in (*_short_of_memory(survey, ("keep",)), *_by_memory(survey)[: 1 if chosen.best else _MOST]):
        if option.gpu.memory_bytes <= too_little:
            continue
        progress(f"looking for memory savings on the {option.gpu.name}")
        one = _with_remedies(survey, option)
        if one is None:
            too_little = option.gpu.memory_bytes
        elif not shortfall(one.option, survey.query.limits):
            found.append(one)
    free = survey.query.limits.budget_usd is None
    return tuple(sorted(found, key=lambda one: (one.option.usd_per_run or inf) if free else one.option.run.seconds))


def _by_memory(survey: Survey) -> list[Candidate]:
    """The fastest card on sale of each memory size, most memory first."""
    sizes: dict[float, Candidate] = {}
    for option in _short_of_memory(survey, ("buy new", "buy used")):
        sizes.setdefault(option.gpu.memory_bytes, option)
    return [sizes[size] for size in sorted(sizes, reverse=True)]


def _with_remedies(survey: Survey, option: Candidate) -> Remedied | None:
    """Return the same card with remedies for each job that does not fit, or None if one of them cannot be made to fit."""
    paces, rungs = [], {}
    for place, priced in enumerate(survey.priced):
        pace = option.run.paces[place]
        if priced.skipped or not pace.fits:
            tried = _try_remedies(survey.query, place, option.gpu, pace)
            if tried is None:
                return None
            pace, rungs[priced.job.model] = tried
        paces.append(pace)
    return Remedied(option=_with_paces(survey.query, option, paces), rungs=rungs)


def _try_remedies(query: WhichQuery, place: int, gpu: Gpu, plain: JobPace) -> tuple[JobPace, tuple[Rung, ...]] | None:
    trial = trial_on(query.jobs[place], gpu, query.asked)
    if trial is None:
        return None
    memory = trial.memory(trial.now)
    copies = 2 if query.jobs[place].mode == "train" and not trial.now.adapters else 1
    if copies * memory.weight_bytes > trial.room.usable_bytes:  # weights and gradients stay, whatever else is spared
        return None
    rungs, choices = sparing(trial, _EFFECTS)
    if not rungs:
        return None
    pace = JobPace(
        gpu=gpu,
        choices=choices,
        batch=trial.batch,
        step_s=rungs[-1].step_s,
        memory_bytes=rungs[-1].memory.total_bytes,
        usable_bytes=trial.room.usable_bytes,
        bound=plain.bound,
    )
    return pace, rungs


def _with_paces(query: WhichQuery, option: Candidate, paces: Sequence[JobPace]) -> Candidate:
    """The same option with other step times."""
    span = width(option.gpu, max(paces, key=lambda pace: pace.step_s).bound)
    run = run_on(query.jobs, paces, span.low, span.high)
    return replace(option, run=run, runs=option.runs * option.run.seconds / run.seconds)  # the hours and the money stay the same


def describe_remedy(survey: Survey, one: Remedied) -> str:
    """Which card holds which jobs with which remedies, and what those cost in time."""
    option, jobs = one.option, []
    for priced, pace in zip(survey.priced, option.run.paces, strict=True):
        rungs = one.rungs.get(priced.job.model, ())
        if rungs:
            room = f"it then needs {pace.memory_bytes / GIB:.1f} of {pace.usable_bytes / GIB:.1f} GiB"
            means = ", ".join(rung.title for rung in rungs)
            slower = f"a step takes {rungs[-1].cost:.2f} times as long"
            jobs.append(f"{priced.job.model} at batch {pace.batch} with these changes: {means} ({room}, and {slower})")
    see = f"`{_fit_of(survey, one)}` shows the details"
    cost = f" and costs {survey.query.book.currency.show(option.usd_per_run)}" if option.usd_per_run else ""
    return f"{_describe_card(survey, option)} can run {'; and '.join(jobs)}. A run takes {time_text(option.run)}{cost}; {see}"


def _fit_of(survey: Survey, one: Remedied) -> str:
    """The `gpuwise fit` command for the first job with remedies."""
    job = next(job for job in survey.query.jobs if job.model in one.rungs)
    asked = survey.query.asked
    precision = asked.precision if asked.precision != "auto" else ""
    sizes = {"batch": asked.size or job.batch, "seq": job.seq, "image": asked.image}
    how = {"precision": precision, "optimizer": asked.optimizer, "cpu": asked.cpu, "stack": asked.stack}
    return fit_command(job.model, [one.option.gpu], **sizes, **how)


def describe_spared(survey: Survey, spared: Sequence[Remedied]) -> str:
    """The best card that holds the job as asked with remedies; the details follow below the table."""
    option = spared[0].option
    able = f"{_describe_card(survey, option)} can run the job as requested, and a run takes {format_si(option.run.seconds, 's')}"
    return f" With the memory savings listed by `gpuwise fit`, {able}."


def wants_remedies(survey: Survey, chosen: Selection) -> bool:
    """Return whether jobs run in another way than requested, or do not fit what the user has or could buy."""
    if survey.query.general or survey.query.text or survey.query.media or not survey.query.kinds & {"buy new", "buy used"}:
        return False
    otherwise = any(priced.skipped for priced in survey.priced)
    idle = chosen.bought is None and (chosen.best is None or chosen.best is not chosen.kept)
    return otherwise or bool(_short_of_memory(survey, ("keep",))) or idle


def _short_of_memory(survey: Survey, kinds: Sequence[str]) -> list[Candidate]:
    """Return single GPUs within the budget that cannot hold what was requested, fastest first."""
    budget, otherwise = survey.query.limits.budget_usd, any(priced.skipped for priced in survey.priced)
    single = [one for one in survey.options if one.gpu_count == 1 and one.kind in kinds and (otherwise or not one.run.fits)]
    reached = [one for one in single if budget is None or (one.upfront_usd is not None and one.upfront_usd <= budget)]
    return sorted(reached, key=lambda one: one.run.seconds)


def _describe_card(survey: Survey, option: Candidate) -> str:
    if option.kind == "keep":
        return f"your {option.name}"
    price = "" if option.upfront_usd is None else f" ({survey.money(option.upfront_usd)}{price_kind(survey, option)})"
    return f"{a(option.name)}{price}"
