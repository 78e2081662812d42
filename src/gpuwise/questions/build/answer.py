"""Will these GPUs work in that machine? Every part that was not named is assumed and listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.box.checks import worst
from gpuwise.box.power import card_watts
from gpuwise.box.types import Cards, CheckLine
from gpuwise.core.provenance import Assumption, as_dicts, assumed
from gpuwise.hardware import tables
from gpuwise.questions.build.ask import ask
from gpuwise.questions.build.options import BuildOptions
from gpuwise.questions.common.machine import KINDS, LaneCost, PowerLimit, check_machine
from gpuwise.questions.common.options import Shown
from gpuwise.questions.face import face

__all__ = ["BuildAnswer", "answer", "build"]

_CHECKED_BY = {  # options, and the checks that they are about; what matters most comes first
    "lanes": "lanes",
    "outlet": "outlet",
    "region": "outlet",
    "psu": "psu",
    "ram": "ram",
    "room": "heat",
    "cooler": "cooling",
    "board": "slots",
    "case_slots": "slots",
    "card_slots": "slots",
    "chipset_link": "lanes",
    "riser": "lanes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildAnswer(Shown):
    """All checks, the worst verdict among them, and the speed lost at lower power limits. `given` are the checks that the user
    gave an option for, which the output always shows."""

    TEXT: ClassVar[str] = "questions.build.text.render"
    FIGURE: ClassVar[str] = "questions.build.figure.power_figure"

    cards: tuple[Cards, ...]
    lines: tuple[CheckLine, ...]
    verdict: str
    power_limits: tuple[PowerLimit, ...]
    lane_costs: tuple[LaneCost, ...]
    power_limit_watts: float | None
    assumptions: tuple[Assumption, ...]
    data_date: date
    given: tuple[str, ...] = ()

    @property
    def says_no(self) -> bool:
        return self.verdict == "fail"

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        return {
            "gpus": [
                {"gpu": each.gpu.name, "count": each.count, "card_watts": card_watts(each.gpu, self.power_limit_watts)}
                for each in self.cards
            ],
            "lines": [asdict(line) for line in self.lines],
            "verdict": self.verdict,
            "power_limits": [asdict(limit) for limit in self.power_limits],
            "lane_costs": [asdict(cost) for cost in self.lane_costs],
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def answer(options: BuildOptions, progress: Callable[[str], None] = lambda text: None) -> BuildAnswer:
    """The checks, with the speed that their remedies cost."""
    query = ask(options)
    found = check_machine(query.cards, query.box)
    return BuildAnswer(
        cards=query.cards,
        lines=found.lines,
        verdict=worst(found.lines),
        power_limits=found.limits,
        lane_costs=found.lane_costs,
        power_limit_watts=query.box.power_limit_watts,
        assumptions=(*query.assumptions, *_speed_notes()) if found.real else _names_only(query.assumptions),
        data_date=tables.data_date(),
        given=_given(options),
    )


def _given(options: BuildOptions) -> tuple[str, ...]:
    """The checks that the user gave an option for."""
    return tuple(dict.fromkeys(check for option, check in _CHECKED_BY.items() if getattr(options, option) not in ("", None)))


def _names_only(notes: Sequence[Assumption]) -> tuple[Assumption, ...]:
    """The notes that still apply where no GPU is a card."""
    return tuple(note for note in notes if note.code == "gpu_name")


def _speed_notes() -> tuple[Assumption, ...]:
    kinds = "; ".join(f"{kind.title}: {kind.model}, batch {kind.batch}" for kind in KINDS)
    return (
        assumed("kinds of work", kinds, "speeds at lower power limits and with fewer lanes are computed for these models"),
        assumed("bridges", "no NVLink bridge", "bridges are sold separately; without one, GPUs exchange gradients over PCIe"),
        assumed(
            "power model",
            "fitted to the V100, P100 and Quadro RTX 6000",
            "in measurements, GeForce cards lost more speed than this model predicts",
        ),
    )


build = face(BuildOptions, answer)
