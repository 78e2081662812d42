"""Parses one GPU or several, of one kind or mixed, as people write them: `RTX 3090`, `4x RTX 2070`, `RTX 2080 Ti + GTX 1080
Ti`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.gpu_list import counted, named_gpus, set_of
from gpuwise.questions.common.prediction_types import PredictAnswer, Prediction
from gpuwise.questions.common.predictions import predict
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.scale.cluster.shape import usual_wires

__all__ = ["Rig", "Throughput", "find_rigs", "in_one_machine", "throughput"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """GPUs that work together: how many of which, and their `link` if it is not the usual one for that many."""

    name: str
    parts: tuple[tuple[Gpu, int], ...]
    link: str = ""

    @property
    def count(self) -> int:
        return sum(count for _, count in self.parts)

    @property
    def gpu(self) -> Gpu:
        """The first kind."""
        return self.parts[0][0]

    @property
    def watts(self) -> float | None:
        watts = [gpu.tdp_watts * count if gpu.tdp_watts else None for gpu, count in self.parts]
        return None if None in watts else sum(value for value in watts if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Samples per second as one job, and as separate jobs side by side; `slowest` is the GPU that limits one job.
    `separate_fits` says whether each GPU has room for its own job, which a single job divided among them does not need. With
    several `groups`, each does a part of the job by itself, and `slowest` is one of them.
    """

    together_per_s: float
    separate_per_s: float
    slowest: Prediction
    answers: tuple[PredictAnswer, ...]
    separate_fits: bool
    groups: int = 1

    @property
    def fits(self) -> bool:
        return self.slowest.fits


def find_rigs(texts: Sequence[str]) -> tuple[tuple[Rig, ...], list[Assumption]]:
    """Return the sets of GPUs, each once, and how ambiguous names were read."""
    found: dict[str, Rig] = {}
    notes: list[Assumption] = []
    for text in texts:
        parts = []
        for piece in set_of(text):
            count, name = counted(piece.strip())
            (gpu,), taken = named_gpus([name])
            notes += [note for note in taken if note not in notes]
            parts.append((gpu, count))
        title = " + ".join(gpu.name if count == 1 else f"{count}x {gpu.name}" for gpu, count in parts)
        found.setdefault(title, Rig(name=title, parts=tuple(parts)))
    return tuple(found.values()), notes


def in_one_machine(rigs: Sequence[Rig]) -> tuple[tuple[Rig, ...], list[Assumption]]:
    """Return the same sets, all in the kind of machine that the largest one needs.

    Two or three cards usually share the lanes of a desktop CPU, while four need a machine that has all lanes for each card. In
    different machines, the sets would differ by their machines.
    """
    most = max(rig.count for rig in rigs)
    found, changed = [], []
    for rig in rigs:
        (first, count), *others = rig.parts
        usual = usual_wires(rig.parts, [])
        wide = usual_wires(((first, most - rig.count + count), *others), []).host_link
        if 1 < rig.count < most and usual.gpu_link == usual.host_link != wide:
            changed.append(f"{rig.name} alone would usually have {usual.host_link.name}")
            rig = replace(rig, link=wide.name)
        found.append(rig)
    if not changed:
        return tuple(found), []
    lanes = next(rig.link for rig in found if rig.link).rsplit(" ", 1)[-1]
    value = f"the same for all sets (PCIe {lanes} for each GPU)"
    return tuple(found), [assumed("machine", value, f"the largest set needs it; {'; '.join(changed)}", overrides=True)]


def throughput(rig: Rig, job: StepOptions, progress: Callable[[str], None] = lambda text: None) -> Throughput:
    """Return how many samples of a job these GPUs process per second. In one job, each takes an equal share, so the slowest
    limits it. A single sample of inference is not divided.
    """
    mixed = usual_wires(rig.parts, []).gpu_link.name if len(rig.parts) > 1 else ""  # different cards share no NVLink
    link = rig.link or mixed

    def ask(gpu: Gpu, count: int) -> PredictAnswer:
        query = step_query(replace(job, gpus=count), gpus=[gpu])
        return predict(query.changed(gpu_link=link), progress)

    alone = [ask(gpu, 1) for gpu, _ in rig.parts]
    separate = sum(count * answer.results[0].samples_per_s for answer, (_, count) in zip(alone, rig.parts, strict=True))
    together = alone if rig.count == 1 else [ask(gpu, rig.count) for gpu, _ in rig.parts]
    slowest = min((answer.results[0] for answer in together), key=lambda result: (result.fits, result.samples_per_s))
    whole = slowest.mode == "infer" and slowest.batch == 1
    return Throughput(
        together_per_s=max(one.results[0].samples_per_s for one in alone) if whole else slowest.samples_per_s,
        separate_per_s=separate,
        slowest=slowest,
        answers=tuple(together),
        separate_fits=all(answer.results[0].fits for answer in alone),
    )
