"""Parts of a machine: which GPUs are cards at all, and the tables of platforms, boards, power supplies and outlets under
`box/data/`, each row with its source.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from gpuwise.box.types import (
    Board,
    Box,
    Cards,
    CheckLine,
    CpuFamily,
    Efficiency,
    Excursion,
    Outlet,
    Platform,
    Plug,
    PowerCurve,
    PsuSize,
    PsuStandard,
)
from gpuwise.core.errors import UnknownName
from gpuwise.core.provenance import Basis, Source
from gpuwise.hardware.machines import cpu_model
from gpuwise.hardware.tables import curated_gpus, parse_toml
from gpuwise.hardware.types import Gpu

__all__ = [
    "boards",
    "box_sources",
    "cpu_families",
    "efficiencies",
    "excursions",
    "find_board",
    "find_cpu_family",
    "find_outlet",
    "find_platform",
    "form_lines",
    "is_card",
    "is_desktop",
    "load_shares",
    "outlet_of",
    "outlets",
    "platform_with_lanes",
    "platforms",
    "plugs",
    "power_curves",
    "psu_sizes",
    "psu_standards",
    "rest_watts",
    "sibling",
    "usual_box",
]

_Named = TypeVar("_Named", bound="Platform | Board | Outlet")
_REGION = "United States"  # also the default for prices
_FEW = 2  # cards that a desktop board takes
_DESKTOP_LANES, _DESKTOP_SLOT_LANES = 28, 16  # lanes of a desktop CPU in total, and those that boards route to slots
_BY_LANES = ((47, "X299"), (111, "TRX40"), (127, "WRX80"))  # CPUs with up to this many lanes that are not desktop CPUs
_MOST_LANES = "EPYC 7003"


@cache
def box_sources() -> Mapping[str, Source]:
    """Return every document from which a figure about the machine is taken, by id."""
    return {
        key: Source(id=key, title=row["title"], url=row.get("url", ""), basis=Basis(row.get("basis", "datasheet")))
        for key, row in _table("sources.toml").items()
    }


@cache
def platforms() -> Mapping[str, Platform]:
    """Return every CPU socket by name."""
    return {name: Platform(name=name, **_with_source(row)) for name, row in _table("platforms.toml").items()}


@cache
def cpu_families() -> tuple[CpuFamily, ...]:
    """Return every family of desktop CPUs that is recognised by CPU names."""
    return tuple(CpuFamily(**_with_source({**row, "models": tuple(row["models"])})) for row in _table("cpu_names.toml")["family"])


def find_cpu_family(name: str) -> CpuFamily | None:
    """Return the family of desktop CPUs that a name belongs to; None if the table has none."""
    model = cpu_model(name)
    return next((one for one in cpu_families() if any(re.fullmatch(pattern, model) for pattern in one.models)), None)


@cache
def boards() -> Mapping[str, Board]:
    """Return every kind of board by name."""
    return {name: Board(name=name, **_with_source(row)) for name, row in _table("boards.toml").items()}


@cache
def outlets() -> Mapping[str, Outlet]:
    """Return every kind of wall outlet by name."""
    return {name: Outlet(name=name, **_with_source(row)) for name, row in _table("outlets.toml").items()}


@cache
def psu_sizes() -> tuple[PsuSize, ...]:
    """Return the sizes of power supplies on sale, in ascending order."""
    return tuple(PsuSize(**_with_source(row)) for row in _table("psus.toml")["size"])


@cache
def psu_standards() -> Mapping[int, PsuStandard]:
    """Return the limits of ATX 2 and ATX 3."""
    return {int(number): PsuStandard(**_with_source(row)) for number, row in _table("psus.toml")["standard"].items()}


@cache
def efficiencies() -> Mapping[str, Efficiency]:
    """Return the 80 PLUS labels."""
    return {label: Efficiency(**_with_source(row)) for label, row in _table("psus.toml")["efficiency"].items()}


@cache
def excursions() -> Mapping[str, Excursion]:
    """Return power spikes by generation of GPUs; `default` for the others."""
    return {generation: Excursion(**_with_source(row)) for generation, row in _table("psus.toml")["excursion"].items()}


@cache
def power_curves() -> tuple[PowerCurve, ...]:
    """Return the speeds measured on GeForce cards at lower power limits."""
    rows = _table("psus.toml")["power_curve"]
    return tuple(PowerCurve(**_with_source({**row, "points": tuple(map(tuple, row["points"]))})) for row in rows)


@cache
def plugs() -> Mapping[str, Plug]:
    """Return plugs on cards by name."""
    return {name: Plug(**_with_source(row)) for name, row in _table("psus.toml")["plug"].items()}


@cache
def load_shares() -> tuple[float, float]:
    """Return shares of a supply's rating: comfortable for sustained load, and the maximum."""
    limits = _table("psus.toml")["limits"]
    return limits["comfortable_fraction"], limits["most_fraction"]


@cache
def rest_watts() -> float:
    """Return the power that board, disks, fans and memory draw."""
    return float(_table("psus.toml")["rest"]["watts"])


def find_platform(name: str) -> Platform:
    """Return the platform with this name or alias."""
    return _find(name, platforms(), "platform")


def platform_with_lanes(count: int) -> Platform:
    """Return a platform whose CPU has this many lanes: desktops route at most 16 to slots, larger CPUs all of them.

    >>> [(platform_with_lanes(count).example, platform_with_lanes(count).slot_lanes) for count in (24, 64)]
    [('Ryzen 7 5800X', 16), ('Threadripper 3970X', 64)]
    """
    small = count <= _DESKTOP_LANES
    usual = find_platform("desktop" if small else next((name for most, name in _BY_LANES if count <= most), _MOST_LANES))
    slots = min(count, _DESKTOP_SLOT_LANES) if small else count
    return replace(usual, name=f"a CPU with {count} lanes", aliases=(), slot_lanes=slots, storage_lanes=count - slots)


def is_desktop(platform: Platform) -> bool:
    """Return whether boards for this platform have the slots of a desktop."""
    return platform.slot_lanes <= _DESKTOP_SLOT_LANES


def find_board(name: str) -> Board:
    """Return the board with this name or alias."""
    return _find(name, boards(), "board")


def find_outlet(name: str) -> Outlet:
    """Return the outlet with this name or alias."""
    return _find(name, outlets(), "outlet")


def outlet_of(region: str) -> Outlet:
    """Return the usual outlet of a region, by the region's name in `regions.csv`."""
    found = {name.lower(): outlet for outlet in outlets().values() for name in outlet.regions}.get(region.strip().lower())
    if found is None:
        raise UnknownName(
            f"the usual wall outlet in '{region}' is unknown",
            looked_in=f"{len(outlets())} outlets",
            hint="use one of " + ", ".join(f"`{name}`" for name in outlets()),
        )
    return found


@cache
def usual_box(card_count: int, psu_watts: float | None = None, region: str = _REGION) -> Box:
    """Return the usual machine for this many cards: a desktop for up to two, and a workstation for more. It uses the region's
    standard outlet.

    An existing supply is assumed to follow ATX 2, which guarantees less, and a supply that has yet to be bought is assumed to
    follow ATX 3.
    """
    few = card_count <= _FEW
    platform = find_platform("desktop" if few else "workstation")
    board = find_board("ATX" if few else "E-ATX")
    return Box(
        platform=platform,
        board=board,
        outlet=outlet_of(region),
        case_slots=board.case_slots,
        cpu_watts=platform.cpu_watts,
        core_count=platform.core_count,
        rest_watts=rest_watts(),
        psu_watts=psu_watts,
        psu_standard=3 if psu_watts is None else 2,
    )


@cache
def _table(name: str) -> Mapping[str, Any]:
    return parse_toml((files("gpuwise.box") / "data" / name).read_text(encoding="utf-8"))


def _with_source(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row, with its source looked up and lists as tuples."""
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return {**plain, "source": box_sources()[row["source"]]}


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _find(name: str, known: Mapping[str, _Named], kind: str) -> _Named:
    by_key = {_key(spelling): known[title] for title in known for spelling in (title, *known[title].aliases)}
    found = by_key.get(_key(name))
    if found is not None:
        return found
    near = [by_key[key].name for key in difflib.get_close_matches(_key(name), by_key, n=3, cutoff=0.5)]
    listed = dict.fromkeys(near or known)
    hint = ("did you mean " if near else "use one of ") + ", ".join(f"`{other}`" for other in listed) + ("?" if near else "")
    raise UnknownName(f"unknown {kind} '{name}'", looked_in=f"{len(known)} {kind}s and their aliases", hint=hint)


# ---------------------------------------------------------------- which GPUs can be put into a slot

_WHOLE = {
    "laptop": "is soldered into laptops and not sold as a card",
    "soc": "is built into a complete computer",
    "embedded": "is part of a module with its own CPU",
    "tpu": "can only be rented and is not sold as a card",
    "cpu": "is a CPU, not a card",
}


def is_card(gpu: Gpu) -> bool:
    """Return whether this GPU is a card for a PCIe slot."""
    return gpu.segment not in _WHOLE and gpu.cooler != "module"


@cache
def sibling(gpu: Gpu) -> Gpu | None:
    """Return the card most similar to a GPU that is not a card: the same chip, else the same architecture; then by units and
    memory.
    """
    cards = [other for other in curated_gpus() if is_card(other) and other.vendor == gpu.vendor]
    same = [other for other in cards if gpu.chip and other.chip == gpu.chip]
    near = same or [other for other in cards if other.architecture.id == gpu.architecture.id]
    return min(near, key=lambda other: _distance(gpu, other), default=None)


def _distance(gpu: Gpu, other: Gpu) -> float:
    return abs(other.sm_count / gpu.sm_count - 1) + abs(other.memory_bytes / gpu.memory_bytes - 1)


def form_lines(cards: Sequence[Cards]) -> tuple[CheckLine, ...]:
    """Return a line for each GPU that is not a card, and one if no card can drive a screen."""
    lines = [_not_a_card(each) for each in cards if not is_card(each.gpu)]
    real = [each.gpu for each in cards if is_card(each.gpu)]
    if real and all(gpu.display is False for gpu in real):
        text = f"no card has a video output ({', '.join(dict.fromkeys(gpu.name for gpu in real))})"
        remedy = "use a CPU with integrated graphics, add a small graphics card, or run the machine without a display"
        lines.append(CheckLine(check="display", verdict="tight", value=0, limit=1, unit="outputs", text=text, remedy=remedy))
    return tuple(lines)


def _not_a_card(each: Cards) -> CheckLine:
    gpu = each.gpu
    what = _WHOLE.get(gpu.segment, "is a module for server boards (SXM, OAM), not a card")
    other = sibling(gpu)
    remedy = f"consider the most similar card, the {other.name}" if other else "buy a machine that contains it"
    return CheckLine(check="form", verdict="fail", value=0, limit=1, unit="cards", text=f"the {gpu.name} {what}", remedy=remedy)
