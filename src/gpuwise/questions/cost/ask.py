"""Turns the options of `cost` into its question, checked and completed with stated defaults."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either, the
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money import costs
from gpuwise.money.costs import (
    DEFAULT_REGION,
    DESK_USE,
    LAB_USD,
    LAB_USE,
    Tariff,
    find_region,
    in_server,
    utilization_of,
    years_of,
)
from gpuwise.money.currency import amount, fraction
from gpuwise.money.prices import PriceBook, age_text, rent_median, rent_offers
from gpuwise.money.tariffs import parse_bills, parse_tariff
from gpuwise.money.types import Offer, Price, Region
from gpuwise.questions.common.gpu_list import counted
from gpuwise.questions.common.options import names
from gpuwise.questions.cost.options import CostOptions
from gpuwise.questions.cost.owning import (
    YEARS,
    condition_of,
    gpu_watts_of,
    machine_usd_of,
    machine_watts_of,
    price_of,
    resale_usd_of,
)
from gpuwise.questions.cost.tokens import TokenJob, token_job

__all__ = ["CostQuery", "JobQuery", "Rent", "ask"]

_MOST_GPUS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Rent:
    """The hourly cost of one rented GPU. `offer` is from the named cloud, if any; `is_median` means the median over clouds."""

    gpu: Gpu
    asked_as: str
    usd_per_gpu_hour: float
    spot_usd_per_gpu_hour: float | None
    label: str
    offer: Offer | None = None
    is_median: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """One job: its hours, or a model and how many samples it sees."""

    hours: float | None = None
    model: str = ""
    samples: float | None = None
    epochs: float = 1.0
    batch: int | str | None = None
    precision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuery:
    """A GPU, how it is used, paid for and rented. `price` or `rent` is None if none was published."""

    gpu: Gpu
    asked_as: str
    gpu_count: int
    price: Price | None
    machine_usd: float
    gpu_watts: float | None
    machine_watts: float
    utilization: float
    usual_for: str  # whose utilisation it is, where none was given
    years: float
    tariff: Tariff
    region: Region
    resale_usd: float
    resale_is_given: bool
    rent: Rent | None
    use_spot: bool
    commit_discount: float | None
    job: JobQuery | None
    tokens: TokenJob | None
    book: PriceBook
    assumptions: tuple[Assumption, ...]


def ask(options: CostOptions) -> CostQuery:
    """The question as typed, checked and completed with stated defaults. Amounts are in the currency given."""
    count, given = _counted(_one_name(names(options.gpu)), options.gpus)
    notes: list[Assumption] = []
    gpu = _gpu(given, "gpu", notes)
    text = options.price
    book = PriceBook.of(prices=[text] if "=" in text else (), file=options.prices, currency=options.currency, gpus=[gpu])
    price = price_of(gpu, text, condition_of(options.used, options.new), book, notes)
    tokens = token_job(options)
    owning: list[Assumption] = []  # left out where nothing is owned
    region = _region(options.region, owning)
    lab = in_server(gpu) or (price is not None and count * price.usd >= LAB_USD)
    query = CostQuery(
        gpu=gpu,
        asked_as=given,
        gpu_count=count,
        price=price,
        machine_usd=machine_usd_of(options.machine, gpu, count, price, book, owning),
        gpu_watts=gpu_watts_of(options.watts, gpu, owning),
        machine_watts=machine_watts_of(options.machine_watts, gpu, count, owning),
        utilization=_use(options, lab, notes),
        usual_for="" if _gives_use(options) else "a shared cluster" if lab else "a busy desktop",
        years=_years(options.years, notes),
        tariff=_tariff(options, region, book, owning),
        region=region,
        resale_usd=resale_usd_of(options, price, gpu, count, book, owning),
        resale_is_given=options.resale is not None,
        rent=_rent(options, given, book, notes),
        use_spot=options.spot,
        commit_discount=None if options.commit is None else fraction(options.commit, "a discount", "--commit", "0.4"),
        job=None if tokens else _job(options),
        tokens=tokens,
        book=book,
        assumptions=(),
    )
    return replace(query, assumptions=tuple(notes + (owning if price is not None or query.job else [])))


def _one_name(given: Sequence[str]) -> str:
    if len(given) > 1:
        raise BadValue(
            f"`gpuwise cost` takes one kind of GPU at a time, not {len(given)}",
            hint="use `--gpus 2` for two GPUs of one kind, or run the command once for each kind",
        )
    if not given or not given[0]:
        raise BadValue("no GPU was given", hint='try `gpuwise cost --gpu "RTX 3090"`')
    return given[0]


def _counted(text: str, gpus: int) -> tuple[int, str]:
    """How many of which GPU: `8x H100`, or `--gpus 8` beside the name."""
    if not 1 <= gpus <= _MOST_GPUS:
        raise BadValue(f"--gpus {gpus} is out of range", hint=f"give a number between 1 and {_MOST_GPUS}")
    count, name = (1, text) if "=" in text else counted(text)
    if count > 1 and gpus > 1:
        raise BadValue(f"--gpus {gpus} and '{text}' both give a number of GPUs", hint=f'write `--gpu "{name}" --gpus {count}`')
    return max(count, gpus), name


def _gpu(name: str, what: str, notes: list[Assumption]) -> Gpu:
    match = load_catalog().find(name)
    if match.others:
        notes.append(
            assumed(
                f"{what} '{name}'",
                match.gpu.name,
                "it could also be " + either(gpu.name for gpu in match.others),
                code="gpu_name",
            )
        )
    return match.gpu


def _region(name: str, notes: list[Assumption]) -> Region:
    found = find_region(name or DEFAULT_REGION)
    if not name:
        effect = "it determines the electricity price and the carbon intensity; set yours with `--region DE`"
        notes.append(assumed("region", found.name, effect))
    return found


def _gives_use(options: CostOptions) -> bool:
    return options.utilization is not None or options.hours_per_week is not None


def _use(options: CostOptions, lab: bool, notes: list[Assumption]) -> float:
    """Return the share of all hours, by default that of `which` for the same money."""
    utilization, hours_per_week = options.utilization, options.hours_per_week
    if utilization is not None and hours_per_week is not None:
        raise BadValue("--utilization and --hours-per-week cannot be combined", hint="leave out one of them")
    if hours_per_week is not None:
        return utilization_of(hours_per_week)
    if utilization is not None:
        return fraction(utilization, "a utilisation", "--utilization", "0.15")
    usual = LAB_USE if lab else DESK_USE
    effect = (
        "the share of all hours in use; typical values are 5 to 10% for personal use, 15% for a busy desktop "
        "and over 35% for a cluster"
    )
    notes.append(assumed("utilisation", f"{usual:.0%}", effect, overrides=lab))
    return usual


def _years(given: float | None, notes: list[Assumption]) -> float:
    if given is not None:
        return years_of(given)
    notes.append(assumed("horizon", f"{YEARS:g} years", "set another with `--years 5`"))
    return YEARS


def _tariff(options: CostOptions, region: Region, book: PriceBook, notes: list[Assumption]) -> Tariff:
    flat, tiers, bills, household = options.kwh_price, options.tariff, options.bills, options.household_kwh
    given = [name for name, value in (("--kwh-price", flat), ("--tariff", tiers), ("--bills", bills)) if value not in (None, "")]
    if len(given) > 1:
        raise BadValue(f"{' and '.join(given)} cannot be combined", hint="leave out one of them")
    if household is not None and not (tiers or bills):
        raise BadValue(
            "--household-kwh works only with a tiered tariff",
            hint='try `--tariff "200=0.0996,600=0.437" --household-kwh 300`',
        )
    unit = book.currency.usd_per_unit
    if flat is not None:
        return costs.flat(book.currency.to_usd(flat))
    if tiers or bills:
        if household is None:
            effect = "the GPU starts in the cheapest tier; use `--household-kwh 300` to add your household's use"
            notes.append(assumed("other use of electricity", "0 kWh per month", effect))
        parse, text = (parse_tariff, tiers) if tiers else (parse_bills, bills)
        return parse(text, household_kwh_per_month=household or 0.0, usd_per_unit=unit)
    power = region.electricity
    effect = f"household price in {power.year}: {power.source}; set yours with `--kwh-price 0.12`"
    notes.append(assumed("electricity", f"{book.currency.show(power.usd_per_kwh, 3)} per kWh", effect, basis=power.basis.value))
    return costs.of_region(power)


def _rent(options: CostOptions, own: str, book: PriceBook, notes: list[Assumption]) -> Rent | None:
    """Return what is rented: the other GPU if one was named, otherwise the one that could be owned."""
    price, cloud, other, spot = options.cloud_price, options.cloud, options.cloud_gpu, options.spot
    gpu, named = (_gpu(other, "cloud GPU", notes) if other else load_catalog().find(own).gpu), other or own
    if price is not None:
        if cloud or spot:
            option = "--cloud" if cloud else "--spot"
            raise BadValue(
                f"--cloud-price sets the rental price, but {option} reads it from the price tables", hint="leave out one of them"
            )
        hourly = book.currency.to_usd(amount(price, "a rental price", "try `--cloud-price 2.14`"))
        return Rent(gpu=gpu, asked_as=named, usd_per_gpu_hour=hourly, spot_usd_per_gpu_hour=None, label="your price")
    if cloud:
        return _named_cloud(cloud, gpu, named, spot, book)
    middle = rent_median(gpu, book)
    if middle is None:
        if spot or other:
            raise BadValue(
                f"no cloud in the price tables offers {the(gpu.name)}",
                hint="set the hourly rental price with `--cloud-price 0.4`",
            )
        return None
    if spot and middle.spot_usd_per_gpu_hour is None:
        raise BadValue(
            f"no cloud in the price tables has a spot price for {the(gpu.name)}",
            hint="set the hourly rental price with `--cloud-price 0.4`",
        )
    count = len(middle.clouds)
    what = "one cloud" if count == 1 else f"the median of {count} clouds"
    aged = f"{what}, {middle.dated}, {age_text(middle.dated, book.today)}"
    extra = f"; {middle.note}" if middle.note else ""
    shown = book.currency.show(middle.usd_per_gpu_hour)
    notes.append(
        assumed(
            "rental price",
            f"{shown} per GPU-hour",
            f"{aged}{extra}; set yours with `--cloud-price 2.14`",
            code="rent",
            basis="database",
        )
    )
    return Rent(
        gpu=gpu,
        asked_as=named,
        usd_per_gpu_hour=middle.usd_per_gpu_hour,
        spot_usd_per_gpu_hour=middle.spot_usd_per_gpu_hour,
        label=what,
        is_median=count > 1,
    )


def _named_cloud(name: str, gpu: Gpu, named: str, spot: bool, book: PriceBook) -> Rent:
    offers = {offer.cloud.lower(): offer for offer in rent_offers(gpu, book)}
    offer = offers.get(name.strip().lower())
    if offer is None:
        near = difflib.get_close_matches(name.lower(), offers, n=1)
        known = ", ".join(offers) or "none"
        hint = f"did you mean `{near[0]}`?" if near else "set the hourly rental price with `--cloud-price 2.14`"
        raise UnknownName(f"'{name}' does not offer {the(gpu.name)} in the price tables", known=known, hint=hint)
    if spot and offer.spot_usd_per_gpu_hour is None:
        raise BadValue(
            f"{offer.cloud} lists no spot price for {the(gpu.name)}",
            hint="leave out `--spot`, or set the price with `--cloud-price`",
        )
    return Rent(
        gpu=gpu,
        asked_as=named,
        usd_per_gpu_hour=offer.usd_per_gpu_hour,
        spot_usd_per_gpu_hour=offer.spot_usd_per_gpu_hour,
        label=f"{offer.cloud}, {offer.dated}",
        offer=offer,
    )


def _job(options: CostOptions) -> JobQuery | None:
    example = "try `--model resnet50 --samples 1281167 --epochs 90`"
    samples, epochs = options.samples, options.epochs
    if options.job_hours is not None:
        if samples is not None or epochs is not None:
            raise BadValue("--job-hours already sets the job length", hint="leave out --samples and --epochs")
        hours = amount(options.job_hours, "a job length in hours", "try `--job-hours 12`")
        return JobQuery(hours=hours, model=options.model)
    if not options.model:
        given = {"--samples": samples, "--epochs": epochs, "--batch": options.batch, "--precision": options.precision}
        stray = [name for name, value in given.items() if value not in (None, "")]
        if stray:
            raise BadValue(f"{stray[0]} requires --model", hint=example)
        return None
    if samples is None:
        raise BadValue("the job size is missing", hint=f"{example}, or `--job-hours 12`")
    return JobQuery(
        model=options.model,
        samples=amount(samples, "a number of samples", example),
        epochs=amount(1.0 if epochs is None else epochs, "a number of epochs", example),
        batch=options.batch,
        precision=options.precision,
    )
