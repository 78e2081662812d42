"""What `cost` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional, Union

from gpuwise.questions.common.options import CurrencyRate, Names, Option, Precision, PriceFile

__all__ = ["CostOptions"]

_MOST_MONEY = 1e12  # far above any price; refuses slips of the keyboard


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """Compare owning a GPU with renting it: total cost, when owning has paid for itself, and the carbon of its electricity."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)

    gpu: Annotated[Names, Option(help="A GPU by any name, or typed specs.")] = ()
    gpus: Annotated[int, Option(help="How many of them, in one machine.", low=1, high=4096)] = 1
    price: Annotated[str, Option(help="The price of one GPU: 700, or 'RTX 3090=700'.")] = ""
    used: Annotated[bool, Option(help="Buy it used, at the newest dated price of a used card.")] = False
    new: Annotated[bool, Option(help="Buy it new, at the newest shop price, else the launch price.")] = False
    machine: Annotated[
        Optional[float], Option(help="Price of the rest of the machine; 0 if you have one.", low=0, high=_MOST_MONEY)
    ] = None
    machine_watts: Annotated[
        Optional[float], Option(help="Power of the rest of the machine in watts. [default: 100]", low=0, high=_MOST_MONEY)
    ] = None
    watts: Annotated[
        Optional[float], Option(help="Power of one GPU at work, in watts. [default: its rated power]", low=0, high=_MOST_MONEY)
    ] = None
    utilization: Annotated[Optional[float], Option(help="Share of all hours in use, such as 0.15.", low=0)] = None
    hours_per_week: Annotated[Optional[float], Option(help="The same, as hours of use per week.", low=0)] = None
    years: Annotated[Optional[float], Option(help="Years of ownership. [default: 3]", above=0, high=20)] = None
    kwh_price: Annotated[Optional[float], Option(help="Price of a kWh of electricity.", low=0, high=_MOST_MONEY)] = None
    tariff: Annotated[str, Option(help="Electricity in monthly tiers: '200=0.0996,600=0.437'.")] = ""
    bills: Annotated[str, Option(help="The same from two monthly bills: '200=19.92,600=194.7'.")] = ""
    household_kwh: Annotated[
        Optional[float], Option(help="Other use of the household in kWh per month, for tiers.", low=0, high=_MOST_MONEY)
    ] = None
    region: Annotated[str, Option(help="Country for electricity and carbon: US, DE, France, ...")] = ""
    resale: Annotated[float, Option(help="Resale value at the end.", low=0, high=_MOST_MONEY)] = 0.0
    cloud_price: Annotated[Optional[float], Option(help="Rent of one GPU per hour.", low=0, high=_MOST_MONEY)] = None
    cloud: Annotated[str, Option(help="A cloud from our tables, such as aws; see `gpuwise prices`.")] = ""
    cloud_gpu: Annotated[str, Option(help="Rent this GPU instead.")] = ""
    spot: Annotated[bool, Option(help="Compare with spot prices.")] = False
    commit: Annotated[Optional[float], Option(help="Discount for a commitment that is paid every hour, such as 0.4.", low=0)] = (
        None
    )
    job_hours: Annotated[Optional[float], Option(help="Also price one job of this many hours.", low=0, high=_MOST_MONEY)] = None
    model: Annotated[str, Option(help="Also price training this model, with --samples.")] = ""
    samples: Annotated[Optional[float], Option(help="Samples per epoch, for --model.", above=0, high=1e18)] = None
    epochs: Annotated[Optional[float], Option(help="Epochs, for --model. [default: 1]", above=0, high=1e9)] = None
    batch: Annotated[Union[int, str, None], Option(help="Samples per step and GPU, for --model.")] = None
    precision: Precision = ""
    currency: CurrencyRate = ""
    prices: PriceFile = None
