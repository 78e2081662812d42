"""The first sentences of a comparison: which set is fastest, by how much, how likely that is, and what fits only on some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuwise.core.text import are, both, the
from gpuwise.evidence.ranges import SURE, TIED, describe_doubts, probability_above
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.compare.jobs import RunJob
from gpuwise.questions.compare.language_jobs import describe_unmeasured, offloaded
from gpuwise.questions.compare.pairs import pairs_between, same_gpu
from gpuwise.questions.compare.reasons import is_tie
from gpuwise.questions.compare.types import Pair

__all__ = ["WIDE", "describe_verdict", "mean_ratio"]

_NEARLY = 1.1  # times as fast on average: more is not a tie, however wide the range (see also `advise/choosing.py`)
_ROUNDING = 1e-9  # of a probability: a range that ends at a tie is sure
WIDE = 2.5  # upper over lower end of a ratio's range; that of NVIDIA GPUs is 1.9


def mean_ratio(ratios: Sequence[float]) -> float:
    """The geometric mean, 1 where there is no ratio."""
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios)) if ratios else 1.0


def describe_verdict(ran: Sequence[RunJob], rigs: Sequence[Rig]) -> str:
    """Two sets are compared with each other; more are ranked on the workloads that fit on all of them."""
    shared = [one for one in ran if all(each.fits for each in one.found)]
    if len(rigs) > 2 and shared:
        return _describe_ranking(ran, shared, rigs)
    return " ".join(_describe_order(ran, rigs, place) for place in range(1, len(rigs)))


# ---------------------------------------------------------------- one set against another


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lead:
    """The set that is more likely to be faster: by how much on each workload, between which ends, and how likely. `is_split`:
    one set is clearly faster on some workload, and the other on another; `examples` are the first workloads on which this
    one is faster, and not faster.
    """

    fast: str
    slow: str
    gains: tuple[float, ...]
    examples: tuple[str, str]
    is_split: bool
    low: float
    high: float
    probability: float


def _lead(pairs: Sequence[Pair], *, separate: bool = False, exact: bool = False) -> _Lead:
    """Combine pairs of the same two sets. Their errors are assumed to be the same on all workloads; `exact` ratios have none,
    such as separate jobs on more or fewer of the same GPU.
    """
    found: list[tuple[float, float, float, str]] = []
    for pair in pairs:
        ratio = pair.ratio_separate if separate else pair.ratio
        if ratio is not None:
            low, high = (1.0, 1.0) if exact else (pair.ratio_low / pair.ratio, pair.ratio_high / pair.ratio)
            found.append((ratio, ratio * low, ratio * high, pair.workload))
    ratios, lows, highs, _ = zip(*found, strict=True)
    rig, base = pairs[0].gpu, pairs[0].baseline
    chance = probability_above(mean_ratio(lows), mean_ratio(highs), middle=mean_ratio(ratios))
    if chance < 0.5:
        rig, base, chance = base, rig, 1 - chance
        found = [(1 / ratio, 1 / high, 1 / low, workload) for ratio, low, high, workload in found]
    won, lost = (next((name for gain, _, _, name in found if (gain > 1) == faster), "") for faster in (True, False))
    gains, lows, highs, _ = zip(*sorted(found), strict=True)
    return _Lead(
        fast=rig,
        slow=base,
        gains=gains,
        examples=(won, lost),
        is_split=max(lows) > 1 > min(highs),
        low=min(lows),
        high=max(highs),
        probability=chance,
    )


def _describe_order(ran: Sequence[RunJob], rigs: Sequence[Rig], place: int) -> str:
    """Which of two sets is faster, by how much, how likely, and which workloads fit on only one of them."""
    base, rig = rigs[0], rigs[place]
    pairs = pairs_between(ran, rigs, 0, place)
    alone = _describe_fits([RunJob(job=one.job, found=(one.found[0], one.found[place])) for one in ran], (base, rig))
    shared = [pair for pair in pairs if pair.comparable]
    if not shared:
        none = f"{_title(ran[0])} does not fit" if len(ran) == 1 else "None of these workloads fits"
        text = "; ".join(alone) or f"{none} on {the(base.name)} or {the(rig.name)}"
        return f"{text[0].upper() if text.startswith('the ') else text[0]}{text[1:]}."
    doubt = _doubt((base, rig), shared, ran)
    several = rig.count > 1 or base.count > 1
    by_precision = "" if several or doubt else _describe_by_precision(shared)
    lead = _lead(shared)
    order = [by_precision or _describe_lead(lead, doubt, first=not several)]
    if several:
        order = [f"With one job, {order[0]}", _describe_separate(ran, (base, rig), shared, lead)]
    return f"{'; '.join([*order, *alone])}."


def _describe_by_precision(pairs: Sequence[Pair]) -> str:
    """Where 16 bits on one GPU against fp32 on the other decide the order: how the two compare with mixed precision, and without
    it. Empty where the newer GPU is faster in both, or in neither."""
    uneven = [pair for pair in pairs if " against " in pair.precision]
    plain = [pair for pair in pairs if pair.precision == "fp32"]
    if not uneven or not plain:
        return ""
    turned = uneven[0].precision.startswith("fp32")
    newer, older = (uneven[0].baseline, uneven[0].gpu) if turned else (uneven[0].gpu, uneven[0].baseline)
    mixed, single = ([(1 / pair.ratio if turned else pair.ratio, pair.workload) for pair in group] for group in (uneven, plain))
    won = sorted(gain for gain, _ in mixed if gain > 1)
    if mean_ratio([gain for gain, _ in mixed]) <= 1 or mean_ratio([gain for gain, _ in single]) >= 1:
        return ""
    lost = [f"{name.split(',')[0].split(' (')[0]}: {_times(gain)} times" for gain, name in mixed if gain <= 1]
    unless = f" ({', '.join(lost)})" if lost else ""
    likely = "" if _lead(uneven).probability >= SURE - _ROUNDING else "probably "
    faster = f"{the(newer)} is {likely}{_span(won)} times as fast as {the(older)}{unless}"
    slower = f"in fp32, it is {_span(sorted(gain for gain, _ in single))} times as fast"
    return f"With mixed precision (amp, a few lines in PyTorch), {faster}; {slower}"


def _describe_separate(ran: Sequence[RunJob], rigs: Sequence[Rig], shared: Sequence[Pair], together: _Lead) -> str:
    """Return the order with separate jobs, on the workloads for which each GPU has room; `together` is the order in one job."""
    apart = [pair for pair in shared if pair.ratio_separate is not None]
    if apart:
        lead = _lead(apart, separate=True, exact=same_gpu(rigs))
        text = f"with separate jobs, {_describe_lead(lead, '', first=False)}"
        if lead.fast != together.fast:
            return text
        again = "they are" if are(lead.fast) == "are" else "it is"
        text = text.replace(f"{the(lead.fast)} {are(lead.fast)}", again, 1)
        return text.replace(f" times as fast as {the(lead.slow)}", " times as fast", 1)
    return _describe_no_room(ran, rigs)


def _describe_no_room(ran: Sequence[RunJob], rigs: Sequence[Rig]) -> str:
    """Which sets cannot run separate jobs, because their GPUs hold a model only together."""
    names = {
        rig.name for one in ran for rig, each in zip(rigs, one.found, strict=False) if rig.count > 1 and not each.separate_fits
    }
    return (
        f"{both(the(name) for name in sorted(names))} cannot run separate jobs, because the whole model does not fit on one GPU"
    )


def _describe_lead(lead: _Lead, doubt: str, *, first: bool) -> str:
    """`The X is 1.1 to 1.4 times as fast as the Y`, the likely faster one first; `first` where this begins its sentence."""
    gains, chance = lead.gains, f"{lead.probability:.0%} likely to be faster"
    span = _span(gains)
    fast, slow = the(lead.fast, first=first), the(lead.slow)
    if doubt:
        doubt = f", but {doubt}, so the true ratio may be anywhere from {_times(lead.low)} to {_times(lead.high)}"
    if lead.probability < TIED and lead.is_split:
        return _describe_split(lead, first=first) + doubt
    if lead.probability < TIED and mean_ratio(gains) <= _NEARLY:
        again = f"{the(lead.fast)} {are(lead.fast)} {span} times as fast{' and' if doubt else ', but'} only {chance}"
        return f"{fast} and {slow} are tied: {again}{doubt}"
    if all(map(is_tie, gains)):
        return f"{fast} and {slow} are tied: {the(lead.fast)} {are(lead.fast)} {span} times as fast{doubt}"
    odds = f" ({chance})" if lead.probability < SURE - _ROUNDING else ""
    subject = f"{fast} {are(lead.fast)}{' probably' if odds or doubt else ''}"
    lost = sum(gain < 1 and not is_tie(gain) for gain in gains)
    if lost and len(gains) > 1:
        odds = f", and {chance} on average" if odds else ""
        won = sum(gain > 1 and not is_tie(gain) for gain in gains)
        wins = f"{won} of {len(gains)} workloads and slower on {lost}"
        return f"{subject} faster than {slow} on {wins} ({span} times as fast{odds}){doubt}"
    return f"{subject} {span} times as fast as {slow}{odds}{doubt}"


def _describe_split(lead: _Lead, *, first: bool) -> str:
    """If each set is clearly faster on some workloads: by how much, on how many, and on which for example. An average near 1
    would hide what decides.
    """
    sides = [[gain for gain in lead.gains if (gain > 1) == won] for won in (True, False)]
    won, lost = (
        f"{_span(side)} times as fast on {len(side)}{of}, such as {example.split(', batch')[0]}"
        for side, of, example in zip(sides, (f" of {len(lead.gains)} workloads", ""), lead.examples, strict=True)
    )
    neither = f"{'N' if first else 'n'}either {the(lead.fast)} nor {the(lead.slow)} is faster on every workload"
    return f"{neither}: {the(lead.fast)} {are(lead.fast)} {won}, and {lost}"


def _span(gains: Sequence[float]) -> str:
    low, high = _times(gains[0]), _times(gains[-1])
    return low if low == high else f"{low} to {high}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def _title(one: RunJob) -> str:
    """A workload as the subject of a sentence."""
    return one.job.title if one.job.common or (one.job.text is None and one.job.media is None) else one.job.model


def _describe_fits(ran: Sequence[RunJob], rigs: Sequence[Rig]) -> list[str]:
    """For each group of sets, the first workload that fits on these alone; then what runs only with the help of the CPU."""
    found: dict[str, str] = {}
    helped: list[str] = []
    for one in ran:
        title = _title(one)
        each = list(zip(rigs, one.found, strict=True))
        whole = [rig.name for rig, told in each if told.fits and not offloaded(told.slowest)]
        if 0 < len(whole) < len(rigs):
            found.setdefault(both(the(name) for name in whole), title)
        for rig, told in each:
            share = offloaded(told.slowest)
            if told.fits and share:
                helped.append(
                    f"{the(rig.name)} {'run' if rig.count > 1 else 'runs'} {share:.0%} of the layers of {title} on the CPU"
                )
    return [*(f"{title} fits only on {names}" for names, title in found.items()), *helped]


# ---------------------------------------------------------------- several sets, ranked


def _describe_ranking(ran: Sequence[RunJob], shared: Sequence[RunJob], rigs: Sequence[Rig]) -> str:
    """All sets from the fastest to the slowest, what is uncertain about that order, and what fits only on some of them."""
    several = any(rig.count > 1 for rig in rigs)
    doubt = _doubt_of_ranking(shared, rigs)
    order = [_rank(shared, rigs, separate=False, first=not several) + doubt]
    if several:
        apart = [one for one in shared if all(each.separate_fits for each in one.found)]
        separate = (
            f"with separate jobs, {_rank(apart, rigs, separate=True, first=False)}" if apart else _describe_no_room(ran, rigs)
        )
        order = [f"With one job, {order[0]}", separate]
    odds = _describe_odds(shared, rigs)
    return " ".join([f"{'; '.join([*order, *_describe_fits(ran, rigs)])}.", *([f"{odds}."] if odds else [])])


def _speeds(shared: Sequence[RunJob], rigs: Sequence[Rig], *, separate: bool) -> dict[int, float]:
    """The mean speed of each set relative to the first, by place, from the fastest to the slowest."""
    found = {}
    for place in range(len(rigs)):
        each = [
            one.found[place].separate_per_s / one.found[0].separate_per_s
            if separate
            else one.found[place].together_per_s / one.found[0].together_per_s
            for one in shared
        ]
        found[place] = mean_ratio(each)
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def _rank(shared: Sequence[RunJob], rigs: Sequence[Rig], *, separate: bool, first: bool) -> str:
    """`The X is the fastest, followed by the Y (75% of its speed on average) and the Z (60%)`."""
    (best, most), *rest = _speeds(shared, rigs, separate=separate).items()
    average = " on average" if len(shared) > 1 else ""
    shares = [_share(speed / most) for _, speed in rest]
    told = [f"{shares[0]} of {'their' if are(rigs[best].name) == 'are' else 'its'} speed{average}", *shares[1:]]
    others = both(f"{the(rigs[place].name)} ({share})" for (place, _), share in zip(rest, told, strict=True))
    return f"{the(rigs[best].name, first=first)} {are(rigs[best].name)} the fastest, followed by {others}"


def _share(ratio: float) -> str:
    return f"{100 * ratio:.0f}%" if ratio >= 0.1 else f"{100 * ratio:.2g}%"


def _describe_odds(shared: Sequence[RunJob], rigs: Sequence[Rig]) -> str:
    """Return how likely each step of the order is, if its range includes a tie."""
    found: list[str] = []
    for upper, lower in pairwise(_speeds(shared, rigs, separate=False)):
        lead, name = _lead(pairs_between(shared, rigs, lower, upper)), rigs[upper].name
        chance = lead.probability if lead.fast == name else 1 - lead.probability
        if chance >= SURE - _ROUNDING:
            continue
        fast, slow = the(name, first=not found), the(rigs[lower].name)
        likely = f"{chance:.0%} likely"
        found.append(
            f"{fast} and {slow} are tied ({chance:.0%} chance of this order)"
            if chance < TIED and mean_ratio(lead.gains) <= _NEARLY
            else f"{fast} {are(name)} {likely} to be faster than {slow}"
        )
    return "; ".join(found)


# ---------------------------------------------------------------- doubt


def _doubt(rigs: Sequence[Rig], pairs: Sequence[Pair], ran: Sequence[RunJob]) -> str:
    """Return why the ratio of these sets is uncertain beyond its odds; empty if both were measured well, and if they differ
    only in the number of the same GPU, so that unknowns about the GPU cancel.
    """
    if same_gpu(rigs):
        return ""
    if all(one.job.text is not None for one in ran):  # by engines, which were measured on other GPUs than steps were
        wide = max(pair.ratio_high / pair.ratio_low for pair in pairs) > WIDE
        return describe_unmeasured(ran[0].found) or ("the engine was measured on only a few GPUs" if wide else "")
    return describe_doubts([gpu for rig in rigs for gpu, _ in rig.parts])


def _doubt_of_ranking(shared: Sequence[RunJob], rigs: Sequence[Rig]) -> str:
    """The same for several sets: which estimated speeds may be off, and by how much."""
    if same_gpu(rigs) or all(one.job.text is not None for one in shared):
        return ""
    doubtful = {place: rig for place, rig in enumerate(rigs) if describe_doubts([gpu for gpu, _ in rig.parts])}
    if not doubtful:
        return ""
    factor = max(
        max(pair.ratio_high / pair.ratio, pair.ratio / pair.ratio_low)
        for place in doubtful
        for pair in pairs_between(shared, rigs, 1 if place == 0 else 0, place)
    )
    whose = f"the estimated {'speeds' if len(doubtful) > 1 else 'speed'} of {both(the(rig.name) for rig in doubtful.values())}"
    whose = "all these estimates" if len(doubtful) == len(rigs) else whose
    reasons = describe_doubts([gpu for rig in doubtful.values() for gpu, _ in rig.parts])
    return f", but {reasons}, so {whose} may be off by a factor of up to {_times(factor)}"
