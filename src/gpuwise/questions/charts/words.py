"""The assumptions in an answer of `charts`, in words."""

from __future__ import annotations

from gpuwise.advise.jobs import WAYS
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import plural
from gpuwise.questions.charts.ask import MACHINE_WATTS, ChartsQuery, Work

__all__ = ["notes"]


def notes(query: ChartsQuery) -> tuple[Assumption, ...]:
    """Which jobs represent the kinds of work, and how precisions, batches, costs and prices are chosen."""
    owning, show = query.owning, query.book.currency.show
    return (
        *(_describe_job(work) for work in query.work),
        assumed("16 bit", "mixed precision in training, fp16 in inference", "only on GPUs with matrix cores"),
        assumed("8 bit, 4 bit", f"{WAYS['int8']}, {WAYS['int4']}", "only the weights are quantised; the arithmetic is 16-bit"),
        assumed("batch", "split into micro-batches if it does not fit", "work that still does not fit has no value"),
        assumed(
            "total cost",
            f"{plural(f'{owning.years:g}', 'year')}, used {owning.utilization:.0%} of the time; the rest of the machine costs "
            f"{show(owning.machine_usd)} and draws {MACHINE_WATTS:g} W; the card draws its rated power; "
            f"{show(1000 * owning.tariff.tiers[0][1])} per 1,000 kWh",
            "change it with `--years`, `--utilization`, `--machine` and `--kwh-price`",
        ),
        assumed(
            "price",
            "your own price if you give one, otherwise the latest known price, or the launch price if no other is known",
            "a launch price older than 30 months is outdated",
        ),
    )


def _describe_job(work: Work) -> Assumption:
    job = work.job
    sizes = f"{job.model}, {job.mode}{f' ({job.phase})' if job.phase else ''}, batch {job.batch}"
    sizes += (f", sequence {job.seq}" if job.seq else "") + (f", {work.stack}" if work.stack else "")
    return assumed(work.title, sizes, "it represents this kind of work", code="work")
