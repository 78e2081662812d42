"""The sentences below a comparison's table: what would change the order, and what to know about memory, sets and laptops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gpuwise.core.text import are, both, the
from gpuwise.core.units import GIB
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.reasons import is_tie
from gpuwise.questions.compare.types import Pair
from gpuwise.questions.compare.verdict import mean_ratio
from gpuwise.scale.cluster.shape import takes_bridge

__all__ = [
    "ABOUT_REASONS",
    "describe_cards",
    "describe_flips",
    "describe_laptop",
    "describe_memory",
    "describe_nowhere",
    "describe_room",
    "describe_sets",
    "mean_speed",
]

ABOUT_REASONS = "each explanation compares the slowest GPU in one set with the slowest in the other"
_BACKENDS = {"AMD": "ROCm", "Intel": "oneAPI", "Apple": "Metal"}  # what PyTorch needs there instead of CUDA
_ROOMIER = 1.2  # times the memory: a smaller difference decides which models run only rarely


def mean_speed(rig: Rig, pairs: Sequence[Pair]) -> float:
    """Times as fast as the first set: the geometric mean over all workloads that fit both, 1 where none does."""
    return mean_ratio([pair.ratio for pair in pairs if pair.gpu == rig.name and pair.comparable])


# ---------------------------------------------------------------- what would change the order


def describe_flips(rigs: Sequence[Rig], pairs: Sequence[Pair], *, is_split: bool = False) -> list[str]:
    """What would change the order: models that need memory only the slower set has, another workload, or separate jobs. Where the
    model is split (`is_split`), the memory of a set adds up."""
    base = rigs[0]
    found = describe_room(rigs, is_split=is_split) if _memory_turns(rigs, pairs, is_split) else []
    for rig in rigs[1:]:
        own = [pair for pair in pairs if pair.gpu == rig.name and pair.comparable]
        faster_on = [pair for pair in own if pair.ratio_low > 1]
        slower_on = [pair for pair in own if pair.ratio_high < 1]
        if faster_on and slower_on:
            found.append(
                f"{the(rig.name)} {are(rig.name)} faster on {faster_on[0].workload} but slower on {slower_on[0].workload}"
            )
        turned = [pair for pair in own if _turns_apart(pair)]
        if turned:
            apart, joined = (rig.name, base.name) if turned[0].ratio < 1 else (base.name, rig.name)
            separate = f"{the(apart)} {are(apart)} faster with separate jobs"
            found.append(f"on {turned[0].workload}, {separate}, but {the(joined)} {are(joined)} faster with one job")
    return list(dict.fromkeys(found))


def _turns_apart(pair: Pair) -> bool:
    """Whether one set is clearly faster with one job, and the other with separate jobs."""
    apart = pair.ratio_separate
    return apart is not None and not is_tie(pair.ratio) and not is_tie(apart) and (pair.ratio > 1) != (apart > 1)


def describe_nowhere(pairs: Sequence[Pair]) -> list[str]:
    """Which of several workloads fit on none of three or more sets, so that their rows are empty; for two, the rows say so."""
    found: dict[str, bool] = {}
    for pair in pairs:
        found[pair.workload] = found.get(pair.workload, False) or pair.fits or pair.baseline_fits
    nowhere = [workload for workload, fits in found.items() if not fits]
    if not nowhere or len(nowhere) == len(found) or len({pair.gpu for pair in pairs}) == 1:
        return []
    return [f"{both(nowhere)} {'fit' if len(nowhere) > 1 else 'fits'} on none of these"]


def describe_memory(rigs: Sequence[Rig], pairs: Sequence[Pair], *, is_split: bool = False) -> list[str]:
    """Where no faster set has less memory: the order stays, but more models fit on the larger ones."""
    return [] if _memory_turns(rigs, pairs, is_split) else describe_room(rigs, is_split=is_split)


def _memory_turns(rigs: Sequence[Rig], pairs: Sequence[Pair], is_split: bool) -> bool:
    """Whether some set has clearly more memory than a faster one."""
    speeds = {rig.name: mean_speed(rig, pairs) for rig in rigs}
    return any(
        _memory(slow, is_split) > _ROOMIER * _memory(fast, is_split)
        for fast in rigs
        for slow in rigs
        if (speeds[slow.name], slow is rigs[0]) < (speeds[fast.name], fast is rigs[0])
    )


def describe_room(rigs: Sequence[Rig], *, is_split: bool) -> list[str]:
    """Which sets are left for larger and larger models, in one sentence: `models that need more than 80 GiB fit only on …`."""
    ordered = sorted(((_memory(rig, is_split), rig) for rig in rigs), key=lambda entry: entry[0])
    each = (" in total" if is_split else " per GPU") if any(rig.count > 1 for rig in rigs) else ""
    found: list[str] = []
    for place, ((small, _), (large, _)) in enumerate(pairwise(ordered), start=1):
        if large > _ROOMIER * small:
            least = f"more than {small / GIB:.0f} GiB"
            subject = f"those that need {least} only" if found else f"models that need {least}{each} fit only"
            found.append(f"{subject} on {both(the(rig.name) for _, rig in ordered[place:])}")
    return [", and ".join((", ".join(found[:-1]), found[-1])) if len(found) > 1 else found[0]] if found else []


def _memory(rig: Rig, is_split: bool) -> float:
    """Bytes a model may need: it must fit the smallest GPU of the set, since their memory adds up only for a split model."""
    return min(gpu.usable_memory_bytes for gpu, _ in rig.parts) * (rig.count if is_split else 1)


# ---------------------------------------------------------------- sets, laptops


def describe_sets(rigs: Sequence[Rig]) -> list[str]:
    """What people expect of several GPUs and do not get."""
    several = [rig for rig in rigs if rig.count > 1]
    if not several:
        return []
    found = [
        "the memory of several GPUs is not combined; a model must fit on each GPU unless it is split (see `gpuwise plan`)",
    ]
    for rig in several:
        if takes_bridge(rig.gpu) and len(rig.parts) == 1:
            found.append(
                f"{the(rig.name)} {are(rig.name)} assumed to have no NVLink bridge; "
                "`gpuwise matters nvlink` shows the gain from a bridge"
            )
    mixed = [rig.name for rig in several if len(rig.parts) > 1]
    if mixed:
        found.append(
            f"when {mixed[0]} share one job equally, the slowest GPU limits the speed; dividing the work in proportion to speed "
            "comes close to the combined speed"
        )
    return [*found, ABOUT_REASONS]


def describe_cards(rigs: Sequence[Rig]) -> list[str]:
    """What to know about single cards: the software they need, fans they lack, and support that has ended."""
    return [*_describe_software(rigs), *_describe_passive(rigs), *_describe_ended(rigs)]


def _describe_software(rigs: Sequence[Rig]) -> list[str]:
    """Where GPUs of several makers are compared: that those without CUDA do not run all software."""
    gpus = {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values()
    found: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu.vendor in _BACKENDS and not gpu.is_cpu:
            found.setdefault(_BACKENDS[gpu.vendor], []).append(the(gpu.name))
    if not found or all(gpu.vendor != "NVIDIA" for gpu in gpus):
        return []
    needs = both(f"{both(names)} {'needs' if len(names) == 1 else 'need'} software for {name}" for name, names in found.items())
    return [f"{needs}, and some libraries support only CUDA"]


def _describe_passive(rigs: Sequence[Rig]) -> list[str]:
    """Which cards have no fan, where they are compared with cards that have one: no desktop cools them as it is."""
    gpus = {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values()
    names = [the(gpu.name) for gpu in gpus if gpu.cooler == "passive"]
    if not names or all(gpu.cooler in ("passive", "module") for gpu in gpus):
        return []
    return [f"{both(names)} {'has' if len(names) == 1 else 'have'} no fan, so a desktop needs a fan that blows through the card"]


def _describe_ended(rigs: Sequence[Rig]) -> list[str]:
    """Which GPUs current software no longer supports, and the last releases that do."""
    found: dict[str, list[str]] = {}
    for gpu in {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values():
        if gpu.is_cpu or not gpu.architecture.last_software:
            continue
        torch = gpu.architecture.last_torch
        releases = [gpu.architecture.last_software, *([f"PyTorch {torch[0]}.{torch[1]}"] if torch else [])]
        found.setdefault(both(releases), []).append(the(gpu.name))
    return [f"releases after {last} do not support {both(names)}" for last, names in found.items()]


def describe_laptop(name: str, low_watts: float, high_watts: float, speed_kept: float | None) -> str:
    """The power range of a laptop GPU, and the fraction of its speed that is left at the low end."""
    text = f"{the(name)} draws {low_watts:.0f} to {high_watts:.0f} W, depending on the laptop"
    return (
        text if speed_kept is None else f"{text}; at {low_watts:.0f} W, a CNN trains at {speed_kept:.0%} of the speed shown here"
    )
