"""The cost of owning a GPU from the options of `cost`: its price, the rest of the machine, their power and the resale value."""

from __future__ import annotations

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu
from gpuwise.money.costs import COOLING, MACHINE_USD, in_server, more_machine_usd, server_for, years_of
from gpuwise.money.currency import amount
from gpuwise.money.estimates import remaining
from gpuwise.money.given import given_price
from gpuwise.money.prices import PriceBook, price_now, price_text, sold_new
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
    "usual_resale_usd",
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


def machine_usd_of(given: float | None, gpu: Gpu, count: int, book: PriceBook, notes: list[Assumption]) -> float:
    if given is not None:
        return book.currency.to_usd(amount(given, "the machine price", "try `--machine 700`", zero=True))
    if gpu.segment == "laptop" or gpu.is_cpu:
        notes.append(
            assumed("rest of the machine", book.currency.show(0.0), "included in the price; use `--machine 700` to add more")
        )
        return 0.0
    if in_server(gpu):
        server, servers = server_for(gpu), _servers_of(gpu, count)
        usd = server.usd * servers
        share = f"{count} of the {server.most_gpus} places in " if servers < 1 else ""
        effect = f"{share}{server.title}; set yours with `--machine`"
        notes.append(assumed("rest of the machine", book.currency.show(usd), effect, overrides=bool(share)))
        return usd
    usd = MACHINE_USD + more_machine_usd(count)
    what = "a plain desktop without a GPU" if count == 1 else f"a machine for {count} cards, without them"
    effect = f"{what}; use `--machine 0` if you already have one"
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
    share = _resale_share(price, gpu, years, book)
    usd = usual_resale_usd(price, gpu, count, years, book)
    span = f"{years:g} year{'' if years == 1 else 's'}"
    effect = f"{share:.0%} of the price after {span}, the usual loss of value; set yours with `--resale 300`"
    notes.append(assumed("resale", book.currency.show(usd), effect, basis="fitted"))
    return usd


def usual_resale_usd(price: Price, gpu: Gpu, count: int, years: float, book: PriceBook) -> float:
    """Return the value of this many GPUs of this price after these years."""
    return count * price.usd * _resale_share(price, gpu, years, book)


def _resale_share(price: Price, gpu: Gpu, years: float, book: PriceBook) -> float:
    return remaining(years, new=price.kind in ("new", "launch") or (price.kind == "given" and sold_new(gpu, book.today)))


def gpu_watts_of(given: float | None, gpu: Gpu, notes: list[Assumption]) -> float | None:
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


def machine_watts_of(given: float | None, gpu: Gpu, count: int, notes: list[Assumption]) -> float:
    if given is not None:
        return amount(given, "a power", "try `--machine-watts 100`", zero=True)
    if in_server(gpu):
        server = server_for(gpu)
        own = server.watts * _servers_of(gpu, count)
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


def _servers_of(gpu: Gpu, count: int) -> float:
    """Return how many servers these GPUs take: fewer modules than a board has take a share of one, as nobody sells less."""
    most = server_for(gpu).most_gpus
    return count / most if gpu.cooler == "module" and count < most else -(-count // most)
