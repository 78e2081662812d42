"""Whether a usual machine takes the cards of an option, and what `which` says where it does so only with a slight power limit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gpuwise.advise.candidates import Candidate
from gpuwise.box.checks import check_build
from gpuwise.box.parts import usual_box
from gpuwise.box.types import Cards, CheckLine
from gpuwise.hardware.types import Gpu
from gpuwise.questions.common.machine import check_machine

__all__ = ["check_parts", "describe_limit", "failing", "mended", "usual_checks"]

_SLIGHT_LIMIT = 0.9  # of the rated power: training loses next to nothing


@lru_cache(maxsize=2048)
def usual_checks(gpu: Gpu, count: int, psu_watts: float | None, region: str) -> tuple[CheckLine, ...]:
    """Whether a usual machine takes these cards; kept, since every question asks it of the same cards."""
    return check_build(gpu, count, usual_box(count, psu_watts, region))


def check_parts(option: Candidate, psu_watts: float | None, region: str, *, decodes: bool) -> tuple[CheckLine, ...]:
    """Every check of `gpuwise build` that concerns these jobs, so that both commands agree about the same machine."""
    cards = Cards(gpu=option.gpu, count=option.gpu_count)
    found = check_machine([cards], usual_box(option.gpu_count, psu_watts, region))
    return tuple(line for line in found.lines if decodes or line.check != "loader")


def failing(lines: Sequence[CheckLine], gpu: Gpu) -> list[CheckLine]:
    """What fails, beyond what a slight power limit mends."""
    return [line for line in lines if line.verdict == "fail" and not _is_mended(line, gpu)]


def mended(lines: Sequence[CheckLine], gpu: Gpu) -> CheckLine | None:
    """The check that asks for the lowest of the slight power limits; None where none is needed."""
    return min((line for line in lines if _is_mended(line, gpu)), key=lambda line: line.power_limit_watts or 0.0, default=None)


def _is_mended(line: CheckLine, gpu: Gpu) -> bool:
    """Whether a power limit that hardly costs speed mends what fails."""
    limit, rated = line.power_limit_watts, gpu.tdp_watts
    return line.verdict == "fail" and limit is not None and rated is not None and limit >= _SLIGHT_LIMIT * rated


def describe_limit(line: CheckLine, gpu_count: int) -> str:
    """The power limit that an option needs, and why."""
    each = "each card" if gpu_count > 1 else "the card"
    stronger = "a circuit with a higher rating" if line.check == "outlet" else "a larger power supply"
    return f" Limit {each} to {line.power_limit_watts:.0f} W, which costs hardly any speed, or use {stronger}: {line.text}."
