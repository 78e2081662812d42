"""Topics about several GPUs: whether memory adds up, and mixing cards."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.core.text import a
from gpuwise.core.units import GIB
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.rigs import Rig, throughput
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.types import Matter

__all__ = ["memory_adds_up", "mixed_cards"]


def memory_adds_up(case: MattersCase) -> Matter:
    """Whether two GPUs of 12 GB are as good as one of 24 GB."""
    step = case.step(count=case.count)
    needed, usable = step.memory.total_bytes / GIB, case.gpu.usable_memory_bytes
    holds = f"No. Each of the {case.count} GPUs holds the whole model, which takes {needed:.1f}"
    times = "twice" if case.count == 2 else f"{case.count} times"
    text = (
        f"{holds} of its {usable / GIB:.1f} GiB at batch {step.batch}. "
        f"Together, they can run {times} the batch, but not a larger model."
    )
    if not step.fits:
        text = f"{holds} GiB at batch {step.batch}. It does not fit, because each GPU has only {usable / GIB:.1f} GiB."
    return Matter(
        topic="memory-adds-up",
        question="Can several GPUs combine their memory?",
        value=needed,
        unit="GiB needed on each GPU",
        answer=text,
        how="data parallelism works as in DataParallel and DistributedDataParallel",
        source="computed",
        unless="you split the model with FSDP, ZeRO, tensor or pipeline parallelism (see `gpuwise fit` and `gpuwise plan`)",
    )


def mixed_cards(case: MattersCase) -> Matter:
    """A second card beside a different one, compared with the faster of the two alone."""
    job = replace(case.asked, batch=case.step().batch)
    cards = [Rig(name=gpu.name, parts=((gpu, 1),)) for gpu in (case.gpu, case.other or _older_card(case.gpu))]
    alone = {rig.name: throughput(rig, job, case.progress) for rig in cards}
    faster, other = sorted(cards, key=lambda rig: -alone[rig.name].together_per_s)
    pair = Rig(name=f"{faster.name} + {other.name}", parts=(*faster.parts, *other.parts))
    both, best = throughput(pair, job, case.progress), alone[faster.name]
    gain = both.together_per_s / best.together_per_s
    apart = both.separate_per_s / best.separate_per_s
    return Matter(
        topic="mixed-cards",
        question="Can I mix cards?",
        value=gain,
        unit=f"times as fast with {a(other.name)} next to {a(faster.name)}",
        answer=(
            f"Yes. If you add {a(other.name)} and divide one job equally, it is {gain:.2f} times as fast as on one "
            f"{faster.name}, because the slower card limits the speed and the cards exchange gradients over PCIe. Two separate "
            f"jobs, or one job divided in proportion to speed, are up to {apart:.2f} times as fast."
        ),
        how="we predict each card's step at the same batch, and the exchange of gradients",
        source="computed",
        unless="no single framework version supports both cards, or each card runs its own job",
    )


def _older_card(gpu: Gpu) -> Gpu:
    """A card of the same maker and segment from an earlier generation, as close in memory as possible; if there is one, a card
    that current frameworks still support."""
    older = [  # typed specs have no launch date and no segment
        (other.launched_on, other)
        for other in load_catalog().curated
        if other.vendor == gpu.vendor
        and other.segment == (gpu.segment if gpu.launched_on else "desktop")
        and other.launched_on
        and (gpu.launched_on is None or other.launched_on < gpu.launched_on)
        and other.architecture.generation != gpu.architecture.generation
    ]
    others = [(day, other) for day, other in older if not other.architecture.last_software] or older
    if not others:
        return gpu
    newest = max(day for day, _ in others)
    recent = [other for day, other in others if (newest - day).days < 900]
    return min(recent, key=lambda other: (abs(other.memory_bytes - gpu.memory_bytes), -other.memory_bytes_per_s))
