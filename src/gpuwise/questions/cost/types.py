"""The types of an answer about cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.money.costs import Ownership, Rental, emissions_kg, is_cheaper_rented
from gpuwise.money.types import Price, RentRange
from gpuwise.questions.common.options import Shown
from gpuwise.questions.cost.ask import CostQuery
from gpuwise.questions.cost.tokens import TokenCosts

__all__ = ["BreakEven", "CostAnswer", "JobCost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """The totals of owning and renting at one utilisation, and the days after which owning is cheaper (None: never): without
    resale, and with the resale value at the end of the horizon, as the totals count it."""

    utilization: float
    own_usd: float
    rent_usd: float
    days: float | None
    days_without_electricity: float | None
    days_with_resale: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """One job: its hours with their range, and its cost. `own_usd` includes its share of the purchase over the horizon."""

    model: str
    hours: float
    hours_low: float
    hours_high: float
    rent_hours: float
    own_usd: float | None
    electricity_usd: float | None
    rent_usd: float | None
    energy_kwh: float | None
    co2e_kg: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAnswer(Shown):
    """Owning, renting, and where they cross. `ownership` or `rentals` are missing where no price is known; `other_prices` are
    of the same card in another condition, with the days after which it has paid for itself."""

    TEXT: ClassVar[str] = "questions.cost.text.render"
    FIGURE: ClassVar[str] = "questions.cost.figure.cost_figure"

    query: CostQuery
    ownership: Ownership | None
    rentals: tuple[Rental, ...]
    market: RentRange | None
    market_break_even_days: float | None
    speed: float
    break_evens: tuple[BreakEven, ...]
    break_even_utilization: float | None
    other_prices: tuple[tuple[Price, float | None], ...]
    job: JobCost | None
    tokens: TokenCosts | None
    warnings: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date
    said: tuple[tuple[str, str], ...] = ()  # what each part of the verdict is about, and its text
    better: str = ""
    undecided: str = ""

    @property
    def verdict(self) -> str:
        """Which way is cheaper and by how much, in sentences."""
        return "".join(text for _, text in self.said)

    @property
    def here(self) -> BreakEven | None:
        """The break-even at the user's own utilisation."""
        return next((row for row in self.break_evens if row.utilization == self.query.utilization), None)

    @property
    def chosen(self) -> Rental | None:
        """The rental option that owning is compared with."""
        way = "spot" if self.query.use_spot else "on-demand"
        return next((rental for rental in self.rentals if rental.way == way), None)

    @property
    def co2e_kg(self) -> float | None:
        """Over the horizon, of the electricity."""
        return None if self.ownership is None else emissions_kg(self.ownership.energy_kwh, self.query.region.grid)

    def _clearly_cheaper(self, rental: Rental) -> bool:
        owned = self.ownership
        return owned is not None and is_cheaper_rented(owned.total_usd, rental.total_usd, self.speed)

    def to_dict(self) -> dict[str, Any]:
        """Values in SI units and dollars, with the unit in every key."""
        query = self.query
        return {
            "verdict": self.verdict,
            "said": [{"about": about, "text": text.strip()} for about, text in self.said if text],
            "better": self.better,
            "undecided": self.undecided,
            "gpu": query.gpu.name,
            "gpu_count": query.gpu_count,
            "utilization_fraction": query.utilization,
            "utilization_usual_for": query.usual_for,
            "years": query.years,
            "price": None if query.price is None else _price_dict(query.price),
            "other_prices": [_price_dict(price) | {"break_even_days": days} for price, days in self.other_prices],
            "own": None if self.ownership is None else _own_dict(self.ownership),
            "rent": [_rent_dict(rental) | {"clearly_cheaper": self._clearly_cheaper(rental)} for rental in self.rentals],
            "rent_market": None if self.market is None else {**asdict(self.market), "dated": self.market.dated.isoformat()},
            "rent_market_break_even_days": self.market_break_even_days,
            "break_even": [_break_even_dict(row) for row in self.break_evens],
            "break_even_utilization_fraction": self.break_even_utilization,
            "job": None if self.job is None else _job_dict(self.job),
            "tokens": None if self.tokens is None else self.tokens.to_dict(),
            "co2e_kg": self.co2e_kg,
            "region": query.region.name,
            "grid_kg_per_kwh": query.region.grid.kg_per_kwh,
            "warnings": list(self.warnings),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def _price_dict(price: Price) -> dict[str, Any]:
    return {**asdict(price), "basis": price.basis.value, "dated": price.dated.isoformat()}


def _own_dict(found: Ownership) -> dict[str, Any]:
    return {
        "gpu_usd": found.gpu_usd,
        "machine_usd": found.machine_usd,
        "electricity_usd": found.electricity_usd,
        "resale_usd": found.resale_usd,
        "upfront_usd": found.upfront_usd,
        "total_usd": found.total_usd,
        "usd_per_hour": found.usd_per_hour,
        "power_watts": found.watts,
        "working_s": 3600 * found.hours,
        "energy_kwh": found.energy_kwh,
        "energy_kwh_per_year": found.energy_kwh_per_year,
        "electricity_usd_per_year": found.electricity_usd_per_year,
    }


def _rent_dict(found: Rental) -> dict[str, Any]:
    return {
        "way": found.way,
        "gpu_count": found.gpu_count,
        "usd_per_gpu_hour": found.usd_per_gpu_hour,
        "used_s": 3600 * found.hours_used,
        "paid_s": 3600 * found.hours_paid,
        "total_usd": found.total_usd,
        "usd_per_hour": found.usd_per_hour,
    }


def _job_dict(job: JobCost) -> dict[str, Any]:
    return {
        "model": job.model,
        "job_s": 3600 * job.hours,
        "job_low_s": 3600 * job.hours_low,
        "job_high_s": 3600 * job.hours_high,
        "rented_job_s": 3600 * job.rent_hours,
        "own_usd": job.own_usd,
        "electricity_usd": job.electricity_usd,
        "rent_usd": job.rent_usd,
        "energy_kwh": job.energy_kwh,
        "co2e_kg": job.co2e_kg,
    }


def _break_even_dict(row: BreakEven) -> dict[str, Any]:
    return {
        "utilization_fraction": row.utilization,
        "own_usd": row.own_usd,
        "rent_usd": row.rent_usd,
        "days": row.days,
        "days_without_electricity": row.days_without_electricity,
        "days_with_resale": row.days_with_resale,
    }
