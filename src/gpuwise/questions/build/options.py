"""What `build` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from gpuwise.questions.common.options import Names, Option

__all__ = ["BuildOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Check a build: power, plugs, slots, lanes, cooling, RAM, outlet and heat, each with its figure and what to do."""

    SURFACE: ClassVar[tuple[str, ...]] = ("figure", "strict")

    gpu: Annotated[Names, Option(help="Cards: 'RTX 3090' or '4x RTX 3090'; may be repeated.")] = ()
    psu: Annotated[str, Option(help="Power supply: 1600, or '1600W gold atx3'.")] = ""
    psu_standard: Annotated[Optional[int], Option(help="ATX standard of the power supply: 2 or 3.")] = None
    cpu: Annotated[str, Option(help="The CPU by name, for its power and cores.")] = ""
    cpu_watts: Annotated[Optional[float], Option(help="Power of the CPU in watts.", low=0, high=1e12)] = None
    board: Annotated[str, Option(help="atx, eatx, ssi, itx, matx, frame, or slots=7,x16=4,spacing=2.")] = ""
    case_slots: Annotated[Optional[int], Option(help="Expansion openings of the case.", low=1, high=1000)] = None
    lanes: Annotated[str, Option(help="PCIe lanes of the CPU, or a platform: 44, AM5, X299, WRX80, EPYC.")] = ""
    chipset_link: Annotated[str, Option(help="Link of the chipset, such as 'PCIe 3.0 x4'.")] = ""
    riser: Annotated[str, Option(help="Cards on risers: yes, or their link such as 'PCIe 3.0 x16'.")] = ""
    nvme: Annotated[Optional[int], Option(help="NVMe disks, four lanes each.", low=0, high=1000)] = None
    cooler: Annotated[str, Option(help="Cooler of the cards: blower, open-air, water or passive.")] = ""
    ram: Annotated[str, Option(help="Memory of the host, such as 64GB.")] = ""
    outlet: Annotated[str, Option(help="The wall outlet: '120V 15A', '230V 16A', us, eu, uk.")] = ""
    room: Annotated[str, Option(help="Floor area of the room in square metres.")] = ""
    power_limit: Annotated[str, Option(help="A power limit for each GPU, such as 280.")] = ""
