"""Which GPU is faster, one card or several? If no model is given, common jobs are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.predictions import predict
from gpuwise.questions.common.rigs import Rig
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.compare import words
from gpuwise.questions.compare.ask import ask
from gpuwise.questions.compare.batches import describe_batches
from gpuwise.questions.compare.deals import deals_of, describe_better_buy, describe_price, describe_prices
from gpuwise.questions.compare.jobs import assumptions_of, run
from gpuwise.questions.compare.language_jobs import describe_divided, describe_layers, describe_rates
from gpuwise.questions.compare.machines import describe_machines, describe_modules, machines_usd
from gpuwise.questions.compare.options import CompareOptions
from gpuwise.questions.compare.pairs import pairs_between
from gpuwise.questions.compare.precision import describe_precision
from gpuwise.questions.compare.remedied import describe_commands, describe_remedied
from gpuwise.questions.compare.types import CompareAnswer
from gpuwise.questions.compare.verdict import describe_verdict
from gpuwise.questions.face import face

__all__ = ["answer", "compare"]


def answer(options: CompareOptions, progress: Callable[[str], None] = lambda text: None) -> CompareAnswer:
    """Compare each GPU or set of GPUs with the first one, on the given models or on common jobs."""
    query = ask(options)
    rigs = query.rigs
    ran = [run(job, rigs, query.stack, query.cpu, progress) for job in query.jobs]
    pairs = [pair for one in ran for place in range(1, len(rigs)) for pair in pairs_between([one], rigs, 0, place)]
    deals = deals_of(rigs, pairs, query.book)
    is_split = all(job.text is not None for job in query.jobs)
    show, machines = query.book.currency.show, machines_usd(rigs, query.book)
    prices = describe_prices(rigs, deals, pairs, show)
    if any(deal.price_is_current for deal in deals):
        prices += describe_machines(rigs, machines, show)
    batches = describe_batches(ran, rigs, query.stack, query.cpu, progress)
    flips = [*batches, *words.describe_flips(rigs, pairs, is_split=is_split)]
    memory = words.describe_memory(rigs, pairs, is_split=is_split)
    nowhere = words.describe_nowhere(pairs)
    precision = describe_precision(rigs, pairs)
    layers = describe_layers(ran[0].found, rigs) if is_split else []
    layers += [line for one in ran if one.job.text for line in describe_divided(one.found, rigs, one.job.text.users or 1)]
    rates = describe_rates(ran[0].found, rigs) if is_split and len(ran) == 1 else []
    remedied = describe_remedied(ran, rigs, lambda job: run(job, rigs, query.stack, query.cpu, progress))
    commands = describe_commands([one for one in ran if one.job.model not in remedied], rigs)
    modules = tuple(describe_modules(rigs, query.book))
    kinds = (*rates, *modules, *layers, *words.describe_cards(rigs))
    return CompareAnswer(
        verdict=" ".join([describe_verdict(ran, rigs), *remedied.values()])
        + describe_better_buy(rigs, deals, machines, pairs, show),
        rigs=rigs,
        pairs=tuple(pairs),
        deals=deals,
        flips=tuple(flips),
        notes=(
            *precision,  # first: without it, the table is misread
            *nowhere,
            *commands,
            *kinds,
            *prices,
            *memory,
            *(words.describe_sets(rigs) if not is_split else ()),
            *_laptop_notes(rigs, progress),
        ),
        key_notes=(
            *batches,
            *precision[:1],
            *prices,
            *kinds,
            *(memory or words.describe_room(rigs, is_split=is_split)),
            *nowhere,
        ),
        must_notes=(*commands, *modules),
        prices=tuple(describe_price(deal, show) for deal in deals),
        assumptions=tuple(dict.fromkeys((*query.assumptions, *assumptions_of(ran)))),
        data_date=tables.data_date(),
    )


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
