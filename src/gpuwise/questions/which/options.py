"""The options of `which`, and what their texts mean."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional, Union

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.questions.common.language.options import CacheType, Context, Engine, Output, Prompt, Users, Weights
from gpuwise.questions.common.options import (
    Cpu,
    CurrencyRate,
    Image,
    Method,
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

__all__ = ["CHARTS", "WhichLooks", "WhichOptions", "check_chart", "parse_deadline", "parse_vendor"]

CHARTS = ("cost", "value", "speed")
_MOST_MONEY = 1e12  # far above any price; refuses slips of the keyboard
_SPANS = {"h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0, "w": 604800.0, "week": 604800.0, "min": 60.0}
_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple", "any": ""}
_TASK = "A typical workload instead of a model: learning, kaggle, vision, nlp, llm-finetune, llm-inference, ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichLooks:
    """Which chart is drawn."""

    chart: Annotated[str, Option(help="The chart to draw: cost (time and cost), value or speed.")] = "cost"

    def __post_init__(self) -> None:
        check_chart(self.chart)


def check_chart(name: str) -> None:
    """Refuse a chart that does not exist, before anything is computed."""
    if name not in CHARTS:
        raise BadValue(f"unknown chart '{name}'", known=", ".join(CHARTS), hint="try `--chart value`")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichOptions:
    """Recommend what to buy, rent or keep for your models or a task, with the time and cost of each option.

    Without options, it recommends a GPU at each of several budgets. Every option you add makes the recommendation more specific.
    """

    SURFACE: ClassVar[tuple[str, ...]] = ("figure",)
    LOOKS: ClassVar[type] = WhichLooks

    model: Annotated[Names, Option(help="A model that you want to run; may be repeated.")] = ()
    task: Annotated[str, Option(help=_TASK)] = ""
    budget: Annotated[
        Union[float, str, None],
        Option(help="The amount you can spend on GPUs, or on rent for the whole period: 800 or '$800'.", high=_MOST_MONEY),
    ] = None
    have: Annotated[Names, Option(help="GPUs you already have, such as 'GTX 1080 Ti' or '2x T4'; may be repeated.")] = ()
    hours_per_week: Annotated[
        Optional[float],
        Option(help="Hours of use per week (default: 25, or 59 if the budget is $10,000 or more).", low=0, high=168),
    ] = None
    years: Annotated[Optional[float], Option(help="The number of years of use (default: 3).", above=0, high=20)] = None
    kwh_price: Annotated[Optional[float], Option(help="The electricity price per kWh.", low=0, high=_MOST_MONEY)] = None
    tariff: Annotated[str, Option(help="The electricity price in monthly tiers of kWh: '200=0.10,600=0.44'.")] = ""
    region: Annotated[
        str, Option(help="The country that determines the electricity price, carbon intensity and wall outlet: US, DE, KR, ...")
    ] = ""
    price: Prices = ()
    prices: PriceFile = None
    currency: CurrencyRate = ""
    buy: Annotated[bool, Option(help="Consider only new cards, or new and used cards with --used.")] = False
    used: Annotated[bool, Option(help="Consider only used cards, or new and used cards with --buy.")] = False
    rent: Annotated[bool, Option(help="Consider only rented GPUs.")] = False
    vendor: Annotated[str, Option(help="The GPU vendor: nvidia, amd, intel, apple or any (default: nvidia).")] = ""
    resale: Annotated[
        Optional[float],
        Option(
            help="The resale value at the end as a share of the price, such as 0.4 (default: based on age; 0 for none).",
            low=0,
            high=1,
        ),
    ] = None
    laptop: Annotated[bool, Option(help="Consider only laptop GPUs.")] = False
    min_memory: Annotated[str, Option(help="Consider only GPUs with at least this much memory, such as 16GB.")] = ""
    deadline: Annotated[str, Option(help="The maximum duration of a run, such as '3 days' or 12h.")] = ""
    samples: Annotated[
        Optional[float],
        Option(help="The number of samples per run: images, sequences or generated tokens.", above=0, high=1e18),
    ] = None
    max_gpus: Annotated[
        Optional[int], Option(help="The largest number of GPUs in one machine (default: 4, or 8 in a server).", low=1, high=8)
    ] = None
    psu: Annotated[Optional[float], Option(help="The rated power of your power supply, in watts.", low=0, high=_MOST_MONEY)] = (
        None
    )
    machine: Annotated[
        Optional[float],
        Option(help="The price of the rest of the machine; if given, it counts towards the budget.", low=0, high=_MOST_MONEY),
    ] = None
    machine_watts: Annotated[
        Optional[float], Option(help="The power of the rest of the machine in watts (default: 100).", low=0, high=_MOST_MONEY)
    ] = None
    batch: Annotated[
        Union[int, str, None], Option(help="Samples per step, or auto for the fastest batch that fits on each GPU.")
    ] = None
    seq: Annotated[Optional[int], Option(help="The sequence length in tokens, for --model.", low=1, high=2**31 - 1)] = None
    image: Image = None
    precision: Annotated[str, Option(help="A precision, or auto for the fastest on each GPU.")] = ""
    mode: Mode = ""
    method: Method = ""
    phase: Phase = ""
    optimizer: Optimizer = ""
    stack: Stack = ""
    cpu: Cpu = ""
    weights: Weights = ""
    kv: CacheType = ""
    engine: Engine = ""
    users: Users = None
    prompt: Prompt = None
    output: Output = None
    context: Context = None
    timeout: Timeout = 120.0

    @property
    def asks_for_text(self) -> bool:
        """Whether an option says that text is generated."""
        numbers = (self.users, self.prompt, self.output, self.context)
        return bool(self.weights or self.kv or self.engine) or any(value is not None for value in numbers)


def parse_deadline(text: str) -> float | None:
    """`3 days`, `12h`, `2 weeks` -> seconds."""
    if not text:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", text.lower())
    if match is None or match[2] not in _SPANS or not 0 < float(match[1]) < math.inf:
        raise BadValue(f"invalid deadline '{text}'", hint="try `--deadline '3 days'` or `--deadline 12h`")
    return float(match[1]) * _SPANS[match[2]]


def parse_vendor(text: str, notes: list[Assumption]) -> str:
    """Return the vendor to consider, NVIDIA by default; empty for any."""
    if not text:
        notes.append(
            assumed(
                "vendor", "NVIDIA", "most code and guides are written for NVIDIA GPUs; use `--vendor any` to add AMD and Intel"
            )
        )
        return "NVIDIA"
    if text.lower() not in _VENDORS:
        raise BadValue(f"unknown vendor '{text}'", known=", ".join(_VENDORS), hint="try `--vendor any`")
    return _VENDORS[text.lower()]
