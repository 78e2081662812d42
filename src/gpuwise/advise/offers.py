"""How other GPUs are available: what `fit` proposes instead of a GPU that is too small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwise.advise.candidates import price_for, rentable, served
from gpuwise.hardware.types import Gpu
from gpuwise.money.prices import PriceBook
from gpuwise.money.types import Price, RentRange

__all__ = ["Offered", "offered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A GPU and how it is available: on sale to anyone, for rent, or neither."""

    gpu: Gpu
    price: Price | None
    rent: RentRange | None


def offered(gpus: Sequence[Gpu], book: PriceBook) -> list[Offered]:
    """Return how each of these is available. Data-centre modules and accelerators are only rented, even if a price is known,
    and cards that current software no longer supports are not worth buying.
    """
    rents = {gpu.name: rent for gpu, rent in rentable(gpus, "", book)}
    prices = {
        gpu.name: price_for(gpu, book) for gpu in gpus if gpu.segment in ("desktop", "workstation", "laptop") and served(gpu)
    }
    return [Offered(gpu=gpu, price=prices.get(gpu.name), rent=rents.get(gpu.name)) for gpu in gpus]
