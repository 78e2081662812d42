"""The types for a box (cards, power supply, board, lanes, wall outlet) and for the result of a check."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.core.provenance import Source
from gpuwise.hardware.types import Gpu

__all__ = [
    "COOLERS",
    "VERDICTS",
    "Board",
    "Box",
    "Cards",
    "CheckLine",
    "CpuFamily",
    "Efficiency",
    "Excursion",
    "Outlet",
    "Platform",
    "Plug",
    "PowerCurve",
    "PsuSize",
    "PsuStandard",
]

VERDICTS = ("pass", "tight", "fail")  # from good to bad
COOLERS = ("blower", "open-air", "water", "passive")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One check: `value` compared with `limit`, both in `unit`, and what to do if it does not pass.

    `power_limit_watts` is the power limit that the remedy names, if it names one.
    """

    check: str
    verdict: str
    value: float | None
    limit: float | None
    unit: str
    text: str
    remedy: str = ""
    power_limit_watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A CPU socket with its PCIe lanes. `slot_lanes` of the CPU reach slots; another `storage_lanes` reach only disks."""

    name: str
    aliases: tuple[str, ...] = ()
    slot_lanes: int
    storage_lanes: int = 0
    smallest_split: int = 4
    generation: int
    chipset_link: str = ""
    example: str = ""
    cpu_watts: float
    core_count: int
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuFamily:
    """CPUs whose names match one of these patterns, with their common properties."""

    models: tuple[str, ...]
    core_count: int
    threads_per_core: int
    watts: float
    platform: str
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The slots of a board: its positions, the long slots among them, and the number of positions from one long slot to the
    next.

    With a `switch` (PLX), every slot shows x16, and all of them share the lanes of the CPU when they copy at the same time.
    """

    name: str
    aliases: tuple[str, ...] = ()
    slots: int
    x16: int
    spacing: int
    case_slots: int
    switch: bool = False
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PsuSize:
    """A size on the market, and the plugs for cards that it usually has."""

    watts: float
    eight_pin: int
    sixteen_pin: int
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class PsuStandard:
    """The loads that a supply tolerates for 100 µs, as shares of its rating: the load that is safe, and the load at which its
    protection is likely to trip.
    """

    safe_fraction: float
    most_fraction: float
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """Minimum efficiency at 20, 50 and 100% of the rating, at 115 V and at 230 V."""

    at_115_volts: tuple[float, float, float]
    at_230_volts: tuple[float, float, float]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Excursion:
    """The multiple of its power limit that a card draws for about 100 µs."""

    factor: float
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCurve:
    """Speeds measured on a card at several power limits in watts, relative to the speed at the highest, for one kind of work."""

    gpu: str
    rated_watts: float
    work: str
    points: tuple[tuple[float, float], ...]
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plug:
    """A plug on a card: the power that it carries, and how many 8-pin plugs of a supply replace it."""

    watts: float
    eight_pin: int
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A wall outlet, the share of its rating that may be drawn continuously, and the regions where it is common."""

    name: str
    aliases: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    volts: float
    amps: float
    continuous_fraction: float
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Several cards of one kind. A card is a board: a K80 is one card with two devices."""

    gpu: Gpu
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The machine around the cards. A part that is None is still to be chosen, and the check says which one to take.

    `host` is the class of the CPU, if it was named. If `cooler` is None, each card has the cooler that it is sold with, and if
    `card_slots` is None, it is as thick as its launch model. `riser` names the link through an extender, such as `PCIe 3.0 x16`.
    """

    platform: Platform
    board: Board
    outlet: Outlet
    case_slots: int
    cpu_watts: float
    core_count: int
    threads_per_core: int = 2
    host: str = ""
    rest_watts: float
    psu_watts: float | None = None
    psu_standard: int = 2
    psu_label: str = "gold"
    power_limit_watts: float | None = None
    cooler: str | None = None
    card_slots: int | None = None
    riser: str | None = None
    ram_bytes: float | None = None
    nvme_count: int = 1
    room_m2: float | None = None
