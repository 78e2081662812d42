"""Runs the jobs of a question on many GPUs. Captures and predictions are reused by later questions in the same process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date

import msgspec

from gpuwise.advise.jobs import SHORT_WAYS, Job, JobPace, Pacer, ways_on
from gpuwise.advise.trial import Trial
from gpuwise.advise.types import Divides
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either
from gpuwise.core.units import GIB
from gpuwise.evidence.ranges import Range, step_range
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu, supported
from gpuwise.prediction.choices import METHODS, Choices, DoesNotApply
from gpuwise.prediction.ways import Ways, room_of
from gpuwise.questions.common.capturing import asker, takes_images
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.tuning import Tuning, check_targets
from gpuwise.workload import find
from gpuwise.workload.model.types import Workload

__all__ = ["Asked", "Priced", "does_not_fit", "only", "price_in_one_way", "price_jobs", "trial_on", "way_text", "width"]

_ANY_MODERN_GPU = "A100 PCIe 40GB"  # has every precision, so nothing is refused before GPUs are known
_MOST_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How all jobs of a question are run, as typed; empty means as each job says."""

    batch: str = ""
    precision: str = ""
    optimizer: str = ""
    image: int | None = None
    cpu: str = ""
    stack: str = ""
    timeout_s: float = 120.0

    @property
    def size(self) -> int | None:
        """The batch as a number, if one was given."""
        return None if self.batch in ("", "auto") else int(self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A job on every GPU that can run it, in one way for all; `skipped` are better ways that fit on none of the GPUs, with the
    bytes that each needs at least; `slower` are weights with more bits that would generate text more slowly, with the
    tokens per second of the fastest GPUs and their name. `decodes` if the host would have to decode images.
    """

    job: Job
    way: str
    skipped: tuple[tuple[str, float], ...]
    paces: dict[str, JobPace]
    pacer: Divides
    decodes: bool
    notes: tuple[Assumption, ...]
    slower: tuple[tuple[str, float, str], ...] = ()

    def after(self, skipped: tuple[tuple[str, float], ...]) -> Priced:
        """Return the same, found after other ways were tried."""
        return replace(self, skipped=(*skipped, *self.skipped))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A loaded model. `own` is how it runs if it decides that itself, as a workload file does."""

    pacer: Pacer
    own: Choices | None
    notes: tuple[Assumption, ...]


_models: dict[object, _Model] = {}


def price_jobs(
    jobs: Sequence[Job], gpus: Sequence[Gpu], asked: Asked, progress: Callable[[str], None] = lambda text: None
) -> list[Priced]:
    """Predict each job on each of these GPUs, in the first of its ways that fits on any of them."""
    return [_priced(job, gpus, asked, progress) for job in jobs]


def price_in_one_way(
    jobs: Sequence[Job], near: Sequence[Gpu], every: Sequence[Gpu], asked: Asked, progress: Callable[[str], None]
) -> list[Priced]:
    """Predict each job on every GPU, in the first way that fits one of those that are `near`: only then are times comparable."""
    reached = price_jobs(jobs, near, asked, progress)
    whole = price_jobs([only(found.job, found.way) for found in reached], every, asked, progress)
    return [found.after(first.skipped) for found, first in zip(whole, reached, strict=True)]


def only(job: Job, way: str) -> Job:
    """Return a job that is run in no other way."""
    return msgspec.structs.replace(job, ways=(way,))


def _in_bf16(model: _Model) -> Workload:
    """The model as adapters are trained in it; if its source refuses it, this is the user's error."""
    try:
        return model.pacer.workload(Choices(precision="bf16"))
    except DoesNotApply as refusal:
        raise refusal.__cause__ or refusal from None


def _priced(job: Job, gpus: Sequence[Gpu], asked: Asked, progress: Callable[[str], None]) -> Priced:
    model = _model(job, asked, progress)
    found: list[tuple[str, dict[str, JobPace]]] = []
    if job.ways[0] in METHODS:
        check_targets(_in_bf16(model), Tuning(method=job.ways[0]))
    size, auto = asked.size or (None if asked.batch == "auto" else job.batch), asked.batch == "auto"
    for way in job.ways:
        on = _on(job, way, model, asked)
        if way != job.ways[-1]:  # what does not fit on the largest fits on none, and that is quicker to check
            paces = model.pacer.paces(_largest(gpus), on, batch=size, auto=auto)
            if not any(pace.fits for pace in paces.values()):
                found.append((way, paces))
                continue
        paces = model.pacer.paces(gpus, on, batch=size, auto=auto)
        found.append((way, paces))
        if any(pace.fits for pace in paces.values()):
            break
    way, paces = found[-1]
    sample = next(iter(paces.values()), None)
    training = job.mode == "train" and sample is not None
    return Priced(
        job=job,
        way=way,
        skipped=tuple((tried, _least(tight)) for tried, tight in found[:-1] if tight),
        paces=paces,
        pacer=model.pacer,
        decodes=training and sample is not None and takes_images(model.pacer.workload(sample.choices)),
        notes=(*model.notes, *_captured_with(job, model, sample)),
    )


def _largest(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return each maker's GPU with the most memory: makers differ in the precisions that they support."""
    largest: dict[str, Gpu] = {}
    for gpu in sorted(gpus, key=lambda gpu: (gpu.usable_memory_bytes, gpu.launched_on or date.min)):
        largest[gpu.vendor] = gpu
    return list(largest.values())


def _captured_with(job: Job, model: _Model, sample: JobPace | None) -> tuple[Assumption, ...]:
    """Return what was guessed about a model that is not in the zoo."""
    told = model.pacer.workload(sample.choices).notes if sample is not None and ":" in job.model else ()
    return (
        (assumed(job.model, "; ".join(told), "use `--input` in `gpuwise predict` to set the inputs", code="captured_model"),)
        if told
        else ()
    )


def trial_on(job: Job, gpu: Gpu, asked: Asked) -> Trial | None:
    """Return the job on one GPU as requested, in the first of its ways, for trying remedies; None if it has no such way."""
    model = _model(job, asked, lambda text: None)
    choices = next(iter(_on(job, job.ways[0], model, asked)(gpu)), None)
    if choices is None:
        return None
    workload = model.pacer.workload(choices)
    return Trial(
        gpu=gpu,
        room=room_of(gpu),
        batch=asked.size or job.batch or workload.batch,
        now=replace(choices, optimizer=workload.optimizer, seq=workload.seq),
        ways=model.pacer.ways,
        run=model.pacer.run,
    )


def _least(paces: dict[str, JobPace]) -> float:
    """Return what the job needs, in the smallest parts, on the GPU where it needs least."""
    return min(pace.memory_bytes for pace in paces.values())


def _on(job: Job, way: str, model: _Model, asked: Asked) -> Callable[[Gpu], Sequence[Choices]]:
    own = model.own
    if own is not None:
        return lambda gpu: (own,) if own.precision in supported(gpu) else ()
    return lambda gpu: ways_on(gpu, way, mode=job.mode, precision=asked.precision, optimizer=asked.optimizer)


def _model(job: Job, asked: Asked, progress: Callable[[str], None]) -> _Model:
    """Return the model with everything known about it; cached for the next question, except files, which may change."""
    key = (job.model, job.mode, job.phase, job.seq, asked.optimizer, asked.image, asked.cpu, asked.stack)
    if key in _models:
        return _models[key]
    tells_itself = find.tells_itself(job.model)
    options = StepOptions(
        job.model,
        mode="" if tells_itself else job.mode,
        optimizer=asked.optimizer,
        cpu=asked.cpu,
        stack=asked.stack,
        phase=job.phase,
        seq=job.seq,
        image=asked.image,
        timeout=asked.timeout_s,
    )
    query = step_query(options, gpus=[load_catalog().find(_ANY_MODERN_GPU).gpu])
    ask = asker(query.capture, query.gpus, progress)
    own = None
    if tells_itself:
        workload = ask(None)
        own = Choices(precision=workload.precision, optimizer=workload.optimizer)
    ways = Ways((lambda choices: ask(None if choices == own else choices)) if own else ask)
    hidden = ("precision", "optimizer", "batch", "seq")  # told job by job
    model = _Model(
        pacer=Pacer(ways, query.run), own=own, notes=tuple(note for note in query.assumptions if note.code not in hidden)
    )
    if not tells_itself and ":" not in job.model:
        while len(_models) >= _MOST_KEPT:
            _models.pop(next(iter(_models)))
        _models[key] = model
    return model


def width(gpu: Gpu, bound: str) -> Range:
    """Return how far a measured step may be from the predicted one on this GPU."""
    return step_range(gpu, bound)


def way_text(job: Job, priced: Priced) -> str:
    """Return why a job is run this way, and which other ways there are."""
    if priced.slower:
        names = either(name for name, *_ in priced.slower)
        return f"faster than with {names} weights; more bits are slightly better (`--weights`)"
    if priced.skipped:
        return f"no GPU within your limits can run it {either(SHORT_WAYS[way] for way, _ in priced.skipped)}"
    sparing = job.ways[job.ways.index(priced.way) + 1 :]
    smaller = either(SHORT_WAYS[way] for way in sparing)
    return f"it would fit on smaller GPUs {smaller}" if sparing else "the usual method for this task"


def does_not_fit(priced: Priced, pace: JobPace, each: str = "") -> str:
    """How much memory a job lacks on a GPU, or on `each` of several."""
    part = f" even with {pace.micro_batch} of {pace.batch} samples at a time" if pace.micro_batch < pace.batch else ""
    needs, usable = (f"{size / GIB:,.1f}" for size in (pace.memory_bytes, pace.usable_bytes))
    if pace.memory_bytes > pace.usable_bytes:
        return f"{priced.job.model} does not fit: it needs {needs} GiB{part}{each}, but only {usable} GiB is usable"
    return f"{priced.job.model} may not fit: it needs {needs} of the {usable} usable GiB{each}{part}"
