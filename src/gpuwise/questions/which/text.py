"""The answer of `which` as text: the verdict and the options; with `verbose` also why, what was left out, and all assumptions."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from gpuwise.advise.candidates import Candidate, TaskRun
from gpuwise.box.checks import worst
from gpuwise.core.text import plural, the
from gpuwise.core.units import GIB, format_si, format_span
from gpuwise.money.prices import kind_text
from gpuwise.questions.which.ask import WhichQuery
from gpuwise.questions.which.language_paces import LanguagePace, format_rate
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, table, wrapped

__all__ = ["render"]

_MARKS = {"pass": "ok", "tight": "tight", "fail": "see below"}
_OTHERS = 5  # left-out GPUs that are named, of often a hundred
_MOST_LINES = 25  # of a brief answer: a terminal's height
_ITEMS = (
    (3, 3),
    (3, 2),
    (3, 1),
    (2, 1),
    (3, 0),
    (2, 0),
    (1, 1),
    (1, 0),
)  # changes and notes of a brief answer, as far as they fit
_CENT_USD = 0.01


def render(
    answer: WhichAnswer, *, chart: str = "cost", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """The verdict and the options, with as many remarks as a screen holds; everything with `verbose`."""
    wide = min(width or WIDTH, WIDTH)
    blocks = ["\n".join(bold(line, colour=colour) for line in textwrap.wrap(answer.verdict, wide))]
    if answer.options:
        blocks.append(_table(answer, width or (None if verbose else WIDTH), colour))
    if verbose:
        return _join([*blocks, *_details(answer, wide)])
    said = [wrapped(line, wide, "  ") for line in folded(answer.assumptions, verbose=False)]
    texts = (_join([*blocks, *_remarks(answer, wide, notes, changes), *said]) for changes, notes in _ITEMS)
    return next((text for text in texts if text.count("\n") < _MOST_LINES), _join([*blocks, *said]))


def _join(blocks: list[str]) -> str:
    return "\n\n".join(block for block in blocks if block)


def _remarks(answer: WhichAnswer, width: int, notes: int, changes: int) -> list[str]:
    """The first few of each kind; what would change the recommendation matters more than notes."""
    return [
        _list("Notes", _notes(answer)[:notes], width),
        _list("With memory savings", [text for _, text in answer.remedied][: min(1, notes + changes)], width),
        _list("What would change this", list(answer.changes_if)[:changes], width),
    ]


def _details(answer: WhichAnswer, width: int) -> list[str]:
    return [
        _list("How the total adds up", [_sum(answer, answer.best)] if answer.best else [], width),
        _list("Notes", _notes(answer), width),
        _list("With memory savings", [text for _, text in answer.remedied], width),
        _list("What would change this", list(answer.changes_if), width),
        _list("Left out", [f"{name}: {reason}" for name, reason in answer.rejected[:_OTHERS]], width),
        _list("Assumptions", [f"{note.name} = {note.value} ({note.effect})" for note in answer.assumptions], width),
        f"Rental prices are from {answer.data_date.isoformat()}.",
    ]


def _table(answer: WhichAnswer, width: int | None, colour: bool) -> str:
    query = answer.query
    show = query.book.currency.show
    options = answer.options
    several = len({option.kind for option in options}) > 1
    by_cost = query.limits.budget_usd is None  # then the cost per run decides, and its column must stay
    columns = [
        Column(title="  option", cells=[f"{_mark(answer, option)} {option.short_name}" for option in options], right=False),
        Column(title="how", cells=[option.kind for option in options], right=False, drop=0 if several else 6),
        Column(title="memory", cells=[_memory(option) for option in options], drop=1),
        Column(title="free", cells=[_free(option) for option in options], drop=7),
        Column(title=_timed(query), cells=[_run(option, _count(query)) for option in options]),
        Column(title="range", cells=[_range(option, _count(query)) for option in options], drop=3),
        Column(title="upfront", cells=[_money(show, option.upfront_usd) for option in options]),
        Column(
            title=f"{query.terms.years:g}-year total",
            cells=[_money(show, option.total_usd) for option in options],
            drop=4 if by_cost else 2,
        ),
        Column(
            title="cost per run" if not query.text else "per 1M tokens",
            cells=[_money(show, _each(option) if query.text else option.usd_per_run) for option in options],
            drop=2 if by_cost else 4,
        ),
        Column(title="CO2", cells=[f"{option.kg_co2e:,.0f} kg" for option in options], drop=8),
        Column(title="build", cells=[_build(answer, option) for option in options], right=False, drop=5),
    ]
    return table(columns, width=width, colour=colour)


def _mark(answer: WhichAnswer, option: Candidate) -> str:
    return ">" if option is answer.best else " "


def _memory(option: Candidate) -> str:
    """Of each GPU; of all, if they are of different kinds."""
    cards = [gpu for gpu, count in option.run.parts for _ in range(count)] if option.run.beside else [option.gpu]
    return f"{'+'.join(f'{gpu.memory_bytes / GIB:.0f}' for gpu in cards)} GB"


def _free(option: Candidate) -> str:
    if not option.run.fits:
        return "none"
    return f"{(option.run.paces[0].usable_bytes - option.run.needed_bytes) / GIB:.1f} GiB"


def _timed(query: WhichQuery) -> str:
    """The unit of speed: people count tokens per second, and how long an image takes."""
    if query.text:
        return "tokens/s"
    return (
        {"images": "per image", "windows": "per 30 s"}.get(query.media, "time per run")
        if len(query.jobs) == 1
        else "time per run"
    )


def _count(query: WhichQuery) -> float:
    """What a time of all jobs is divided by to be what `_timed` says."""
    return query.jobs[0].samples if query.media and len(query.jobs) == 1 else 1.0


def _run(option: Candidate, count: float) -> str:
    if not option.run.fits:
        return "does not fit"
    return format_rate(option.run.samples_per_s) if _writes(option.run) else format_si(option.run.seconds / count, "s")


def _each(option: Candidate) -> float | None:
    """US dollars for a million tokens."""
    return option.usd_per_million_samples if option.run.fits else None


def _writes(run: TaskRun) -> bool:
    return isinstance(run.paces[0], LanguagePace)


def _range(option: Candidate, count: float) -> str:
    if not option.run.fits:
        return "-"
    run = option.run
    if _writes(run):
        return f"{format_rate(run.samples_per_s / run.high)} to {format_rate(run.samples_per_s / run.low)}"
    each = run.seconds / count
    return format_span(each * run.low, each * run.high, "s", like=each)


def _money(show: Callable[[float], str], usd: float | None) -> str:
    return "-" if usd is None else show(usd)


def _sum(answer: WhichAnswer, option: Candidate) -> str:
    """The parts of the total cost, in the user's numbers."""
    show, terms = answer.query.book.currency.show, answer.query.terms
    if option.total_usd is None:
        return f"no price is published for {the(option.name)}"
    machine = option.machine_usd or 0.0
    several = f"{option.bought_count} x " if option.bought_count > 1 else ""
    if option.rent is not None:
        parts = [f"{several}{show(option.rent.usd_per_gpu_hour)}/h x {terms.hours:,.0f} h"]
    else:
        parts = [f"{several}{show(option.price.usd)} ({kind_text(option.price)})"] if option.price else []
        parts += [f"{show(machine)} for the rest of the machine"] if machine > _CENT_USD else []
        rate = (
            ""
            if option.usd_per_kwh is None
            else f" x {show(option.usd_per_kwh, 3)}{'' if terms.tariff.is_flat else ' on average'}"
        )
        parts.append(f"{option.energy_kwh:,.0f} kWh{rate}")
        parts[-1] += f" - {show(option.resale_usd)} resale" if option.resale_usd > _CENT_USD else ""
    horizon = plural(f"{terms.years:g}", "year")
    return f"{horizon} of {the(option.name)}: {' + '.join(parts)} = {show(option.total_usd)}"


def _build(answer: WhichAnswer, option: Candidate) -> str:
    lines = answer.build.get(option.key)
    if lines is None:
        return "-"
    found = worst(lines)
    first, *more = dict.fromkeys(line.check for line in lines if line.verdict == found)
    others = f" +{len(more)}" if more else ""
    return f"{_MARKS[found]}: {first}{others}" if found == "tight" else _MARKS[found]


def _notes(answer: WhichAnswer) -> list[str]:
    """Remarks on single options; one that concerns several is made once."""
    found: dict[str, list[str]] = {}
    for option in answer.options:
        for reason in answer.reasons.get(option.key, ()):
            if reason != "the verdict":
                found.setdefault(reason, []).append(option.short_name)
    every = len(answer.options)
    return [f"{'all' if len(names) == every > 1 else ', '.join(names)}: {reason}" for reason, names in found.items()]


def _list(title: str, lines: list[str], width: int) -> str:
    """A heading and its lines, wrapped."""
    if not lines:
        return ""
    filled = [textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines]
    return "\n".join([f"{title}:", *filled])
