"""What GPUs are compared on, at which batch, and what is assumed of it. What follows from it is told in `comparisons.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.questions.common.prediction_types import PredictAnswer
from gpuwise.questions.common.rigs import Rig, Throughput, throughput
from gpuwise.questions.common.step_options import StepOptions

__all__ = ["Job", "Ran", "assumptions_of", "jobs_of", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A workload to compare on. `precision` of None is 16 bit where a GPU has matrix cores, else fp32."""

    title: str
    model: str
    mode: str = "train"
    precision: str | None = None
    phase: str = ""
    batch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A job as it was run on every set of GPUs, in their order."""

    job: Job
    found: tuple[Throughput, ...]


_JOBS = (
    Job(title="CNN training (resnet50)", model="resnet50", batch="64"),
    Job(title="CNN training in fp32 (resnet50)", model="resnet50", precision="fp32", batch="64"),
    Job(title="transformer training (bert-base)", model="bert-base", batch="16"),
    Job(title="transformer training in fp32 (bert-base)", model="bert-base", precision="fp32", batch="16"),
    Job(title="RNN training (word_lstm)", model="word_lstm", batch="64"),
    Job(title="RNN training in fp32 (word_lstm)", model="word_lstm", precision="fp32", batch="64"),
    Job(title="image generation (sd15)", model="sd15", mode="infer", batch="1"),
    Job(title="LLM answering (llama-2-7b decode)", model="llama-2-7b", mode="infer", phase="decode", batch="1"),
    Job(title="small CNN, batch 32 (mnist_cnn)", model="mnist_cnn", batch="32"),
)


def jobs_of(models: Sequence[str], mode: str, precision: str, batch: str) -> Sequence[Job]:
    """One for each model; common ones where none is given."""
    ignored = {"--mode": mode, "--precision": precision, "--batch": batch}
    if not models and any(ignored.values()):
        option = next(name for name, value in ignored.items() if value)
        raise BadValue(
            f"{option} is for --model; common jobs have their own",
            hint=f"for example `--model resnet50 {option} {ignored[option]}`",
        )
    return [
        Job(title=model, model=model, mode=mode or "train", precision=precision or None, batch=batch) for model in models
    ] or _JOBS


def run(job: Job, rigs: Sequence[Rig], stack: str, cpu: str, progress: Callable[[str], None]) -> Ran:
    """The job on every set, at one batch. A common job is made smaller until it fits all of them, if it ever does."""

    def at(batch: str) -> tuple[Throughput, ...]:
        asked = StepOptions(
            job.model, mode=job.mode, precision=job.precision or "", phase=job.phase, batch=batch, stack=stack, cpu=cpu
        )
        return tuple(throughput(rig, asked, progress) for rig in rigs)

    first = found = at(job.batch)
    batch = int(job.batch) if job in _JOBS else 0
    while batch > 1 and not _all_fit(found):
        batch //= 2
        found = at(str(batch))
    if not _all_fit(found) or found is first:
        return Ran(job=job, found=first)
    return Ran(job=replace(job, title=f"{job.title.split(', batch')[0]}, batch {batch}"), found=found)


def _all_fit(found: Iterable[Throughput]) -> bool:
    return all(each.fits for each in found)


# ---------------------------------------------------------------- what is assumed


def assumptions_of(ran: Sequence[Ran]) -> list[Assumption]:
    """What was assumed of all jobs and GPUs, each thing once, with where it differs; then what is said of single GPUs."""
    asked = [(one.job, answer) for one in ran for each in one.found for answer in each.answers]
    told: dict[str, list[tuple[str, str, Assumption]]] = {}
    for job, answer in asked:
        for note in (*_batch_told(job, answer), *answer.assumptions):
            told.setdefault(note.name, []).append((job.model, answer.results[0].gpu.name, note))
    return [*map(_joined, told.values()), *(note for _, answer in asked for note in _own_notes(answer))]


def _batch_told(job: Job, answer: PredictAnswer) -> list[Assumption]:
    """A batch that nobody typed and that is not the model's usual one."""
    if job.batch == "auto":
        effect = "the largest power of two that fits each GPU; `--batch 32` compares at one"
        return [assumed("batch", str(answer.results[0].batch), effect, basis="derived")]
    if job.title != job.model:
        return [assumed("batch", job.batch, "the same on all GPUs; a workload that was made smaller to fit all says so")]
    return []


def _joined(entries: Sequence[tuple[str, str, Assumption]]) -> Assumption:
    """One assumption of several jobs on several GPUs."""
    first = entries[0][2]
    if all(note.value == first.value for _, _, note in entries):
        return first
    if first.code == "precision":  # each workload shows its own
        effect = "16 bit where it has matrix cores, else fp32; `--model` with `--precision fp32` compares in one"
        return assumed("precision", "what suits each GPU", effect)
    effects = dict.fromkeys(note.effect for _, _, note in entries)
    return replace(first, value=_by([(model, gpu, note.value) for model, gpu, note in entries]), effect="; ".join(effects))


def _by(entries: Sequence[tuple[str, str, str]]) -> str:
    """Values by model where each has one, else by GPU too: `64 for resnet50 and word_lstm, 16 for bert-base`."""
    models = {model for model, _, _ in entries}
    settled = len({(model, value) for model, _, value in entries}) == len(models)
    found: dict[str, dict[str, None]] = {}
    for model, gpu, value in entries:
        whose = model if settled else gpu if len(models) == 1 else f"{model} on {gpu}"
        found.setdefault(value, {})[whose] = None
    where = "on" if len(models) == 1 else "for"
    return ", ".join(f"{value} {where} {' and '.join(whose)}" for value, whose in found.items())


def _own_notes(answer: PredictAnswer) -> list[Assumption]:
    """What was said of one GPU alone, but for what ratios show already."""
    own = [note for note in answer.results[0].assumptions if note not in answer.assumptions]
    return [note for note in own if note.code not in ("gpus", "averaging", "above_peak")]
