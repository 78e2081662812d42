"""The sentences of a comparison below its table: what would change the order, what to know about memory, sets and laptops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gpuwise.core.text import are, both, the
from gpuwise.core.units import GIB
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.types import Pair
from gpuwise.questions.compare.verdict import mean_ratio
from gpuwise.scale.cluster.shape import takes_bridge

__all__ = [
    "describe_flips",
    "describe_laptop",
    "describe_memory",
    "describe_sets",
    "mean_speed",
]

_ROOMIER = 1.2  # times the memory: a smaller difference decides which models run only rarely


def mean_speed(rig: Rig, pairs: Sequence[Pair]) -> float:
    """Times as fast as the first set: the geometric mean over all workloads that fit both, 1 where none does."""
    return mean_ratio([pair.ratio for pair in pairs if pair.gpu == rig.name and pair.comparable])


# ---------------------------------------------------------------- what would change the order


def describe_flips(rigs: Sequence[Rig], pairs: Sequence[Pair]) -> list[str]:
    """What would change the order: another workload, separate jobs, or models that need memory only the slower set has."""
    found, base = [], rigs[0]
    for rig in rigs[1:]:
        own = [pair for pair in pairs if pair.gpu == rig.name and pair.comparable]
        faster_on = [pair for pair in own if pair.ratio_low > 1]
        slower_on = [pair for pair in own if pair.ratio_high < 1]
        if faster_on and slower_on:
            found.append(
                f"{the(rig.name)} {are(rig.name)} faster on {faster_on[0].workload} but slower on {slower_on[0].workload}"
            )
        turned = [pair for pair in own if (pair.ratio - 1) * (pair.ratio_separate - 1) < 0]
        if turned:
            apart, joined = (rig.name, base.name) if turned[0].ratio_separate > 1 else (base.name, rig.name)
            separate = f"{the(apart)} {are(apart)} faster with separate jobs"
            found.append(f"on {turned[0].workload}, {separate}, but {the(joined)} {are(joined)} faster with one job")
    if _memory_turns(rigs, pairs):
        found += _describe_room(rigs)
    return list(dict.fromkeys(found))


def describe_memory(rigs: Sequence[Rig], pairs: Sequence[Pair]) -> list[str]:
    """Where no faster set has less memory: the order stays, but more models run on the larger ones."""
    return [] if _memory_turns(rigs, pairs) else _describe_room(rigs)


def _memory_turns(rigs: Sequence[Rig], pairs: Sequence[Pair]) -> bool:
    """Whether some set has clearly more memory than a faster one."""
    speeds = {rig.name: mean_speed(rig, pairs) for rig in rigs}
    return any(
        _memory(slow) > _ROOMIER * _memory(fast)
        for fast in rigs
        for slow in rigs
        if (speeds[slow.name], slow is rigs[0]) < (speeds[fast.name], fast is rigs[0])
    )


def _describe_room(rigs: Sequence[Rig]) -> list[str]:
    """Which sets are left for larger and larger models, in one sentence: `models that need more than 80 GiB run only on …`."""
    ordered = sorted(rigs, key=_memory)
    each = " per GPU" if any(rig.count > 1 for rig in rigs) else ""
    found: list[str] = []
    for place, (smaller, larger) in enumerate(pairwise(ordered), start=1):
        if _memory(larger) > _ROOMIER * _memory(smaller):
            subject = (
                f"those that need more than {_memory(smaller) / GIB:.0f} GiB only"
                if found
                else (f"models that need more than {_memory(smaller) / GIB:.0f} GiB{each} run only")
            )
            found.append(f"{subject} on {both(the(rig.name) for rig in ordered[place:])}")
    return [", and ".join((", ".join(found[:-1]), found[-1])) if len(found) > 1 else found[0]] if found else []


def _memory(rig: Rig) -> float:
    """Bytes a model may need: it must fit the smallest GPU of the set, since their memory does not add up."""
    return min(gpu.usable_memory_bytes for gpu, _ in rig.parts)


# ---------------------------------------------------------------- sets, laptops


def describe_sets(rigs: Sequence[Rig]) -> list[str]:
    """What people expect of several GPUs and do not get."""
    several = [rig for rig in rigs if rig.count > 1]
    if not several:
        return []
    found = [
        "memory does not add up: a model must fit on each GPU unless it is split (see `gpuwise plan`)",
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
    found.append("each reason compares the slowest GPU of one set with the slowest GPU of the other")
    return found


def describe_laptop(name: str, low_watts: float, high_watts: float, speed_kept: float | None) -> str:
    """The power range of a laptop GPU, and the fraction of its speed that is left at the low end."""
    text = f"{the(name)} draws {low_watts:.0f} to {high_watts:.0f} W, depending on the laptop"
    return (
        text if speed_kept is None else f"{text}; at {low_watts:.0f} W, a CNN trains at {speed_kept:.0%} of the speed shown here"
    )
