"""The jobs that GPUs are compared on, at which batch, and what is assumed about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.jobs import stand_ins
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.common.rigs import Rig, Throughput, throughput
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.text.options import TextOptions
from gpuwise.questions.compare.text_jobs import text_throughput

__all__ = ["COMMON_JOBS", "ComparedJob", "RunJob", "assumptions_of", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """A workload to compare on. A `precision` of None means 16 bit on a GPU with matrix cores and fp32 on others; a `batch` of
    None is the model's usual one, 0 the largest power of two that fits. A language model may be asked for `text` instead."""

    title: str
    model: str
    mode: str = "train"
    precision: str | None = None
    phase: str = ""
    batch: int | None = None
    text: TextOptions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A job as it was run on every set of GPUs, in their order."""

    job: ComparedJob
    found: tuple[Throughput, ...]


COMMON_JOBS = tuple(
    ComparedJob(
        title=job.title, model=job.model, mode=job.mode, precision=job.precision or None, phase=job.phase, batch=job.batch
    )
    for job in stand_ins("compare")
)


def run(job: ComparedJob, rigs: Sequence[Rig], stack: str, cpu: str, progress: Callable[[str], None]) -> RunJob:
    """The job on every set at one batch, which is halved for a common job until it fits all of them, if it ever does."""

    if job.text is not None:
        asked = job.text
        return RunJob(job=job, found=tuple(text_throughput(rig, asked) for rig in rigs))

    def at(batch: int | None) -> tuple[Throughput, ...]:
        size = "auto" if batch == 0 else batch
        options = StepOptions(
            job.model, mode=job.mode, precision=job.precision or "", phase=job.phase, batch=size, stack=stack, cpu=cpu
        )
        return tuple(throughput(rig, options, progress) for rig in rigs)

    first = found = at(job.batch)
    batch = (job.batch or 0) if job in COMMON_JOBS else 0
    while batch > 1 and not _all_fit(found):
        batch //= 2
        found = at(batch)
    if not _all_fit(found) or found is first:
        return RunJob(job=job, found=first)
    return RunJob(job=replace(job, title=f"{job.title.split(', batch')[0]}, batch {batch}"), found=found)


def _all_fit(found: Iterable[Throughput]) -> bool:
    return all(each.fits for each in found)


# ---------------------------------------------------------------- what is assumed


def assumptions_of(ran: Sequence[RunJob]) -> list[Assumption]:
    """What was assumed for all jobs and GPUs, each thing once, with where it differs; then what applies to single GPUs."""
    asked = [(one.job, answer) for one in ran for each in one.found for answer in each.answers]
    found: dict[str, list[tuple[str, str, Assumption]]] = {}
    for job, answer in asked:
        for note in (*_batch_notes(job, answer), *answer.assumptions):
            found.setdefault(note.name, []).append((job.model, answer.results[0].gpu.name, note))
    return [*map(_join, found.values()), *(note for _, answer in asked for note in _own_notes(answer))]


def _batch_notes(job: ComparedJob, answer: PredictAnswer) -> list[Assumption]:
    """A batch that the user did not give and that is not the model's usual one."""
    if job.batch == 0:
        effect = "the largest power of two that fits on each GPU; use `--batch 32` to compare all GPUs at batch 32"
        return [assumed("batch", str(answer.results[0].batch), effect, basis="derived")]
    if job.title != job.model and job.text is None:
        return [
            assumed("batch", str(job.batch), "the same on all GPUs; the name of a workload shows whether its batch was reduced")
        ]
    return []


def _join(entries: Sequence[tuple[str, str, Assumption]]) -> Assumption:
    """The same assumption of several jobs on several GPUs as one."""
    first = entries[0][2]
    if all(note.value == first.value for _, _, note in entries):
        return first
    if first.code == "precision":  # each workload shows its own
        effect = "16-bit on GPUs with matrix cores, fp32 on others; use `--model` with `--precision fp32` to compare all in fp32"
        return assumed("precision", "best for each GPU", effect)
    effects = dict.fromkeys(note.effect for _, _, note in entries)
    return replace(
        first, value=_list_values([(model, gpu, note.value) for model, gpu, note in entries]), effect="; ".join(effects)
    )


def _list_values(entries: Sequence[tuple[str, str, str]]) -> str:
    """Values by model, or by model and GPU where GPUs differ: `64 for resnet50 and word_lstm, 16 for bert-base`."""
    models = {model for model, _, _ in entries}
    settled = len({(model, value) for model, _, value in entries}) == len(models)
    found: dict[str, dict[str, None]] = {}
    for model, gpu, value in entries:
        whose = model if settled else gpu if len(models) == 1 else f"{model} on {gpu}"
        found.setdefault(value, {})[whose] = None
    where = "on" if len(models) == 1 else "for"
    return ", ".join(f"{value} {where} {' and '.join(whose)}" for value, whose in found.items())


def _own_notes(answer: PredictAnswer) -> list[Assumption]:
    """What applies to one GPU alone, without what the ratios already show."""
    own = [note for note in answer.results[0].assumptions if note not in answer.assumptions]
    return [note for note in own if note.code not in ("gpus", "averaging", "above_peak")]
