"""Prices, rents and electricity, for choosing between two cards at given prices, or between owning and renting, and for
totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gpuwise
from gpuwise.questions.prices.answer import PricesAnswer
from scenarios.asking import KINDS, card, step
from scenarios.types import Asked, Choice, Reply, over, scenario

__all__ = ["ENTRIES"]

_HOURS_PER_MONTH = 730.0
_EUR = "EUR=1.1"  # of 2017 and 2018, rounded
_LONG_DAYS = 365.0


@scenario(
    "S022",
    question="What is the lowest hourly price at which a student can rent a GPU?",
    how="`prices`: spot offers from clouds whose prices include the host.",
    why="Our prices are for today's small GPUs. The quoted price is from 2015.",
)
def _spot(value: Mapping[str, Any]) -> Reply:
    listed = gpuwise.prices()
    if not isinstance(listed, PricesAnswer):
        raise TypeError("rents were fetched instead of listed")
    offers = [offer for row in listed.rows for offer in row.offers if offer.kind == "cloud" and offer.with_host]
    spot = sorted(offer.spot_usd_per_gpu_hour for offer in offers if offer.spot_usd_per_gpu_hour)
    return {"spot_usd_h": over(spot[:5], "USD/h")}


@scenario(
    "S065",
    question="What does one more kWh cost under Korea's tiered rates?",
    how='`cost --bills "200=19.92,600=194.7" --household-kwh 200`.',
)
def _tiers(value: Mapping[str, Any]) -> Reply:
    found = gpuwise.cost(gpu="GTX 1080", bills="200=19.92,600=194.7", household_kwh=200, job_hours=100)
    if found.job is None or not found.job.energy_kwh or found.job.electricity_usd is None:
        raise ValueError("the job has no electricity")
    return {"marginal_usd_kwh": found.job.electricity_usd / found.job.energy_kwh}


@scenario(
    "S081", question="Should I buy a GTX 1080 for 450 or a GTX 1070 for 400?", how="`compare --price` on three models in fp32."
)
def _premium(value: Mapping[str, Any]) -> Reply:
    return {"max_premium": _worth("GTX 1070", 400, "GTX 1080", 450, value["max_premium"])}


@scenario(
    "S101", question="Should I buy a GTX 1070 for 300 or a GTX 1060 for 250?", how="`compare --price` on three models in fp32."
)
def _second_premium(value: Mapping[str, Any]) -> Reply:
    return {"premium": _worth("GTX 1060 6GB", 250, "GTX 1070", 300, value["premium"])}


def _worth(base: str, base_price: float, other: str, other_price: float, premium: float) -> Choice:
    """Whether the more expensive card is the better buy at its price, and at the premium that the question mentions."""
    found = gpuwise.compare(
        [base, other], model=list(KINDS), precision="fp32", batch="16", price=[f"{base}={base_price}", f"{other}={other_price}"]
    )
    even = next(deal.even_usd or 0.0 for deal in found.deals if deal.gpu == other)
    return Choice(
        agrees=even > other_price and even / base_price - 1 > premium,
        text=f"buy the {other}, which is worth up to {100 * (even / base_price - 1):.0f}% more",
    )


@scenario(
    "S108",
    question="Are 120 EUR a month for a GTX 1080 and 660 EUR for four GTX 1070 good rental prices?",
    how="`cost --gpu … --new --cloud-price (month / 730 h) --utilization 1`. We call a price good if it takes more than half a "
    "year until owning is cheaper. We use launch prices, because the question is from 2017.",
)
def _server(value: Mapping[str, Any]) -> Reply:
    return {
        "hetzner_eur_month": _rent_first("GTX 1080", 1, value["hetzner_eur_month"]),
        "ovh_eur_month": _rent_first("GTX 1070", 4, value["ovh_eur_month"]),
    }


def _rent_first(gpu: str, count: int, eur_a_month: float) -> Choice:
    """Whether a rent is good, which means that owning is cheaper only after more than half a year of non-stop use."""
    answered = gpuwise.cost(
        gpu=gpu,
        gpus=count,
        new=True,
        cloud_price=eur_a_month / _HOURS_PER_MONTH / count,
        currency=_EUR,
        utilization=1.0,
        region="DE",
    )
    here = answered.here
    days = here.days if here and here.days else float("inf")
    good = days > _LONG_DAYS / 2
    return Choice(agrees=good, text=f"{'good' if good else 'buy'}: owning breaks even after {days:,.0f} days of non-stop use")


@scenario(
    "S161",
    question="Should I train GoogLeNet or ResNet on 4,000 images with a laptop's CPU, a cloud GPU or a desktop?",
    how="`predict` on a V100 (amp) and a Core i7-4770K gives the CPU hours for work that takes 5 min on the GPU. `cost --gpu "
    "'GTX 1050 Ti'` gives the cost of a desktop.",
    why="We assume 700 USD for the rest of the desktop, which is about twice as much as in the question.",
    given=("gpu_min",),
)
def _laptop_cpu(value: Mapping[str, Any]) -> Reply:
    hours = [
        value["gpu_min"] / 60 * step(model, "Core i7-4770K", "32").step_s / step(model, "V100 SXM 16GB", "32", "amp").step_s
        for model in ("googlenet", "resnet50")
    ]
    bought = gpuwise.cost(gpu="GTX 1050 Ti").ownership
    return {"cpu_h": over(hours, "h"), "usd": bought.upfront_usd if bought else 0.0}


@scenario(
    "S165",
    question="What does a P100 cost for a week at 1.49 an hour?",
    how="`cost --cloud-price 1.49 --job-hours 168`.",
    given=("hetzner_eur",),
)
def _week(value: Mapping[str, Any]) -> Reply:
    job = gpuwise.cost(gpu="P100 PCIe 16GB", cloud_price=1.49, job_hours=7 * 24).job
    return {"week": (job.rent_usd or 0.0) if job else 0.0}


@scenario(
    "S178",
    question="Should I buy two GP100 cards for 10,868 EUR, or rent a GTX 1080 for 130 USD a month?",
    how="`cost --gpu 'Quadro GP100' --price 5434 --cloud-gpu 'GTX 1080' --cloud-price (130 / 730 h) --utilization 1`.",
)
def _workstation(value: Mapping[str, Any]) -> Reply:
    hourly = value["hetzner_usd"] / _HOURS_PER_MONTH
    answered = gpuwise.cost(
        gpu="Quadro GP100",
        gpus=2,
        price=str(10868 * 1.1 / 2),
        machine=0,
        cloud_gpu="GTX 1080",
        cloud_price=hourly,
        utilization=1.0,
    )
    here = answered.here
    days = here.days if here and here.days else float("inf")
    text = f"rent: owning breaks even after {days:,.0f} days of non-stop use"
    return {"hetzner_usd": Choice(agrees=days > 3 * _LONG_DAYS, text=text)}


@scenario(
    "S220",
    question="Should I buy a used Tesla K20 for 1,000 or a GTX 680 for 180?",
    how="`predict alexnet` and `predict word_lstm` on both cards, to compare their speed per dollar.",
    given=("680_usd",),
)
def _used(value: Mapping[str, Any]) -> Reply:
    speed = over([step(m, "K20m", "20").samples_per_s / step(m, "GTX 680", "20").samples_per_s for m in ("alexnet", "word_lstm")])
    even = speed.high * value["680_usd"]
    text = f"buy the {card('GTX 680').name}: the K20 is {speed.value:.2f} times as fast and worth {even:.0f} USD at most"
    return {"K20_usd": Choice(agrees=even < value["K20_usd"], text=text)}


ENTRIES: tuple[Asked, ...] = tuple(entry for entry in list(globals().values()) if isinstance(entry, Asked))
