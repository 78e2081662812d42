"""What an answer of `which` assumes beyond the question itself: batches, ways of running, prices, rents, ranges."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.advise.candidates import NEW_MONTHS
from gpuwise.advise.choosing import CLEARLY_CHEAPER, NEARLY, RENT_BELOW, WORTH_A_CHANGE
from gpuwise.advise.jobs import WAYS, Job
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.money.prices import age_text
from gpuwise.money.types import Price
from gpuwise.questions.common.jobs import Priced
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.survey import Survey

__all__ = ["notes"]

_FEW = 3  # cards that are named one by one


def notes(survey: Survey) -> tuple[Assumption, ...]:
    """What the answer assumes beyond the question itself."""
    query = survey.query
    found: dict[str, Assumption] = {}
    for job, priced in zip(query.jobs, survey.priced, strict=True):
        for note in priced.notes:
            found.setdefault(note.name, note)
        if priced.way != "usual" or priced.skipped or len(job.ways) > 2:
            found[f"way {job.model}"] = assumed(f"way of {job.model}", WAYS[priced.way], _way(job, priced), code="way")
    if not query.asked.batch:
        found["batch"] = _batches(survey)
    if not query.general:
        found["rule"] = _rule(query)
    if query.limits.budget_usd is not None:
        found["budget"] = _budget(survey)
    if survey.build:
        effect = "ok: works; tight: works if you take care of what is named; `gpuwise build` checks your own machine"
        found["build"] = assumed("build", "a usual machine", effect)
    bought = [option.price for option in survey.options if option.price is not None and option.price.kind != "given"]
    if bought:
        yours = f'give yours with `--price "{bought[0].gpu}=…"`'
        effect = f"shops may differ; {yours}; a card counts as sold new for {NEW_MONTHS} months after launch"
        found["prices"] = assumed("prices", f"the newest with a date: {_kinds_of(bought)}", effect)
    rents = [option.rent for option in survey.options if option.rent is not None]
    if rents:
        newest = max(rent.dated for rent in rents)
        effect = f"of {newest.isoformat()}, {age_text(newest, query.book.today)}; single offers differ by a factor of two to four"
        found["rents"] = assumed("rents", "median of clouds", effect)
    unseen = [option.gpu for option in survey.options if not knows(option.gpu) and not option.gpu.is_cpu]
    for makers in (False, True):
        alike = [gpu for gpu in unseen if knows_vendor(gpu) != makers]
        names = ", ".join(dict.fromkeys(gpu.vendor if makers else gpu.architecture.generation for gpu in alike))
        if names and makers:
            low, high = UNMEASURED_RANGE
            effect = f"no GPU of these vendors was measured: {names}"
            found["assumed ranges"] = assumed("ranges of unmeasured vendors", f"{low:g} to {high:g} times the time", effect)
        elif names:
            value = "the errors seen on generations left out of the fit"
            found["ranges"] = assumed("ranges", value, f"no GPU of these generations was measured: {names}")
    return tuple(found.values())


def _batches(survey: Survey) -> Assumption:
    """How many samples make a step; on small cards in parts."""
    sizes = [(priced.job.model, max((pace.batch for pace in priced.paces.values()), default=0)) for priced in survey.priced]
    value = str(sizes[0][1]) if len(sizes) == 1 else ", ".join(f"{model} {size}" for model, size in sizes)
    effect = "the usual size, in micro-batches where it does not fit at once; set yours with `--batch`, or auto for the fastest"
    return assumed("batch", value, effect)


def _rule(query: WhichQuery) -> Assumption:
    """The rule by which the recommendation is made."""
    budget, effect = query.limits.budget_usd, []
    if not query.kinds & {"buy new", "buy used"}:
        value = "the rented GPU with the lowest cost per run"
    elif budget is None:
        value = "the card with the lowest cost per run"
        effect += [f"renting only if it costs less than {RENT_BELOW:g} of that"] if "rent" in query.kinds else []
    else:
        value = "the fastest card that the budget buys"
        effect.append(f"a card with {NEARLY:g} of its speed for {CLEARLY_CHEAPER:g} of its price is preferred")
        effect.append(f"several cards are preferred to one only if {WORTH_A_CHANGE:g} times as fast")
    effect += [f"what you have is kept unless that card is {WORTH_A_CHANGE:g} times as fast"] if query.have else []
    return assumed("rule", value, "; ".join(effect) or "no other rule applies")


def _budget(survey: Survey) -> Assumption:
    """What the budget covers."""
    query = survey.query
    rents = f"; for renting it must cover all {query.terms.years:g} years" if "rent" in query.kinds else ""
    what = "cards and the rest of the machine" if query.machine_given else "cards"
    effect = f"covers {what} upfront, without electricity{rents}"
    return assumed("budget", survey.money(query.limits.budget_usd), effect)


def _kinds_of(prices: Sequence[Price]) -> str:
    """How many cards have which kind of price, and of when."""
    told = []
    for kind, words in (("launch", "at launch"), ("new", "of shops"), ("used", "used")):
        days = {price.gpu: price.dated for price in prices if price.kind == kind}
        first, last = min(days.values(), default=None), max(days.values(), default=None)
        if first and last:
            span = f"{first:%Y-%m}" + (f" to {last:%Y-%m}" if f"{first:%Y-%m}" != f"{last:%Y-%m}" else "")
            told.append(f"{len(days)} {words} ({', '.join(days) + ', ' if len(days) <= _FEW else ''}{span})")
    return ", ".join(told)


def _way(job: Job, priced: Priced) -> str:
    """Why a job is run this way, and which other ways there are."""
    if priced.skipped:
        names = [way for way, _ in priced.skipped]
        return f"{' and '.join(names)} fit{'' if len(names) > 1 else 's'} no GPU within reach"
    sparing = job.ways[job.ways.index(priced.way) + 1 :]
    return f"{' or '.join(sparing)} would fit smaller GPUs" if sparing else "the usual way for this task"
