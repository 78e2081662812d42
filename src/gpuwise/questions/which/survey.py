"""Everything that `which` considers, with its time and cost, and helpers shared by its sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf

from gpuwise.advise.candidates import (
    Candidate,
    TaskRun,
    Terms,
    buy_kind,
    buyable,
    describe_run,
    owned,
    rentable,
    rented,
    rented_counts,
    run_on,
    whole,
)
from gpuwise.advise.choosing import roomy, shortfall
from gpuwise.box.checks import check_cards
from gpuwise.box.parts import usual_box
from gpuwise.box.power import failing, mended
from gpuwise.box.types import Cards, CheckLine
from gpuwise.core.errors import BadValue
from gpuwise.core.text import plural
from gpuwise.core.units import format_si, format_span
from gpuwise.evidence.ranges import describe_doubts
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import COOLING, in_server, machine_usd, more_machine_usd, server_counts, server_for, servers_of
from gpuwise.money.prices import age_of_machine, kind_and_age
from gpuwise.money.types import Price
from gpuwise.prediction.choices import METHODS
from gpuwise.questions.common.jobs import Priced, price_in_one_way, width
from gpuwise.questions.common.media.both import MADE
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.language_paces import LanguagePace, format_rate, price_text, rate_text
from gpuwise.questions.which.media_paces import MediaPace, price_media

__all__ = [
    "SAME",
    "Survey",
    "buys",
    "failures",
    "limited",
    "make_survey",
    "owned_as",
    "price_kind",
    "roomy_buys",
    "spent",
    "time_text",
    "yours",
]

_COUNTS = (1, 2, 3, 4, 8)  # of one GPU in a machine
_RENTED = (1, 2, 4, 8)  # in one machine of a cloud
_IN_SERVERS = (*_COUNTS, 16, 32, 64)  # in one server or several
_OF_DESKTOPS = ("psu", "transients", "connectors", "outlet", "slots")  # checks of what a server and a stronger circuit mend
SAME = 0.005  # a smaller difference counts as none
_READ_PER_S = 5.0  # tokens: about 240 words a minute, the usual speed of silent reading

_Runs = Callable[[Gpu, int], TaskRun | None]  # all jobs on this many of a GPU


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
    def users(self) -> int:
        """Return how many users text is generated for at the same time."""
        return (self.query.text.users if self.query.text else None) or 1

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
        return f"{plural(f'{terms.years:g}', 'year')} at {plural(f'{168 * terms.utilization:.0f}', 'hour')} a week"

    def pace(self, run: TaskRun) -> str:
        """How fast the jobs are done, with the range, as a clause."""
        if self.query.media and len(run.paces) == 1:
            each = run.seconds / self.query.jobs[0].samples
            verb = "takes" if run.gpu_count == 1 else "is done every"
            span = format_span(each * run.low, each * run.high, "s", like=each)
            return f"{MADE[self.query.media]} {verb} {format_si(each, 's')} ({span})"
        if self.query.text is None:
            doubt = describe_doubts([run.gpu])
            took = f"a run ({describe_run(self.query.jobs)}) takes {time_text(run)}"
            return took.removesuffix(")" * bool(doubt)) + (f"; {doubt})" if doubt else "")
        users, guess = self.users, any(note.code == "users" for note in self.query.assumptions)
        shared = f", {format_rate(run.samples_per_s / users)} for each of {users:,} users" if users > 1 else ""
        shared += " (assumed; set with `--users`)" * guess
        slow = ", slower than most people read" if run.samples_per_s < _READ_PER_S * users else ""
        return f"{self.writer(run)} {rate_text(run)}{shared}{slow}"

    def writer(self, run: TaskRun) -> str:
        """What generates text, as the start of a clause that ends with a speed: a model and its weights, unless both were asked
        for or the verdict has named them before.
        """
        main, query = run.paces[0], self.query
        known = not query.task and query.text is not None and query.text.weights
        told = known or len(query.jobs) > 1 or any(one.skipped or one.slower for one in self.priced)
        if told or not isinstance(main, LanguagePace):
            return "text is generated at"
        stands = f", which stands for {query.task}," if query.task else ""
        return f"{query.jobs[0].model} with {main.weights} weights{stands} generates"


def buys(survey: Survey) -> list[Candidate]:
    return [one for one in survey.options if one.kind.startswith("buy")]


def roomy_buys(survey: Survey) -> list[Candidate]:
    """Cards to buy within the limits that are no step back in memory from what the user has."""
    return roomy([option for option in survey.options if not shortfall(option, survey.query.limits)])


def yours(survey: Survey, option: Candidate) -> str:
    """Return the user's own GPUs, or one of them if that is faster alone than all together."""
    held = sum(count for gpu, count in survey.query.have if gpu.name == option.gpu.name)
    return f"your {option.name}" if held <= option.gpu_count else f"one of your {held}x {option.gpu.name}"


def spent(option: Candidate) -> float:
    usd = option.total_usd if option.kind == "rent" else option.upfront_usd
    return inf if usd is None else usd


def failures(survey: Survey, option: Candidate) -> list[CheckLine]:
    """Return what a typical machine lacks for an option, beyond what a slight power limit solves."""
    return failing(_judged(survey.query, survey.build.get(option.key, ())), option.gpu)


def limited(survey: Survey, option: Candidate) -> CheckLine | None:
    """Return the check that needs a slight power limit, if an option needs one."""
    return mended(_judged(survey.query, survey.build.get(option.key, ())), option.gpu)


def _judged(query: WhichQuery, lines: Sequence[CheckLine]) -> Sequence[CheckLine]:
    """Return the checks that count: a lab has stronger circuits than the usual outlet, and buys supplies and servers for them."""
    lab = query.wanted.servers and query.psu_watts is None
    return [line for line in lines if line.check not in _OF_DESKTOPS] if lab else lines


def time_text(run: TaskRun) -> str:
    """How long a run takes, with its range."""
    low, high = run.seconds * run.low, run.seconds * run.high
    return f"{format_si(run.seconds, 's')} ({format_span(low, high, 's', like=run.seconds)})"


def price_kind(survey: Survey, option: Candidate) -> str:
    """Which price it is, behind an amount; with its age if it may have changed since."""
    return "" if option.price is None else f", {kind_and_age(option.price, survey.query.book.today)}"


# ---------------------------------------------------------------- what is on sale, for rent or already owned


def _price(
    query: WhichQuery,
    near: Sequence[Gpu],
    every: Sequence[Gpu],
    reached: Sequence[tuple[Gpu, int]],
    progress: Callable[[str], None],
) -> list[Priced]:
    """Predict the jobs on every GPU, in a way that suits those that are `near`, or for text the sets that can be `reached`."""
    if query.media:
        return price_media(query.jobs, near, every, query.asked, progress)
    if query.text is None:
        return price_in_one_way(query.jobs, near, every, query.asked, progress)
    return price_text(query.jobs, query.text, reached, every, query.asked.cpu, progress)


def make_survey(query: WhichQuery, progress: Callable[[str], None]) -> Survey:
    """Everything on sale, for rent or already owned, with its time and cost."""
    catalogue = [gpu for gpu in load_catalog().curated if gpu.memory_bytes >= query.min_memory_bytes]
    sold = buyable(catalogue, query.wanted, query.book) if query.kinds & {"buy new", "buy used"} else []
    hires = "rent" in query.kinds and not query.wanted.laptop
    rents = rentable(catalogue, query.wanted.vendor, query.book) if hires else []
    owns = [gpu for gpu, _ in query.have]
    most = query.limits.budget_usd
    near = [*(gpu for gpu, price in sold if most is None or price is None or price.usd <= most), *owns] or [g for g, _ in rents]
    if not (near or sold):
        raise BadValue(
            "no GPU for sale or rent matches these options",
            hint="leave out `--min-memory`, `--vendor` or `--laptop`, or add a `--price`",
        )
    every = list({gpu.name: gpu for gpu in (*owns, *(g for g, _ in sold), *(g for g, _ in rents))}.values())
    counts = [count for count in _RENTED if count <= query.most_rented]
    offers = {gpu.name: offer for gpu, offer in rents}
    hired = [(gpu, count) for gpu, _ in rents for count in rented_counts(gpu, counts)]
    more: list[tuple[Gpu, int, Price]] = []
    if query.have:
        from gpuwise.questions.which import beside  # most people ask without a GPU of their own

        more = beside.more_of_the_same(query, _COUNTS)
    wanted = [*query.have, *((gpu, count) for gpu, price in sold for count in _counts(query, gpu, price))]
    wanted += [*((gpu, count) for gpu, count, _ in more), *hired]
    reached = [*query.have, *(beside.affordable(query, more) if query.have else ()), *_within(query, sold)]
    priced = _price(query, near or [gpu for gpu, _ in sold], every, reached or hired, progress)

    def considered(priced: Sequence[Priced], runs: _Runs) -> list[Candidate]:
        own = beside.with_own(query, priced, runs, more, sold) if query.have else []
        found = [run for gpu, count in hired if (run := runs(gpu, count))]
        held = set() if query.hurries else {run.gpu.name for run in found if run.gpu_count == 1 and run.fits}
        let = (run for run in found if run.gpu_count == 1 or run.gpu.name not in held)
        return [*own, *_bought(query, sold, runs), *(rented(run, query.terms, offers[run.gpu.name]) for run in let)]

    if query.trains and most is not None and any(one.skipped for one in priced):
        from gpuwise.questions.which.in_full import in_full  # few models are too large for every GPU

        if not sold:  # otherwise adapters on a card of one's own come before renting many
            reached += [(gpu, n) for gpu, n in hired if n * offers[gpu.name].usd_per_gpu_hour * query.terms.hours <= most]
        priced = in_full(query, priced, reached, every, lambda full: _together(query, full, wanted, considered)) or priced
    options = _suited(query, priced, _together(query, priced, wanted, considered))
    if not options:
        raise BadValue(
            f"none of the {len(sold) + len(rents)} GPUs considered can run {query.title} with these options",
            hint="leave out `--precision`, or consider more GPUs with `--vendor any`",
        )
    cards = [one for one in options if one.kind.startswith("buy") and not (whole(one.gpu) or in_server(one.gpu))]
    checked = {one.key: _checks(one.run.parts, query.psu_watts, query.region) for one in cards}
    unfit = {one.key for one in cards if failing(_judged(query, checked[one.key]), one.gpu)}
    if query.psu_watts is None or len(unfit) == len(options):  # a single card goes into a machine that is bought for it
        unfit -= {one.key for one in cards if one.gpu_count == 1}
    return Survey(
        query=query,
        priced=tuple(priced),
        options=tuple(option for option in options if option.key not in unfit),
        refused=tuple(option for option in options if option.key in unfit),
        build=checked,
    )


def _together(
    query: WhichQuery,
    priced: Sequence[Priced],
    wanted: Sequence[tuple[Gpu, int]],
    considered: Callable[[Sequence[Priced], _Runs], list[Candidate]],
) -> list[Candidate]:
    """Return what is considered; several GPUs share a model that is too large for everything that could be used alone."""
    options = considered(priced, _price_runs(priced, wanted))
    short = any(one.kind in ("keep", "rent") and one.gpu_count > 1 and not one.run.fits for one in options)
    if not (query.trains and (short or all(shortfall(one, query.limits) for one in options if one.kind != "rent"))):
        return options
    from gpuwise.advise.sharding import sharing, unhindered

    alone = None
    if query.asked.batch == "auto":
        rates = [(one.job.samples, unhindered(one.pacer, one.paces)) for one in priced]
        alone = {gpu.name: sum(samples / each[gpu.name] for samples, each in rates if gpu.name in each) for gpu, _ in wanted}
    shared = [replace(one, pacer=sharing(one.pacer, options, query.limits, alone)) for one in priced]
    return considered(shared, _price_runs(shared, wanted))


def _suited(query: WhichQuery, priced: Sequence[Priced], options: list[Candidate]) -> list[Candidate]:
    """Return the options without those that few would train language models on."""
    if not all(one.way in METHODS for one in priced):
        return options
    from gpuwise.questions.which.in_full import with_bf16

    return with_bf16(options, query.limits)


def _bought(query: WhichQuery, sold: Sequence[tuple[Gpu, Price | None]], runs: _Runs) -> Iterator[Candidate]:
    """Cards, computers and servers to buy, in every number that is considered."""
    for gpu, price in sold:
        kind = "buy new" if price is None else buy_kind(gpu, price, query.book.today)
        for count in _counts(query, gpu, price):
            if kind in query.kinds and (run := runs(gpu, count)):
                yield owned_as(query, run, price, kind)


def owned_as(query: WhichQuery, run: TaskRun, price: Price | None, kind: str) -> Candidate:
    """A purchase with the machine that it needs."""
    gpu, count = run.gpu, run.gpu_count
    age = age_of_machine(gpu, price, query.book.today)
    return owned(run, _terms_of(query, gpu, count, age), price, kind=kind, upfront_usd=_upfront(query, gpu, count, age))


def _counts(query: WhichQuery, gpu: Gpu, price: Price | None) -> tuple[int, ...]:
    """How many of one GPU to consider: without a budget or deadline two, or as many as the user has."""
    if whole(gpu) or price is None or query.general:
        return (1,)
    if in_server(gpu):
        most = min(query.most_gpus, max(_COUNTS[-1], (query.limits.budget_usd or inf) / price.usd))
        return server_counts(gpu, [count for count in _IN_SERVERS if count <= most])
    free = query.limits.budget_usd is None and query.limits.deadline_s is None and query.text is None
    most = min(query.most_gpus, max(2, *(count for _, count in query.have), 0)) if free else query.most_gpus
    return tuple(count for count in _COUNTS if count <= most)


def _terms_of(query: WhichQuery, gpu: Gpu, count: int, age_years: float) -> Terms:
    """The terms with the machine that these GPUs need; a server room pays for cooling as well."""
    if whole(gpu):
        return replace(query.terms, machine_usd=0.0)
    more = _upfront(query, gpu, count, age_years)
    if not in_server(gpu):
        return replace(query.terms, machine_usd=more if query.machine_given else query.terms.machine_usd + more)
    watts = servers_of(gpu, count) * server_for(gpu, count).watts
    cooling = COOLING * (watts + count * (gpu.tdp_watts or 0.0))
    return replace(query.terms, machine_usd=more, machine_watts=watts + cooling)


def _upfront(query: WhichQuery, gpu: Gpu, count: int, age_years: float) -> float:
    """What is paid for the machine together with the GPUs: what the user says, a server, or what more cards need."""
    if whole(gpu) or query.machine_given:
        return 0.0 if whole(gpu) else query.terms.machine_usd
    return machine_usd(gpu, count, age_years) if in_server(gpu) else more_machine_usd(gpu, count, age_years, query.have)


def _within(query: WhichQuery, sold: Sequence[tuple[Gpu, Price | None]]) -> list[tuple[Gpu, int]]:
    """Return sets of cards that the budget buys and a typical machine takes; if any has a price, only those that have one."""
    budget = inf if query.limits.budget_usd is None else query.limits.budget_usd
    priced = [(gpu, price) for gpu, price in sold if price is not None]
    return [
        (gpu, count)
        for gpu, price in priced or sold
        for count in _counts(query, gpu, price)
        if _cost(query, gpu, count, price) <= budget and (count == 1 or _is_taken(query, gpu, count))
    ]


def _cost(query: WhichQuery, gpu: Gpu, count: int, price: Price | None) -> float:
    """What is paid for so many of a GPU and what they need; nothing where no price is known."""
    if price is None:
        return 0.0
    return count * price.usd + _upfront(query, gpu, count, age_of_machine(gpu, price, query.book.today))


@lru_cache(maxsize=2048)
def _checks(parts: tuple[tuple[Gpu, int], ...], psu_watts: float | None, region: str) -> tuple[CheckLine, ...]:
    """Whether a usual machine takes these cards; kept, since every question asks it of the same cards."""
    cards = [Cards(gpu=gpu, count=count) for gpu, count in parts]
    return check_cards(cards, usual_box(sum(each.count for each in cards), psu_watts, region))


def _is_taken(query: WhichQuery, gpu: Gpu, count: int) -> bool:
    return in_server(gpu) or not failing(_judged(query, _checks(((gpu, count),), query.psu_watts, query.region)), gpu)


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
        span = slowest if isinstance(slowest, (LanguagePace, MediaPace)) else width(gpu, slowest.bound)
        in_turn = all(isinstance(pace, LanguagePace) and pace.split == "layers" for pace in found)
        return run_on(jobs, found, span.low, span.high, takes_turns=in_turn)

    return run
