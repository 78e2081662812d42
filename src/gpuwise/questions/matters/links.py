"""Topics about links: PCIe lanes and generations, NVLink, SLI, external GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuwise.core.errors import BadValue
from gpuwise.core.text import both, either, opening, the
from gpuwise.core.units import format_si
from gpuwise.hardware.machines import find_link
from gpuwise.questions.common.plan_case import PlanQuery, plan_case
from gpuwise.questions.matters.case import Case, MattersCase
from gpuwise.questions.matters.types import Matter
from gpuwise.scale.cluster.collectives import gradient_bytes
from gpuwise.scale.cluster.shape import takes_bridge, usual_cluster, usual_wires
from gpuwise.scale.plans.rules import Limits
from gpuwise.scale.plans.scaling import best_of

__all__ = [
    "WORTH_A_BRIDGE",
    "asked_link",
    "egpu",
    "format_each",
    "format_gain",
    "format_loss",
    "format_losses",
    "lost_at_x4",
    "nvlink",
    "pcie_gen",
    "pcie_lanes",
    "riser",
    "sli",
]

_JOINED_BY_A_BRIDGE = 2
WORTH_A_BRIDGE = 0.1  # gained: less than a larger batch brings for nothing
_MEASURED_OVER_A_CABLE = 0.15  # of the speed, the most that readers of the guide lost with models that are not small
_MOST_REPORTED = 0.1  # lost at x8 or at x4, in the guide below
_ACCUMULATED = 8  # micro-batches: what people use where a larger batch does not fit
_GUIDE = (
    "a guide to GPUs for deep learning (2019, 2023) reports a difference of 0 to 10% between x8 and x16, "
    "and of 5 to 10% for x4 with four GPUs"
)


def pcie_lanes(case: MattersCase) -> Matter:
    """x8 or x4 instead of x16, or the link that the user names."""
    link = asked_link(case)
    return _given_link(case, link) if link else _fewer_lanes(case)


def asked_link(case: MattersCase) -> str:
    """The PCIe link that the user names, at most as wide and as new as that of the card; empty where none is named, and where
    it is that of the card."""
    if not case.asked.pcie:
        return ""
    link = find_link(case.asked.pcie)
    if link.kind != "pcie":
        raise BadValue(f"`pcie-lanes` is about PCIe, but {link.name} is not a PCIe link", hint="use the topic `egpu`")
    generation, lanes = (int(part) for part in link.name.removeprefix("PCIe ").split(".0 x"))
    found = _slot(case, min(generation, case.generation), min(lanes, _own_lanes(case)))
    return "" if found == _slot(case, lanes=_own_lanes(case)) else found


def _given_link(case: MattersCase, link: str) -> Matter:
    """The loss over one link."""
    full = _slot(case, lanes=_own_lanes(case))
    alone, shared = _lost_on(case, link), _lost_sharing_on(case, link)

    def loss(other: MattersCase) -> str:
        return format_loss(_lost_sharing_on(other, link))

    return replace(
        _fewer_lanes(case),
        value=100 * alone,
        unit=f"% slower over {link}",
        together=100 * shared,
        answer=(
            f"Over {link} instead of {full}, one GPU is {format_loss(alone)}, and {case.count} GPUs in one job are "
            f"{format_loss(shared)}.{_describe_larger(case, shared, loss)}"
        ),
    )


def lost_at_x4(case: MattersCase) -> float:
    """The share of time that several GPUs in one job lose at x4."""
    return _lost_sharing(case, case.generation, 4)


def _fewer_lanes(case: MattersCase) -> Matter:
    lost = {lanes: _lost(case, case.generation, lanes) for lanes in (8, 4)}
    shared = {lanes: _lost_sharing(case, case.generation, lanes) for lanes in (8, 4)}

    def losses(other: MattersCase) -> str:
        lost8, lost4 = (_lost_sharing(other, case.generation, lanes) for lanes in (8, 4))
        return format_losses(lost8, "at x8", lost4, "at x4")

    return Matter(
        topic="pcie-lanes",
        question="Do I need 16 lanes for each GPU?",
        value=100 * lost[8],
        unit="% slower at x8",
        together=100 * shared[8],
        gpu_count=case.count,
        answer=(
            f"One GPU is {format_losses(lost[8], 'at x8', lost[4], 'at x4')}. {opening(case.count)} GPUs in one job are "
            f"{losses(case)}.{_describe_larger(case, shared[4], losses)}"
        ),
        how=f"{_describe_copies(case)}; several GPUs exchange gradients over the same lanes during the backward pass",
        source=f"computed; {_GUIDE}",
        unless="the inputs are large and the model is small, weights stay in host memory, or models are loaded very often",
    )


def _describe_larger(case: MattersCase, lost: float, losses: Callable[[MattersCase], str]) -> str:
    """Why this is more than the guide reports, and the loss if gradients are exchanged less often; nothing if it is not more."""
    step = case.step()
    if lost <= _MOST_REPORTED or step.mode != "train" or case.asked.accumulate:
        return ""
    sent = format_si(gradient_bytes(case.workload()), "B")
    often = f"after only {step.batch} samples per GPU"
    why = f" This is more than the cited figures, because {sent} of gradients cross the lanes {often}."
    larger = [(f"at batch {found.step().batch}, the largest power of two that fits", found) for found in _largest(case)]
    larger.append((f"with {_ACCUMULATED} accumulated batches of {step.batch}", case.accumulating(_ACCUMULATED)))
    text = "; ".join(f"{where}, they are {losses(other)}" for where, other in larger)
    return f"{why} {text[0].upper()}{text[1:]}."


def _largest(case: MattersCase) -> list[MattersCase]:
    """The case at the largest batch that fits, for users who gave none; nothing where that is not larger."""
    if case.asked.batch or not case.step().fits:
        return []
    other = case.at_largest_batch()
    return [other] if other.step().batch > case.step().batch else []


def pcie_gen(case: MattersCase) -> Matter:
    """An older generation of PCIe."""
    older = max(1, min(3, case.generation - 1))
    lost, shared = _lost(case, older, 16), _lost_sharing(case, older, 16)
    return Matter(
        topic="pcie-gen",
        question="Is an old PCIe slot a problem?",
        value=100 * lost,
        unit=f"% slower with PCIe {older}.0",
        together=100 * shared,
        gpu_count=case.count,
        answer=(
            f"In a PCIe {older}.0 x16 slot, one GPU is {format_loss(lost)}; "
            f"{case.count} GPUs in one job are {format_loss(shared)}."
        ),
        how=_describe_copies(case),
        source="computed; a guide to GPUs for deep learning (2019, 2023) says that PCIe 4 gains 1 to 7% on four GPUs, and that "
        "PCIe 2 costs 0 to 5% on one GPU "
        "and 15 to 25% on two",
        unless="weights stay in host memory, or the slot has only one lane",
    )


def riser(case: MattersCase) -> Matter:
    """A cable between the slot and the card, with all lanes or with one."""
    older, single = max(1, case.generation - 1), _slot(case, min(3, case.generation), 1)
    slow, one, many = _lost(case, older, 16), _lost_on(case, single), _lost_sharing_on(case, single)
    return Matter(
        topic="riser",
        question="Does a riser cable cost speed?",
        value=0.0,
        unit=f"% slower with a cable for PCIe {case.generation}.0; a mining riser with one lane: {100 * one:.1f}%",
        answer=(
            f"A cable made for PCIe {case.generation}.0 x16 carries all lanes, so one GPU is no slower. If a cheaper cable "
            f"forces the slot to PCIe {older}.0, one GPU is {format_loss(slow)}. With a mining riser, which has a single lane "
            f"({single}), one GPU is {format_loss(one)}, and {case.count} GPUs in one job are {format_loss(many)}."
        ),
        how=_describe_copies(case),
        source="computed for the lanes and the generation that remain; we know of no measurement of a cable's own loss",
        unless="the cable is faulty; the driver then reports errors, or the link falls back to a lower generation",
    )


def nvlink(case: MattersCase) -> Matter:
    """A bridge between cards."""
    slot, gained = usual_wires(((case.gpu, case.count),), []).host_link.name, "with data parallelism"
    if takes_bridge(case.gpu) and case.count > _JOINED_BY_A_BRIDGE:
        value = 0.0
        text = f"A bridge connects two cards, so {case.count} cards in one job still use PCIe. See `gpuwise plan --link NVLink`."
    elif takes_bridge(case.gpu) or (case.gpu.cooler == "module" and case.gpu.nvlink_generation):
        gain = _bridge_gain(case, slot)
        text = _describe_bridge(case, slot, gain)
        value = 100 * gain
        gained = _describe_largest(case, slot) or gained
    else:
        found = case.step(count=case.count, gpu_link=slot)
        value = 100 * found.bound_fractions["communication"]
        waits = f"the {value:.1f}% of the time that {case.count} GPUs spend waiting for each other"
        text = f"{the(case.gpu.name, first=True)} has no NVLink, which could save at most {waits}."
    return Matter(
        topic="nvlink",
        question="Do I need NVLink?",
        value=value,
        unit=f"% gained {gained}",
        answer=text,
        how="computed from the time to send gradients over each link, minus the part that overlaps with the backward pass",
        source="computed",
        unless="layers are split across GPUs, or you have eight GPUs (see `gpuwise plan --link NVLink`)",
    )


def _bridge_gain(case: MattersCase, slot: str) -> float:
    without, with_it = (case.seconds(count=case.count, gpu_link=link) for link in (slot, "NVLink"))
    return without / with_it - 1


def _describe_largest(case: MattersCase, slot: str) -> str:
    """The gain with the largest batch, for users who gave none: larger batches exchange gradients less often."""
    for other in _largest(case):
        return f"at batch {case.step().batch}, {100 * _bridge_gain(other, slot):.0f}% at batch {other.step().batch}"
    return ""


def _describe_bridge(case: MattersCase, slot: str, gain: float) -> str:
    """The gain from NVLink with data parallelism, whether a second card pays without it, and the gain with the best splits."""
    work = case.seconds() / case.seconds(count=case.count, gpu_link=slot)
    job = f"{case.count}x {case.gpu.name} in one data-parallel job"
    need = "Yes" if gain >= WORTH_A_BRIDGE else "No"
    lines = [f"{need}: {job} are {format_gain(gain)} with NVLink than with {slot} links. Separate jobs gain nothing."]
    if work < 1:
        lines.append(f"Over {slot}, the GPUs together are slower than one GPU, at {work:.0%} of its speed.")
    without, with_it = (_best_s(case, link) for link in (slot, "NVLink"))
    if without and with_it:
        lines.append(
            f"With the best split that `gpuwise plan` finds for each link, the GPUs are "
            f"{format_gain(without / with_it - 1)} with NVLink."
        )
    return " ".join(lines)


def _best_s(case: MattersCase, link: str) -> float | None:
    """Seconds of a step of as many samples under the best plan over this link; None where none is possible or fits."""
    cluster, step = usual_cluster(case.gpu, case.count, link=link), case.step()
    if step.mode != "train":
        return None
    query = PlanQuery(step=case.query, cluster=cluster, batch=step.batch * case.count, limits=Limits(fixed={"offload": False}))
    try:
        asked = plan_case(query, case.progress)
    except BadValue:
        return None
    found = best_of(asked.costs, cluster, asked.wishes)
    return found.step_s if found else None


def sli(case: Case) -> Matter:
    """A technique for games."""
    return Matter(
        topic="sli",
        question="Does SLI help?",
        value=0.0,
        unit="% faster",
        answer="No: frameworks do not use SLI. GPUs communicate over PCIe or NVLink, and each keeps its own memory.",
        how="CUDA addresses each GPU separately",
        source="NVIDIA, CUDA programming guide: SLI is a mode of graphics drivers",
        unless="the bridge is an NVLink bridge (see `gpuwise matters nvlink`)",
    )


def egpu(case: MattersCase) -> Matter:
    """A desktop card in an enclosure beside a laptop."""
    lost = {name: 1 - case.seconds(pcie=_slot(case)) / case.seconds(pcie=name) for name in ("Thunderbolt 3", "Thunderbolt 5")}
    losses = format_losses(lost["Thunderbolt 3"], "over Thunderbolt 3", lost["Thunderbolt 5"], "over Thunderbolt 5")
    is_little = lost["Thunderbolt 3"] < _MEASURED_OVER_A_CABLE
    seen = f"0 to {100 * _MEASURED_OVER_A_CABLE:.0f}%"
    measured = f"Measured losses for other models are {seen}, and up to 25% for small ones"
    measured += ", so expect to lose more than computed." if is_little else "."
    return Matter(
        topic="egpu",
        question="How much speed does an external GPU lose?",
        value=100 * lost["Thunderbolt 3"],
        unit="% slower over Thunderbolt 3" + (f" ({seen} measured)" if is_little else ""),
        low=0.0,
        high=100 * max(_MEASURED_OVER_A_CABLE, lost["Thunderbolt 3"]),
        answer=f"Based only on the data that crosses the cable, an external GPU is {losses}. {measured}",
        how=_describe_copies(case),
        source="computed; the measurements come from readers of a guide to GPUs for deep learning",
        unless="the model is small and its inputs are large, or the GPU also drives the laptop's screen over the same cable",
    )


def _slot(case: MattersCase, generation: int | None = None, lanes: int = 16) -> str:
    return f"PCIe {generation or case.generation}.0 x{lanes}"


def _describe_copies(case: MattersCase) -> str:
    size = case.input_bytes()
    step = format_si(case.step().step_s, "s")
    return f"each step copies {format_si(size, 'B')} to the GPU while the previous step, which takes {step}, is running"


def _own_lanes(case: MattersCase) -> int:
    return case.lanes if case.lanes in (4, 8, 16) else 16


def _lost(case: MattersCase, generation: int, lanes: int) -> float:
    """The fraction of speed lost when inputs are copied over fewer lanes than the card has."""
    return _lost_on(case, _slot(case, generation, min(lanes, _own_lanes(case))))


def _lost_on(case: MattersCase, link: str) -> float:
    return 1 - case.seconds(pcie=_slot(case, lanes=_own_lanes(case))) / case.seconds(pcie=link)


def _lost_sharing(case: MattersCase, generation: int, lanes: int) -> float:
    """The same for several GPUs that average gradients over these lanes instead of NVLink."""
    return _lost_sharing_on(case, _slot(case, generation, min(lanes, _own_lanes(case))))


def _lost_sharing_on(case: MattersCase, link: str) -> float:
    """The same over a link, which also carries the inputs of each GPU."""
    full = _slot(case, lanes=_own_lanes(case))
    seconds = (case.seconds(count=case.count, gpu_link=each, pcie=each) for each in (full, link))
    return 1 - next(seconds) / next(seconds)


def format_loss(share: float) -> str:
    """A loss of speed in words."""
    return "no slower" if abs(share) < 0.0005 else f"{100 * share:.1f}% slower"


def format_losses(one: float, where: str, other: float, there: str) -> str:
    """Two losses of speed in words, given once where they are equal."""
    first, second = format_loss(one), format_loss(other)
    return f"{first} {where} or {there}" if first == second else f"{first} {where} and {second} {there}"


def format_each(losses: Mapping[str, float]) -> str:
    """Losses of speed by place in words; places with the same loss are named together.

    >>> format_each({"x8": 0.0, "x4": 0.0, "x1": 0.05})
    'no slower at x8 or x4 and 5.0% slower at x1'
    """
    places: dict[str, list[str]] = {}
    for place, lost in losses.items():
        places.setdefault(format_loss(lost), []).append(place)
    return both(f"{lost} at {either(found)}" for lost, found in places.items())


def format_gain(share: float) -> str:
    """A gain in speed in words."""
    return "no faster" if abs(share) < 0.0005 else f"{100 * share:.1f}% faster"
