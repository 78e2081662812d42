"""All topics by name, and the question of `gpuwise matters`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.hardware import tables
from gpuwise.questions.common.showing import Shown
from gpuwise.questions.common.step import step_query
from gpuwise.questions.common.step_options import step_options
from gpuwise.questions.matters import card, host, links, numbers, several, sheet
from gpuwise.questions.matters.case import Case, Matter

__all__ = ["TOPICS", "MattersAnswer", "matters"]

TOPICS: dict[str, Callable[[Case], Matter]] = {
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
}
_ALIASES |= {"flops": "spec-sheet", "bandwidth": "spec-sheet"}
_ALIASES |= {"windows": "windows-wsl", "disk": "ssd", "thunderbolt": "egpu", "mixed": "mixed-cards", "memory": "memory-adds-up"}
_DEFAULT_GPU, _DEFAULT_MODEL = "RTX 3090", "resnet50"
_MOST_GPUS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MattersAnswer(Shown):
    """One or all topics, for one case."""

    TEXT: ClassVar[str] = "questions.matters.text.render"

    case: str
    topics: tuple[Matter, ...]
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "topics": [asdict(topic) for topic in self.topics],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def matters(
    topic: str = "",
    *,
    model: str = "",
    gpu: str = "",
    gpus: int = 2,
    progress: Callable[[str], None] = lambda text: None,
    **how: Any,
) -> MattersAnswer:
    """One topic, or all, for this model on this GPU. `how` are options of `predict`: batch, seq, image, precision, mode, cpu."""
    names = [_find(topic)] if topic else list(TOPICS)
    if not 2 <= gpus <= _MOST_GPUS:
        raise BadValue(f"--gpus {gpus} is no number of several GPUs", hint=f"between 2 and {_MOST_GPUS}")
    asked = step_options({"model": model or _DEFAULT_MODEL, "gpu": gpu or _DEFAULT_GPU, **how})
    query = step_query(asked)
    if query.gpus[0].is_cpu:
        raise BadValue(f"{query.gpus[0].name} is a CPU: these questions are about GPUs", hint='for example `--gpu "RTX 3090"`')
    case = Case(query=query, asked=asked, progress=progress, count=gpus)
    found = tuple(TOPICS[name](case) for name in names)
    step = case.step()
    notes = [
        *([] if model else [assumed("model", _DEFAULT_MODEL, "`--model` asks for yours")]),
        *([] if gpu else [assumed("gpu", _DEFAULT_GPU, "`--gpu` asks for yours")]),
        *step.assumptions,
    ]
    size = f"batch {step.batch}" + (f", sequence {step.seq}" if step.seq else "")
    told = f"{query.capture.request.model}, {step.mode}, {step.precision}, {size}, on {query.gpus[0].name}"
    return MattersAnswer(case=told, topics=found, assumptions=tuple(notes), data_date=tables.data_date())


def _find(text: str) -> str:
    key = "-".join(text.lower().replace("_", " ").replace("-", " ").split())
    key = _ALIASES.get(key, key)
    if key not in TOPICS:
        near = difflib.get_close_matches(key, [*TOPICS, *_ALIASES], n=2, cutoff=0.6)
        hint = "did you mean " + " or ".join(f"`{name}`" for name in near) + "?" if near else "`gpuwise matters` lists them all"
        raise UnknownName(f"there is no topic '{text}'", looked_in=", ".join(TOPICS), hint=hint)
    return key
