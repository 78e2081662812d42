"""The cost of owning a GPU from the options of `cost`: its price, the rest of the machine, their power and the resale value."""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import plural, the
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import COOLING, in_server, machine_usd, server_for, servers_of, years_of
from gpuwise.money.currency import amount
from gpuwise.money.estimates import remaining
from gpuwise.money.given import given_price
from gpuwise.money.prices import PriceBook, age_of_machine, is_used, price_now, price_text, resale_usd, used_now
from gpuwise.money.types import Price
from gpuwise.questions.cost.options import CostOptions

__all__ = [
    "YEARS",
    "condition_of",
    "gpu_watts_of",
    "machine_usd_of",
    "machine_watts_of",
    "price_of",
    "resale_usd_of",
]

YEARS = 3.0  # how long a card is usually kept, assumed
_MACHINE_WATTS = 100.0  # CPU, memory, disks and fans of a desktop at work, assumed
_LAPTOP_WATTS = 40.0  # CPU and screen of a laptop at work, assumed


def condition_of(used: bool, new: bool) -> str:
    if used and new:
        raise BadValue("--used and --new cannot be combined", hint="leave out both to use the latest price of either kind")
    return "used" if used else "new" if new else "any"


def price_of(gpu: Gpu, text: str, condition: str, book: PriceBook, notes: list[Assumption]) -> Price | None:
    """`--price 700` is for the GPU in question; `--price "RTX 3090=700"` names it."""
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


def machine_usd_of(
    given: float | None, gpu: Gpu, count: int, price: Price | None, book: PriceBook, notes: list[Assumption]
) -> float:
    if given is not None:
        return book.currency.to_usd(amount(given, "the machine price", "try `--machine 700`", zero=True))
    if gpu.segment == "laptop" or gpu.is_cpu:
        notes.append(
            assumed("rest of the machine", book.currency.show(0.0), "included in the price; use `--machine 700` to add more")
        )
        return 0.0
    age = age_of_machine(gpu, price, book.today)
    usd = machine_usd(gpu, count, age)
    used = f", bought used, about {age:.0f} years old" if age and (count > 2 or in_server(gpu)) else ""
    if in_server(gpu):
        server, servers = server_for(gpu, count), servers_of(gpu, count)
        share = f"{count} of the {server.most_gpus} places in " if servers < 1 else f"{servers:.0f} times " * (servers > 1)
        effect = f"{share}{server.title}{used}; set yours with `--machine`"
        notes.append(assumed("rest of the machine", book.currency.show(usd), effect, overrides=bool(share)))
        return usd
    what = "a plain desktop without a GPU" if count == 1 else f"a machine for {count} cards, without them"
    effect = f"{what}{used}; use `--machine 0` if you already have one"
    notes.append(assumed("rest of the machine", book.currency.show(usd), effect))
    return usd


def resale_usd_of(
    options: CostOptions, price: Price | None, gpu: Gpu, count: int, book: PriceBook, notes: list[Assumption]
) -> float:
    """Return the resale value of all GPUs: the user's value, or by the usual loss of value."""
    if options.resale is not None:
        return book.currency.to_usd(amount(options.resale, "a resale value", "try `--resale 300`", zero=True))
    if price is None:
        return 0.0
    years = YEARS if options.years is None else years_of(options.years)
    usd = resale_usd(gpu, price, years, book.today)
    span = plural(f"{years:g}", "year")
    used, share = used_now(gpu, book.today), remaining(years, new=not is_used(gpu, price, book.today))
    if used is not None and usd < price.usd * share:
        of = f"{remaining(years, new=False):.0%} of today's used price of {book.currency.show(used.usd)} after {span}"
    else:
        of = f"{share:.0%} of the price after {span}, based on the usual loss of value"
    effect = f"{of}; set yours with `--resale 300`"
    notes.append(assumed("resale", book.currency.show(count * usd), effect, basis="fitted"))
    return count * usd


def gpu_watts_of(given: float | None, gpu: Gpu, notes: list[Assumption]) -> float | None:
    if given is not None:
        return amount(given, "a power", "try `--watts 300`")
    if gpu.tdp_watts is not None:
        notes.append(
            assumed(
                "power under load",
                f"{gpu.tdp_watts:g} W",
                "the rated power, although many jobs draw less; set yours with `--watts 280`",
            )
        )
    return gpu.tdp_watts


def machine_watts_of(given: float | None, gpu: Gpu, count: int, notes: list[Assumption]) -> float:
    if given is not None:
        return amount(given, "a power", "try `--machine-watts 100`", zero=True)
    if in_server(gpu):
        server = server_for(gpu, count)
        own = server.watts * servers_of(gpu, count)
        watts = own + COOLING * (own + count * (gpu.tdp_watts or 0.0))
        effect = f"{own:,.0f} W for the server, and cooling adds {COOLING:.0%} of all power; set the sum with `--machine-watts`"
        notes.append(assumed("rest of the machine", f"{watts:,.0f} W", effect))
        return watts
    usual = _LAPTOP_WATTS if gpu.segment == "laptop" else _MACHINE_WATTS
    notes.append(
        assumed(
            "rest of the machine",
            f"{usual:g} W",
            "drawn only during use, because the machine is otherwise off; set yours with `--machine-watts`",
        )
    )
    return usual
