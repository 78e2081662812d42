"""What `which` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional, Union

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import (
    Cpu,
    CurrencyRate,
    Image,
    Mode,
    Names,
    Optimizer,
    Option,
    Phase,
    PriceFile,
    Prices,
    Stack,
    Timeout,
)

__all__ = ["CHARTS", "WhichLooks", "WhichOptions", "check_chart"]

CHARTS = ("cost", "value", "speed")
_MOST_MONEY = 1e12  # far above any price; refuses slips of the keyboard
_TASK = "In place of a model: learning, kaggle, vision, nlp, llm-finetune, llm-inference, ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichLooks:
    """Which chart is drawn."""

    chart: Annotated[str, Option(help="What to draw: cost (time against money), value or speed.")] = "cost"

    def __post_init__(self) -> None:
        check_chart(self.chart)


def check_chart(name: str) -> None:
    """Refuse a chart that does not exist, before anything is computed."""
    if name not in CHARTS:
        raise BadValue(f"unknown chart '{name}'", looked_in=", ".join(CHARTS), hint="for example `--chart value`")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichOptions:
    """Recommend what to buy, rent or keep for your models or a task, with the time and the cost of each option.

    Without options it recommends a GPU for each of several budgets. Every option you add makes the answer more specific.
    """

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)
    LOOKS: ClassVar[type] = WhichLooks

    model: Annotated[Names, Option(help="A model you run; may be repeated.")] = ()
    task: Annotated[str, Option(help=_TASK)] = ""
    budget: Annotated[
        Union[float, str, None], Option(help="Budget for GPUs, or for rent over the years: 800 or '$800'.", high=_MOST_MONEY)
    ] = None
    have: Annotated[Names, Option(help="What you have, such as 'GTX 1080 Ti' or '2x T4'; may be repeated.")] = ()
    hours_per_week: Annotated[Optional[float], Option(help="Hours of use per week. [default: 25]", low=0, high=168)] = None
    years: Annotated[Optional[float], Option(help="Years of use that are counted. [default: 3]", above=0, high=100)] = None
    kwh_price: Annotated[Optional[float], Option(help="Price of a kWh of electricity.", low=0, high=_MOST_MONEY)] = None
    tariff: Annotated[str, Option(help="Electricity in monthly tiers: '200=0.10,600=0.44'.")] = ""
    region: Annotated[str, Option(help="Country for electricity and carbon: US, DE, KR, ...")] = ""
    price: Prices = ()
    prices: PriceFile = None
    currency: CurrencyRate = ""
    buy: Annotated[bool, Option(help="New cards only; with --used, new and used.")] = False
    used: Annotated[bool, Option(help="Used cards only; with --buy, new and used.")] = False
    rent: Annotated[bool, Option(help="Rented GPUs only.")] = False
    vendor: Annotated[str, Option(help="nvidia, amd, intel or any. [default: nvidia]")] = ""
    laptop: Annotated[bool, Option(help="Laptop GPUs only.")] = False
    min_memory: Annotated[str, Option(help="Only GPUs with at least this much memory, such as 16GB.")] = ""
    deadline: Annotated[str, Option(help="A run must be done within this time: '3 days', 12h.")] = ""
    samples: Annotated[
        Optional[float], Option(help="Samples per run: images, sequences or generated tokens.", above=0, high=1e18)
    ] = None
    max_gpus: Annotated[int, Option(help="At most this many GPUs in one machine.", low=1, high=8)] = 4
    psu: Annotated[Optional[float], Option(help="Your power supply, in watts.", low=0, high=_MOST_MONEY)] = None
    machine: Annotated[
        Optional[float], Option(help="Price of the rest of the machine; counts towards the budget.", low=0, high=_MOST_MONEY)
    ] = None
    machine_watts: Annotated[
        Optional[float], Option(help="Power of the rest of the machine in watts. [default: 100]", low=0, high=_MOST_MONEY)
    ] = None
    batch: Annotated[Union[int, str, None], Option(help="Samples per step, or auto for the fastest that fits each GPU.")] = None
    seq: Annotated[Optional[int], Option(help="Sequence length in tokens, for --model.", low=1, high=2**31 - 1)] = None
    image: Image = None
    precision: Annotated[str, Option(help="A precision, or auto for the fastest of each GPU.")] = ""
    mode: Mode = ""
    phase: Phase = ""
    optimizer: Optimizer = ""
    stack: Stack = ""
    cpu: Cpu = ""
    timeout: Timeout = 120.0
