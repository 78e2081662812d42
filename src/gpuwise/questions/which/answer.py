"""Which GPU to buy, rent or keep: at most seven options with their time and cost, a verdict, and what would change it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from gpuwise.advise.candidates import Candidate, TaskRun, buy_kind, buyable, kept, older, owned, rentable, rented, run_on, whole
from gpuwise.advise.choosing import select
from gpuwise.box.checks import check_build
from gpuwise.box.parts import usual_box
from gpuwise.box.types import Cards, CheckLine
from gpuwise.core.errors import BadValue
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import data_date
from gpuwise.money.types import Price
from gpuwise.questions.common.jobs import Priced, price_jobs, width
from gpuwise.questions.common.machine import check_machine
from gpuwise.questions.face import face
from gpuwise.questions.which.ask import WhichQuery, ask
from gpuwise.questions.which.changes import changes
from gpuwise.questions.which.notes import notes
from gpuwise.questions.which.options import WhichOptions
from gpuwise.questions.which.remedies import remedied
from gpuwise.questions.which.survey import TIERS_USD, Survey, pick_at
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.questions.which.words import describe_remedy, reasons, rejections, verdict

__all__ = ["answer", "choose", "which"]

_COUNTS = (1, 2, 4, 8)  # of one GPU in a machine


def answer(options: WhichOptions, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """What to take, what else there is, and why."""
    return choose(ask(options), progress)


def choose(query: WhichQuery, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """What to take, what else there is, and why."""
    survey = _make_survey(query, progress)
    chosen = select(survey.options, query.limits)
    shown = _by_budget(survey.options) if query.general else chosen.shown
    best = chosen.best if not query.general else None
    spared = remedied(survey, chosen, progress)
    builds = {option.key: _check_parts(survey, option) for option in shown if option.key in survey.build}
    return WhichAnswer(
        query=query,
        verdict=verdict(survey, chosen, shown, spared),
        best=best,
        options=shown,
        build=builds,
        reasons={option.key: reasons(survey, option, chosen) for option in shown},
        rejected=rejections(survey, shown, chosen),
        changes_if=changes(survey, chosen),
        remedied=tuple((one, describe_remedy(survey, one)) for one in spared),
        ways=tuple(priced.way for priced in survey.priced),
        every=survey.options,
        older=survey.older,
        assumptions=(*query.assumptions, *notes(survey)),
        data_date=data_date(query.book),
    )


def _check_parts(survey: Survey, option: Candidate) -> tuple[CheckLine, ...]:
    """Every check of `gpuwise build` that concerns these jobs, so that both commands agree about the same machine."""
    cards = Cards(gpu=option.gpu, count=option.gpu_count)
    found = check_machine([cards], usual_box(option.gpu_count, survey.query.psu_watts))
    decodes = any(priced.decodes for priced in survey.priced)
    return tuple(line for line in found.lines if decodes or line.check != "loader")


def _make_survey(query: WhichQuery, progress: Callable[[str], None]) -> Survey:
    """Everything on sale, for rent or already owned, with its time and cost."""
    catalogue = [gpu for gpu in load_catalog().curated if gpu.memory_bytes >= query.min_memory_bytes]
    book = query.book
    buys = buyable(catalogue, query.wanted, book) if query.kinds & {"buy new", "buy used"} else []
    rents = rentable(catalogue, query.wanted.vendor, book) if "rent" in query.kinds and not query.wanted.laptop else []
    used = older(catalogue, query.wanted, book) if "buy used" in query.kinds else []
    owns = [gpu for gpu, _ in query.have]
    budget = query.limits.budget_usd
    near = [gpu for gpu, price in buys if budget is None or price is None or price.usd <= budget]
    near = [*near, *owns] or [gpu for gpu, _ in rents]
    if not (near or buys):
        raise BadValue("no such GPU is on sale or for rent", hint="leave `--vendor` or `--laptop` out, or give a `--price`")
    priced = _in_one_way(
        query, near or [gpu for gpu, _ in buys], _unique([*owns, *(g for g, _ in buys), *(g for g, _ in rents), *used]), progress
    )
    counts = _COUNTS if query.limits.deadline_s is not None else (1,)
    wanted = [*query.have, *((gpu, count) for gpu, price in buys for count in _counts(query, gpu, price))]
    runs = _price_runs(priced, [*wanted, *((gpu, count) for gpu, _ in rents for count in counts)])
    options = [kept(run, query.terms) for gpu, count in query.have if (run := runs(gpu, count))]
    checked: dict[str, tuple[CheckLine, ...]] = {}
    for gpu, price in buys:
        kind = "buy new" if price is None else buy_kind(gpu, price, book.today)
        terms = replace(query.terms, machine_usd=0.0) if whole(gpu) else query.terms
        for count in _counts(query, gpu, price):
            if kind in query.kinds and (run := runs(gpu, count)):
                option = owned(run, terms, price, kind=kind, machine_upfront=query.machine_given)
                options.append(option)
                if not whole(gpu):
                    checked[option.key] = check_build(gpu, count, usual_box(count, query.psu_watts))
    options += [rented(run, query.terms, offer) for gpu, offer in rents for count in counts if (run := runs(gpu, count))]
    if not options:
        raise BadValue(
            f"none of the {len(buys) + len(rents)} GPUs considered can run {query.title} that way",
            hint="leave `--precision` out, or consider more GPUs with `--vendor any`",
        )
    failing = {key for key, lines in checked.items() if any(line.verdict == "fail" for line in lines)}
    refused = [option for option in options if option.key in failing and option.gpu_count > 1]
    return Survey(
        query=query,
        priced=tuple(priced),
        options=tuple(option for option in options if option not in refused),
        refused=tuple(refused),
        older=tuple(run for gpu in used if (run := runs(gpu, 1))),
        build=checked,
    )


def _in_one_way(query: WhichQuery, near: Sequence[Gpu], every: Sequence[Gpu], progress: Callable[[str], None]) -> list[Priced]:
    """Every job on every GPU, in one way that fits what the user can afford: only then can times be compared."""
    reached = price_jobs(query.jobs, near, query.asked, progress)
    jobs = [msgspec.structs.replace(found.job, ways=(found.way,)) for found in reached]
    whole = price_jobs(jobs, every, query.asked, progress)
    return [found.after(first.skipped) for found, first in zip(whole, reached, strict=True)]


def _unique(gpus: Iterable[Gpu]) -> list[Gpu]:
    return list({gpu.name: gpu for gpu in gpus}.values())


def _counts(query: WhichQuery, gpu: Gpu, price: Price | None) -> tuple[int, ...]:
    """How many of one GPU to consider: without a budget or deadline two, or as many as the user has."""
    if whole(gpu) or price is None or query.general:
        return (1,)
    free = query.limits.budget_usd is None and query.limits.deadline_s is None
    most = min(query.most_gpus, max(2, *(count for _, count in query.have), 0)) if free else query.most_gpus
    return tuple(count for count in _COUNTS if count <= most)


def _price_runs(priced: Sequence[Priced], wanted: Iterable[tuple[Gpu, int]]) -> Callable[[Gpu, int], TaskRun | None]:
    """All jobs on one GPU or several; the wanted combinations are priced in one pass."""
    jobs = [found.job for found in priced]
    paces = [{1: found.paces} for found in priced]
    able: dict[int, dict[str, Gpu]] = {}
    for gpu, count in wanted:
        if count > 1 and all(gpu.name in found.paces for found in priced):
            able.setdefault(count, {})[gpu.name] = gpu
    for count, gpus in able.items():
        for found, known in zip(priced, paces, strict=True):
            known[count] = found.pacer.shared([found.paces[name] for name in gpus], count)

    def run(gpu: Gpu, count: int) -> TaskRun | None:
        found = [known[count][gpu.name] for known in paces if gpu.name in known.get(count, {})]
        if len(found) < len(priced):
            return None
        longest = max(range(len(jobs)), key=lambda place: jobs[place].samples / found[place].samples_per_s)
        span = width(gpu, found[longest].bound)
        return run_on(jobs, found, span.low, span.high)

    return run


def _by_budget(options: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The best card at each of several budgets."""
    found: dict[str, Candidate] = {}
    for budget in TIERS_USD:
        best = pick_at(options, budget)
        if best is not None:
            found.setdefault(best.key, best)
    return tuple(found.values())


which = face(WhichOptions, answer)
