"""The answer of `which`: at most seven options and a verdict, why the others are left out, what would change the verdict (with
numbers), and the assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gpuwise.advise.candidates import Candidate
from gpuwise.advise.choosing import (
    CLEARLY_CHEAPER,
    MOST_ROWS,
    NEARLY,
    WORTH_A_CHANGE,
    WORTH_SEVERAL,
    select,
    shortfall,
)
from gpuwise.advise.jobs import SHORT_WAYS, WAYS, Job
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.money.costs import RENT_BELOW
from gpuwise.money.prices import NEW_MONTHS, age_text, data_date
from gpuwise.money.types import Price
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.face import face
from gpuwise.questions.which.ask import WhichQuery, ask
from gpuwise.questions.which.changing import changes
from gpuwise.questions.which.left_out import rejections
from gpuwise.questions.which.options import WhichOptions
from gpuwise.questions.which.remedied import describe_remedy, remedied, wants_remedies
from gpuwise.questions.which.survey import (
    Survey,
    best_by_budget,
    check_parts,
    make_survey,
)
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.questions.which.words import reasons, verdict

__all__ = ["answer", "choose", "notes", "which"]


def answer(options: WhichOptions, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """The recommendation, its alternatives and the reasons."""
    return choose(ask(options), progress)


def choose(query: WhichQuery, progress: Callable[[str], None] = lambda text: None) -> WhichAnswer:
    """The recommendation, its alternatives and the reasons."""
    survey = make_survey(query, progress)
    chosen = select(survey.options, query.limits)
    shown = best_by_budget(survey.options) if query.general else chosen.shown or _unpriced(survey)
    if query.general and shown:  # the verdict and what would change it are about a card that is shown
        chosen = replace(chosen, bought=min(shown, key=lambda option: option.usd_per_run or 0.0))
    best = chosen.best if not query.general else None
    spared = remedied(survey, chosen, progress) if wants_remedies(survey, chosen) else ()
    decodes = any(priced.decodes for priced in survey.priced)
    builds = {
        option.key: check_parts(option, query.psu_watts, query.region, decodes=decodes)
        for option in shown
        if option.key in survey.build
    }
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
        assumptions=(*query.assumptions, *notes(survey)),
        data_date=data_date(query.book),
    )


def _unpriced(survey: Survey) -> tuple[Candidate, ...]:
    """Return the fastest options that only lack a price: shown if there is nothing else, so that the user knows what to look
    for.
    """
    lacking = [option for option in survey.options if shortfall(option, survey.query.limits) == "price"]
    return tuple(sorted(lacking, key=lambda option: option.run.seconds)[:MOST_ROWS])


# ---------------------------------------------------------------- what it assumes beyond the question

_FEW_PRICES = 3  # cards that are named one by one
_PRICE_KINDS = (
    ("launch", False, "launch"),
    ("new", False, "shop"),
    ("used", False, "used"),
    ("new", True, "estimated shop"),
    ("used", True, "estimated used"),
)


def notes(survey: Survey) -> tuple[Assumption, ...]:
    """What the answer assumes beyond the question itself."""
    query = survey.query
    found: dict[str, Assumption] = {}
    for job, priced in zip(query.jobs, survey.priced, strict=True):
        for note in priced.notes:
            found.setdefault(note.name, note)
        if priced.way not in ("usual", "checkpoint") or priced.skipped or len(job.ways) > 1:
            found[f"way {job.model}"] = assumed(f"method for {job.model}", WAYS[priced.way], _way(job, priced), code="way")
    if not query.asked.batch and query.text is None:
        found["batch"] = _batches(survey)
    if not query.general:
        found["rule"] = _rule(query)
    if query.limits.budget_usd is not None:
        found["budget"] = _budget_note(survey)
    if survey.build:
        effect = (
            "ok means that the build works, and tight means that it works if you address the named item; "
            "`gpuwise build` checks your own machine"
        )
        found["build"] = assumed("build", "a typical machine", effect)
    bought = [option.price for option in survey.options if option.price is not None and option.price.kind != "given"]
    if bought:
        yours = f'set your own with `--price "{bought[0].gpu}=…"`'
        effect = f"local prices may differ; {yours}; cards are assumed to be sold new for {NEW_MONTHS} months after launch"
        found["prices"] = assumed("prices", f"the latest known: {_kinds_of(bought)}", effect)
    rents = [option.rent for option in survey.options if option.rent is not None]
    if rents:
        newest = max(rent.dated for rent in rents)
        dated = f"data from {newest.isoformat()}, {age_text(newest, query.book.today)}"
        effect = f"{dated}; individual offers differ by a factor of two to four"
        found["rents"] = assumed("rents", "the median cloud price", effect)
    unseen = [option.gpu for option in survey.options if query.text is None and not knows(option.gpu) and not option.gpu.is_cpu]
    for makers in (False, True):
        alike = [gpu for gpu in unseen if knows_vendor(gpu) != makers]
        names = ", ".join(dict.fromkeys(gpu.vendor if makers else gpu.architecture.generation for gpu in alike))
        if names and makers:
            low, high = UNMEASURED_RANGE
            effect = f"no GPU of these vendors was measured: {names}"
            found["assumed ranges"] = assumed(
                "ranges of unmeasured vendors", f"{low:g} to {high:g} times the predicted time", effect
            )
        elif names:
            value = "the same as for GPU generations left out of the fit"
            found["ranges"] = assumed("ranges", value, f"no GPU of these generations was measured: {names}")
    return tuple(found.values())


def _batches(survey: Survey) -> Assumption:
    """Return how many samples a step has; on small cards in parts."""
    sizes = [(priced.job.model, max((pace.batch for pace in priced.paces.values()), default=0)) for priced in survey.priced]
    value = str(sizes[0][1]) if len(sizes) == 1 else ", ".join(f"{model} {size}" for model, size in sizes)
    effect = "the usual size, split into micro-batches where it does not fit; set your own with `--batch`, or use `--batch auto`"
    return assumed("batch", value, effect)


def _rule(query: WhichQuery) -> Assumption:
    """The rule by which the recommendation is made."""
    budget, effect = query.limits.budget_usd, []
    work = "run" if query.text is None else "million tokens"
    if not query.kinds & {"buy new", "buy used"}:
        value = (
            f"the rented GPU with the lowest cost per {work}" if budget is None else "the fastest GPU to rent within the budget"
        )
    elif budget is None:
        value = f"the card with the lowest cost per {work}"
    else:
        value = "the fastest card within the budget"
        effect.append(
            f"a card with {NEARLY:.0%} of its speed is preferred if it costs at most {CLEARLY_CHEAPER:.0%} of its price"
        )
        several = WORTH_SEVERAL if query.text is None else WORTH_A_CHANGE
        effect.append(f"several cards are preferred to one only if they are {several:g} times as fast")
    if "rent" in query.kinds and query.kinds & {"buy new", "buy used"}:
        effect.append(f"renting is recommended only if a GPU that is as fast costs less than {RENT_BELOW:.0%} as much to rent")
    cheaper = f" and costs less per {work}" if budget is None else ""
    effect += [f"your own GPU is kept unless the new one is {WORTH_A_CHANGE:g} times as fast{cheaper}"] if query.have else []
    return assumed("rule", value, "; ".join(effect) or "no other rule applies")


def _budget_note(survey: Survey) -> Assumption:
    """What the budget covers."""
    query = survey.query
    rents = f"; if you rent, it must cover all {query.terms.years:g} years" if "rent" in query.kinds else ""
    what = "the cards and the rest of the machine" if query.machine_given else "the cards"
    effect = f"covers the upfront cost of {what}, but not electricity{rents}"
    return assumed("budget", survey.money(query.limits.budget_usd), effect)


def _kinds_of(prices: Sequence[Price]) -> str:
    """How many cards have which kind of price, and of when."""
    said = []
    for kind, guessed, words in _PRICE_KINDS:
        days = {price.gpu: price.dated for price in prices if price.kind == kind and price.estimated == guessed}
        first, last = min(days.values(), default=None), max(days.values(), default=None)
        if first and last:
            span = f"{first:%Y-%m}" + (f" to {last:%Y-%m}" if f"{first:%Y-%m}" != f"{last:%Y-%m}" else "")
            named = ", ".join(days) + ", " if len(days) <= _FEW_PRICES else ""
            said.append(f"{len(days)} {words} price{'' if len(days) == 1 else 's'} ({named}{span})")
    return ", ".join(said)


def _way(job: Job, priced: Priced) -> str:
    """Return why a job is run this way, and which other ways there are."""
    if priced.skipped:
        return f"no GPU within your limits can run it {either(SHORT_WAYS[way] for way, _ in priced.skipped)}"
    sparing = job.ways[job.ways.index(priced.way) + 1 :]
    smaller = either(SHORT_WAYS[way] for way in sparing)
    return f"it would fit on smaller GPUs {smaller}" if sparing else "the usual method for this task"


which = face(WhichOptions, answer)
