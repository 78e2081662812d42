"""Overclocking, makers of cards, displays, power limits, heat, ECC: does the card itself matter?"""

from __future__ import annotations

from gpuwise.core.units import MIB
from gpuwise.engine.capacity import room_of
from gpuwise.questions.matters.case import Case, Matter
from gpuwise.step.memory.peak import MemorySetting, memory_of

__all__ = ["brand", "cooling", "display", "ecc", "overclock", "power_limit"]

_FACTORY = 1.03  # boost clock of a factory-overclocked card over the plain one, assumed
_OWN = 1.07  # what an owner may get out of clock and memory, assumed
_LOWER = 0.8
_UNHURT = 0.999  # of the speed
_HOT = 0.9  # of the clock when a card throttles, assumed
_DESKTOPS = (0.3e9, 1.5e9)  # bytes: the range seen, as the table of `step` has it


def overclock(case: Case) -> Matter:
    """Clock and memory raised by the owner."""
    gain = _clocked(case, _OWN, _OWN)
    return Matter(
        topic="overclock",
        question="Is overclocking worth it?",
        value=100 * gain,
        unit="% faster with 7 % more clock and memory",
        answer=f"Core and memory both 7 % up under the same power limit: {100 * gain:.1f} % faster, if it stays stable for days.",
        how="the step at raised clocks under the same power limit",
        source="computed; 7 % is assumed",
        unless="the card runs at its power limit (then nothing is gained), or a wrong bit spoils a week of training",
    )


def brand(case: Case) -> Matter:
    """The same chip from another maker."""
    gain = _clocked(case, _FACTORY, 1.0)
    return Matter(
        topic="brand",
        question="Does the maker of the card matter?",
        value=100 * gain,
        unit="% faster with a factory overclock of 3 %",
        answer=f"{100 * gain:.1f} % between a plain card and one with 3 % more clock: take the cheapest that is cooled well.",
        how="the step at the raised clock under the same power limit",
        source="computed; the guide's author: 0 to 5 % for a superclocked card, the cheapest by far",
        unless="the cooler differs: blowers for several cards side by side, large fans for one; and warranty",
    )


def display(case: Case) -> Matter:
    """A desktop on the same GPU."""
    workload = case.workload()
    size = case.step().batch if "batch" in workload.symbols else None
    held, bare = (
        memory_of(workload, size, gpu=case.gpu, setting=MemorySetting(display=shown)).total_bytes for shown in (True, False)
    )
    share = (held - bare) / room_of(case.gpu).usable_bytes
    return Matter(
        topic="display",
        question="May the GPU also drive my screen?",
        value=(held - bare) / MIB,
        unit="MiB of memory",
        low=_DESKTOPS[0] / MIB,
        high=_DESKTOPS[1] / MIB,
        answer=f"A desktop takes {(held - bare) / MIB:.0f} MiB, {100 * share:.1f} % of this GPU's memory, and hardly any time.",
        how="what a desktop holds, as `gpuwise fit --display` counts it",
        source="the guide's author: 100 to 300 MB and below 5 % of the arithmetic; a reader freed 0.5 GB",
        unless="games or browsers with video run at the same time",
    )


def power_limit(case: Case) -> Matter:
    """Fewer watts."""
    rated = case.gpu.tdp_watts
    if not rated:
        return _no_watts(case, "power-limit", "Can I run it at fewer watts?")
    watts = max(_LOWER * rated, case.gpu.power_min_watts or 0.0)
    kept = case.seconds() / case.seconds(watts=watts)
    saved = f"takes up to {100 * (1 - watts / rated / kept):.0f} % less energy for a step"
    saved = saved if kept < _UNHURT else "little energy is saved: by our model this step hardly draws more"
    return Matter(
        topic="power-limit",
        question="Can I run it at fewer watts?",
        value=100 * (1 - kept),
        unit=f"% slower at {watts:.0f} of {rated:.0f} W",
        answer=f"At {watts:.0f} W it keeps {100 * kept:.0f} % of its speed, and {saved}.",
        how="clocks fall until the watts are kept; work that waits for memory loses less",
        source="computed; measured by others: a V100 at 80 % keeps 0.96, four RTX 3090 at 280 W keep over 0.95",
        unless="the step is all matrix products: then speed falls nearly with the watts",
    )


def cooling(case: Case) -> Matter:
    """A card that gets too hot."""
    lost = -_clocked(case, _HOT, 1.0)
    return Matter(
        topic="cooling",
        question="Does cooling matter?",
        value=100 * lost,
        unit="% slower with a tenth less clock",
        answer=f"A card that throttles by a tenth of its clock is {100 * lost:.1f} % slower; below 80 °C nothing is lost.",
        how="the step at nine tenths of the clock",
        source="computed; the guide: throttling from 80 °C, a gap between cards cools them by 10 to 30 °C, a case by 1 to 5 °C",
        unless="several open-air cards stand side by side: then it is the first thing to solve (`gpuwise build`)",
    )


def ecc(case: Case) -> Matter:
    """Memory that corrects itself."""
    hbm = case.gpu.memory_type.startswith("HBM")
    narrower = case.with_gpu(memory_bytes_per_s=case.gpu.memory_bytes_per_s * 15 / 16)
    slower = 0.0 if hbm else 1 - case.seconds() / case.seconds(gpu=narrower)
    why = "check bits share the same chips: a sixteenth of memory and bandwidth"
    why = "HBM keeps check bits beside the data: nothing is lost" if hbm else why
    lacking = case.gpu.ecc is False
    memory = "HBM" if hbm else "GDDR"
    first = f"{case.gpu.name} has no ECC; a {memory} card like it that has it" if lacking else "With ECC on it"
    rest = "" if lacking else "; most GeForce cards have no ECC"
    return Matter(
        topic="ecc",
        question="Do I need ECC memory, and what does it cost?",
        value=100 * slower,
        unit="% slower with ECC on" + (", which this card has not" if lacking else ""),
        answer=f"{first} is {100 * slower:.1f} % slower: {why}. Training forgives a wrong bit now and then{rest}.",
        how="the step with fifteen sixteenths of the bandwidth",
        source="computed; NVIDIA: inline ECC of GDDR takes a sixteenth of the memory",
        unless="weeks of training on hundreds of GPUs: there wrong bits are a matter of time",
    )


def _clocked(case: Case, core: float, memory: float) -> float:
    """The gain in speed with other clocks; the power limit stays."""
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
        answer=f"No power rating of {case.gpu.name} is published, so nothing can be said.",
        how="-",
        source="catalogue",
        unless="-",
    )
