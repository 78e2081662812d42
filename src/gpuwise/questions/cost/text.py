"""The answer of `cost` as text: a verdict, both ways to pay, where they break even, and the arithmetic with the user's
numbers.
"""

from __future__ import annotations

from gpuwise.core.text import the
from gpuwise.core.units import format_si
from gpuwise.money.costs import WEEK_HOURS, Ownership, Rental
from gpuwise.money.prices import kind_text, price_text
from gpuwise.questions.cost.token_text import token_rows
from gpuwise.questions.cost.types import BreakEven, CostAnswer, JobCost
from gpuwise.questions.cost.words import breaks_even, days, is_tie, share, years
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_NARROWEST = 30  # columns for a sentence, however narrow the terminal is
_SAME_SPEED = 0.01  # a smaller difference is not told
_WAYS = {"on-demand": "rent", "spot": "rent, spot", "commitment": "rent, committed"}


def render(answer: CostAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The verdict, the cost of each way, and where they cross; with `verbose` also the formulas and all assumptions."""
    query = answer.query
    count = f"{query.gpu_count} x " if query.gpu_count > 1 else ""
    use = f"in use {share(query.utilization)} of the time ({query.utilization * WEEK_HOURS:.3g} h per week)"
    head = f"{bold(count + query.gpu.name, colour=colour)}  {use} for {years(query.years)}"
    blocks = [head, wrapped(f"  {answer.verdict}", width, "  "), _parts(answer, width, verbose)]
    if answer.break_evens:
        blocks.append(_table(answer, width or WIDTH, colour))
    if verbose:
        blocks.append("\n".join([bold("  Formulas", colour=colour), *(f"  {line}" for line in _formulas(answer))]))
    notes = [*(f"warning: {text}" for text in answer.warnings), *folded(answer.assumptions, verbose=verbose)]
    return "\n\n".join(blocks) + join_notes([wrapped(note, width, "  ") for note in notes])


def _parts(answer: CostAnswer, width: int | None, verbose: bool) -> str:
    """A line for each part: what it is, how much it costs, and what it consists of."""
    query, show = answer.query, answer.query.book.currency.show
    rows: list[tuple[str, str, str]] = []
    owned = answer.ownership
    if owned is not None:
        rows += _own_rows(answer, owned)[: None if verbose else 1]
    for rental in answer.rentals:
        label = query.rent.label if query.rent else ""
        what = f"{show(rental.usd_per_gpu_hour)} per hour, {label}" if rental.way == "on-demand" else _other_way(answer, rental)
        what += _paid_hours(answer, rental) if rental.way == "on-demand" else ""
        rows.append((_WAYS[rental.way], show(rental.total_usd), what))
    if answer.market is not None and len(answer.market.clouds) > 1:
        rows.append(("clouds", show(answer.market.usd_per_gpu_hour), _market(answer)))
    if answer.here is not None:
        without = f"{days(answer.here.days_without_electricity)} without electricity"
        if query.resale_usd:
            without = f"with the resale value; {days(answer.here.days)} without it"
        rows.append(("break-even", days(answer.here.days_with_resale), f"at {share(query.utilization)} utilisation, {without}"))
    rows += _other_prices(answer, verbose=verbose)
    if answer.co2e_kg is not None and owned is not None:
        grid = query.region.grid
        of = f"{answer.co2e_kg / query.years:,.0f} kg per year; {grid.region}, {grid.kg_per_kwh:.3g} kg per kWh"
        rows.append(("carbon", f"{answer.co2e_kg:,.0f} kg", f"CO2e, {of}"))
    if answer.job is not None:
        rows += _job(answer, answer.job)
    if answer.tokens is not None:
        rows += token_rows(answer, answer.tokens, verbose=verbose)
    wide = max(len(name) for name, _, _ in rows)
    amounts = max(len(amount) for _, amount, _ in rows)
    return "\n".join(_row(f"  {name.ljust(wide)}  {amount.rjust(amounts)}  ", text, width) for name, amount, text in rows)


def _paid_hours(answer: CostAnswer, rental: Rental) -> str:
    """How long another GPU takes for the same work."""
    if abs(answer.speed - 1) < _SAME_SPEED or answer.query.rent is None:
        return ""
    name = the(answer.query.rent.gpu.name)
    return f"; {name} is {answer.speed:.2f} times as fast, so the work takes {rental.hours_used:,.0f} h"


def _row(head: str, text: str, width: int | None) -> str:
    """Text that does not fit on the line continues below its own beginning."""
    lines = wrapped(text, max(_NARROWEST, (width or WIDTH) - len(head))).splitlines()
    return f"\n{' ' * len(head)}".join([head + "".join(lines[:1]), *lines[1:]]).rstrip()


def _own_rows(answer: CostAnswer, owned: Ownership) -> list[tuple[str, str, str]]:
    show = answer.query.book.currency.show
    resale = f" - resale {show(owned.resale_usd)}" if owned.resale_usd else ""
    price = answer.query.price
    of = f" ({kind_text(price)})" if price is not None else ""
    parts = (
        f"GPU {show(owned.gpu_usd)}{of} + machine {show(owned.machine_usd)} + electricity {show(owned.electricity_usd)}{resale}"
    )
    hour = f"; {show(owned.usd_per_hour)} per hour of use" if owned.usd_per_hour is not None else ""
    year = f"per year, {owned.energy_kwh_per_year:,.0f} kWh"
    return [("own", show(owned.total_usd), parts + hour), ("electricity", show(owned.electricity_usd_per_year), year)]


def _other_prices(answer: CostAnswer, *, verbose: bool) -> list[tuple[str, str, str]]:
    """The same card in another condition."""
    query = answer.query
    rows = []
    for price, after in answer.other_prices:
        word = "used" if price.kind == "used" else "new"
        there = f"; {breaks_even(after)}" if answer.here is not None else ""
        described = f"{price_text(price, query.book.today)}{there}"
        each = " each" if query.gpu_count > 1 else ""
        rows.append(
            (
                f"price, {word}",
                f"{query.book.currency.show(price.usd)}{each}",
                described + (f"; use `--{word}`" if verbose else ""),
            )
        )
    return rows


def _other_way(answer: CostAnswer, rental: Rental) -> str:
    hour = answer.query.book.currency.show(rental.usd_per_gpu_hour)
    if rental.way == "spot":
        return f"{hour} per hour; spot instances can be interrupted, so save checkpoints"
    return f"{hour} for every hour of {years(answer.query.years)}, used or not"


def _market(answer: CostAnswer) -> str:
    """Return what clouds charge for the rented GPU, and when owning pays off at their median, if that is not said elsewhere."""
    found, show = answer.market, answer.query.book.currency.show
    if found is None:
        return ""
    between = (
        f"{show(found.low_usd_per_gpu_hour)} ({found.clouds[0]}) to {show(found.high_usd_per_gpu_hour)} ({found.clouds[-1]})"
    )
    asked, there = answer.query.rent, ""
    if answer.ownership is not None and asked is not None and not asked.is_median:
        there = f"; {breaks_even(answer.market_break_even_days)}"
    of = "" if asked is not None and asked.is_median else f"median of {len(found.clouds)} clouds, "  # the rent says it too
    return f"per hour, {of}{between}, {found.dated}{there}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _job(answer: CostAnswer, job: JobCost) -> list[tuple[str, str, str]]:
    show = answer.query.book.currency.show
    spread = f" ({_hours(job.hours_low)} to {_hours(job.hours_high)})" if job.hours_low < job.hours_high else ""
    name = f"{job.model}: " if job.model else ""
    used = (
        f", {_digits(job.energy_kwh)} kWh, {_digits(job.co2e_kg)} kg CO2e"
        if job.energy_kwh is not None and job.co2e_kg is not None
        else ""
    )
    rows = []
    if job.own_usd is not None and job.electricity_usd is not None:
        of = f"{name}{_hours(job.hours)}{spread}{used}"
        rows.append(("one job, own", show(job.own_usd), of))
    if job.rent_usd is not None:
        rows.append(("one job, rent", show(job.rent_usd), f"{name}{_hours(job.rent_hours)} on {_rented_name(answer)}"))
    return rows


def _rented_name(answer: CostAnswer) -> str:
    query = answer.query
    count = f"{query.gpu_count} x " if query.gpu_count > 1 else ""
    return f"{count}{query.rent.gpu.name if query.rent else query.gpu.name}"


def _hours(value: float) -> str:
    return format_si(3600 * value, "s")


def _table(answer: CostAnswer, width: int | None, colour: bool) -> str:
    rows, show = answer.break_evens, answer.query.book.currency.show

    def cell(row: BreakEven) -> str:
        if is_tie(row.own_usd, row.rent_usd):
            return "same"
        return "own" if row.own_usd < row.rent_usd else "rent"

    mine = [row.utilization == answer.query.utilization for row in rows]
    horizon = years(answer.query.years)
    columns = [
        Column(
            title="  in use",
            cells=[f"{'>' if own else ' '} {share(row.utilization)}" for row, own in zip(rows, mine, strict=True)],
        ),
        Column(title="hours per week", cells=[f"{row.utilization * WEEK_HOURS:.3g}" for row in rows], drop=2),
        Column(title=f"own, {horizon}", cells=[show(row.own_usd) for row in rows]),
        Column(title=f"rent, {horizon}", cells=[show(row.rent_usd) for row in rows]),
        Column(title="break-even", cells=[days(row.days_with_resale) for row in rows]),
        _without(answer),
        Column(title="cheaper", cells=[cell(row) for row in rows], right=False),
    ]
    return table(columns, width=width, colour=colour)


def _without(answer: CostAnswer) -> Column:
    """Return when owning breaks even without the least certain part: the resale value or, if there is none, electricity."""
    if answer.query.resale_usd:
        return Column(title="without resale", cells=[days(row.days) for row in answer.break_evens], drop=1)
    cells = [days(row.days_without_electricity) for row in answer.break_evens]
    return Column(title="without electricity", cells=cells, drop=1)


# ---------------------------------------------------------------- formulas


def _formulas(answer: CostAnswer) -> list[str]:
    query, owned, show = answer.query, answer.ownership, answer.query.book.currency.show
    lines = []
    if owned is not None:
        lines += _own_formulas(answer, owned)
    chosen = answer.chosen
    if chosen is not None:
        faster = f" / {answer.speed:.3g} (relative speed)" if answer.speed != 1.0 else ""
        count = f"{query.gpu_count} x " if query.gpu_count > 1 else ""
        hours = f"{query.utilization * 8760 * query.years:,.0f} h{faster}"
        lines.append(f"rent         {count}{show(chosen.usd_per_gpu_hour)}/h x {hours} = {show(chosen.total_usd)}")
    if owned is not None and chosen is not None and answer.here is not None:
        hourly = query.gpu_count * chosen.usd_per_gpu_hour / answer.speed
        saved = f"{show(hourly)} - {show(owned.electricity_usd_per_hour, 3)}"
        up = f"({show(owned.upfront_usd)} - {show(owned.resale_usd)})" if owned.resale_usd else show(owned.upfront_usd)
        after = days(answer.here.days_with_resale)
        lines.append(f"break-even   {up} / (24 h x {share(query.utilization)} x ({saved})) = {after}")
    if owned is not None and answer.co2e_kg is not None:
        kilos = f"{query.region.grid.kg_per_kwh:.3g} kg = {answer.co2e_kg:,.0f} kg CO2e"
        lines.append(f"carbon       {owned.energy_kwh:,.0f} kWh x {kilos}")
    return lines


def _own_formulas(answer: CostAnswer, owned: Ownership) -> list[str]:
    query, show = answer.query, answer.query.book.currency.show
    count = f"{query.gpu_count} x " if query.gpu_count > 1 else ""
    watts = f"({count}{query.gpu_watts:g} + {query.machine_watts:g} W)"
    rate = show(query.tariff.tiers[0][1], 3) if query.tariff.is_flat else f"tiers ({_tiers(answer)})"
    resale = f" - {show(owned.resale_usd)}" if owned.resale_usd else ""
    total = f"{show(owned.gpu_usd)} + {show(owned.machine_usd)} + {show(owned.electricity_usd)}{resale} = {show(owned.total_usd)}"
    span = f"{share(query.utilization)} x 8,760 h x {years(query.years)}"
    return [
        f"energy       {watts} x {span} = {owned.energy_kwh:,.0f} kWh",
        f"electricity  {owned.energy_kwh:,.0f} kWh x {rate} = {show(owned.electricity_usd)}",
        f"own          {total}",
    ]


def _tiers(answer: CostAnswer) -> str:
    """`$0.100 up to 200 kWh per month, then $0.437`, and what a household uses first."""
    found, show = answer.query.tariff, answer.query.book.currency.show
    steps = [f"{show(rate, 3)} up to {upper:g} kWh per month" for upper, rate in found.tiers[:-1]]
    base = f", on top of {found.household_kwh_per_month:g} kWh of household use" if found.household_kwh_per_month else ""
    return ", ".join([*steps, f"then {show(found.tiers[-1][1], 3)}"]) + base
