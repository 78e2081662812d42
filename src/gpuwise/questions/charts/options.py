"""The options of `charts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from gpuwise.core.errors import BadValue
from gpuwise.questions.common.options import CurrencyRate, Names, Option, PriceFile, Prices

__all__ = ["CHARTS", "ChartsLooks", "ChartsOptions", "check_chart"]

CHARTS = ("speed", "value", "owned")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsLooks:
    """Which chart is drawn."""

    chart: Annotated[
        str, Option(help="The chart to draw: speed, value (speed for the price) or owned (speed for the total cost).")
    ] = "speed"

    def __post_init__(self) -> None:
        check_chart(self.chart)


def check_chart(name: str) -> None:
    """Refuse a chart that does not exist, before anything is computed."""
    if name not in CHARTS:
        raise BadValue(f"unknown chart '{name}'", known=", ".join(CHARTS), hint="try `--chart value`")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartsOptions:
    """Rank all GPUs by speed and by value for money on five kinds of work, each in its usual precisions."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)
    LOOKS: ClassVar[type] = ChartsLooks

    gpu: Annotated[Names, Option(help="Show only this GPU; may be repeated.")] = ()
    vendor: Annotated[str, Option(help="Show only this vendor, such as NVIDIA or AMD.")] = ""
    segment: Annotated[
        str, Option(help="Show only these segments, separated by commas: desktop, laptop, workstation, datacenter, ...")
    ] = ""
    year: Annotated[str, Option(help="Show only GPUs launched in these years: 2022, 2020-2023 or 2020-.")] = ""
    min_memory: Annotated[str, Option(help="Show only GPUs with at least this much memory, such as 24GB.")] = ""
    all: Annotated[bool, Option(help="Also include less-common GPUs.")] = False
    work: Annotated[str, Option(help="Show only these kinds of work: cnn, transformer, rnn, llm, images.")] = ""
    baseline: Annotated[str, Option(help="The GPU to compare the others with (default: RTX 3090).")] = ""
    price: Prices = ()
    prices: PriceFile = None
    currency: CurrencyRate = ""
    years: Annotated[float, Option(help="Years of ownership to assume for the total cost.")] = 5.0
    utilization: Annotated[float, Option(help="Fraction of time in use to assume for the total cost.")] = 0.15
    kwh_price: Annotated[Optional[float], Option(help="Electricity price per kWh to assume for the total cost.")] = None
    machine: Annotated[Optional[float], Option(help="Price of the rest of the machine, for the total cost.")] = None
