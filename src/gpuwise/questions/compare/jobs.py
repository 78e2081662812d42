"""The jobs on which GPUs are compared, their batch sizes, and the assumptions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpuwise.advise.jobs import StandIn, stand_ins
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.units import GIB
from gpuwise.questions.common.language.options import LanguageOptions
from gpuwise.questions.common.media.both import media_throughput
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.common.rigs import Rig, Throughput, throughput
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.compare.language_jobs import offloaded, text_throughput
from gpuwise.questions.compare.precision import shared_precision

__all__ = ["COMMON_JOBS", "FEWER_BITS", "SERVER_JOBS", "ComparedJob", "RunJob", "assumptions_of", "on_gpus", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """A workload to compare on. A `precision` of None is one for all GPUs if possible, otherwise 16 bit on a GPU with matrix
    cores and fp32 on others; a `batch` of None is the model's default, 0 the largest power of two that fits. A language
    model may generate `text` instead, and others `media`: images or transcripts. A `common` job is not the user's own, so
    its batch or number of users may be reduced, like the batch of a job without a given one. Text in no given format is
    generated with fewer bits where it does not fit otherwise.
    """

    title: str
    model: str
    mode: str = "train"
    precision: str | None = None
    phase: str = ""
    batch: int | None = None
    seq: int | None = None
    method: str = ""
    text: LanguageOptions | None = None
    media: LanguageOptions | None = None
    common: bool = False
    format_given: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """A job as it was run on every set of GPUs, in their order. `shared` is the precision chosen for all of them, and
    `needed_bytes` what 16-bit weights would have needed, where fewer bits were chosen.
    """

    job: ComparedJob
    found: tuple[Throughput, ...]
    shared: str = ""
    needed_bytes: float = 0.0


def _common(job: StandIn) -> ComparedJob:
    text = None
    if job.users:
        text = LanguageOptions(
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
    """Run the job on every set at one batch or number of users, which is halved until it fits on all of them, or on as many as
    possible, unless the user gave it.
    """
    if job.text is not None and not job.common:
        return _run_text(job, rigs, job.text)
    gpus = [gpu for rig in rigs for gpu, _ in rig.parts]
    shared = "" if job.precision or job.text else shared_precision(gpus, job.mode, job.method, job.phase)

    def at(size: int | None) -> tuple[Throughput, ...]:
        if job.text is not None:
            return _all_text(rigs, replace(job.text, users=size))
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
    own = tried[size][0].slowest.batch if size is None and job.media is None else 0  # the model's usual batch
    if own:
        tried = {own: tried[size]}
        size = own
    left = (size or 0) if job.common or own else 0
    while left > 1 and _fitting(tried[left]) < len(rigs):
        left //= 2
        tried[left] = at(left)
    best = max(tried, key=lambda one: _fitting(tried[one]))  # of those that fit on as many sets, the largest
    if best != size:
        unit = f"{best} user{'' if best == 1 else 's'}" if job.text is not None else f"batch {best}"
        job = replace(job, title=f"{job.title.split(', batch')[0]}, {unit}")
    return RunJob(job=job, found=tried[best], shared=shared)


FEWER_BITS = ("int8", "q8_0", "int4", "q4_k_m")  # engines have one of each pair


def _run_text(job: ComparedJob, rigs: Sequence[Rig], asked: LanguageOptions) -> RunJob:
    """Generate text in the given format, or in the one with the most bits that fits on all sets; if there is none, in the one
    that fits on most, with as little of the model on the CPU as possible.
    """
    tried = {"": _all_text(rigs, asked)}
    if job.format_given or on_gpus(tried[""]):
        return RunJob(job=job, found=tried[""])
    for weights in FEWER_BITS:
        try:
            tried[weights] = _all_text(rigs, replace(asked, weights=weights))
        except BadValue:  # the engine for these GPUs does not have the format
            continue
        if on_gpus(tried[weights]):
            break
    best = max(tried, key=lambda weights: (_holding(tried[weights]), _fitting(tried[weights]), -_on_cpu(tried[weights])))
    if not best or not _fitting(tried[best]):
        return RunJob(job=job, found=tried[""])
    chosen = replace(job, title=f"{job.title}, {best} weights", text=replace(asked, weights=best))
    return RunJob(job=chosen, found=tried[best], needed_bytes=max(each.slowest.memory.total_bytes for each in tried[""]))


def on_gpus(found: Sequence[Throughput]) -> bool:
    """Return whether every set holds the whole model, with no part of it on the CPU."""
    return _holding(found) == len(found)


def _holding(found: Sequence[Throughput]) -> int:
    """Return how many sets hold the whole model."""
    return sum(each.fits and not offloaded(each.slowest) for each in found)


def _all_text(rigs: Sequence[Rig], asked: LanguageOptions) -> tuple[Throughput, ...]:
    return tuple(text_throughput(rig, asked) for rig in rigs)


def _fitting(found: Iterable[Throughput]) -> int:
    """On how many sets the job fits."""
    return sum(each.fits for each in found)


def _on_cpu(found: Sequence[Throughput]) -> float:
    """Return how much of the model runs on CPUs."""
    return sum(offloaded(each.slowest) for each in found)


# ---------------------------------------------------------------- what is assumed


def assumptions_of(ran: Sequence[RunJob]) -> list[Assumption]:
    """Return what was assumed for all jobs and GPUs, each thing once, with its differences; then what applies to single GPUs."""
    asked = [(one.job, answer) for one in ran for each in one.found for answer in each.answers]
    found: dict[str, list[tuple[str, str, Assumption]]] = {}
    for job, answer in asked:
        for note in (*_batch_notes(job, answer), *answer.assumptions):
            found.setdefault(note.name, []).append((job.model, answer.results[0].gpu.name, note))
    for one in ran:
        if one.shared:
            effect = "the same on all of these GPUs; change it with `--precision`"
            found.setdefault("precision", []).append((one.job.model, "", assumed("precision", one.shared, effect)))
        if one.job.text is not None and one.job.text.weights and not (one.job.format_given or one.job.common):
            found.setdefault("weights", []).append((one.job.model, "", _weights_note(one, one.job.text.weights)))
    return [*map(_join, found.values()), *(note for _, answer in asked for note in _own_notes(answer))]


def _weights_note(ran: RunJob, weights: str) -> Assumption:
    """Why this format was chosen for all sets."""
    if not ran.needed_bytes:
        return assumed("weights", weights, "the same on all of these GPUs; change it with `--weights`")
    large = f"16-bit weights need {ran.needed_bytes / GIB:.0f} GiB and do not fit on all of these"
    return assumed("weights", weights, f"{large}; set yours with `--weights`", overrides=True)


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
    """Merge the same assumption about several jobs on several GPUs."""
    first = entries[0][2]
    if all(note.value == first.value for _, _, note in entries):
        several = len({gpu for _, gpu, _ in entries}) > 1
        return replace(first, effect=first.effect.replace("this device has", "these GPUs have")) if several else first
    if first.code == "precision":  # each workload shows its own
        if not any(note.value == "fp32" for _, _, note in entries):
            return assumed(
                "precision",
                "16-bit",
                "the usual choice on GPUs that run it well; use `--model` with `--precision fp32` to change it",
            )
        effect = "16-bit on GPUs with matrix cores, fp32 on others; use `--model` with `--precision fp32` to compare all in fp32"
        return assumed("precision", "best for each GPU", effect)
    effect = "; ".join(dict.fromkeys(note.effect for _, _, note in entries))
    if len({model for model, _, _ in entries}) > 1:
        effect = effect.replace("for this model", "for each model")
    return replace(first, value=_list_values([(model, gpu, note.value) for model, gpu, note in entries]), effect=effect)


def _list_values(entries: Sequence[tuple[str, str, str]]) -> str:
    """Return values by model, by GPU, or by both if neither suffices: `64 for resnet50 and word_lstm, 16 for bert-base`."""
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
