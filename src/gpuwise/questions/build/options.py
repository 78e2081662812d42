"""The options of `build`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from gpuwise.questions.common.options import Names, Option

__all__ = ["BuildOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Check whether a build works (power, connectors, slots, lanes, cooling, RAM, outlet and heat) and suggest fixes."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure", "strict")

    gpu: Annotated[Names, Option(help="The cards: 'RTX 3090' or '4x RTX 3090'; may be repeated.")] = ()
    psu: Annotated[str, Option(help="The power supply: 1600 or '1600W gold atx3'.")] = ""
    psu_standard: Annotated[Optional[int], Option(help="The power supply's ATX standard: 2 or 3.")] = None
    cpu: Annotated[str, Option(help="The CPU's name, which determines its power and core count.")] = ""
    cpu_watts: Annotated[Optional[float], Option(help="The CPU power in watts.", low=0, high=1e12)] = None
    board: Annotated[str, Option(help="The mainboard: atx, eatx, ssi, itx, matx, frame, or slots=7,x16=4,spacing=2.")] = ""
    case_slots: Annotated[Optional[int], Option(help="The number of expansion slots in the case.", low=1, high=1000)] = None
    card_slots: Annotated[
        Optional[int], Option(help="How many slots each card takes up (default: as many as the launch model).", low=1, high=6)
    ] = None
    lanes: Annotated[str, Option(help="The CPU's PCIe lanes or platform: 44, AM5, X299, WRX80, EPYC.")] = ""
    chipset_link: Annotated[str, Option(help="The link to the chipset, such as 'PCIe 3.0 x4'.")] = ""
    riser: Annotated[str, Option(help="Whether the cards use risers: yes, or the riser link, such as 'PCIe 3.0 x16'.")] = ""
    nvme: Annotated[Optional[int], Option(help="The number of NVMe drives; each uses four lanes.", low=0, high=1000)] = None
    cooler: Annotated[str, Option(help="The card cooler: blower, open-air, water or passive.")] = ""
    ram: Annotated[str, Option(help="The amount of RAM, such as 64GB.")] = ""
    region: Annotated[str, Option(help="The country whose wall outlets are assumed, such as US, DE or JP (default: US).")] = ""
    outlet: Annotated[str, Option(help="The wall outlet (default: by region): '120V 15A', '230V 16A', us, eu, uk.")] = ""
    room: Annotated[str, Option(help="The room's floor area in square metres.")] = ""
    power_limit: Annotated[str, Option(help="A power limit for each GPU in watts, such as 280.")] = ""
