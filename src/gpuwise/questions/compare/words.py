"""The sentences of a comparison: which is faster, what would change the order, what to know about prices, memory and sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpuwise.core.text import are, the
from gpuwise.core.units import GIB
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.types import Deal, Pair
from gpuwise.scale.cluster.shape import takes_bridge

__all__ = [
    "describe_flips",
    "describe_laptop",
    "describe_memory",
    "describe_order",
    "describe_prices",
    "describe_sets",
    "mean_speed",
]

_ROOMIER = 1.2  # times the memory: a smaller difference decides which models run only rarely


def mean_speed(rig: Rig, pairs: Sequence[Pair]) -> float:
    """Times as fast as the first set: the geometric mean over all workloads that fit both, 1 where none does."""
    return _mean([pair.ratio for pair in pairs if pair.gpu == rig.name and pair.comparable])


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios)) if ratios else 1.0


# ---------------------------------------------------------------- the order


def describe_order(rig: Rig, base: Rig, pairs: Sequence[Pair]) -> str:
    """Which of two sets is faster, by how much, and which workloads fit only one of them."""
    own = [pair for pair in pairs if pair.gpu == rig.name]
    both = [pair for pair in own if pair.comparable]
    only = {
        name: [pair.workload for pair in own if pair.fits != pair.baseline_fits and pair.fits == (name == rig.name)]
        for name in (rig.name, base.name)
    }
    alone = [f"{workloads[0]} fits only on {the(name)}" for name, workloads in only.items() if workloads]
    if not both:
        return f"{'; '.join(alone) or f'None of these workloads fits on {the(base.name)} or {the(rig.name)}'}."
    several = rig.count > 1 or base.count > 1
    order = [_describe_ratios(rig, base, [pair.ratio for pair in both], both, first=not several)]
    if several:
        separate = _describe_ratios(rig, base, [pair.ratio_separate for pair in both], first=False)
        order = [f"With one job, {order[0]}", f"with separate jobs, {separate}"]
    return f"{'; '.join([*order, *alone])}."


def _describe_ratios(rig: Rig, base: Rig, ratios: Sequence[float], pairs: Sequence[Pair] = (), *, first: bool) -> str:
    """`The X is 1.1 to 1.4 times as fast as the Y`, the faster one first; `first` where this begins its sentence."""
    won = _mean(ratios) >= 1
    fast, slow = (rig.name, base.name) if won else (base.name, rig.name)
    gains = sorted(ratio if won else 1 / ratio for ratio in ratios)
    span = f"{_times(gains[0])} to {_times(gains[-1])}" if len(gains) > 1 else _times(gains[0])
    near = pairs and all(pair.ratio_low <= 1 <= pair.ratio_high for pair in pairs)
    doubt = ", but the difference is within the margin of error" if near else ""
    subject = f"{the(fast, first=first)} {are(fast)}"
    if gains[0] < 1 < gains[-1]:
        wins = sum(gain > 1 for gain in gains)
        return f"{subject} faster than {the(slow)} on {wins} of {len(gains)} workloads ({span} times as fast){doubt}"
    return f"{subject} {span} times as fast as {the(slow)}{doubt}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


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
        faster, slower = _by_speed(rig, base, pairs)
        if _memory(slower) > _ROOMIER * _memory(faster):
            found.append(_describe_room(slower, faster))
    return list(dict.fromkeys(found))


def describe_memory(rigs: Sequence[Rig], pairs: Sequence[Pair]) -> list[str]:
    """Where the faster set also has more memory: the order stays, but more models run on it."""
    ordered = [_by_speed(rig, rigs[0], pairs) for rig in rigs[1:]]
    return [_describe_room(fast, slow) for fast, slow in ordered if _memory(fast) > _ROOMIER * _memory(slow)]


def _by_speed(rig: Rig, base: Rig, pairs: Sequence[Pair]) -> tuple[Rig, Rig]:
    return (rig, base) if mean_speed(rig, pairs) >= 1 else (base, rig)


def _describe_room(roomier: Rig, smaller: Rig) -> str:
    return f"models that need more than {_memory(smaller) / GIB:.0f} GiB run only on {the(roomier.name)}"


def _memory(rig: Rig) -> float:
    """Bytes a model may need: it must fit the smallest GPU of the set, since their memory does not add up."""
    return min(gpu.usable_memory_bytes for gpu, _ in rig.parts)


# ---------------------------------------------------------------- prices, sets, laptops


def describe_prices(rigs: Sequence[Rig], deals: Sequence[Deal], show: Callable[[float], str]) -> list[str]:
    """What each set costs, and below which price it is the better buy."""
    found, base = [], deals[0]
    for deal in deals[1:]:
        if deal.even_usd is None:
            continue
        several = are(deal.gpu) == "are"
        costs = "cost" if several else "costs"
        now = f"{costs} {show(deal.price_usd)} ({deal.price_note}) and " if deal.price_usd is not None else ""
        now += "would be" if deal.price_usd is not None and deal.price_usd > deal.even_usd else are(deal.gpu)
        costs = "cost" if are(base.gpu) == "are" else "costs"
        against = f"{the(base.gpu)}, which {costs} {show(base.price_usd or 0.0)} ({base.price_note})"
        speed = f"{deal.speed:.2f} times as fast" if deal.speed >= 1 else f"{100 * deal.speed:.2g}% as fast"
        found.append(
            f"{the(deal.gpu)} {now} the better buy below {show(deal.even_usd)}, because "
            f"{'they are' if several else 'it is'} {speed} as {against}"
        )
    if base.price_usd is None:
        found.append(f'no price is known for {the(base.gpu)}; set one with `--price "{rigs[0].gpu.name}=700"` to compare value')
    return found


def describe_sets(rigs: Sequence[Rig]) -> list[str]:
    """What people expect of several GPUs and do not get."""
    several = [rig for rig in rigs if rig.count > 1]
    if not several:
        return []
    found = [
        "memory does not add up: a model must fit on each GPU unless it is split (see `gpuwise plan`)",
        "each reason compares the slowest GPU of one set with the slowest GPU of the other",
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
    return found


def describe_laptop(name: str, low_watts: float, high_watts: float, speed_kept: float | None) -> str:
    """The power range of a laptop GPU, and the fraction of its speed that is left at the low end."""
    text = f"{the(name)} draws {low_watts:.0f} to {high_watts:.0f} W, depending on the laptop"
    return (
        text if speed_kept is None else f"{text}; at {low_watts:.0f} W, a CNN trains at {speed_kept:.0%} of the speed shown here"
    )
