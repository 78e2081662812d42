"""Everything that `which` considers, with its time and cost, and helpers shared by its sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

import msgspec

from gpuwise.advise.candidates import (
    Candidate,
    TaskRun,
    Terms,
    buy_kind,
    buyable,
    kept,
    owned,
    price_for,
    rentable,
    rented,
    rented_counts,
    run_on,
    whole,
)
from gpuwise.advise.choosing import MOST_ROWS, UserLimits, best_bought, roomy, shortfall
from gpuwise.box.checks import check_build
from gpuwise.box.parts import is_card, usual_box
from gpuwise.box.power import failing, mended
from gpuwise.box.types import Cards, CheckLine
from gpuwise.core.errors import BadValue
from gpuwise.core.text import a
from gpuwise.core.units import format_si, format_span
from gpuwise.evidence.ranges import describe_doubts
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import COOLING, in_server, more_machine_usd, server_counts, server_for
from gpuwise.money.prices import NUMBERS, kind_text
from gpuwise.money.types import Price
from gpuwise.questions.common.jobs import Priced, price_jobs, width
from gpuwise.questions.common.machine import check_machine
from gpuwise.questions.common.media.both import MADE
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.media_paces import MediaPace, price_media
from gpuwise.questions.which.text_paces import TextPace, price_text

__all__ = [
    "SAME",
    "TIERS_USD",
    "Survey",
    "alike",
    "best_by_budget",
    "buys",
    "check_parts",
    "describe_card",
    "failures",
    "format_rate",
    "limited",
    "make_survey",
    "one_more",
    "pick_at",
    "price_kind",
    "rate_text",
    "roomy_buys",
    "spent",
    "time_text",
    "unpriced",
]

TIERS_USD = (300.0, 500.0, 800.0, 1200.0, 2000.0, 4000.0, 9000.0)  # recommended for where no budget is given
_COUNTS = (1, 2, 3, 4, 8)  # of one GPU in a machine
SAME = 0.005  # a smaller difference counts as none


_Runs = Callable[[Gpu, int], TaskRun | None]  # all jobs on so many of a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """All options that were considered. `refused` are sets of cards that no typical machine can hold; `build` has the checks
    of each option by its key.
    """

    query: WhichQuery
    priced: tuple[Priced, ...]
    options: tuple[Candidate, ...]
    refused: tuple[Candidate, ...]
    build: dict[str, tuple[CheckLine, ...]]

    def money(self, usd: float | None) -> str:
        """An amount in the user's currency; cents only for small amounts."""
        if usd is None:
            return "unknown"
        currency = self.query.book.currency
        return currency.show(usd, 0 if abs(usd) >= 10 * currency.usd_per_unit else None)

    @property
    def work(self) -> str:
        """Return what a cost is per, as a noun; for text, always the same number of tokens."""
        return "run" if self.query.text is None else "million tokens"

    @property
    def do(self) -> str:
        """Return the verb phrase for what more or faster GPUs do faster."""
        return "make a run" if self.query.text is None else "generate text"

    @property
    def horizon(self) -> str:
        """Return the hours that anything is used for, in words."""
        terms = self.query.terms
        return f"{terms.years:g} year{'' if terms.years == 1 else 's'} at {168 * terms.utilization:.0f} hours a week"

    def pace(self, run: TaskRun) -> str:
        """How fast the jobs are done, with the range, as a clause."""
        if self.query.media and len(run.paces) == 1:
            each = run.seconds / self.query.jobs[0].samples
            verb = "takes" if run.gpu_count == 1 else "is done every"
            span = format_span(each * run.low, each * run.high, "s", like=each)
            return f"{MADE[self.query.media]} {verb} {format_si(each, 's')} ({span})"
        if self.query.text is None:
            doubt = describe_doubts([run.gpu])
            return f"a run takes {time_text(run)}".removesuffix(")" * bool(doubt)) + (f"; {doubt})" if doubt else "")
        users = self.query.text.users or 1
        shared = f", {format_rate(run.samples_per_s / users)} for each of {users:,} users" if users > 1 else ""
        return f"text is generated at {rate_text(run)}{shared}"


def buys(survey: Survey) -> list[Candidate]:
    return [option for option in survey.options if option.kind.startswith("buy")]


def roomy_buys(survey: Survey) -> list[Candidate]:
    """Cards to buy within the limits that are no step back in memory from what the user has."""
    return roomy([option for option in survey.options if not shortfall(option, survey.query.limits)])


def alike(option: Candidate, best: Candidate | None) -> bool:
    """Return whether two options can be compared: a single GPU only with single ones, because several need different code."""
    return best is None or best.gpu_count > 1 or option.gpu_count == 1


def one_more(option: Candidate) -> str:
    """Return what is bought if it joins cards that the user has."""
    return f"{NUMBERS[option.added]} more {option.gpu.name}" if option.added else ""


def spent(option: Candidate) -> float:
    spent = option.total_usd if option.kind == "rent" else option.upfront_usd
    return float("inf") if spent is None else spent


def failures(survey: Survey, option: Candidate) -> list[CheckLine]:
    """Return what a typical machine lacks for an option, beyond what a slight power limit solves."""
    return failing(survey.build.get(option.key, ()), option.gpu)


def limited(survey: Survey, option: Candidate) -> CheckLine | None:
    """Return the check that needs a slight power limit, if an option needs one."""
    return mended(survey.build.get(option.key, ()), option.gpu)


def pick_at(options: Sequence[Candidate], budget_usd: float) -> Candidate | None:
    """The best single card for this budget."""
    limits = UserLimits(budget_usd=budget_usd)
    return best_bought([option for option in options if option.gpu_count == 1 and not shortfall(option, limits)], limits)


def time_text(run: TaskRun) -> str:
    """How long a run takes, with its range."""
    low, high = run.seconds * run.low, run.seconds * run.high
    return f"{format_si(run.seconds, 's')} ({format_span(low, high, 's', like=run.seconds)})"


def rate_text(run: TaskRun) -> str:
    """Tokens per second, with their range and the engine, since other engines are faster or slower."""
    rate, main = run.samples_per_s, run.paces[0]
    engine = f" in {main.engine}" if isinstance(main, TextPace) else ""
    return f"{format_rate(rate)} tokens/s ({format_rate(rate / run.high)} to {format_rate(rate / run.low)}){engine}"


def format_rate(value: float) -> str:
    """Tokens per second in few digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def price_kind(option: Candidate) -> str:
    """Which price it is, behind an amount."""
    return f", {kind_text(option.price)}" if option.price is not None else ""


def describe_card(survey: Survey, option: Candidate) -> str:
    if option.kind == "keep":
        return f"your {option.name}"
    price = "" if option.upfront_usd is None else f" ({survey.money(option.upfront_usd)}{price_kind(option)})"
    return f"{a(option.name)}{price}"


# ---------------------------------------------------------------- what is on sale, for rent or already owned


def make_survey(query: WhichQuery, progress: Callable[[str], None]) -> Survey:
    """Everything on sale, for rent or already owned, with its time and cost."""
    catalogue = [gpu for gpu in load_catalog().curated if gpu.memory_bytes >= query.min_memory_bytes]
    book = query.book
    sold = buyable(catalogue, query.wanted, book) if query.kinds & {"buy new", "buy used"} else []
    rents = rentable(catalogue, query.wanted.vendor, book) if "rent" in query.kinds and not query.wanted.laptop else []
    owns = [gpu for gpu, _ in query.have]
    budget = query.limits.budget_usd
    near = [gpu for gpu, price in sold if budget is None or price is None or price.usd <= budget]
    near = [*near, *owns] or [gpu for gpu, _ in rents]
    if not (near or sold):
        raise BadValue(
            "no GPU for sale or rent matches these options",
            hint="leave out `--min-memory`, `--vendor` or `--laptop`, or add a `--price`",
        )
    every = _unique([*owns, *(g for g, _ in sold), *(g for g, _ in rents)])
    several = query.limits.deadline_s is not None or query.text or query.wanted.servers
    counts = [count for count in _COUNTS if count == 1 or (several and count <= query.most_rented)]
    offers = {gpu.name: offer for gpu, offer in rents}
    hired = [(gpu, count) for gpu, _ in rents for count in rented_counts(gpu, counts)]
    more = _additions(query)
    wanted = [*query.have, *((gpu, count) for gpu, price in sold for count in _counts(query, gpu, price))]
    wanted += [(gpu, count) for gpu, count, _ in more]
    if query.media:
        priced = price_media(query.jobs, near or [gpu for gpu, _ in sold], every, query.asked, progress)
    elif query.text is None:
        priced = _in_one_way(query, near or [gpu for gpu, _ in sold], every, progress)
    else:
        reached = [*query.have, *((gpu, count) for gpu, count, _ in more), *_within(query, sold)]
        reached = reached or hired
        priced = price_text(query.jobs, query.text, reached, every, query.asked.cpu, progress)
    runs = _price_runs(priced, [*wanted, *hired])
    options = [kept(run, query.terms) for gpu, count in query.have if (run := runs(gpu, count))]
    options += [*_bought(query, sold, runs), *_added(query, more, runs)]
    options += [rented(run, query.terms, offers[gpu.name]) for gpu, count in hired if (run := runs(gpu, count))]
    if not options:
        raise BadValue(
            f"none of the {len(sold) + len(rents)} GPUs considered can run {query.title} with these options",
            hint="leave out `--precision`, or consider more GPUs with `--vendor any`",
        )
    cards = [one for one in options if one.kind.startswith("buy") and not (whole(one.gpu) or in_server(one.gpu))]
    checked = {one.key: _checks(one.gpu, one.gpu_count, query.psu_watts, query.region) for one in cards}
    unfit = {one.key for one in cards if one.gpu_count > 1 and failing(checked[one.key], one.gpu)}
    return Survey(
        query=query,
        priced=tuple(priced),
        options=tuple(option for option in options if option.key not in unfit),
        refused=tuple(option for option in options if option.key in unfit),
        build=checked,
    )


def _bought(query: WhichQuery, sold: Sequence[tuple[Gpu, Price | None]], runs: _Runs) -> Iterator[Candidate]:
    """Cards, computers and servers to buy, in every number that is considered."""
    for gpu, price in sold:
        kind = "buy new" if price is None else buy_kind(gpu, price, query.book.today)
        for count in _counts(query, gpu, price):
            if kind in query.kinds and (run := runs(gpu, count)):
                terms = _terms_of(query, gpu, count)
                upfront = terms.machine_usd if query.machine_given or in_server(gpu) else _more_machine(query, count)
                yield owned(run, terms, price, kind=kind, upfront_usd=0.0 if whole(gpu) else upfront)


def _added(query: WhichQuery, more: Sequence[tuple[Gpu, int, Price]], runs: _Runs) -> Iterator[Candidate]:
    """Cards that join others of the same kind in the user's machine."""
    for gpu, count, price in more:
        kind = buy_kind(gpu, price, query.book.today)
        if kind in query.kinds and (run := runs(gpu, count)):
            held = next(number for one, number in query.have if one.name == gpu.name)
            usd = _more_machine(query, count) - _more_machine(query, held)
            terms = replace(query.terms, machine_usd=usd)
            yield owned(run, terms, price, kind=kind, upfront_usd=usd, added=count - held)


def _in_one_way(query: WhichQuery, near: Sequence[Gpu], every: Sequence[Gpu], progress: Callable[[str], None]) -> list[Priced]:
    """Predict every job on every GPU, in one way that fits what the user can afford: only then are times comparable."""
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
    if in_server(gpu):
        return server_counts(gpu, [count for count in _COUNTS if count <= query.most_gpus])
    free = query.limits.budget_usd is None and query.limits.deadline_s is None and query.text is None
    most = min(query.most_gpus, max(2, *(count for _, count in query.have), 0)) if free else query.most_gpus
    return tuple(count for count in _COUNTS if count <= most)


def _terms_of(query: WhichQuery, gpu: Gpu, count: int) -> Terms:
    """The terms with the machine that these cards need; a server room pays for cooling as well."""
    if whole(gpu):
        return replace(query.terms, machine_usd=0.0)
    if not in_server(gpu):
        return replace(query.terms, machine_usd=query.terms.machine_usd + _more_machine(query, count))
    server = server_for(gpu)
    cooling = COOLING * (server.watts + count * (gpu.tdp_watts or 0.0))
    usd = query.terms.machine_usd if query.machine_given else server.usd
    return replace(query.terms, machine_usd=usd, machine_watts=server.watts + cooling)


def _more_machine(query: WhichQuery, count: int) -> float:
    """What a machine for several cards costs above one for a single card, unless the user says what the machine costs."""
    return 0.0 if query.machine_given else more_machine_usd(count)


def _additions(query: WhichQuery) -> list[tuple[Gpu, int, Price]]:
    """More of the cards that the user has: the GPU, how many there would be, and the price of one. Modules come in boards."""
    found = []
    for gpu, held in query.have:
        single = is_card(gpu) and not gpu.is_cpu
        price = price_for(gpu, query.book, query.wanted.condition) if single else None
        if price is not None:
            found += [(gpu, count, price) for count in _COUNTS if held < count <= query.most_gpus]
    return found


def _within(query: WhichQuery, sold: Sequence[tuple[Gpu, Price | None]]) -> list[tuple[Gpu, int]]:
    """Return sets of cards that the budget buys and a typical machine takes."""
    budget = inf if query.limits.budget_usd is None else query.limits.budget_usd
    return [
        (gpu, count)
        for gpu, price in sold
        for count in _counts(query, gpu, price)
        if (price is None or count * price.usd <= budget) and (count == 1 or _is_taken(query, gpu, count))
    ]


@lru_cache(maxsize=2048)
def _checks(gpu: Gpu, count: int, psu_watts: float | None, region: str) -> tuple[CheckLine, ...]:
    """Whether a usual machine takes these cards; kept, since every question asks it of the same cards."""
    return check_build(gpu, count, usual_box(count, psu_watts, region))


def check_parts(option: Candidate, psu_watts: float | None, region: str, *, decodes: bool) -> tuple[CheckLine, ...]:
    """Every check of `gpuwise build` that concerns these jobs, so that both commands agree about the same machine."""
    cards = Cards(gpu=option.gpu, count=option.gpu_count)
    found = check_machine([cards], usual_box(option.gpu_count, psu_watts, region), curve=False)
    return tuple(line for line in found.lines if decodes or line.check != "loader")


def _is_taken(query: WhichQuery, gpu: Gpu, count: int) -> bool:
    return in_server(gpu) or not failing(_checks(gpu, count, query.psu_watts, query.region), gpu)


def _price_runs(priced: Sequence[Priced], wanted: Iterable[tuple[Gpu, int]]) -> _Runs:
    """Predict all jobs on one GPU or several; the requested combinations are computed in one pass."""
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
        slowest = found[longest]
        span = slowest if isinstance(slowest, (TextPace, MediaPace)) else width(gpu, slowest.bound)
        return run_on(jobs, found, span.low, span.high)

    return run


def best_by_budget(options: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The best card at each of several budgets."""
    found: dict[str, Candidate] = {}
    for budget in TIERS_USD:
        best = pick_at(options, budget)
        if best is not None:
            found.setdefault(best.key, best)
    return tuple(found.values())


def unpriced(survey: Survey) -> tuple[Candidate, ...]:
    """Return the fastest options that only lack a price: shown if there is nothing else, so that the user knows what to look
    for.
    """
    lacking = [option for option in survey.options if shortfall(option, survey.query.limits) == "price"]
    return tuple(sorted(lacking, key=lambda option: option.run.seconds)[:MOST_ROWS])
