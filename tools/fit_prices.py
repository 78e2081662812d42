"""Fits card prices to launch price, age and memory, and tests the fit on cards that were left out.

    python tools/fit_prices.py

Reads `src/gpuwise/money/data/market.csv`, and writes `price_model.json` next to it and `docs/accuracy-prices.md`.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import msgspec
import numpy as np

from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.money.estimates import LAPTOP_UNITS, LaptopModel, describe, is_gaming_laptop
from gpuwise.money.tables import market
from gpuwise.money.types import Price

HERE = Path(__file__).resolve().parents[1]
FITTED = HERE / "src/gpuwise/money/data/price_model.json"
PAGE = HERE / "docs/accuracy-prices.md"
SEGMENTS = ("desktop", "workstation")  # sold one by one to anyone, at a published launch price
NAMES = ("new", "used", "new_per_year", "used_per_year", "memory", "time_per_year")
RIDGE = {"vendor": 0.5, "segment": 0.5, "card": 0.5}  # prior rows that say "no difference"
LITTLE = 0.05  # prior rows of the other constants
ROUNDS = 30  # of reweighting; it settles after ten
TESTED_DAYS = 150  # only prices this recent are tested, because older ones belong to another market
BOUNDS = (0.1, 0.9)  # of the errors on cards left out

HEAD = f"""# How accurate are estimated prices?

If no recent price for a card has been published, gpuwise estimates one from the card's launch price, age, memory,
vendor and segment (desktop or workstation). This page, written by `tools/fit_prices.py`, compares such estimates with
the prices that were published in the {TESTED_DAYS} days before the newest one. Each estimate uses only the prices of other cards.
In normal use, gpuwise also takes into account any older prices for the card itself.

"""
WIDTH = 120  # columns of a line in the docs


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A published price, and the logarithm of its ratio to the launch price."""

    gpu: Gpu
    price: Price
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Constants by name, and the deviation of each card."""

    constants: dict[str, float]
    cards: dict[str, float]

    def share(self, row: Row, fitted_to: date) -> float:
        parts = describe(row.gpu, row.price.kind, row.price.dated, fitted_to)
        return sum(self.constants.get(name, 0.0) * value for name, value in parts.items()) + self.cards.get(row.gpu.name, 0.0)


def rows() -> list[Row]:
    """Every price of a card with a launch price."""
    gpus = {gpu.name: gpu for gpu in load_catalog().curated if gpu.launch_usd and gpu.segment in SEGMENTS}
    return [
        Row(gpu=gpu, price=price, share=math.log(price.usd * gpu.devices_per_board / gpu.launch_usd))
        for price in market()
        if (gpu := gpus.get(price.gpu)) and gpu.launch_usd
    ]


def fit(every: Sequence[Row], fitted_to: date) -> Fit:
    """Ridge regression in which outliers have less weight."""
    parts = [describe(row.gpu, row.price.kind, row.price.dated, fitted_to) for row in every]
    names = [*NAMES, *sorted({name for part in parts for name in part} - set(NAMES))]
    cards = sorted({row.gpu.name for row in every})
    columns = {name: place for place, name in enumerate([*names, *(f"card {card}" for card in cards)])}
    matrix, shares = np.zeros((len(every), len(columns))), np.array([row.share for row in every])
    for place, (row, part) in enumerate(zip(every, parts, strict=True)):
        for name, value in part.items():
            matrix[place, columns[name]] = value
        matrix[place, columns[f"card {row.gpu.name}"]] = 1.0
    prior = np.diag([RIDGE.get(name.partition(" ")[0], LITTLE) for name in columns])
    weights = np.ones(len(every))
    solved = np.zeros(len(columns))
    for _ in range(ROUNDS):
        solved = np.linalg.solve(matrix.T @ (weights[:, None] * matrix) + prior, matrix.T @ (weights * shares))
        missed = np.abs(shares - matrix @ solved)
        weights = 1 / np.maximum(1.0, missed / (1.5 * 1.48 * np.median(missed)))  # Huber's, from 1.5 robust deviations on
    found = {name: float(solved[place]) for name, place in columns.items()}
    return Fit(
        constants={name: found[name] for name in names},
        cards={card: found[f"card {card}"] for card in cards},
    )


def left_out(every: Sequence[Row], fitted_to: date) -> list[tuple[Row, float]]:
    """Recent prices, each with the logarithm of its ratio to the estimate from the other cards."""
    found = []
    for card in sorted({row.gpu.name for row in every}):
        others = fit([row for row in every if row.gpu.name != card], fitted_to)
        recent = [row for row in every if row.gpu.name == card and row.price.dated >= fitted_to - timedelta(days=TESTED_DAYS)]
        found += [(row, row.share - others.share(row, fitted_to)) for row in recent]
    return found


def fit_laptops(prices: Sequence[tuple[Gpu, Price]]) -> LaptopModel:
    """A line through the logarithms of price and multiprocessors, with the range of prices around it, found by leaving out each
    GPU once."""
    speed = np.log([gpu.sm_count / LAPTOP_UNITS for gpu, _ in prices])
    usd = np.log([price.usd for _, price in prices])
    names = np.array([gpu.name for gpu, _ in prices])
    missed: list[float] = []
    for name in dict.fromkeys(names):
        power, base = np.polyfit(speed[names != name], usd[names != name], 1)
        missed += list(usd[names == name] - base - power * speed[names == name])
    power, base = np.polyfit(speed, usd, 1)
    low, high = np.exp(np.quantile(missed, BOUNDS))
    return LaptopModel(
        rows=len(prices),
        usd=round(math.exp(base), 1),
        power=round(float(power), 3),
        low=round(float(low), 3),
        high=round(float(high), 3),
    )


def page(tested: Sequence[tuple[Row, float]], low: float, high: float, found: Fit, laptops: LaptopModel) -> str:
    """The errors by kind and vendor, and the loss of value according to the fit."""
    lines = ["| group | cards | prices | median error | 90% of errors are below |", "|---|---|---|---|---|"]
    groups = {
        "all cards": tested,
        "new cards": [one for one in tested if one[0].price.kind == "new"],
        "used cards": [one for one in tested if one[0].price.kind == "used"],
        "NVIDIA GeForce": [one for one in tested if one[0].gpu.vendor == "NVIDIA" and one[0].gpu.segment == "desktop"],
        "workstation cards": [one for one in tested if one[0].gpu.segment == "workstation"],
        "AMD and Intel": [one for one in tested if one[0].gpu.vendor != "NVIDIA"],
    }
    for name, group in groups.items():
        errors = np.exp(np.abs([error for _, error in group])) - 1
        cards = len({row.gpu.name for row, _ in group})
        lines.append(f"| {name} | {cards} | {len(group)} | {np.median(errors):.0%} | {np.quantile(errors, 0.9):.0%} |")
    loss = 1 - math.exp(found.constants["used_per_year"])
    rise = math.exp(found.constants["time_per_year"]) - 1
    first = 1 - math.exp(found.constants["used"] - found.constants["new"])
    said = (
        f"The range given for an estimate is {low:.2f} to {high:.2f} times the estimate. This range contains 80% of the "
        "prices in the test.",
        f"At any given time, a used card costs {loss:.0%} less, relative to its launch price, for each year of its age. A "
        f"new card loses {first:.0%} of its value as soon as it becomes a used card. These two rates determine the default "
        "resale value in `which` and `cost`, which also deduct 10% for the cost of selling. According to the collected prices, "
        f"prices across the whole market rose by {rise:.0%} per year. Estimates apply to the date of the newest price. Neither "
        "estimates nor resale values assume that prices will continue to rise.",
        "A gaming laptop has no launch price, so its price is estimated from the number of multiprocessors in its GPU, based on "
        f"{laptops.rows} published laptop prices. The range given for such an estimate is {laptops.low:.2f} to "
        f"{laptops.high:.2f} times the estimate.",
    )
    return HEAD + "\n".join(lines) + "\n\n" + "\n\n".join(textwrap.fill(part, WIDTH) for part in said) + "\n"


def main() -> None:
    """Fit, test and write both files."""
    every = rows()
    fitted_to = max(row.price.dated for row in every)
    found, tested = fit(every, fitted_to), left_out(every, fitted_to)
    low, high = (float(end) for end in np.exp(np.quantile([error for _, error in tested], BOUNDS)))
    constants = found.constants
    gpus = {gpu.name: gpu for gpu in load_catalog().curated if is_gaming_laptop(gpu)}
    laptops = fit_laptops([(gpus[price.gpu], price) for price in market() if price.gpu in gpus and price.kind == "new"])
    model = {
        "fitted_to": fitted_to.isoformat(),
        "rows": len(every),
        "cards_fitted": len(found.cards),
        **{name: round(constants[name], 4) for name in NAMES},
        **{
            f"{group}s": {
                name.partition(" ")[2]: round(value, 4) for name, value in constants.items() if name.startswith(f"{group} ")
            }
            for group in ("vendor", "segment")
        },
        "cards": {name: round(value, 3) for name, value in found.cards.items()},
        "low": round(low, 3),
        "high": round(high, 3),
        "laptops": msgspec.to_builtins(laptops),
    }
    FITTED.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")
    text = page(tested, low, high, found, laptops)
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
