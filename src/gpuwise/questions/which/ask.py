"""Turns the options of `which` into its question, checked and completed with stated defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from gpuwise.advise.candidates import Terms, Wanted
from gpuwise.advise.choosing import UserLimits
from gpuwise.advise.jobs import Job, find_task
from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import plural
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import (
    DEFAULT_REGION,
    DESK_USE,
    LAB_USD,
    LAB_USE,
    MACHINE_USD,
    WEEK_HOURS,
    Tariff,
    find_region,
    flat,
    of_region,
    utilization_of,
    years_of,
)
from gpuwise.money.currency import Currency, amount, fraction
from gpuwise.money.estimates import remaining
from gpuwise.money.prices import PriceBook
from gpuwise.money.tariffs import parse_tariff
from gpuwise.questions.common.gpu_list import MOST_IN_A_MACHINE, counted, named_gpus, parse_min_memory
from gpuwise.questions.common.jobs import Asked
from gpuwise.questions.common.media.both import makes_media
from gpuwise.questions.common.options import names
from gpuwise.questions.common.step import parse_batch
from gpuwise.questions.common.tuning import check_method
from gpuwise.questions.common.uses import trains
from gpuwise.questions.which.language_ask import language_asked, language_job
from gpuwise.questions.which.language_paces import LanguageAsked
from gpuwise.questions.which.options import WhichOptions, parse_deadline, parse_vendor
from gpuwise.workload.model.types import PRECISIONS
from gpuwise.workload.store import zoo

__all__ = ["WhichQuery", "ask"]

_DEFAULT_TASK, _LAB_TASK = "kaggle", "research"
_LAB_CPU = "server"
_LAPTOP_CPU = "laptop"
_YEARS = 3.0  # how long a card is usually kept, assumed
_MACHINE_WATTS = {False: 100.0, True: 45.0}  # of a desktop, of a laptop: CPU, memory, screen
_MOST_IN_A_DESKTOP, _MOST_IN_A_LAB = 4, 64  # GPUs, unless the user says otherwise
_MADE = {"images": 1000.0, "windows": 12_000.0}  # what a run makes: images, or windows of 30 s from 100 hours of speech
_UNITS = {"images": "images", "windows": "windows of 30 s"}
_SAMPLES = 1e6  # about an epoch of ImageNet
_CLASSIFIED = 1.15e8  # images: 90 epochs of ImageNet, the usual training of an image classifier
_TRAINED_IN_FULL_UP_TO = 1e9  # parameters; above, adapters are what people can afford
_TUNED_ON, _TUNED_LENGTH = 50_000.0, 1024  # sequences and tokens of fine-tuning a larger language model, as in the task for it


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichQuery:
    """The question, checked. `general` asks for a recommendation at each of several budgets; `kinds` are the allowed options;
    `task` is the task that the jobs stand for, empty where the user named models."""

    title: str
    task: str
    jobs: tuple[Job, ...]
    asked: Asked
    text: LanguageAsked | None
    media: str
    kinds: frozenset[str]
    wanted: Wanted
    limits: UserLimits
    have: tuple[tuple[Gpu, int], ...]
    terms: Terms
    book: PriceBook
    min_memory_bytes: float
    most_gpus: int
    most_rented: int
    psu_watts: float | None
    region: str
    general: bool
    machine_given: bool
    vendor_given: bool
    assumptions: tuple[Assumption, ...]

    @property
    def hurries(self) -> bool:
        """Whether several rented GPUs are wanted for speed, and not only to hold a model that one of them cannot hold."""
        return self.limits.deadline_s is not None or self.text is not None or self.wanted.servers

    @property
    def trains(self) -> bool:
        """Whether every job is training."""
        return self.text is None and not self.media and all(job.mode == "train" for job in self.jobs)


def ask(options: WhichOptions, *, today: date | None = None) -> WhichQuery:
    """The question as typed, checked and completed with stated defaults."""
    notes: list[Assumption] = []
    _check_together(options)
    models = names(options.model)
    owns, name_notes = _find_owned(names(options.have))
    mine = [gpu for gpu, _ in owns]
    book = PriceBook.of(prices=names(options.price), file=options.prices, currency=options.currency, today=today, gpus=mine)
    budget = _budget(options.budget, book.currency)
    lab = budget is not None and budget >= LAB_USD
    text = language_asked(options, models, notes, budget) if models or options.task or options.asks_for_text else None
    title, jobs = _jobs(options, models, text, lab, notes)
    notes += name_notes
    kinds = _kinds(options)
    owning = bool(owns) or not kinds <= {"rent", "keep"}
    terms = _terms(options, book, bool(owns), lab, notes)
    media = _made(options, models) if models and text is None else ""
    alone = _at_once(options, media, notes)
    specific = models or options.task or options.budget is not None or owns or options.deadline or options.laptop
    return WhichQuery(
        title=title,
        task=options.task,
        jobs=jobs,
        asked=_how_asked(options if text is None else replace(options, precision=""), lab, notes, jobs),
        text=text,
        media=media,
        kinds=kinds,
        wanted=Wanted(
            vendor=parse_vendor(options.vendor, notes), laptop=options.laptop, servers=lab, condition=_condition(options)
        ),
        limits=UserLimits(
            budget_usd=budget,
            deadline_s=parse_deadline(options.deadline),
            horizon_s=3600 * terms.hours if text is None and not media else None,
        ),
        have=owns,
        min_memory_bytes=parse_min_memory(options.min_memory) if options.min_memory else 0.0,
        terms=terms,
        book=book,
        most_rented=options.max_gpus or alone or MOST_IN_A_MACHINE,
        most_gpus=options.max_gpus or alone or (_MOST_IN_A_LAB if lab else _MOST_IN_A_DESKTOP),
        psu_watts=None if options.psu is None else amount(options.psu, "a power supply", "give its watts, such as `--psu 750`"),
        region=find_region(options.region or DEFAULT_REGION).name,
        general=not (specific or kinds <= {"rent", "keep"}),
        machine_given=options.machine is not None,
        vendor_given=bool(options.vendor),
        # the rent of a GPU includes its machine and electricity
        assumptions=tuple(note for note in notes if owning or note.code not in ("machine", "electricity", "resale")),
    )


def _check_together(options: WhichOptions) -> None:
    """Refuse options that contradict each other."""
    if options.model and options.task:
        raise BadValue("`--model` and `--task` cannot be combined", hint="leave out one of them")
    if options.max_gpus is not None and not 1 <= options.max_gpus <= MOST_IN_A_MACHINE:
        raise BadValue(f"--max-gpus {options.max_gpus} is out of range", hint=f"give a number between 1 and {MOST_IN_A_MACHINE}")
    if options.laptop and options.rent:
        raise BadValue("laptop GPUs cannot be rented", hint="leave out `--laptop` or `--rent`")


def _how_asked(options: WhichOptions, lab: bool, notes: list[Assumption], jobs: Sequence[Job]) -> Asked:
    """How all jobs are run, checked."""
    cpu = options.cpu or (_LAPTOP_CPU if options.laptop else _LAB_CPU if lab else "")
    if cpu and not options.cpu:
        why = "a laptop GPU comes with a laptop CPU" if options.laptop else "the usual kind of host at this budget"
        notes.append(assumed("cpu", cpu, f"{why}; change it with `--cpu`"))
    size = parse_batch(options.batch)
    if size is None and (lab or options.method == "full") and options.model and all(_is_large(job) for job in jobs):
        size = 0
        notes.append(
            assumed(
                "batch", "auto", "the fastest that fits, as many GPUs are used for many tokens at once; use `--batch 8` for 8"
            )
        )
    if options.precision and options.precision not in ("auto", *PRECISIONS):
        raise BadValue(f"unknown precision '{options.precision}'", known=", ".join(PRECISIONS), hint="try `--precision auto`")
    return Asked(
        batch="" if size is None else str(size) if size else "auto",
        precision=options.precision,
        optimizer=options.optimizer,
        image=options.image,
        cpu=cpu,
        stack=options.stack,
        timeout_s=options.timeout,
    )


def _jobs(
    options: WhichOptions, models: Sequence[str], text: LanguageAsked | None, lab: bool, notes: list[Assumption]
) -> tuple[str, tuple[Job, ...]]:
    """Return what to run: the given models, or the jobs of a task."""
    samples = options.samples
    if models:
        made = _made(options, models)
        count = _MADE.get(made, _SAMPLES) if samples is None else amount(samples, "a number of samples", "try `--samples 1e6`")
        if count < 1:
            raise BadValue(f"--samples {count:g} is less than one sample", hint="try `--samples 1e6`")
        unit = _UNITS.get(made, "samples" if text is None else "tokens")
        if made:
            ways = ("usual", "int8", "int4") if made == "images" else ("usual",)
            jobs = tuple(Job(model=name, samples=count, mode="infer", batch=1, ways=ways) for name in models)
        else:
            jobs = tuple(_job(name, count, options) if text is None else language_job(name, count, text) for name in models)
        if samples is None:
            sizes = ", ".join(dict.fromkeys(f"{job.samples:,.0f} {unit}" for job in jobs))
            notes.append(assumed("run", sizes, f"set the number of {unit} per run with `--samples`"))
        if options.seq is None and any(job.seq for job in jobs):
            why = "a common length for fine-tuning, shorter than the full context in `fit` and `predict`; change it with `--seq`"
            notes.append(assumed("seq", str(_TUNED_LENGTH), why))
        return ", ".join(models), jobs
    for option, value in {
        "--samples": samples,
        "--mode": options.mode,
        "--phase": options.phase,
        "--seq": options.seq,
        "--method": options.method,
    }.items():
        if value:
            raise BadValue(
                f"{option} works only with `--model`; a task sets its own value",
                hint=f"try `--model resnet50 {option} {value}`",
            )
    chosen = find_task(options.task or (_LAB_TASK if lab else _DEFAULT_TASK))
    why = "these jobs represent the task; name your own model with `--model`"
    does = "; ".join(f"{job.model}, {job.note}" if job.note else job.model for job in chosen.jobs)
    notes.append(assumed("task" if not options.task else "run", f"{chosen.name}: {does}", why))
    jobs = chosen.jobs
    if text is not None and text.weights:
        jobs = tuple(language_job(job.model, job.samples, text) for job in chosen.jobs)
    return chosen.name, jobs


def _job(name: str, samples: float, options: WhichOptions) -> Job:
    """Return a model by name. Large language models may also run with adapters or packed weights, if the plain way fits
    nowhere.
    """
    method = check_method(options.method)
    mode = options.mode or ("infer" if options.phase else "train")
    if mode not in ("train", "infer"):
        raise BadValue(f"unknown mode '{mode}'", known="train, infer", hint="try `--mode infer`")
    if method and (mode == "infer" or options.phase):
        raise BadValue(f"--method {method} has no effect on inference", hint="leave out `--method`, or use `--mode train`")
    whole = options.samples is None and bool(options.deadline) and mode == "train" and _classifies(name)
    samples = _CLASSIFIED if whole else samples  # nobody sets a deadline for a single epoch
    large = zoo.has(name) and zoo.entry(name).parameters > _TRAINED_IN_FULL_UP_TO
    language = zoo.has(name) and any(stored.phase for stored in zoo.entry(name).graphs)
    ways: tuple[str, ...] = ("checkpoint",) if mode == "train" else ("usual",)
    if method:
        ways = ways if method == "full" else (method,)
    elif language and large:
        ways = (*ways, "lora", "qlora") if mode == "train" else (*ways, "int8", "int4")
    tunes = language and large and mode == "train" and not options.phase
    count, seq = (
        (_TUNED_ON if options.samples is None else samples, options.seq or _TUNED_LENGTH) if tunes else (samples, options.seq)
    )
    note = f"{_CLASSIFIED:,.0f} images, 90 epochs of ImageNet" if whole else ""
    return Job(model=name, samples=count, mode=mode, phase=options.phase, seq=seq, ways=ways, note=note)


def _classifies(name: str) -> bool:
    """Whether a model is an image classifier of those libraries that train them on ImageNet."""
    return zoo.has(name) and zoo.entry(name).source.startswith(("torchvision:", "timm:")) and bool(zoo.entry(name).image)


def _is_large(job: Job) -> bool:
    """Whether a large language model is trained."""
    return job.mode == "train" and zoo.has(job.model) and zoo.entry(job.model).parameters > _TRAINED_IN_FULL_UP_TO


def _made(options: WhichOptions, models: Sequence[str]) -> str:
    """Return what all of these models generate, if that is images or transcripts and they are not trained."""
    kinds = {makes_media(name) for name in models}
    steps = trains(options) or options.phase or options.seq
    return "" if steps or len(kinds) != 1 else kinds.pop()


def _at_once(options: WhichOptions, media: str, notes: list[Assumption]) -> int | None:
    """One GPU for images and transcripts, unless many are wanted: several GPUs make several at once, but none of them sooner."""
    if not media or options.max_gpus is not None or options.samples is not None:
        return None
    effect = "several GPUs do not finish a single image or transcript sooner; use `--samples` or `--max-gpus` if you need many"
    notes.append(assumed("GPUs", "1", effect, code="gpus"))
    return 1


def _find_owned(have: Sequence[str]) -> tuple[tuple[tuple[Gpu, int], ...], list[Assumption]]:
    """What the user has: `2x RTX 2080 Ti` or a name alone."""
    found, notes = [], []
    for text in have:
        count, name = counted(text)
        (gpu,), taken = named_gpus([name])
        notes += taken
        found.append((gpu, count))
    return tuple(found), notes


def _kinds(options: WhichOptions) -> frozenset[str]:
    """Return the allowed options; everything by default."""
    wished = {"buy new": options.buy, "buy used": options.used or options.buy, "rent": options.rent}
    chosen = {kind for kind, wish in wished.items() if wish}
    return frozenset(chosen or wished) | {"keep"}


def _condition(options: WhichOptions) -> str:
    """Return which prices count: of new cards, of used ones, or the newest of either if both or neither are requested."""
    return "any" if options.buy == options.used else "new" if options.buy else "used"


def _budget(budget: float | str | None, currency: Currency) -> float | None:
    if budget is None:
        return None
    hint = "try `--budget 800`, or leave out `--budget` for recommendations at several budgets"
    value = currency.read(budget, "the budget", hint) if isinstance(budget, str) else budget
    return currency.to_usd(amount(value, "the budget", hint))


def _terms(options: WhichOptions, book: PriceBook, owns: bool, lab: bool, notes: list[Assumption]) -> Terms:
    usual, kind = (LAB_USE, "shared cluster") if lab else (DESK_USE, "busy desktop")
    if options.hours_per_week is None:
        effect = f"{usual:.0%} of the time, typical of a {kind}; change it with `--hours-per-week`"
        notes.append(assumed("hours_per_week", f"{WEEK_HOURS * usual:.0f}", effect, overrides=lab))
    if options.years is None:
        notes.append(assumed("years", f"{_YEARS:g}", "change it with `--years`"))
    machine_usd = _machine(book, options.machine, owns, options.laptop, notes)
    watts = options.machine_watts
    if watts is None:
        watts = _MACHINE_WATTS[options.laptop]
        notes.append(
            assumed(
                "machine_watts", f"{watts:.0f} W", "drawn by the rest of the machine under load; change it with `--machine-watts`"
            )
        )
    return Terms(
        utilization=usual if options.hours_per_week is None else utilization_of(_hours(options.hours_per_week)),
        years=_YEARS if options.years is None else years_of(options.years),
        tariff=_tariff(book, options.kwh_price, options.tariff, options.region, notes),
        grid=find_region(options.region or DEFAULT_REGION).grid,
        machine_watts=amount(watts, "a power", "try `--machine-watts 100`", zero=True),
        machine_usd=machine_usd,
        today=book.today,
        resale_fraction=_resale(options, notes),
    )


def _resale(options: WhichOptions, notes: list[Assumption]) -> float | None:
    """Return the resale value as a share of the price; None means the usual loss of value."""
    if options.resale is not None:
        return fraction(options.resale, "a resale share", "--resale", "0.4")
    years = _YEARS if options.years is None else options.years
    new, used = (f"{remaining(years, new=kind):.0%}" for kind in (True, False))
    span = plural(f"{years:g}", "year")
    effect = f"the share of the price that new cards keep after {span}; used cards keep {used}; change it with `--resale`"
    notes.append(assumed("resale", new, effect, basis="fitted"))
    return None


def _hours(per_week: float) -> float:
    return amount(per_week, "the hours of use per week", "try `--hours-per-week 20`")


def _machine(book: PriceBook, given: float | None, owns: bool, laptop: bool, notes: list[Assumption]) -> float:
    """What the rest of the machine costs, in US dollars."""
    if given is not None:
        return book.currency.to_usd(amount(given, "the machine price", "try `--machine 900`", zero=True))
    if laptop:
        return 0.0
    usd = 0.0 if owns else MACHINE_USD
    bought = "the rest of a desktop, counted in the total but not in the upfront cost; use `--machine 0` if you have one"
    shown = book.currency.show(usd)
    notes.append(
        assumed("machine", shown, "new cards go into your existing machine", code="own_machine")
        if owns
        else assumed("machine", shown, bought)
    )
    return usd


def _tariff(book: PriceBook, kwh_price: float | None, tariff: str, region: str, notes: list[Assumption]) -> Tariff:
    if kwh_price is not None and tariff:
        raise BadValue("`--kwh-price` and `--tariff` cannot be combined", hint="leave out one of them")
    rate = book.currency.usd_per_unit
    if tariff:
        return parse_tariff(tariff, usd_per_unit=rate)
    if kwh_price is not None:
        return flat(kwh_price * rate)
    place = find_region(region or DEFAULT_REGION)
    shown = book.currency.show(place.electricity.usd_per_kwh, 3)
    notes.append(
        assumed(
            "electricity",
            f"{shown} per kWh",
            f"household price, {place.name}, {place.electricity.year}; change it with `--kwh-price` or `--region`",
        )
    )
    return of_region(place.electricity)
