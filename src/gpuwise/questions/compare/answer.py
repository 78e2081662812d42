"""Which GPU is faster, one card or several? Common jobs stand in for the model where none is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.evidence.ranges import pair_range
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook, price_now, price_text
from gpuwise.questions.common.prediction_types import Prediction
from gpuwise.questions.common.predictions import predict
from gpuwise.questions.common.rigs import Rig, Throughput
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.text.answer import TextPrediction
from gpuwise.questions.compare import words
from gpuwise.questions.compare.ask import ask
from gpuwise.questions.compare.jobs import ComparedJob, assumptions_of, run
from gpuwise.questions.compare.options import CompareOptions
from gpuwise.questions.compare.reasons import explain_ratio
from gpuwise.questions.compare.text_jobs import explain_text_ratio, text_ratio_width
from gpuwise.questions.compare.types import CompareAnswer, Deal, Pair
from gpuwise.questions.face import face

__all__ = ["answer", "compare"]


def answer(options: CompareOptions, progress: Callable[[str], None] = lambda text: None) -> CompareAnswer:
    """Compare each GPU or set of GPUs with the first one, on the given models or on common jobs."""
    query = ask(options)
    rigs, base = query.rigs, query.rigs[0]
    ran = [run(job, rigs, query.stack, query.cpu, progress) for job in query.jobs]
    pairs = [_pair(one.job, base, one.found[0], *other) for one in ran for other in zip(rigs[1:], one.found[1:], strict=True)]
    deals = _deals(rigs, pairs, query.book)
    return CompareAnswer(
        verdict=" ".join(words.describe_order(rig, base, pairs) for rig in rigs[1:]),
        rigs=rigs,
        pairs=tuple(pairs),
        deals=deals,
        flips=tuple(words.describe_flips(rigs, pairs)),
        notes=(
            *words.describe_prices(rigs, deals, query.book.currency.show),
            *words.describe_memory(rigs, pairs),
            *(words.describe_sets(rigs) if any(job.text is None for job in query.jobs) else ()),
            *_laptop_notes(rigs, progress),
        ),
        assumptions=tuple(dict.fromkeys((*query.assumptions, *assumptions_of(ran)))),
        data_date=tables.data_date(),
    )


def _pair(job: ComparedJob, base: Rig, first: Throughput, rig: Rig, other: Throughput) -> Pair:
    ratio = other.together_per_s / first.together_per_s
    one, two = first.slowest, other.slowest
    low, high, basis = _width(rig, base, two)
    return Pair(
        gpu=rig.name,
        baseline=base.name,
        workload=job.title,
        precision=_precision(one, two),
        batch=two.batch,
        baseline_batch=one.batch,
        ratio=ratio,
        ratio_low=ratio * low,
        ratio_high=ratio * high,
        range_basis=basis,
        ratio_separate=other.separate_per_s / first.separate_per_s,
        fits=other.fits,
        baseline_fits=first.fits,
        why=explain_text_ratio(one, two) or explain_ratio(one, two),
    )


def _width(rig: Rig, base: Rig, told: Prediction) -> tuple[float, float, str]:
    """The ends of the range of a ratio of speeds, and what they rest on."""
    if isinstance(told, TextPrediction):
        width = text_ratio_width(told)
        return 1.0 / width, width, "assumed"
    found = pair_range(rig.gpu, base.gpu)  # of times; the ratio of speeds is the inverse ratio of times
    return found.low, found.high, "measured" if found.rows else "assumed"


def _precision(base: Prediction, other: Prediction) -> str:
    """What both compute in, or hold their weights in where they generate text."""
    one, two = (told.generation.weights if isinstance(told, TextPrediction) else told.precision for told in (base, other))
    return two if two == one else f"{two} against {one}"


# ---------------------------------------------------------------- money and watts


def _deals(rigs: Sequence[Rig], pairs: Sequence[Pair], book: PriceBook) -> tuple[Deal, ...]:
    """For each set its price, its speed, and the price at which a dollar buys as much speed as with the first set."""
    costs = [_cost(rig, book) for rig in rigs]
    base = costs[0][0]
    found = []
    for rig, (usd, note) in zip(rigs, costs, strict=True):
        speed = words.mean_speed(rig, pairs)
        comparable = any(pair.gpu == rig.name and pair.comparable for pair in pairs)
        found.append(
            Deal(
                gpu=rig.name,
                price_usd=usd,
                price_note=note,
                speed=speed,
                value=speed * base / usd if usd and base else None,
                even_usd=speed * base if base is not None and rig is not rigs[0] and comparable else None,
                watts=rig.watts,
            )
        )
    return tuple(found)


def _cost(rig: Rig, book: PriceBook) -> tuple[float | None, str]:
    prices = [(price_now(gpu, book), count) for gpu, count in rig.parts]
    known = [(price, count) for price, count in prices if price is not None]
    if len(known) < len(prices):
        return None, "no published price"
    notes = dict.fromkeys(price_text(price, book.today) for price, _ in known)
    return sum(price.usd * count for price, count in known), "; ".join(notes)


def _laptop_notes(rigs: Sequence[Rig], progress: Callable[[str], None]) -> list[str]:
    """Laptop GPUs run at the power their maker chose: how much speed the lowest setting costs."""
    found = []
    for gpu in {gpu.name: gpu for rig in rigs for gpu, _ in rig.parts}.values():
        low, high = gpu.power_min_watts, gpu.power_max_watts
        if gpu.segment == "laptop" and low and gpu.tdp_watts and low < (high or gpu.tdp_watts):
            kept = _speed_kept(gpu, low, progress) if low < gpu.tdp_watts else None
            found.append(words.describe_laptop(gpu.name, low, high or gpu.tdp_watts, kept))
    return found


def _speed_kept(gpu: Gpu, watts: float, progress: Callable[[str], None]) -> float:
    """The fraction of its training speed on a CNN that a GPU keeps at this power."""
    query = step_query(StepOptions("resnet50", batch=64), gpus=[gpu])
    full, limited = (predict(one, progress).results[0].step_s for one in (query, query.changed(power_limit_watts=watts)))
    return full / limited


compare = face(CompareOptions, answer)
