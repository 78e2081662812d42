"""Turns the options of `prices` into its question."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import either
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook
from gpuwise.questions.common.options import names
from gpuwise.questions.prices.options import PricesOptions

__all__ = ["PricesQuery", "ask", "wants_refresh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesQuery:
    """GPUs to price (none: every one that has a price), or the regions instead."""

    gpus: tuple[Gpu, ...]
    regions: bool
    book: PriceBook
    assumptions: tuple[Assumption, ...]


def wants_refresh(options: PricesOptions) -> bool:
    """Whether today's rents are to be fetched: `gpuwise prices refresh`."""
    given = names(options.names)
    if not given or given[0].lower() != "refresh":
        return False
    if len(given) > 1:
        raise BadValue(
            f"`gpuwise prices refresh` takes no names, but you gave '{given[1]}'",
            hint="run `gpuwise prices refresh`, then `gpuwise prices NAME`",
        )
    return True


def ask(options: PricesOptions) -> PricesQuery:
    """The GPUs by name, and the prices to use."""
    given = names(options.names)
    if given and options.regions:
        raise BadValue("GPU names and --regions cannot be combined", hint="leave out one of them")
    matches = [(name, load_catalog().find(name)) for name in given]
    notes = [
        assumed(f"gpu '{name}'", match.gpu.name, "it could also be " + either(gpu.name for gpu in match.others), code="gpu_name")
        for name, match in matches
        if match.others
    ]
    gpus = tuple({match.gpu.name: match.gpu for _, match in matches}.values())
    return PricesQuery(
        gpus=gpus,
        regions=options.regions,
        book=PriceBook.of(prices=names(options.price), file=options.prices, currency=options.currency, gpus=gpus),
        assumptions=tuple(notes),
    )
