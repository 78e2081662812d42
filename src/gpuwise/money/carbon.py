"""Carbon dioxide per kWh by region: yearly life-cycle averages from public statistics."""

from __future__ import annotations

import difflib

from gpuwise.core.errors import UnknownName
from gpuwise.money.tables import regions
from gpuwise.money.types import Grid, Region

__all__ = ["DEFAULT_REGION", "emissions_kg", "find_region"]

DEFAULT_REGION = "United States"  # prices are in dollars, and most public guides are from there


def find_region(name: str) -> Region:
    """A region by its name, its two letters or a common spelling."""
    key = name.strip().lower()
    known = {spelling.lower(): region for region in regions() for spelling in (region.name, *region.aliases)}
    if key in known:
        return known[key]
    near = difflib.get_close_matches(key, known, n=2, cutoff=0.75)
    names = ", ".join(region.aliases[0] if region.aliases else region.name for region in regions())
    hint = f"did you mean {' or '.join(f'`{known[one].name}`' for one in near)}?" if near else f"one of: {names}"
    raise UnknownName(f"no region called '{name}'", looked_in=f"{len(regions())} regions", hint=hint)


def emissions_kg(energy_kwh: float, grid: Grid) -> float:
    """Kilograms of CO2 equivalents."""
    return energy_kwh * grid.kg_per_kwh
