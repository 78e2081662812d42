"""What does a GPU cost to own and to rent, and after how many days does it pay for itself?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import Ownership, Rental, break_even_days, break_even_utilization, emissions_kg, own, rent
from gpuwise.money.prices import data_date, price_now, rent_median, resale_usd, stale_sentence
from gpuwise.money.types import HOURS_PER_YEAR, Price
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.cost.ask import CostQuery, JobQuery, Rent, ask
from gpuwise.questions.cost.options import CostOptions
from gpuwise.questions.cost.tokens import TokenCosts, TokenJob, predict_tokens, token_costs
from gpuwise.questions.cost.types import BreakEven, CostAnswer, JobCost
from gpuwise.questions.cost.words import better, resale_turn, undecided, unpaid, verdict, worth
from gpuwise.questions.face import face

if TYPE_CHECKING:
    from gpuwise.questions.common.language.answer import LanguageAnswer

__all__ = ["SHARES", "answer", "cost"]

SHARES = (0.05, 0.10, 0.15, 0.35, 0.60, 1.0)  # personal, personal, a PhD student's desktop, a cluster, a company, non-stop
_LITTLE, _ROUNDS = 0.001, 50  # where the search for a break-even in tiers begins, and when it has settled


def answer(options: CostOptions, progress: Callable[[str], None] = lambda text: None) -> CostAnswer:
    """Compare the cost of owning and renting, and find the break-even."""
    query = ask(options)
    work = _work(query, progress)
    speed = work.speed
    owned = _own_at(query, query.utilization)
    if owned is None and query.rent is None:
        raise BadValue(
            f"neither a purchase price nor a rental price is known for {the(query.gpu.name)}",
            looked_in="the catalogue and the tables of purchase and rental prices",
            hint="set its price with `--price 700`, or its hourly rental price with `--cloud-price 0.4`",
        )
    market = rent_median(query.rent.gpu if query.rent else query.gpu, query.book)
    rentals = _rentals(query, HOURS_PER_YEAR * query.utilization * query.years / speed)
    found = CostAnswer(
        query=query,
        ownership=owned,
        rentals=rentals,
        market=market,
        market_break_even_days=_days(query, owned, market.usd_per_gpu_hour, speed) if owned and market else None,
        speed=speed,
        break_evens=_break_evens(query, speed),
        break_even_utilization=_threshold(query, owned, speed),
        other_prices=_other_prices(query, speed),
        job=_job_cost(query, owned, work.hours, speed) if work.hours is not None else None,
        tokens=_tokens(query, owned, work.text),
        warnings=(*work.warnings, *_warnings(query)),
        assumptions=(*query.assumptions, *(note for note in work.notes if note not in query.assumptions)),
        data_date=data_date(query.book),
    )
    said = (("better", verdict(found)), ("worth", worth(found)), ("resale", resale_turn(found)), ("unpaid", unpaid(found)))
    return replace(found, said=said, better=better(found), undecided=undecided(found))


def _own_at(query: CostQuery, utilization: float) -> Ownership | None:
    if query.price is None:
        return None
    if query.gpu_watts is None:
        raise BadValue(
            f"the rated power of {the(query.gpu.name)} is not published", hint="set its power under load with `--watts 150`"
        )
    return own(
        price_usd=query.gpu_count * query.price.usd,
        machine_usd=query.machine_usd,
        watts=query.gpu_count * query.gpu_watts + query.machine_watts,
        utilization=utilization,
        years=query.years,
        tariff=query.tariff,
        resale_usd=query.resale_usd,
    )


def _hourly(query: CostQuery, found: Rent) -> float:
    """Return the hourly cost of one rented GPU, in the requested way of paying."""
    spot = found.spot_usd_per_gpu_hour
    return spot if query.use_spot and spot is not None else found.usd_per_gpu_hour


def _rentals(query: CostQuery, hours: float) -> tuple[Rental, ...]:
    found = query.rent
    if found is None:
        return ()
    rows = [rent(found.usd_per_gpu_hour, hours, gpu_count=query.gpu_count)]
    if found.spot_usd_per_gpu_hour is not None:
        rows.append(rent(found.spot_usd_per_gpu_hour, hours, gpu_count=query.gpu_count, way="spot"))
    if query.commit_discount is not None:
        rows.append(
            rent(
                found.usd_per_gpu_hour,
                hours,
                gpu_count=query.gpu_count,
                way="commitment",
                discount=query.commit_discount,
                years=query.years,
            )
        )
    return tuple(rows)


def _break_evens(query: CostQuery, speed: float) -> tuple[BreakEven, ...]:
    """At typical utilisations and the user's own; none if one of the two ways has no price."""
    if query.rent is None or not query.utilization:
        return ()
    hourly = query.gpu_count * _hourly(query, query.rent) / speed  # for the work that an hour of the owned GPUs does
    rows = []
    for share in sorted({*SHARES, query.utilization}):
        owned = _own_at(query, share)
        if owned is not None:
            rows.append(_break_even(owned, hourly))
    return tuple(rows)


def _other_prices(query: CostQuery, speed: float) -> tuple[tuple[Price, float | None], ...]:
    """New if the price is for a used card, used if it is for a new one; none next to the user's own."""
    if query.price is None or query.price.kind == "given":
        return ()
    condition = "new" if query.price.kind == "used" else "used"
    found = price_now(query.gpu, query.book, condition)
    owned = _own_at(_at_price(query, found), query.utilization) if found else None
    hourly = _hourly(query, query.rent) if query.rent else None
    return ((found, _days(query, owned, hourly, speed) if owned and hourly else None),) if found else ()


def _at_price(query: CostQuery, price: Price) -> CostQuery:
    """The same card at another price, and with the resale value that goes with it."""
    usual = query.gpu_count * resale_usd(query.gpu, price, query.years, query.book.today)
    return replace(query, price=price, resale_usd=query.resale_usd if query.resale_is_given else usual)


def _days(query: CostQuery, owned: Ownership, usd_per_gpu_hour: float, speed: float) -> float | None:
    hourly = query.gpu_count * usd_per_gpu_hour / speed
    return break_even_days(_spent(owned), hourly, owned.utilization, owned.electricity_usd_per_hour)


def _break_even(owned: Ownership, hourly: float) -> BreakEven:
    return BreakEven(
        utilization=owned.utilization,
        own_usd=owned.total_usd,
        rent_usd=hourly * owned.hours,
        days=break_even_days(owned.upfront_usd, hourly, owned.utilization, owned.electricity_usd_per_hour),
        days_without_electricity=break_even_days(owned.upfront_usd, hourly, owned.utilization),
        days_with_resale=break_even_days(_spent(owned), hourly, owned.utilization, owned.electricity_usd_per_hour),
    )


def _spent(owned: Ownership) -> float:
    """Return the final cost of buying, after resale."""
    return max(0.0, owned.upfront_usd - owned.resale_usd)


def _threshold(query: CostQuery, owned: Ownership | None, speed: float) -> float | None:
    """Return the utilisation from which owning is cheaper over the horizon, including resale.

    With tiers, the price of electricity depends on the utilisation itself, so the value is approached from below.
    """
    if owned is None or query.rent is None:
        return None
    hourly = query.gpu_count * _hourly(query, query.rent) / speed
    spent = _spent(owned)
    share = _LITTLE
    for _ in range(1 if query.tariff.is_flat else _ROUNDS):
        used = _own_at(query, max(share, _LITTLE))
        power = used.electricity_usd_per_hour if used is not None else 0.0
        found = break_even_utilization(spent, hourly, query.years, power)
        if found is None:
            return None
        share = found
    return share


def _warnings(query: CostQuery) -> list[str]:
    found = []
    if query.price is None:
        found.append(
            f"no price is known for {the(query.gpu.name)}; set one (for example, `--price 700`) to include the cost of owning it"
        )
    else:
        found.append(stale_sentence(query.price, query.book.today))
    if query.rent is None:
        found.append(
            f"no cloud in the price tables offers {the(query.gpu.name)}; set a rental price (for example, `--cloud-price 0.4`) "
            "to include renting"
        )
    offer = query.rent.offer if query.rent else None
    if offer is not None and offer.kind == "marketplace":
        found.append(f"{offer.cloud} is a marketplace, which is cheaper than a large cloud but offers fewer guarantees")
    elif offer is not None and offer.note:
        found.append(f"{offer.cloud}: {offer.note}")
    return [text for text in found if text]


# ---------------------------------------------------------------- one job


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Hours of the job on the owned GPU, the speed of the rented one relative to it, what would not fit, and generated text."""

    hours: tuple[float, float, float] | None = None  # middle, low, high
    speed: float = 1.0
    notes: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()
    text: LanguageAnswer | None = None


def _work(query: CostQuery, progress: Callable[[str], None]) -> _Work:
    job, rented = query.job, query.rent
    if query.tokens is not None:
        return _predict_text(query, query.tokens)
    if job is not None and job.model:
        return _predict_work(query, job, progress)
    hours = None if job is None or job.hours is None else (job.hours, job.hours, job.hours)
    if rented is None or rented.gpu.name == query.gpu.name:
        return _Work(hours=hours)
    return _usual_work(query, hours, progress)


_USUAL = ("resnet50", "bert-base")  # a CNN and a transformer stand for work of an unknown kind


def _usual_work(query: CostQuery, hours: tuple[float, float, float] | None, progress: Callable[[str], None]) -> _Work:
    """Return the speed of the rented GPU relative to the owned one if no model is given: the mean over common models that fit
    on both.
    """
    ratios = []
    for model in _USUAL:
        work = _predict_work(query, JobQuery(model=model, samples=1.0), progress)
        ratios += [] if work.warnings else [work.speed]
    if not ratios:
        same = assumed("speed of the rented GPU", "the same", "use `--model resnet50 --samples …` to predict it")
        return _Work(hours=hours, notes=(same,))
    speed = prod(ratios) ** (1 / len(ratios))
    effect = f"the mean for training {' and '.join(_USUAL)}; use `--model` for your own"
    note = assumed("speed of the rented GPU", f"{speed:.2f} times that of the owned GPU", effect, basis="derived")
    return _Work(hours=hours, speed=speed, notes=(note,))


def _predict_text(query: CostQuery, job: TokenJob) -> _Work:
    """Text from the model on the owned GPU, which comes first, and the rented one."""
    found = predict_tokens(job, _gpus(query), query.gpu_count)
    mine, rented = found.results[0], found.results[-1]
    warnings = tuple(
        f"{job.model} does not fit on {the(one.gpu.name)}; see `gpuwise predict`" for one in found.results if not one.fits
    )
    full = assumed(
        "load", f"{mine.batch} concurrent requests", "whenever the GPU is in use; with fewer requests, each token costs more"
    )
    speed = rented.samples_per_s / mine.samples_per_s
    return _Work(speed=speed, notes=(*mine.assumptions, full), warnings=warnings, text=found)


def _tokens(query: CostQuery, owned: Ownership | None, text: LanguageAnswer | None) -> TokenCosts | None:
    """Return the cost of tokens, owned and rented."""
    if query.tokens is None or text is None:
        return None
    rented = None if query.rent is None else query.gpu_count * _hourly(query, query.rent)
    return token_costs(query.tokens, text, None if owned is None else owned.usd_per_hour, rented)


def _gpus(query: CostQuery) -> list[Gpu]:
    """The owned GPU and, where it is another one, the rented one."""
    return list({gpu.name: gpu for gpu in (query.gpu, *([query.rent.gpu] if query.rent else []))}.values())


def _predict_work(query: CostQuery, job: JobQuery, progress: Callable[[str], None]) -> _Work:
    from gpuwise.questions.common.predictions import predict  # a model needs the whole machinery; money alone does not
    from gpuwise.questions.common.step import step_query

    options = StepOptions(job.model, gpus=query.gpu_count, batch=job.batch, precision=job.precision)
    asked = step_query(options, gpus=_gpus(query))
    results = predict(asked, progress).results
    mine, rented = results[0], results[-1]
    warnings = tuple(
        f"{job.model} does not fit on {the(one.gpu.name)} at batch {one.batch}, so the job would not run; see `gpuwise fit`"
        for one in results
        if not one.fits
    )
    hours = job.hours if job.hours is not None else (job.samples or 0.0) * job.epochs / mine.samples_per_s / 3600
    low, high = (1.0, 1.0) if job.hours is not None else (mine.step_low_s / mine.step_s, mine.step_high_s / mine.step_s)
    return _Work(
        hours=(hours, hours * low, hours * high),
        speed=rented.samples_per_s / mine.samples_per_s,
        notes=mine.assumptions,
        warnings=warnings,
    )


def _job_cost(query: CostQuery, owned: Ownership | None, hours: tuple[float, float, float], speed: float) -> JobCost:
    middle, low, high = hours
    watts = None if query.gpu_watts is None else query.gpu_count * query.gpu_watts + query.machine_watts
    energy = None if watts is None else watts * middle / 1000
    rented = None if query.rent is None else query.gpu_count * _hourly(query, query.rent) * middle / speed
    per_hour = None if owned is None else owned.usd_per_hour
    return JobCost(
        model=query.job.model if query.job else "",
        hours=middle,
        hours_low=low,
        hours_high=high,
        rent_hours=middle / speed,
        own_usd=None if per_hour is None else per_hour * middle,
        electricity_usd=None if owned is None else owned.electricity_usd_per_hour * middle,
        rent_usd=rented,
        energy_kwh=energy,
        co2e_kg=None if energy is None else emissions_kg(energy, query.region.grid),
    )


cost = face(CostOptions, answer)
