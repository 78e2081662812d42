"""The options of `cost`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional, Union

from gpuwise.questions.common.language.options import CacheType, Context, Engine, Output, Prompt, Users, Weights
from gpuwise.questions.common.options import CurrencyRate, Names, Option, Precision, PriceFile

__all__ = ["CostOptions"]

_MOST_MONEY = 1e12  # far above any price; refuses slips of the keyboard


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """Compare the cost of owning and renting a GPU, and show the totals, the break-even point and the carbon emissions."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)

    gpu: Annotated[Names, Option(help="A GPU name or custom specs.")] = ()
    gpus: Annotated[int, Option(help="The number of GPUs in one machine.", low=1, high=4096)] = 1
    price: Annotated[str, Option(help="The price of one GPU: 700 or 'RTX 3090=700'.")] = ""
    used: Annotated[bool, Option(help="Buy a used card at its used price, which is estimated if none is known.")] = False
    new: Annotated[bool, Option(help="Buy a new card at its shop price, or at its launch price if no shop price is known.")] = (
        False
    )
    machine: Annotated[
        Optional[float], Option(help="The price of the rest of the machine; 0 if you already have it.", low=0, high=_MOST_MONEY)
    ] = None
    machine_watts: Annotated[
        Optional[float], Option(help="The power of the rest of the machine, in watts (default: 100).", low=0, high=_MOST_MONEY)
    ] = None
    watts: Annotated[
        Optional[float],
        Option(help="The power of one GPU under load, in watts (default: its rated power).", low=0, high=_MOST_MONEY),
    ] = None
    utilization: Annotated[Optional[float], Option(help="The fraction of time in use, such as 0.15.", low=0)] = None
    hours_per_week: Annotated[Optional[float], Option(help="Hours of use per week, instead of --utilization.", low=0)] = None
    years: Annotated[Optional[float], Option(help="The number of years of ownership (default: 3).", above=0, high=20)] = None
    kwh_price: Annotated[Optional[float], Option(help="The electricity price per kWh.", low=0, high=_MOST_MONEY)] = None
    tariff: Annotated[str, Option(help="Electricity prices in monthly tiers: '200=0.0996,600=0.437'.")] = ""
    bills: Annotated[str, Option(help="Electricity prices from two monthly bills: '200=19.92,600=194.7'.")] = ""
    household_kwh: Annotated[
        Optional[float],
        Option(help="Other household electricity use in kWh per month, for --tariff.", low=0, high=_MOST_MONEY),
    ] = None
    region: Annotated[
        str, Option(help="The country whose electricity price and carbon intensity are used, such as US, DE or France.")
    ] = ""
    resale: Annotated[
        Optional[float],
        Option(help="The resale value at the end of ownership (default: based on age; 0 for none).", low=0, high=_MOST_MONEY),
    ] = None
    cloud_price: Annotated[Optional[float], Option(help="The hourly rental price of one GPU.", low=0, high=_MOST_MONEY)] = None
    cloud: Annotated[str, Option(help="Rent from this cloud, such as aws; `gpuwise prices` lists all clouds.")] = ""
    cloud_gpu: Annotated[str, Option(help="Rent this GPU instead of the one you would buy.")] = ""
    spot: Annotated[bool, Option(help="Compare with spot prices instead of on-demand prices.")] = False
    commit: Annotated[
        Optional[float], Option(help="The discount for committed use, billed around the clock: 0.4 means 40% off.", low=0)
    ] = None
    job_hours: Annotated[
        Optional[float], Option(help="Also show the cost of one job that takes this many hours.", low=0, high=_MOST_MONEY)
    ] = None
    model: Annotated[
        str,
        Option(help="Also show the cost of training this model (with --samples) or of generating tokens with it (with --users)."),
    ] = ""
    samples: Annotated[Optional[float], Option(help="Samples per epoch, for --model.", above=0, high=1e18)] = None
    epochs: Annotated[Optional[float], Option(help="The number of epochs, for --model (default: 1).", above=0, high=1e9)] = None
    batch: Annotated[Union[int, str, None], Option(help="Samples per step on each GPU, for --model.")] = None
    precision: Precision = ""
    weights: Weights = ""
    kv: CacheType = ""
    engine: Engine = ""
    users: Users = None
    prompt: Prompt = None
    output: Output = None
    context: Context = None
    currency: CurrencyRate = ""
    prices: PriceFile = None
