"""Card A or card B, several of A or one of B? Names alone suffice: common jobs stand in for the model that was not given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.core.units import GIB
from gpuwise.evidence.ranges import pair_range
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.money.age import price_text
from gpuwise.money.prices import PriceBook, price_now
from gpuwise.questions.common.predictions import predict
from gpuwise.questions.common.rigs import Rig, Throughput, find_rigs
from gpuwise.questions.common.showing import Shown
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.compare.jobs import Job, assumptions_of, jobs_of, run
from gpuwise.questions.compare.reasons import why
from gpuwise.scale.cluster.wiring import takes_bridge

__all__ = ["CompareAnswer", "Deal", "Pair", "compare"]


_ROOMIER = 1.2  # times the memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One GPU or set of GPUs against the first one named, on one workload. A ratio above 1 means faster than the baseline.

    Sets are compared as one job; `ratio_separate` as jobs side by side. Batches are those of one GPU, and differ only where each
    was to be filled.
    """

    gpu: str
    baseline: str
    workload: str
    precision: str
    batch: int
    baseline_batch: int
    ratio: float
    ratio_low: float
    ratio_high: float
    range_basis: str
    ratio_separate: float
    fits: bool
    baseline_fits: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """What a set costs and what it may cost: `even_usd` is the price at which its speed costs as much as the baseline's."""

    gpu: str
    price_usd: float | None
    price_note: str
    speed: float
    value: float | None
    even_usd: float | None
    watts: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAnswer(Shown):
    """Which is faster in a sentence, all pairs, what each GPU holds and costs, and what would turn the order round."""

    TEXT: ClassVar[str] = "questions.compare.text.render"
    FIGURE: ClassVar[str] = "questions.compare.figure.ratios_figure"

    verdict: str
    rigs: tuple[Rig, ...]
    pairs: tuple[Pair, ...]
    deals: tuple[Deal, ...]
    flips: tuple[str, ...]
    notes: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The first kind of each set."""
        return tuple(rig.gpu for rig in self.rigs)

    def to_dict(self) -> dict[str, Any]:
        """In the names of the JSON contract."""
        return {
            "verdict": self.verdict,
            "pairs": [asdict(pair) for pair in self.pairs],
            "memory": {gpu.name: gpu.usable_memory_bytes for rig in self.rigs for gpu, _ in rig.parts},
            "deals": [asdict(deal) for deal in self.deals],
            "flips": list(self.flips),
            "notes": list(self.notes),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def compare(
    names: Sequence[str],
    *,
    models: Sequence[str] = (),
    mode: str = "",
    precision: str = "",
    batch: str = "",
    stack: str = "",
    cpu: str = "",
    price: Sequence[str] = (),
    prices: Path | None = None,
    currency: str = "",
    today: date | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> CompareAnswer:
    """Each GPU, or set of GPUs, against the first, on the given models or on common jobs."""
    rigs, notes = find_rigs(names)
    if len(rigs) < 2:
        raise BadValue("two different GPUs are needed", hint='for example `gpuwise compare "RTX 3090" "RTX 4070 Ti"`')
    book = PriceBook.of(prices=price, file=prices, currency=currency, today=today)
    jobs = jobs_of(models, mode, precision, batch)
    notes += [] if models else [assumed("workloads", f"{len(jobs)} common jobs", "`--model resnet50` compares on your own")]
    ran = [run(job, rigs, stack, cpu, progress) for job in jobs]
    for note in assumptions_of(ran):
        notes += [note] if note not in notes else []
    pairs = [_pair(one.job, rigs[0], one.found[0], *other) for one in ran for other in zip(rigs[1:], one.found[1:], strict=True)]
    deals = _deals(rigs, pairs, book)
    return CompareAnswer(
        verdict=" ".join(_verdict(rig, rigs[0], pairs) for rig in rigs[1:]),
        rigs=rigs,
        pairs=tuple(pairs),
        deals=deals,
        flips=tuple(_flips(rigs, pairs)),
        notes=(*_prices_told(rigs, deals, book), *_memory_told(rigs, pairs), *_several_told(rigs), *_watts_told(rigs, progress)),
        assumptions=tuple(notes),
        data_date=tables.data_date(),
    )


def _pair(job: Job, base: Rig, first: Throughput, rig: Rig, other: Throughput) -> Pair:
    ratio = other.together_per_s / first.together_per_s
    width = pair_range(rig.gpu, base.gpu)  # of times; a ratio of speeds is that of the times the other way round
    one, two = first.slowest, other.slowest
    return Pair(
        gpu=rig.name,
        baseline=base.name,
        workload=job.title,
        precision=two.precision if two.precision == one.precision else f"{two.precision} against {one.precision}",
        batch=two.batch,
        baseline_batch=one.batch,
        ratio=ratio,
        ratio_low=ratio * width.low,
        ratio_high=ratio * width.high,
        range_basis="measured" if width.rows else "assumed",
        ratio_separate=other.separate_per_s / first.separate_per_s,
        fits=other.fits,
        baseline_fits=first.fits,
        why=why(one, two),
    )


# ---------------------------------------------------------------- which is faster, and what turns it round


def _verdict(rig: Rig, base: Rig, pairs: Sequence[Pair]) -> str:
    """Which of two is faster, by how much, and what only one of them holds."""
    own = [pair for pair in pairs if pair.gpu == rig.name]
    both = [pair for pair in own if pair.fits and pair.baseline_fits]
    only = {
        name: [pair.workload for pair in own if pair.fits != pair.baseline_fits and pair.fits == (name == rig.name)]
        for name in (rig.name, base.name)
    }
    held = [f"{names[0]} fits {name} only" for name, names in only.items() if names]
    if not both:
        return f"{'; '.join(held) or f'What was asked fits neither {base.name} nor {rig.name}'}."
    said = [_ahead(rig, base, [pair.ratio for pair in both], both)]
    if rig.count > 1 or base.count > 1:
        said = [f"As one job {said[0]}", f"as jobs side by side {_ahead(rig, base, [pair.ratio_separate for pair in both])}"]
    return f"{'; '.join([*said, *held])}."


def _ahead(rig: Rig, base: Rig, ratios: Sequence[float], pairs: Sequence[Pair] = ()) -> str:
    """`X is 1.1 to 1.4 times as fast as Y`, the faster one first."""
    won = _mean(ratios) >= 1
    fast, slow = (rig.name, base.name) if won else (base.name, rig.name)
    gains = sorted(ratio if won else 1 / ratio for ratio in ratios)
    span = f"{_times(gains[0])} to {_times(gains[-1])}" if len(gains) > 1 else _times(gains[0])
    near = pairs and all(pair.ratio_low <= 1 <= pair.ratio_high for pair in pairs)
    doubt = ", within the error of a prediction" if near else ""
    if gains[0] < 1 < gains[-1]:
        wins = sum(gain > 1 for gain in gains)
        return f"{fast} is faster than {slow} on {wins} of {len(gains)} workloads ({span} times as fast){doubt}"
    return f"{fast} is {span} times as fast as {slow}{doubt}"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"


def _mean(ratios: Sequence[float]) -> float:
    """The geometric one; 1 of none."""
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios)) if ratios else 1.0


def _speed(rig: Rig, pairs: Sequence[Pair]) -> float:
    """Of a set against the first one, over what fits both."""
    return _mean([pair.ratio for pair in pairs if pair.gpu == rig.name and pair.fits and pair.baseline_fits])


def _flips(rigs: Sequence[Rig], pairs: Sequence[Pair]) -> list[str]:
    """What turns the order round: workloads, one job or several, memory that only the slower one has."""
    found, base = [], rigs[0]
    for rig in rigs[1:]:
        own = [pair for pair in pairs if pair.gpu == rig.name and pair.fits and pair.baseline_fits]
        fast = [pair for pair in own if pair.ratio_low > 1]
        slow = [pair for pair in own if pair.ratio_high < 1]
        if fast and slow:
            found.append(f"{rig.name} is faster on {fast[0].workload} and slower on {slow[0].workload}")
        turned = [pair for pair in own if (pair.ratio - 1) * (pair.ratio_separate - 1) < 0]
        if turned:
            better = rig.name if turned[0].ratio_separate > 1 else base.name
            found.append(f"as jobs side by side {better} does more on {turned[0].workload}, as one job the other")
        faster, slower = (rig, base) if _speed(rig, pairs) >= 1 else (base, rig)
        if _memory(slower) > _ROOMIER * _memory(faster):
            found.append(f"models that need more than {_memory(faster) / GIB:.0f} GiB run on {slower.name} only")
    return list(dict.fromkeys(found))


def _memory_told(rigs: Sequence[Rig], pairs: Sequence[Pair]) -> list[str]:
    """Memory that the faster one has more of: it turns nothing, and is worth knowing."""
    told = []
    for rig in rigs[1:]:
        faster, slower = (rig, rigs[0]) if _speed(rig, pairs) >= 1 else (rigs[0], rig)
        if _memory(faster) > _ROOMIER * _memory(slower):
            told.append(f"models that need more than {_memory(slower) / GIB:.0f} GiB run on {faster.name} only")
    return told


def _memory(rig: Rig) -> float:
    """What a model may need: it must fit the smallest GPU, since memories do not add up."""
    return min(gpu.usable_memory_bytes for gpu, _ in rig.parts)


# ---------------------------------------------------------------- money and watts


def _deals(rigs: Sequence[Rig], pairs: Sequence[Pair], book: PriceBook) -> tuple[Deal, ...]:
    """Price, speed and the price at which speed costs the same, each against the first set."""
    costs = [_cost(rig, book) for rig in rigs]
    base = costs[0][0]
    found = []
    for rig, (usd, note) in zip(rigs, costs, strict=True):
        own = [pair for pair in pairs if pair.gpu == rig.name and pair.fits and pair.baseline_fits]
        speed = _speed(rig, pairs)
        known = usd is not None and base is not None
        found.append(
            Deal(
                gpu=rig.name,
                price_usd=usd,
                price_note=note,
                speed=speed,
                value=speed * base / usd if known and usd and base else None,
                even_usd=speed * base if base is not None and rig is not rigs[0] and own else None,
                watts=rig.watts,
            )
        )
    return tuple(found)


def _cost(rig: Rig, book: PriceBook) -> tuple[float | None, str]:
    prices = [(price_now(gpu, book), count) for gpu, count in rig.parts]
    known = [(price, count) for price, count in prices if price is not None]
    if len(known) < len(prices):
        return None, "no price published"
    notes = dict.fromkeys(price_text(price, book.today) for price, _ in known)
    return sum(price.usd * count for price, count in known), "; ".join(notes)


def _prices_told(rigs: Sequence[Rig], deals: Sequence[Deal], book: PriceBook) -> list[str]:
    """What each costs, and below which price another is the better buy."""
    show = book.currency.show
    told = []
    base = deals[0]
    for deal in deals[1:]:
        if deal.even_usd is None:
            continue
        now = f", and costs {show(deal.price_usd)} ({deal.price_note})" if deal.price_usd is not None else ""
        against = f"{base.gpu} at {show(base.price_usd or 0.0)} ({base.price_note})"
        told.append(
            f"{deal.gpu} is the better buy below {show(deal.even_usd)}: {deal.speed:.2f} times the speed of {against}{now}"
        )
    if base.price_usd is None:
        told.append(f'no price of {base.gpu} is published: `--price "{rigs[0].gpu.name}=700"` tells which is the better buy')
    return told


def _several_told(rigs: Sequence[Rig]) -> list[str]:
    """What people expect of several GPUs and do not get."""
    several = [rig for rig in rigs if rig.count > 1]
    if not several:
        return []
    told = ["memory does not add up: a model must fit each GPU, unless it is split over them (`gpuwise plan`)"]
    told.append("reasons are those of one GPU against one, the slowest of each set")
    for rig in several:
        if takes_bridge(rig.gpu) and len(rig.parts) == 1:
            told.append(f"{rig.name}: without an NVLink bridge between them; `gpuwise matters nvlink` tells what one brings")
    mixed = [rig.name for rig in several if len(rig.parts) > 1]
    if mixed:
        told.append(f"{mixed[0]}: as one job with equal shares the slowest sets the pace; shares in proportion come near the sum")
    return told


def _watts_told(rigs: Sequence[Rig], progress: Callable[[str], None]) -> list[str]:
    """Laptop GPUs run at the watts their maker chose: what the least of them cost."""
    told = []
    for gpu in {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values():
        low, high = gpu.power_min_watts, gpu.power_max_watts
        if gpu.segment != "laptop" or not low or not gpu.tdp_watts or low >= (high or gpu.tdp_watts):
            continue
        text = f"{gpu.name} draws {low:.0f} to {high or gpu.tdp_watts:.0f} W, as the laptop's maker chose"
        if low < gpu.tdp_watts:
            query = step_query(StepOptions("resnet50", batch=64), gpus=[gpu])
            full, least = (predict(one, progress).results[0].step_s for one in (query, query.changed(power_limit_watts=low)))
            text += f"; at {low:.0f} W a CNN trains at {full / least:.0%} of the speed here"
        told.append(text)
    return told
