"""The answer of `which` as text: the verdict, the options, what would change it, why not the others, what it rests on."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from gpuwise.advise.options import Option
from gpuwise.box.checks import worst
from gpuwise.core.units import GIB, format_si, format_span
from gpuwise.money.age import kind_text
from gpuwise.questions.which.types import WhichAnswer
from gpuwise.render.text import Column, bold, table

__all__ = ["render"]

_MARKS = {"pass": "ok", "tight": "tight", "fail": "see below"}
_OTHERS = 5
_WIDTH = 120
_CENT_USD = 0.01


def render(
    answer: WhichAnswer, *, chart: str = "cost", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """As much as fits a screen."""
    wide = min(width or _WIDTH, _WIDTH)
    blocks = ["\n".join(bold(line, colour=colour) for line in textwrap.wrap(answer.verdict, wide))]
    if answer.options:
        blocks.append(_table(answer, width, colour))
    blocks += [
        _list("how it is worked out", [_sum(answer, answer.best)] if answer.best else [], wide),
        _list("to know", _remarks(answer), wide),
        _list("with remedies", [text for _, text in answer.remedied], wide),
        _list("would change it", list(answer.changes_if), wide),
        _list("left out", [f"{name}: {reason}" for name, reason in answer.rejected[:_OTHERS]], wide),
        _list("rests on", [f"{note.name} = {note.value} ({note.effect})" for note in answer.assumptions], wide),
        f"prices to rent of {answer.data_date.isoformat()}",
    ]
    return "\n\n".join(block for block in blocks if block)


def _table(answer: WhichAnswer, width: int | None, colour: bool) -> str:
    query = answer.query
    show = query.book.currency.show
    options = answer.options
    several = len({option.kind for option in options}) > 1
    columns = [
        Column(title="  option", cells=[f"{_mark(answer, option)} {option.name}" for option in options], right=False),
        Column(title="how", cells=[option.kind for option in options], right=False, drop=0 if several else 6),
        Column(title="memory", cells=[f"{option.gpu.memory_bytes / GIB:.0f} GB" for option in options]),
        Column(title="free", cells=[_free(option) for option in options], drop=5),
        Column(title="a run", cells=[_run(option) for option in options]),
        Column(title="range", cells=[_range(option) for option in options], drop=2),
        Column(title="upfront", cells=[_money(show, option.upfront_usd) for option in options]),
        Column(title=f"{query.terms.years:g} years", cells=[_money(show, option.total_usd) for option in options], drop=1),
        Column(title="per run", cells=[_money(show, option.usd_per_run) for option in options], drop=3),
        Column(title="CO2", cells=[f"{option.kg_co2e:,.0f} kg" for option in options], drop=4),
        Column(title="build", cells=[_build(answer, option) for option in options], right=False, drop=4),
    ]
    return table(columns, width=width, colour=colour)


def _mark(answer: WhichAnswer, option: Option) -> str:
    return ">" if option is answer.best else " "


def _free(option: Option) -> str:
    if not option.run.fits:
        return "none"
    return f"{(option.run.paces[0].usable_bytes - option.run.needed_bytes) / GIB:.1f} GiB"


def _run(option: Option) -> str:
    return format_si(option.run.seconds, "s") if option.run.fits else "does not fit"


def _range(option: Option) -> str:
    if not option.run.fits:
        return "-"
    run = option.run
    return format_span(run.seconds * run.low, run.seconds * run.high, "s")


def _money(show: Callable[[float], str], usd: float | None) -> str:
    return "-" if usd is None else show(usd)


def _sum(answer: WhichAnswer, option: Option) -> str:
    """What the whole cost is made of, in the user's numbers."""
    show, terms = answer.query.book.currency.show, answer.query.terms
    if option.total_usd is None:
        return f"{option.name}: nobody published its price"
    machine = option.machine_usd or 0.0
    several = f"{option.gpu_count} x " if option.gpu_count > 1 else ""
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
    horizon = f"{terms.years:g} year{'' if terms.years == 1 else 's'}"
    return f"{horizon} of {option.name}: {' + '.join(parts)} = {show(option.total_usd)}"


def _build(answer: WhichAnswer, option: Option) -> str:
    lines = answer.build.get(option.key)
    if lines is None:
        return "-"
    found = worst(lines)
    first, *more = dict.fromkeys(line.check for line in lines if line.verdict == found)
    others = f" +{len(more)}" if more else ""
    return f"{_MARKS[found]}: {first}{others}" if found == "tight" else _MARKS[found]


def _remarks(answer: WhichAnswer) -> list[str]:
    """What is to be known of single options, those of several told once."""
    found: dict[str, list[str]] = {}
    for option in answer.options:
        for reason in answer.reasons.get(option.key, ()):
            if reason != "the verdict":
                found.setdefault(reason, []).append(option.name)
    every = len(answer.options)
    return [f"{'all' if len(names) == every > 1 else ', '.join(names)}: {reason}" for reason, names in found.items()]


def _list(title: str, lines: list[str], width: int) -> str:
    """A heading and its lines, wrapped."""
    if not lines:
        return ""
    wrapped = [textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines]
    return "\n".join([f"{title}:", *wrapped])
