"""Price lists as text, each price with its date."""

from __future__ import annotations

from gpuwise.core.provenance import Basis
from gpuwise.core.text import plural
from gpuwise.money.prices import age_text, is_stale, kind_text, price_text
from gpuwise.money.types import Price, Trend
from gpuwise.questions.prices.answer import GpuPrices, PricesAnswer, RefreshAnswer
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render", "render_refresh"]

_MARKETPLACES = "marketplaces often charge a quarter to half as much as large clouds, but offer fewer guarantees"
_MOST_OFFERS = 12  # of a brief answer


def render(answer: PricesAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """One GPU with all its offers, a table of GPUs, or the regions."""
    if answer.regions:
        return _regions(answer, width, colour)
    alone = len(answer.rows) == 1
    body = _sheet(answer, answer.rows[0], width, colour, verbose) if alone else _list(answer, width or WIDTH, colour)
    shown = alone and any(offer.kind == "marketplace" for offer in answer.rows[0].offers)
    notes = [_describe_date(answer), *([_MARKETPLACES] if shown else []), *folded(answer.assumptions, verbose=verbose)]
    return body + join_notes([wrapped(note, width, "  ") for note in notes])


def _describe_date(answer: PricesAnswer) -> str:
    day, now = answer.data_date, answer.book.today
    stale = "; `gpuwise prices refresh` fetches today's prices" if is_stale(day, "rent", now) else ""
    return f"rental prices from {day}, {age_text(day, now)}{stale}"


def _buy(row: GpuPrices, answer: PricesAnswer) -> tuple[str, str]:
    if row.price is None:
        return "-", ""
    what = "yours" if row.price.kind == "given" else kind_text(row.price).replace(" price of", "")
    return answer.book.currency.show(row.price.usd), what


def _list(answer: PricesAnswer, width: int | None, colour: bool) -> str:
    rows, show = answer.rows, answer.book.currency.show

    def rent(row: GpuPrices, field: str) -> str:
        value = None if row.rent is None else getattr(row.rent, field)
        return "-" if value is None else show(value, 2)

    columns = [
        Column(title="GPU", cells=[row.gpu.name for row in rows], right=False),
        Column(title="buy", cells=[_buy(row, answer)[0] for row in rows]),
        Column(title="date", cells=[_buy(row, answer)[1] for row in rows], right=False, drop=2),
        Column(title="rent per hour", cells=[rent(row, "usd_per_gpu_hour") for row in rows]),
        Column(title="lowest", cells=[rent(row, "low_usd_per_gpu_hour") for row in rows]),
        Column(title="highest", cells=[rent(row, "high_usd_per_gpu_hour") for row in rows], drop=1),
        Column(title="spot", cells=[rent(row, "spot_usd_per_gpu_hour") for row in rows], drop=3),
        Column(title="clouds", cells=[str(len(row.rent.clouds)) if row.rent else "-" for row in rows], drop=4),
    ]
    return table(columns, width=width, colour=colour)


def _sheet(answer: PricesAnswer, row: GpuPrices, width: int | None, colour: bool, verbose: bool) -> str:
    show = answer.book.currency.show
    lines = [bold(row.gpu.name, colour=colour), ""]
    if row.price is None:
        lines.append("  buy   no price is known; set yours with `--price`")
    else:
        every = dict.fromkeys(price for price in (row.price, row.new, row.used) if price is not None)
        first, *others = (_describe_price(price, answer, verbose) for price in every)
        lines += [f"  buy   {first}", *(f"        {other}" for other in others)]
    if row.rent is None:
        return "\n".join([*lines, "  rent  no cloud in the price tables offers this GPU"])
    clouds = "one cloud" if len(row.rent.clouds) == 1 else f"the median of {len(row.rent.clouds)} clouds"
    between = f"{show(row.rent.low_usd_per_gpu_hour)} to {show(row.rent.high_usd_per_gpu_hour)}"
    lines.append(f"  rent  {show(row.rent.usd_per_gpu_hour)} per hour, {clouds}, {between}")
    if row.trend is not None:
        lines.append(f"        {_trend(row.trend, answer)}")
    offers = row.offers if verbose else row.offers[:_MOST_OFFERS]
    left = len(row.offers) - len(offers)
    columns = [
        Column(title="  cloud", cells=[f"  {offer.cloud}" for offer in offers], right=False),
        Column(title="per hour", cells=[show(offer.usd_per_gpu_hour, 2) for offer in offers]),
        Column(title="lowest", cells=[show(offer.low_usd_per_gpu_hour, 2) for offer in offers]),
        Column(title="spot", cells=[_or_dash(offer.spot_usd_per_gpu_hour, answer) for offer in offers]),
        Column(title="date", cells=[offer.dated.isoformat() for offer in offers], right=False),
        Column(title="note", cells=[offer.note for offer in offers], right=False, drop=1),
    ]
    more = [f"  {left} more expensive offer{' is' if left == 1 else 's are'} not shown; `-v` lists all"] if left else []
    return "\n".join([*lines, "", table(columns, width=width or WIDTH, colour=colour), *more])


def _describe_price(price: Price, answer: PricesAnswer, verbose: bool) -> str:
    """An amount, its range, what it is and how old; with `verbose` its source."""
    show = answer.book.currency.show
    between = f" ({show(price.low_usd)} to {show(price.high_usd)})" if price.low_usd < price.high_usd else ""
    source = f"; {price.source}" if verbose and price.kind != "given" else ""
    return f"{show(price.usd)}{between}, {price_text(price, answer.book.today)}{source}"


def _or_dash(value: float | None, answer: PricesAnswer) -> str:
    return "-" if value is None else answer.book.currency.show(value, 2)


def _trend(found: Trend, answer: PricesAnswer) -> str:
    show = answer.book.currency.show
    change = found.last_usd_per_gpu_hour / found.first_usd_per_gpu_hour - 1
    first, last = show(found.first_usd_per_gpu_hour), show(found.last_usd_per_gpu_hour)
    same = found.first_clouds == found.last_clouds
    clouds = f"{plural(str(found.last_clouds), 'cloud')}{' on both dates' if same else f', {found.first_clouds} before'}"
    return f"median cloud price: {first} in {found.first:%Y-%m}, {last} in {found.last:%Y-%m} ({change:+.0%}; {clouds})"


def _regions(answer: PricesAnswer, width: int | None, colour: bool) -> str:
    regions, show = answer.regions, answer.book.currency.show
    marks = ["*" if region.electricity.basis is Basis.ASSUMED else "" for region in regions]
    grids = ["*" if region.grid.basis is Basis.ASSUMED else "" for region in regions]
    columns = [
        Column(title="region", cells=[region.name for region in regions], right=False),
        Column(title="also", cells=[", ".join(region.aliases) for region in regions], right=False, drop=2),
        Column(title="per kWh", cells=[show(r.electricity.usd_per_kwh, 3) + m for r, m in zip(regions, marks, strict=True)]),
        Column(title="year", cells=[str(region.electricity.year) for region in regions], drop=1),
        Column(title="kg CO2e per kWh", cells=[f"{r.grid.kg_per_kwh:.3f}{m}" for r, m in zip(regions, grids, strict=True)]),
        Column(title="year ", cells=[str(region.grid.year) for region in regions], drop=1),
    ]
    sources = dict.fromkeys(
        source
        for region in regions
        for source, basis in ((region.grid.source, region.grid.basis), (region.electricity.source, region.electricity.basis))
        if basis is not Basis.ASSUMED
    )
    notes = [
        "* assumed: a rounded estimate; set yours with `--kwh-price`",
        *(f"source: {one}" for one in sources),
    ]
    return table(columns, width=width, colour=colour) + join_notes(notes)


def render_refresh(answer: RefreshAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """What was fetched."""
    found = answer.refreshed
    lines = [
        f"{found.offers:,} offers for {found.gpus} GPUs from {plural(str(len(found.clouds)), 'cloud')}, saved to {found.path}"
    ]
    if found.unknown:
        names = ", ".join(sorted(found.unknown, key=lambda name: -found.unknown[name])[:8])
        lines.append(f"left out because they are not in the catalogue: {names}")
    return "\n".join(lines)
