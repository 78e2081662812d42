"""The jobs on which GPUs are compared, their batch sizes, and the assumptions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.jobs import StandIn, stand_ins
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.questions.common.media.both import media_throughput
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.common.rigs import Rig, Throughput, throughput
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.text.options import TextOptions
from gpuwise.questions.compare.precision import shared_precision
from gpuwise.questions.compare.text_jobs import text_throughput

__all__ = ["COMMON_JOBS", "SERVER_JOBS", "ComparedJob", "RunJob", "assumptions_of", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """A workload to compare on. A `precision` of None is one for all GPUs where possible, else 16 bit on a GPU with matrix cores
    and fp32 on others; a `batch` of None is the model's usual one, 0 the largest power of two that fits. A language model may be
    asked for `text` instead, and others for `media`: images or transcripts. A `common` job is not the user's own, so its batch or
    number of users may be reduced."""

    title: str
    model: str
    mode: str = "train"
    precision: str | None = None
    phase: str = ""
    batch: int | None = None
    seq: int | None = None
    method: str = ""
    text: TextOptions | None = None
    media: TextOptions | None = None
    common: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A job as it was run on every set of GPUs, in their order. `shared` is the precision that was chosen for all of them."""

    job: ComparedJob
    found: tuple[Throughput, ...]
    shared: str = ""


def _common(job: StandIn) -> ComparedJob:
    text = None
    if job.users:
        text = TextOptions(
            job.model, mode="infer", engine=job.engine, weights="fp16", users=job.users, prompt=job.prompt, output=job.output
        )
    return ComparedJob(
        title=job.title,
        model=job.model,
        mode=job.mode,
        precision=job.precision or None,
        phase=job.phase,
        batch=job.batch,
        seq=job.seq,
        method=job.method,
        text=text,
        common=True,
    )


COMMON_JOBS = tuple(map(_common, stand_ins("compare")))
SERVER_JOBS = tuple(map(_common, stand_ins("compare_servers")))


def run(job: ComparedJob, rigs: Sequence[Rig], stack: str, cpu: str, progress: Callable[[str], None]) -> RunJob:
    """The job on every set at one batch or number of users, which is halved for a common job until it fits on all of them, or on
    as many as possible."""
    gpus = [gpu for rig in rigs for gpu, _ in rig.parts]
    shared = "" if job.precision or job.text else shared_precision(gpus, job.mode, job.method)

    def at(size: int | None) -> tuple[Throughput, ...]:
        if job.text is not None:
            asked = replace(job.text, users=size)
            return tuple(text_throughput(rig, asked) for rig in rigs)
        if job.media is not None:
            asked = replace(job.media, precision=job.precision or shared, batch=size, stack=stack, cpu=cpu)
            return tuple(media_throughput(rig, asked) for rig in rigs)
        options = StepOptions(
            job.model,
            mode=job.mode,
            precision=job.precision or shared,
            phase=job.phase,
            batch="auto" if size == 0 else size,
            seq=job.seq,
            method=job.method,
            stack=stack,
            cpu=cpu,
        )
        return tuple(throughput(rig, options, progress) for rig in rigs)

    size = job.text.users if job.text is not None else job.batch
    tried = {size: at(size)}
    left = (size or 0) if job.common else 0
    while left > 1 and _fitting(tried[left]) < len(rigs):
        left //= 2
        tried[left] = at(left)
    best = max(tried, key=lambda one: _fitting(tried[one]))  # of those that fit on as many sets, the largest
    if best != size:
        unit = f"{best} user{'' if best == 1 else 's'}" if job.text is not None else f"batch {best}"
        job = replace(job, title=f"{job.title.split(', batch')[0]}, {unit}")
    return RunJob(job=job, found=tried[best], shared=shared)


def _fitting(found: Iterable[Throughput]) -> int:
    """On how many sets the job fits."""
    return sum(each.fits for each in found)


# ---------------------------------------------------------------- what is assumed


def assumptions_of(ran: Sequence[RunJob]) -> list[Assumption]:
    """What was assumed for all jobs and GPUs, each thing once, with where it differs; then what applies to single GPUs."""
    asked = [(one.job, answer) for one in ran for each in one.found for answer in each.answers]
    found: dict[str, list[tuple[str, str, Assumption]]] = {}
    for job, answer in asked:
        for note in (*_batch_notes(job, answer), *answer.assumptions):
            found.setdefault(note.name, []).append((job.model, answer.results[0].gpu.name, note))
    for one in ran:
        if one.shared:
            effect = "the same on all of these GPUs; change it with `--precision`"
            found.setdefault("precision", []).append((one.job.model, "", assumed("precision", one.shared, effect)))
    return [*map(_join, found.values()), *(note for _, answer in asked for note in _own_notes(answer))]


def _batch_notes(job: ComparedJob, answer: PredictAnswer) -> list[Assumption]:
    """A batch that the user did not give and that is not the model's usual one."""
    if job.batch == 0:
        effect = "the largest power of two that fits on each GPU; use `--batch 32` to compare all GPUs at batch 32"
        return [assumed("batch", str(answer.results[0].batch), effect, basis="derived")]
    if job.common and job.text is None:
        effect = "the same on all GPUs; the name of a workload shows whether its batch was reduced"
        return [assumed("batch", str(job.batch), effect)]
    return []


def _join(entries: Sequence[tuple[str, str, Assumption]]) -> Assumption:
    """The same assumption of several jobs on several GPUs as one."""
    first = entries[0][2]
    if all(note.value == first.value for _, _, note in entries):
        return first
    if first.code == "precision":  # each workload shows its own
        if not any(note.value == "fp32" for _, _, note in entries):
            return assumed(
                "precision", "16-bit", "usual on GPUs that run it well; use `--model` with `--precision fp32` to change it"
            )
        effect = "16-bit on GPUs with matrix cores, fp32 on others; use `--model` with `--precision fp32` to compare all in fp32"
        return assumed("precision", "best for each GPU", effect)
    effects = dict.fromkeys(note.effect for _, _, note in entries)
    return replace(
        first, value=_list_values([(model, gpu, note.value) for model, gpu, note in entries]), effect="; ".join(effects)
    )


def _list_values(entries: Sequence[tuple[str, str, str]]) -> str:
    """Values by model, by GPU, or by both where neither settles them: `64 for resnet50 and word_lstm, 16 for bert-base`."""
    models, gpus = {model for model, _, _ in entries}, {gpu for _, gpu, _ in entries}
    by_model = len({(model, value) for model, _, value in entries}) == len(models)
    by_gpu = len({(gpu, value) for _, gpu, value in entries}) == len(gpus) or len(models) == 1
    found: dict[str, dict[str, None]] = {}
    for model, gpu, value in entries:
        found.setdefault(value, {})[model if by_model else gpu if by_gpu else f"{model} on {gpu}"] = None
    where = "for" if by_model or not by_gpu else "on"
    return ", ".join(f"{value} {where} {' and '.join(whose)}" for value, whose in found.items())


def _own_notes(answer: PredictAnswer) -> list[Assumption]:
    """What applies to one GPU alone, without what the ratios already show."""
    own = [note for note in answer.results[0].assumptions if note not in answer.assumptions]
    return [note for note in own if note.code not in ("gpus", "averaging", "above_peak")]
