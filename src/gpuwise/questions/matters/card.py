"""Topics about the card itself: overclocking, makers, displays, power limits, heat, ECC."""

from __future__ import annotations

from gpuwise.box.checks import cooling_lines
from gpuwise.box.parts import usual_box
from gpuwise.box.power import measured_losses
from gpuwise.box.types import Cards
from gpuwise.core.text import the
from gpuwise.core.units import MIB
from gpuwise.prediction.ways import room_of
from gpuwise.questions.common.machine import is_geforce
from gpuwise.questions.matters.case import Case
from gpuwise.questions.matters.language_case import LanguageCase
from gpuwise.questions.matters.types import Matter
from gpuwise.step.memory.peak import MemorySetting, around_bytes

__all__ = ["brand", "cooling", "display", "ecc", "overclock", "power_limit"]

_FACTORY = 1.03  # boost clock of a factory-overclocked card over the plain one, assumed
_OWN = 1.07  # what an owner may get out of clock and memory, assumed
_LOWER, _LOWEST = 0.8, 2 / 3  # of the rated power
_UNHURT = 0.999  # of the speed
_HOT = 0.9  # of the clock when a card throttles, assumed
_DESKTOPS = (0.3e9, 1.5e9)  # bytes: the range seen, as the table of `step` has it


def overclock(case: Case) -> Matter:
    """Core and memory clocks raised by the owner."""
    gain = _clocked(case, _OWN, _OWN)
    return Matter(
        topic="overclock",
        question="Is overclocking worth it?",
        value=100 * gain,
        unit="% faster with 7% higher clocks",
        answer=f"Raising both clocks by 7% under the same power limit makes {case.work} {100 * gain:.1f}% faster, "
        "if the card stays stable.",
        how=f"we predict {case.work} at higher clocks under the same power limit",
        source="computed; the 7% is assumed",
        unless="the card already runs at its power limit, where the gain is zero, or a bit error ruins a week of training",
    )


def brand(case: Case) -> Matter:
    """The same chip from another maker."""
    gain = _clocked(case, _FACTORY, 1.0)
    return Matter(
        topic="brand",
        question="Does the card's brand matter?",
        value=100 * gain,
        unit="% faster with a 3% factory overclock",
        answer=f"A card with a 3% higher clock is {100 * gain:.1f}% faster, so buy the cheapest one with good cooling.",
        how=f"we predict {case.work} at the higher clock under the same power limit",
        source="computed; a guide to GPUs for deep learning says that a factory-overclocked card gains 0 to 5%, and that the "
        "cheapest card is by far the best buy",
        unless="the cooler or warranty differs; several cards side by side need blowers, and a single card needs large fans",
    )


def display(case: Case) -> Matter:
    """A desktop on the same GPU."""
    held, bare = (around_bytes(case.gpu, MemorySetting(display=shown)) for shown in (True, False))
    share = (held - bare) / room_of(case.gpu).usable_bytes
    return Matter(
        topic="display",
        question="Can the GPU also drive my screen?",
        value=(held - bare) / MIB,
        unit="MiB of memory",
        low=_DESKTOPS[0] / MIB,
        high=_DESKTOPS[1] / MIB,
        answer=f"A desktop takes {(held - bare) / MIB:.0f} MiB ({100 * share:.1f}% of this GPU's memory) and little GPU time.",
        how="the desktop's memory use is estimated as in `gpuwise fit --display`",
        source="a guide to GPUs for deep learning reports 100 to 300 MB of memory and less than 5% of the GPU time; one of its "
        "readers freed 0.5 GB",
        unless="you play games or watch videos at the same time",
    )


def power_limit(case: Case) -> Matter:
    """Fewer watts."""
    rated = case.gpu.tdp_watts
    if not rated:
        return _no_watts(case, "power-limit", "Can I use a lower power limit?")
    watts = max(_LOWER * rated, case.gpu.power_min_watts or 0.0)
    kept, measured = _kept(case, watts)
    within = f", within the losses of {measured} measured on GeForce cards at such a limit" if measured else ""
    saved = f"uses up to {100 * (1 - watts / rated / kept):.0f}% less energy per {case.unit}"
    saved = saved if kept < _UNHURT else f"saves little energy, because {case.work} draws hardly more power than that"
    return Matter(
        topic="power-limit",
        question="Can I use a lower power limit?",
        value=100 * (1 - kept),
        unit=f"% slower at {watts:.0f} of {rated:.0f} W",
        answer=f"At {watts:.0f} W, the GPU keeps {100 * kept:.3g}% of its speed and {saved}.{_lower_still(case, watts)}",
        how="clocks fall until the power limit is met; work that is limited by memory loses less speed",
        source=f"computed{within}; in published measurements, a V100 keeps 96% of its speed at 80% power, "
        "and four RTX 3090s keep over 95% at 280 W",
        unless=f"{case.work} consists mostly of matrix products; its speed then falls almost in proportion to power",
    )


def _kept(case: Case, watts: float) -> tuple[float, str]:
    """The share of the speed that is kept at a limit, and the losses measured there: our model of clocks and power is too
    optimistic for GeForce cards, so the loss is at least the smallest measured one and at most the largest.
    """
    kept, rated = case.seconds() / case.seconds(watts=watts), case.gpu.tdp_watts or watts
    work = "text generation" if isinstance(case, LanguageCase) else "training"
    if not is_geforce(case.gpu) or work not in (lost := measured_losses(watts / rated)):
        return kept, ""
    least, most = lost[work]
    return min(max(kept, 1 - most), 1 - least), f"{100 * least:.0f} to {100 * most:.0f}%"


def _lower_still(case: Case, watts: float) -> str:
    """The speed at a much lower limit, if the card allows one and its loss is known as well as at the first limit."""
    lowest = max(_LOWEST * (case.gpu.tdp_watts or 0.0), case.gpu.power_min_watts or 0.0)
    (kept, measured), (_, first) = _kept(case, lowest), _kept(case, watts)
    return "" if lowest >= watts or bool(measured) != bool(first) else f" At {lowest:.0f} W, it keeps {100 * kept:.3g}%."


def cooling(case: Case) -> Matter:
    """A card that gets too hot, and whether several get enough air in a usual machine."""
    lost = -_clocked(case, _HOT, 1.0)
    beside = cooling_lines([Cards(gpu=case.gpu, count=case.held)], usual_box(case.held)) if case.held > 1 else ()
    air = "".join(f" In a usual machine, {line.text}{f'; {line.remedy}' if line.remedy else ''}." for line in beside)
    return Matter(
        topic="cooling",
        question="Does cooling matter?",
        value=100 * lost,
        unit="% slower with a 10% lower clock",
        answer=f"A card that loses 10% of its clock to heat is {100 * lost:.1f}% slower. Below 80 °C, it loses no speed.{air}",
        how=f"we predict {case.work} at 90% of the clock",
        source="computed; a guide to GPUs for deep learning says that cards throttle at 80 °C, that a gap between cards cools "
        "them by 10 to 30 °C, "
        "and that a better case cools them by 1 to 5 °C",
        unless="several open-air cards are side by side, which makes cooling the first problem to solve (see `gpuwise build`)"
        if case.held == 1
        else "the case has more slots, or the cards are blowers or water-cooled (`gpuwise build` checks your own machine)",
    )


def ecc(case: Case) -> Matter:
    """Memory that corrects bit errors."""
    hbm = case.gpu.memory_type.startswith("HBM")
    narrower = case.with_gpu(memory_bytes_per_s=case.gpu.memory_bytes_per_s * 15 / 16)
    slower = 0.0 if hbm else 1 - case.seconds() / case.seconds(gpu=narrower)
    why = "the check bits take 1/16 of the memory and bandwidth"
    why = "HBM stores the check bits separately, at no cost" if hbm else why
    lacking = case.gpu.ecc is False
    memory = "HBM" if hbm else "GDDR"
    first = (
        f"{the(case.gpu.name, first=True)} has no ECC. A similar {memory} card with ECC"
        if lacking
        else f"With ECC enabled, {case.work}"
    )
    rest = "" if lacking else ", and most GeForce cards have no ECC"
    return Matter(
        topic="ecc",
        question="Do I need ECC memory, and what does it cost?",
        value=100 * slower,
        unit="% slower with ECC" + (", which this card lacks" if lacking else ""),
        answer=f"{first} is {100 * slower:.1f}% slower, because {why}. "
        f"{case.activity.capitalize()} tolerates an occasional bit error{rest}.",
        how=f"we predict {case.work} with 15/16 of the bandwidth",
        source="computed; NVIDIA says that inline ECC takes 1/16 of GDDR memory",
        unless="you train for weeks on hundreds of GPUs, where bit errors are bound to occur",
    )


def _clocked(case: Case, core: float, memory: float) -> float:
    """The gain in speed with other clocks, as a fraction; the power limit stays."""
    gpu = case.gpu
    changed = case.with_gpu(
        boost_clock_hz=gpu.boost_clock_hz * core,
        matrix_clock_hz=gpu.matrix_clock_hz * core,
        memory_bytes_per_s=gpu.memory_bytes_per_s * memory,
    )
    return case.seconds() / case.seconds(gpu=changed) - 1


def _no_watts(case: Case, topic: str, question: str) -> Matter:
    return Matter(
        topic=topic,
        question=question,
        value=0.0,
        unit="% slower",
        answer=f"The power rating of {the(case.gpu.name)} is not published, so this cannot be computed.",
        how="-",
        source="catalogue",
        unless="-",
    )
