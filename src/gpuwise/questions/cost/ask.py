"""From the options of `cost` to its question, checked and completed with stated defaults."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money import costs
from gpuwise.money.costs import (
    COOLING,
    DEFAULT_REGION,
    MACHINE_USD,
    Tariff,
    find_region,
    in_server,
    server_for,
    utilization_of,
    years_of,
)
from gpuwise.money.currency import amount, fraction
from gpuwise.money.estimates import remaining
from gpuwise.money.given import given_price
from gpuwise.money.prices import PriceBook, age_text, price_now, price_text, rent_median, rent_offers, sold_new
from gpuwise.money.types import Offer, Price, Region
from gpuwise.questions.common.options import names
from gpuwise.questions.cost.options import CostOptions
from gpuwise.questions.cost.tokens import TokenJob, token_job

__all__ = ["CostQuery", "JobQuery", "Rent", "ask"]

_MOST_GPUS = 4096
_UTILIZATION = 0.15  # a busy desktop, 25 hours a week
_YEARS = 3.0  # how long a card is usually kept, assumed
_MACHINE_WATTS = 100.0  # CPU, memory, disks and fans of a desktop at work, assumed
_LAPTOP_WATTS = 40.0  # CPU and screen of a laptop at work, assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rent:
    """What an hour of one rented GPU costs. `offer` is the cloud it is from, if one was named."""

    gpu: Gpu
    asked_as: str
    usd_per_gpu_hour: float
    spot_usd_per_gpu_hour: float | None
    label: str
    offer: Offer | None = None


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
    """A GPU, how it is used, paid for and rented. `price` or `rent` is None where nobody published one."""

    gpu: Gpu
    asked_as: str
    gpu_count: int
    price: Price | None
    machine_usd: float
    gpu_watts: float | None
    machine_watts: float
    utilization: float
    years: float
    tariff: Tariff
    region: Region
    resale_usd: float
    rent: Rent | None
    use_spot: bool
    commit_discount: float | None
    job: JobQuery | None
    tokens: TokenJob | None
    book: PriceBook
    assumptions: tuple[Assumption, ...]


def ask(options: CostOptions) -> CostQuery:
    """The question as typed, checked and completed with stated defaults. Amounts are in the currency given."""
    given = _one_name(names(options.gpu))
    if not 1 <= options.gpus <= _MOST_GPUS:
        raise BadValue(f"--gpus {options.gpus} is out of range", hint=f"give a number between 1 and {_MOST_GPUS}")
    notes: list[Assumption] = []
    gpu = _gpu(given, "gpu", notes)
    text = options.price
    book = PriceBook.of(prices=[text] if "=" in text else (), file=options.prices, currency=options.currency)
    price = _price(gpu, text, _condition(options.used, options.new), book, notes)
    tokens = token_job(options)
    owning: list[Assumption] = []  # left out where nothing is owned
    region = _region(options.region, owning)
    query = CostQuery(
        gpu=gpu,
        asked_as=given,
        gpu_count=options.gpus,
        price=price,
        machine_usd=_machine_usd(options.machine, gpu, options.gpus, book, owning),
        gpu_watts=_gpu_watts(options.watts, gpu, owning),
        machine_watts=_machine_watts(options.machine_watts, gpu, options.gpus, owning),
        utilization=_use(options.utilization, options.hours_per_week, notes),
        years=_years(options.years, notes),
        tariff=_tariff(options, region, book, owning),
        region=region,
        resale_usd=_resale_usd(options, price, gpu, book, owning),
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


def _gpu(name: str, what: str, notes: list[Assumption]) -> Gpu:
    match = load_catalog().find(name)
    if match.others:
        notes.append(
            assumed(
                f"{what} '{name}'",
                match.gpu.name,
                "it could also be " + ", ".join(gpu.name for gpu in match.others),
                code="gpu_name",
            )
        )
    return match.gpu


def _region(name: str, notes: list[Assumption]) -> Region:
    found = find_region(name or DEFAULT_REGION)
    if not name:
        notes.append(assumed("region", found.name, "determines the electricity price and carbon; set yours with `--region DE`"))
    return found


def _condition(used: bool, new: bool) -> str:
    if used and new:
        raise BadValue("--used and --new cannot be combined", hint="leave out both to use the latest price of either kind")
    return "used" if used else "new" if new else "any"


def _price(gpu: Gpu, text: str, condition: str, book: PriceBook, notes: list[Assumption]) -> Price | None:
    """`--price 700` is of the GPU asked for; `--price "RTX 3090=700"` names it."""
    if text and "=" not in text:
        hint = "try `--price 700`"
        paid = amount(book.currency.read(text, "a price", hint), "a price", hint)
        return given_price(gpu.name, book.currency.to_usd(paid), book.today)
    if text and gpu.name not in book.given:
        raise BadValue(
            f"--price is for {the(next(iter(book.given)))}, not for {the(gpu.name)}", hint=f'write `--price "{gpu.name}=…"`'
        )
    found = price_now(gpu, book, condition)
    if found is None and condition != "any":
        raise BadValue(f"no dated price is known for a {condition} {gpu.name}", hint="set one with `--price 700`")
    if found is not None and found.kind != "given":
        effect = f"{price_text(found, book.today)}; set yours with `--price 700`"
        notes.append(
            assumed(f"price of {gpu.name}", book.currency.show(found.usd), effect, basis=found.basis.value, code="price")
        )
    return found


def _machine_usd(given: float | None, gpu: Gpu, count: int, book: PriceBook, notes: list[Assumption]) -> float:
    if given is not None:
        return book.currency.to_usd(amount(given, "the machine price", "try `--machine 700`", zero=True))
    if gpu.segment == "laptop" or gpu.is_cpu:
        notes.append(
            assumed("rest of the machine", book.currency.show(0.0), "included in the price; use `--machine 700` to add more")
        )
        return 0.0
    if in_server(gpu):
        server = server_for(gpu)
        usd = server.usd * -(-count // server.most_gpus)
        notes.append(assumed("rest of the machine", book.currency.show(usd), f"{server.title}; set yours with `--machine`"))
        return usd
    effect = "a plain desktop without a GPU; use `--machine 0` if you already have one"
    notes.append(assumed("rest of the machine", book.currency.show(MACHINE_USD), effect))
    return MACHINE_USD


def _resale_usd(options: CostOptions, price: Price | None, gpu: Gpu, book: PriceBook, notes: list[Assumption]) -> float:
    """What all GPUs bring at the end: as the user says, or by the usual loss of value."""
    if options.resale is not None:
        return book.currency.to_usd(amount(options.resale, "a resale value", "try `--resale 300`", zero=True))
    if price is None:
        return 0.0
    years = _YEARS if options.years is None else years_of(options.years)
    new = price.kind in ("new", "launch") or (price.kind == "given" and sold_new(gpu, book.today))
    share = remaining(years, new=new)
    usd = options.gpus * price.usd * share
    effect = f"{share:.0%} of the price after {years:g} years, the usual loss of value; set yours with `--resale 300`"
    notes.append(assumed("resale", book.currency.show(usd), effect, basis="fitted"))
    return usd


def _gpu_watts(given: float | None, gpu: Gpu, notes: list[Assumption]) -> float | None:
    if given is not None:
        return amount(given, "a power", "try `--watts 300`")
    if gpu.tdp_watts is not None:
        notes.append(
            assumed(
                "power while working",
                f"{gpu.tdp_watts:g} W",
                "the rated power, although many jobs draw less; set yours with `--watts 280`",
            )
        )
    return gpu.tdp_watts


def _machine_watts(given: float | None, gpu: Gpu, count: int, notes: list[Assumption]) -> float:
    if given is not None:
        return amount(given, "a power", "try `--machine-watts 100`", zero=True)
    if in_server(gpu):
        server = server_for(gpu)
        own = server.watts * -(-count // server.most_gpus)
        watts = own + COOLING * (own + count * (gpu.tdp_watts or 0.0))
        effect = f"{own:,.0f} W for the server, and {COOLING:.0%} of all power for cooling; set yours with `--machine-watts`"
        notes.append(assumed("rest of the machine", f"{watts:,.0f} W", effect))
        return watts
    usual = _LAPTOP_WATTS if gpu.segment == "laptop" else _MACHINE_WATTS
    notes.append(
        assumed(
            "rest of the machine",
            f"{usual:g} W",
            "drawn only while in use, because the machine is otherwise off; set yours with `--machine-watts`",
        )
    )
    return usual


def _use(utilization: float | None, hours_per_week: float | None, notes: list[Assumption]) -> float:
    if utilization is not None and hours_per_week is not None:
        raise BadValue("--utilization and --hours-per-week cannot be combined", hint="leave out one of them")
    if hours_per_week is not None:
        return utilization_of(hours_per_week)
    if utilization is not None:
        return fraction(utilization, "a utilisation", "--utilization", "0.15")
    notes.append(
        assumed(
            "utilisation", f"{_UTILIZATION:.0%}", "of all hours; personal use is typically 5 to 10%, a shared cluster above 35%"
        )
    )
    return _UTILIZATION


def _years(given: float | None, notes: list[Assumption]) -> float:
    if given is not None:
        return years_of(given)
    notes.append(assumed("horizon", f"{_YEARS:g} years", "set another with `--years 5`"))
    return _YEARS


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
        parse, text = (costs.parse_tariff, tiers) if tiers else (costs.parse_bills, bills)
        return parse(text, household_kwh_per_month=household or 0.0, usd_per_unit=unit)
    power = region.electricity
    effect = f"household price in {power.year}: {power.source}; set yours with `--kwh-price 0.12`"
    notes.append(assumed("electricity", f"{book.currency.show(power.usd_per_kwh, 3)} per kWh", effect, basis=power.basis.value))
    return costs.of_region(power)


def _rent(options: CostOptions, own: str, book: PriceBook, notes: list[Assumption]) -> Rent | None:
    """What is rented: the other GPU if one was named, else the one that could be owned."""
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
        assumed("rent", f"{shown} per GPU-hour", f"{aged}{extra}; set yours with `--cloud-price 2.14`", basis="database")
    )
    return Rent(
        gpu=gpu,
        asked_as=named,
        usd_per_gpu_hour=middle.usd_per_gpu_hour,
        spot_usd_per_gpu_hour=middle.spot_usd_per_gpu_hour,
        label=what,
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
