"""Every topic of `matters` by name, with other names for it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.text import either
from gpuwise.questions.matters import card, generation, host, links, numbers, offload, ram, several, sheet
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.language_case import LanguageCase
from gpuwise.questions.matters.types import Matter

__all__ = ["TEXT_TOPICS", "TOPICS", "find_topic", "text_topics"]

TOPICS: dict[str, Callable[[MattersCase], Matter]] = {
    "pcie-lanes": links.pcie_lanes,
    "pcie-gen": links.pcie_gen,
    "riser": links.riser,
    "nvlink": links.nvlink,
    "sli": links.sli,
    "cpu": host.cpu,
    "ram-size": ram.ram_size,
    "ram-speed": ram.ram_speed,
    "ssd": host.ssd,
    "activation-offload": offload.activation_offload,
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
TEXT_TOPICS: dict[str, Callable[[LanguageCase], Matter]] = {
    "pcie-lanes": generation.pcie_lanes,
    "pcie-gen": generation.pcie_gen,
    "riser": generation.riser,
    "nvlink": generation.nvlink,
    "sli": links.sli,
    "cpu": generation.cpu,
    "ram-size": ram.text_ram_size,
    "ram-speed": ram.text_ram_speed,
    "overclock": card.overclock,
    "brand": card.brand,
    "display": card.display,
    "egpu": generation.egpu,
    "power-limit": card.power_limit,
    "cooling": card.cooling,
    "ecc": card.ecc,
    "spec-sheet": generation.spec_sheet,
    "memory-adds-up": generation.memory_adds_up,
    "windows-wsl": host.windows_wsl,
}
_SHARING = ("pcie-lanes", "pcie-gen", "riser", "nvlink", "memory-adds-up")  # where several GPUs share one model
_ALIASES = {
    "pcie": "pcie-lanes",
    "lanes": "pcie-lanes",
    "risers": "riser",
    "riser-cable": "riser",
    "extender": "riser",
    "ram": "ram-size",
    "amp": "16-bit",
    "fp16": "16-bit",
    "wsl": "windows-wsl",
    "windows": "windows-wsl",
    "flops": "spec-sheet",
    "bandwidth": "spec-sheet",
    "disk": "ssd",
    "offload": "activation-offload",
    "thunderbolt": "egpu",
    "mixed": "mixed-cards",
    "memory": "memory-adds-up",
}
_ELSEWHERE = {  # questions that other commands answer
    "laptop": '`gpuwise compare "RTX 4090" "RTX 4090 Laptop"` or `gpuwise which --laptop`',
    "psu": '`gpuwise build --gpu "RTX 4090" --psu 850`',
    "power-supply": '`gpuwise build --gpu "RTX 4090" --psu 850`',
    "case": '`gpuwise build --gpu "2x RTX 4090" --case-slots 7`',
    "slots": '`gpuwise build --gpu "2x RTX 4090" --board atx`',
    "cloud": '`gpuwise cost --gpu "RTX 4090"`',
    "used": "`gpuwise which --used`",
    "quadro": '`gpuwise compare "Quadro RTX 5000" "RTX 2080"`',
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
        hint = f"try {_ELSEWHERE[key]}" if key in _ELSEWHERE else hint
        raise UnknownName(f"unknown topic '{text}'", known=", ".join(TOPICS), hint=hint)
    return key


def text_topics(names: Sequence[str], case: LanguageCase) -> tuple[str, ...]:
    """Those of these topics that apply to generated text. A single topic that does not is refused."""
    if len(names) == 1 and names[0] not in TEXT_TOPICS:
        raise BadValue(
            f"`{names[0]}` cannot be answered for text generation, which is the default for {case.query.model}",
            hint="add `--mode train`, or choose another topic, such as `memory-adds-up` or `nvlink`",
        )
    if len(names) == 1:
        return tuple(names)
    return tuple(name for name in names if name in TEXT_TOPICS and (case.can_share or name not in _SHARING))
