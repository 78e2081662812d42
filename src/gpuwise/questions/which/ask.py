"""What a user gives who asks which GPU to take, checked and completed with stated defaults."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gpuwise.advise.choosing import Limits
from gpuwise.advise.market import Wanted
from gpuwise.advise.options import Terms
from gpuwise.advise.tasks import Job, Task, find_task
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware.types import Gpu
from gpuwise.money.carbon import DEFAULT_REGION, find_region
from gpuwise.money.checks import amount
from gpuwise.money.currency import Currency
from gpuwise.money.ownership import MACHINE_USD, utilization_of
from gpuwise.money.prices import PriceBook
from gpuwise.money.tariff import flat, of_region, parse_tariff
from gpuwise.money.types import Tariff
from gpuwise.questions.common.jobs import Asked
from gpuwise.questions.common.step import MOST_IN_A_MACHINE, counted, named_gpus, parse_batch
from gpuwise.workload.capture.settings import PRECISIONS
from gpuwise.workload.store import zoo

__all__ = ["WhichQuery", "which_query"]

_DEFAULT_TASK = "kaggle"
_HOURS_PER_WEEK = 25.0
_YEARS = 3.0
_MACHINE_WATTS = {False: 100.0, True: 45.0}  # of a desktop, of a laptop: CPU, memory, screen
_SAMPLES = 1e6
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple", "any": ""}
_SPANS = {"h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0, "w": 604800.0, "week": 604800.0, "min": 60.0}
_TRAINED_IN_FULL_UP_TO = 1e9  # parameters; above, adapters are what people can afford


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichQuery:
    """The question, checked. `general` asks for picks by budget, `kinds` for what may be done."""

    title: str
    jobs: tuple[Job, ...]
    asked: Asked
    kinds: frozenset[str]
    wanted: Wanted
    limits: Limits
    have: tuple[tuple[Gpu, int], ...]
    terms: Terms
    book: PriceBook
    most_gpus: int
    psu_watts: float | None
    general: bool
    machine_given: bool
    vendor_given: bool
    assumptions: tuple[Assumption, ...]


def which_query(
    *,
    model: Sequence[str] = (),
    task: str = "",
    budget: float | str | None = None,
    have: Sequence[str] = (),
    hours_per_week: float | None = None,
    years: float | None = None,
    kwh_price: float | None = None,
    tariff: str = "",
    region: str = "",
    price: Sequence[str] = (),
    prices: Path | None = None,
    currency: str = "",
    buy: bool = False,
    used: bool = False,
    rent: bool = False,
    vendor: str = "",
    laptop: bool = False,
    deadline: str = "",
    samples: float | None = None,
    max_gpus: int = 4,
    psu: float | None = None,
    machine: float | None = None,
    machine_watts: float | None = None,
    mode: str = "",
    phase: str = "",
    seq: int | None = None,
    today: date | None = None,
    **how: Any,
) -> WhichQuery:
    """The question as typed. `how` are options of running: batch, precision, optimizer, image, cpu, stack, timeout_s."""
    notes: list[Assumption] = []
    _check_together(model, task, max_gpus, laptop, rent)
    book = PriceBook.of(prices=price, file=prices, currency=currency, today=today)
    title, jobs = _jobs(model, task, samples, mode, phase, seq, notes)
    owns, taken = _owned(have)
    notes += taken
    kinds = _kinds(buy, used, rent)
    terms = _terms(book, hours_per_week, years, kwh_price, tariff, region, machine, machine_watts, bool(owns), laptop, notes)
    return WhichQuery(
        title=title,
        jobs=jobs,
        asked=_asked(how),
        kinds=kinds,
        wanted=Wanted(vendor=_vendor(vendor, notes), laptop=laptop, condition=_condition(buy, used)),
        limits=Limits(budget_usd=_budget(budget, book.currency), deadline_s=_deadline(deadline)),
        have=owns,
        terms=terms,
        book=book,
        most_gpus=max_gpus,
        psu_watts=None if psu is None else amount(psu, "a power supply", "its watts, such as `--psu 750`"),
        general=not (model or task or budget is not None or owns or deadline or laptop or kinds <= {"rent", "keep"}),
        machine_given=machine is not None,
        vendor_given=bool(vendor),
        assumptions=_felt(notes, owning=bool(owns) or not kinds <= {"rent", "keep"}),
    )


def _felt(notes: Sequence[Assumption], *, owning: bool) -> tuple[Assumption, ...]:
    """A rent holds the machine and its electricity."""
    return tuple(note for note in notes if owning or note.code not in ("machine", "electricity"))


def _check_together(model: Sequence[str], task: str, max_gpus: int, laptop: bool, rent: bool) -> None:
    """Refuse what contradicts itself."""
    if model and task:
        raise BadValue("a model and a task were both given", hint="leave `--task` out: it stands in for models")
    if not 1 <= max_gpus <= MOST_IN_A_MACHINE:
        raise BadValue(f"--max-gpus {max_gpus} is not a number of GPUs of one machine", hint=f"between 1 and {MOST_IN_A_MACHINE}")
    if laptop and rent:
        raise BadValue("a laptop is not rented from a cloud", hint="leave `--laptop` or `--rent` out")


def _asked(how: Mapping[str, Any]) -> Asked:
    """Options of running that were given, checked."""
    given = {name: value for name, value in how.items() if value not in (None, "")}
    parse_batch(given.get("batch", ""))
    if given.get("precision", "auto") not in ("auto", *PRECISIONS):
        raise BadValue(f"'{given['precision']}' is no precision", looked_in=", ".join(PRECISIONS), hint="or `--precision auto`")
    return Asked(**given)


def _jobs(
    models: Sequence[str], task: str, samples: float | None, mode: str, phase: str, seq: int | None, notes: list[Assumption]
) -> tuple[str, tuple[Job, ...]]:
    """What is to be run: the models given, or the jobs of a task."""
    if models:
        count = _SAMPLES if samples is None else amount(samples, "a number of samples", "for example `--samples 1e6`")
        if count < 1:
            raise BadValue(f"a run of {count:g} samples is none", hint="for example `--samples 1e6`")
        if samples is None:
            notes.append(assumed("run", f"{count:,.0f} samples", "`--samples` says how many a run of yours sees"))
        jobs = tuple(_job(name, count, mode, phase, seq) for name in models)
        return ", ".join(models), jobs
    for option, value in {"--samples": samples, "--mode": mode, "--phase": phase, "--seq": seq}.items():
        if value:
            raise BadValue(
                f"{option} is for --model; a task has its own", hint=f"for example `--model resnet50 {option} {value}`"
            )
    chosen = find_task(task or _DEFAULT_TASK)
    why = "its jobs stand in for your model; `--model` names yours"
    notes.append(assumed("task" if not task else "run", f"{chosen.name}: {_told(chosen)}", why))
    return chosen.name, chosen.jobs


def _told(task: Task) -> str:
    return "; ".join(f"{job.model}, {job.note}" if job.note else job.model for job in task.jobs)


def _job(name: str, samples: float, mode: str, phase: str, seq: int | None) -> Job:
    """A model by name. Large language models are taken as people can afford them, where the plain way fits nowhere."""
    mode = mode or ("infer" if phase else "train")
    if mode not in ("train", "infer"):
        raise BadValue(f"'{mode}' is no mode", looked_in="train, infer", hint="for example `--mode infer`")
    large = zoo.has(name) and zoo.entry(name).parameters > _TRAINED_IN_FULL_UP_TO
    language = zoo.has(name) and any(stored.phase for stored in zoo.entry(name).graphs)
    ways: tuple[str, ...] = ("usual", "checkpoint") if mode == "train" else ("usual",)
    if language and large:
        ways = (*ways, "lora", "qlora") if mode == "train" else (*ways, "int8", "int4")
    return Job(model=name, samples=samples, mode=mode, phase=phase, seq=seq, ways=ways)


def _owned(have: Sequence[str]) -> tuple[tuple[tuple[Gpu, int], ...], list[Assumption]]:
    """What the user has: `2x RTX 2080 Ti` or a name alone."""
    found, notes = [], []
    for text in have:
        count, name = counted(text)
        (gpu,), taken = named_gpus([name])
        notes += taken
        found.append((gpu, count))
    return tuple(found), notes


def _kinds(buy: bool, used: bool, rent: bool) -> frozenset[str]:
    """What may be done; everything where nothing is said."""
    wished = {"buy new": buy, "buy used": used or buy, "rent": rent}
    chosen = {kind for kind, wish in wished.items() if wish}
    return frozenset(chosen or wished) | {"keep"}


def _condition(buy: bool, used: bool) -> str:
    """Which prices count: of new cards, of used ones, or the newest of either where both or neither are wished for."""
    return "any" if buy == used else "new" if buy else "used"


def _vendor(text: str, notes: list[Assumption]) -> str:
    if not text:
        notes.append(assumed("vendor", "NVIDIA", "most code and guides are written for it; `--vendor any` adds AMD and Intel"))
        return "NVIDIA"
    if text.lower() not in _VENDORS:
        raise BadValue(f"'{text}' makes no GPUs that we know", looked_in=", ".join(_VENDORS), hint="for example `--vendor any`")
    return _VENDORS[text.lower()]


def _budget(budget: float | str | None, currency: Currency) -> float | None:
    if budget is None:
        return None
    hint = "for example `--budget 800`; leave it out for picks by price"
    value = currency.read(budget, "a budget", hint) if isinstance(budget, str) else budget
    return currency.to_usd(amount(value, "a budget", hint))


def _deadline(text: str) -> float | None:
    """`3 days`, `12h`, `2 weeks` -> seconds."""
    if not text:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", text.lower())
    if match is None or match[2] not in _SPANS or not 0 < float(match[1]) < math.inf:
        raise BadValue(f"'{text}' is no deadline", hint="for example `--deadline '3 days'` or `--deadline 12h`")
    return float(match[1]) * _SPANS[match[2]]


def _terms(
    book: PriceBook,
    hours_per_week: float | None,
    years: float | None,
    kwh_price: float | None,
    tariff: str,
    region: str,
    machine: float | None,
    machine_watts: float | None,
    owns: bool,
    laptop: bool,
    notes: list[Assumption],
) -> Terms:
    if hours_per_week is None:
        notes.append(assumed("hours_per_week", f"{_HOURS_PER_WEEK:g}", "15 % of the time, a busy desktop; `--hours-per-week`"))
    if years is None:
        notes.append(assumed("years", f"{_YEARS:g}", "`--years` asks for another horizon"))
    machine_usd = _machine(book, machine, owns, laptop, notes)
    if machine_watts is None:
        machine_watts = _MACHINE_WATTS[laptop]
        notes.append(assumed("machine_watts", f"{machine_watts:.0f} W", "beside the GPU, while it works; `--machine-watts`"))
    place = find_region(region or DEFAULT_REGION)
    return Terms(
        utilization=utilization_of(_hours(hours_per_week)),
        years=_YEARS if years is None else amount(years, "a horizon in years", "for example `--years 3`"),
        tariff=_tariff(book, kwh_price, tariff, region, notes),
        grid=place.grid,
        machine_watts=amount(machine_watts, "a power", "for example `--machine-watts 100`", zero=True),
        machine_usd=machine_usd,
    )


def _hours(per_week: float | None) -> float:
    if per_week is None:
        return _HOURS_PER_WEEK
    return amount(per_week, "hours of work a week", "for example `--hours-per-week 20`; who never works needs no GPU")


def _machine(book: PriceBook, given: float | None, owns: bool, laptop: bool, notes: list[Assumption]) -> float:
    """What the rest of the machine costs, in US dollars."""
    if given is not None:
        return book.currency.to_usd(amount(given, "the price of the machine", "for example `--machine 900`", zero=True))
    if laptop:
        return 0.0
    usd = 0.0 if owns else MACHINE_USD
    bought = "the rest of a desktop, in the total only; `--machine 0` if you have one"
    notes.append(assumed("machine", book.currency.show(usd), "what you have goes on in the same machine" if owns else bought))
    return usd


def _tariff(book: PriceBook, kwh_price: float | None, tariff: str, region: str, notes: list[Assumption]) -> Tariff:
    if kwh_price is not None and tariff:
        raise BadValue("--kwh-price and --tariff were both given", hint="leave one of them out")
    rate = book.currency.usd_per_unit
    if tariff:
        return parse_tariff(tariff, usd_per_unit=rate)
    if kwh_price is not None:
        return flat(kwh_price * rate)
    place = find_region(region or DEFAULT_REGION)
    shown = book.currency.show(place.electricity.usd_per_kwh, 3)
    notes.append(
        assumed(
            "electricity", f"{shown} a kWh", f"households, {place.name} {place.electricity.year}; `--kwh-price` or `--region`"
        )
    )
    return of_region(place.electricity)
