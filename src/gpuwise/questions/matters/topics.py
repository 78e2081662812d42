"""Every topic of `matters` by name, and the other names people give them."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from gpuwise.core.errors import UnknownName
from gpuwise.core.text import either
from gpuwise.questions.matters import card, host, links, numbers, several, sheet
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.types import Matter

__all__ = ["TOPICS", "find_topic"]

TOPICS: dict[str, Callable[[MattersCase], Matter]] = {
    "pcie-lanes": links.pcie_lanes,
    "pcie-gen": links.pcie_gen,
    "nvlink": links.nvlink,
    "sli": links.sli,
    "cpu": host.cpu,
    "ram-size": host.ram_size,
    "ram-speed": host.ram_speed,
    "ssd": host.ssd,
    "overclock": card.overclock,
    "brand": card.brand,
    "display": card.display,
    "egpu": links.egpu,
    "power-limit": card.power_limit,
    "cooling": card.cooling,
    "ecc": card.ecc,
    "tensor-cores": numbers.tensor_cores,
    "16-bit": numbers.sixteen_bit,
    "spec-sheet": sheet.spec_sheet,
    "memory-adds-up": several.memory_adds_up,
    "mixed-cards": several.mixed_cards,
    "windows-wsl": host.windows_wsl,
}
_ALIASES = {
    "pcie": "pcie-lanes",
    "lanes": "pcie-lanes",
    "ram": "ram-size",
    "amp": "16-bit",
    "fp16": "16-bit",
    "wsl": "windows-wsl",
    "windows": "windows-wsl",
    "flops": "spec-sheet",
    "bandwidth": "spec-sheet",
    "disk": "ssd",
    "thunderbolt": "egpu",
    "mixed": "mixed-cards",
    "memory": "memory-adds-up",
}


def find_topic(text: str) -> str:
    """The name of the topic that is meant, however it is spelled.

    >>> find_topic("PCIe lanes"), find_topic("thunderbolt")
    ('pcie-lanes', 'egpu')
    """
    key = "-".join(text.lower().replace("_", " ").replace("-", " ").split())
    key = _ALIASES.get(key, key)
    if key not in TOPICS:
        near = difflib.get_close_matches(key, [*TOPICS, *_ALIASES], n=2, cutoff=0.6)
        hint = "did you mean " + either(f"`{name}`" for name in near) + "?" if near else "`gpuwise matters` lists all topics"
        raise UnknownName(f"unknown topic '{text}'", known=", ".join(TOPICS), hint=hint)
    return key
