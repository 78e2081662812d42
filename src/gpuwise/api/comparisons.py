"""Card A or card B? Names alone suffice: common jobs stand in for the model that was not given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from gpuwise.api.predictions import PredictAnswer, Prediction, predict
from gpuwise.api.question import Assumption, assumed, named_gpus, step_query
from gpuwise.errors import BadValue
from gpuwise.evidence.ranges import Range, knows, ratio_range
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.step.cpu import CPU_RANGE

__all__ = ["CompareAnswer", "Job", "Pair", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A workload to compare on. `precision` of None is 16 bit where a GPU has matrix cores, else fp32."""

    title: str
    model: str
    mode: str = "train"
    precision: str | None = None
    phase: str = ""
    batch: str = ""


JOBS = (
    Job(title="CNN training (resnet50)", model="resnet50", batch="64"),
    Job(title="CNN training in fp32 (resnet50)", model="resnet50", precision="fp32", batch="64"),
    Job(title="transformer training (bert-base)", model="bert-base", batch="16"),
    Job(title="image generation (sd15)", model="sd15", mode="infer", batch="1"),
    Job(title="LLM answering (llama-2-7b decode)", model="llama-2-7b", mode="infer", phase="decode", batch="1"),
    Job(title="small CNN, batch 32 (mnist_cnn)", model="mnist_cnn", batch="32"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One GPU against the first one named, on one workload. A ratio above 1 means faster than the baseline."""

    gpu: str
    baseline: str
    workload: str
    precision: str
    ratio: float
    ratio_low: float
    ratio_high: float
    fits: bool
    baseline_fits: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAnswer:
    """All pairs, what each GPU holds, and what would turn the order round."""

    gpus: tuple[Gpu, ...]
    pairs: tuple[Pair, ...]
    flips: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "pairs": [asdict(pair) for pair in self.pairs],
            "memory": {gpu.name: gpu.usable_memory_bytes for gpu in self.gpus},
            "flips": list(self.flips),
            "assumptions": list(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def compare(
    names: Sequence[str],
    *,
    models: Sequence[str] = (),
    mode: str = "",
    precision: str = "",
    batch: str = "",
    progress: Callable[[str], None] = lambda text: None,
) -> CompareAnswer:
    """Each GPU against the first, on the given models or on common jobs."""
    found, notes = named_gpus(names)
    typed = {named_gpus([name])[0][0].name: name for name in names}
    if len(found) < 2:
        raise BadValue("two different GPUs are needed", hint='for example `gpuwise compare "RTX 3090" "RTX 4070 Ti"`')
    ignored = {"--mode": mode, "--precision": precision, "--batch": batch}
    if not models and any(ignored.values()):
        option = next(name for name, value in ignored.items() if value)
        raise BadValue(
            f"{option} is for --model; common jobs have their own",
            hint=f"for example `--model resnet50 {option} {ignored[option]}`",
        )
    jobs = [
        Job(title=model, model=model, mode=mode or "train", precision=precision or None, batch=batch) for model in models
    ] or list(JOBS)
    notes += [] if models else [assumed("workloads", "six common jobs", "`--model resnet50` compares on your own")]
    pairs: list[Pair] = []
    for job in jobs:
        answers = [_answer(job, typed[gpu.name], progress) for gpu in found]
        results = [answer.results[0] for answer in answers]
        notes += [
            note for answer in answers for note in answer.results[0].assumptions if note not in (*answer.assumptions, *notes)
        ]
        pairs += [_pair(job, results[0], other) for other in results[1:]]
    return CompareAnswer(
        gpus=found,
        pairs=tuple(pairs),
        flips=tuple(_flips(found, pairs)),
        assumptions=tuple(notes),
        data_date=tables.data_date(),
    )


def _answer(job: Job, name: str, progress: Callable[[str], None]) -> PredictAnswer:
    precision = job.precision or ""
    query = step_query(model=job.model, gpu=[name], mode=job.mode, precision=precision, phase=job.phase, batch=job.batch)
    return predict(query, progress)


def _pair(job: Job, base: Prediction, other: Prediction) -> Pair:
    ratio = other.samples_per_s / base.samples_per_s
    width = _ratio_range(base.gpu, other.gpu)
    precision = other.precision if other.precision == base.precision else f"{other.precision} against {base.precision}"
    return Pair(
        gpu=other.gpu.name,
        baseline=base.gpu.name,
        workload=job.title,
        precision=precision,
        ratio=ratio,
        ratio_low=ratio * width.low,
        ratio_high=ratio * width.high,
        fits=other.fits,
        baseline_fits=base.fits,
        why=_why(base, other),
    )


def _ratio_range(base: Gpu, other: Gpu) -> Range:
    """The range of their ratio: wide where one of them is a CPU, whatever the other."""
    if base.is_cpu == other.is_cpu:
        return ratio_range(known=knows(base) and knows(other))
    low, high = CPU_RANGE
    return Range(low=low, high=high, rows=0) if base.is_cpu else Range(low=1 / high, high=1 / low, rows=0)


def _why(base: Prediction, other: Prediction) -> str:
    if not other.fits or not base.fits:
        short = other if not other.fits else base
        where = "either" if not other.fits and not base.fits else short.gpu.name
        return f"does not fit {where} ({short.memory.total_bytes / 2**30:.1f} GiB needed)"
    if other.bound == "launch":
        return "held up by the host: a faster GPU hardly helps"
    if base.bound != other.bound:
        held = "by its host" if base.bound == "launch" else f"by {base.bound}: {_more(base.bound, base, other):.2f} times"
        return f"bound by {other.bound}: {_more(other.bound, base, other):.2f} times; {base.gpu.name} {held}"
    if other.bound == "memory":
        cache = (other.gpu.l2_bytes or 0.0) / (base.gpu.l2_bytes or float("inf"))
        more = f", {cache:.2g} times the cache" if cache >= 1.5 or 0 < cache <= 0.67 else ""
        return f"bound by memory: {_more('memory', base, other):.2f} times the bandwidth{more}"
    return f"bound by compute: {_more('compute', base, other):.2f} times the arithmetic"


def _more(bound: str, base: Prediction, other: Prediction) -> float:
    """How many times as much the other GPU has of what holds a step up: bandwidth or arithmetic."""
    if bound == "memory":
        return other.gpu.memory_bytes_per_s / base.gpu.memory_bytes_per_s
    return (other.peak_flops_per_s or 1.0) / (base.peak_flops_per_s or 1.0)


def _flips(gpus: Sequence[Gpu], pairs: Sequence[Pair]) -> list[str]:
    """What would change the verdict: workloads that turn the order, memory, 16 bit."""
    found = []
    for gpu in gpus[1:]:
        own = [pair for pair in pairs if pair.gpu == gpu.name]
        fast = [pair for pair in own if pair.ratio_low > 1]
        slow = [pair for pair in own if pair.ratio_high < 1]
        if fast and slow:
            found.append(f"{gpu.name} is faster on {fast[0].workload} and slower on {slow[0].workload}")
        for pair in own:
            if pair.fits != pair.baseline_fits:  # what fits neither turns nothing
                short = pair.baseline if pair.fits else pair.gpu
                found.append(f"{short} has too little memory for {pair.workload}")
                break
        base = gpus[0]
        if gpu.usable_memory_bytes > 1.2 * base.usable_memory_bytes:
            found.append(f"models that need more than {base.usable_memory_bytes / 2**30:.0f} GiB run on {gpu.name} only")
        elif base.usable_memory_bytes > 1.2 * gpu.usable_memory_bytes:
            found.append(f"models that need more than {gpu.usable_memory_bytes / 2**30:.0f} GiB run on {base.name} only")
    return list(dict.fromkeys(found))
