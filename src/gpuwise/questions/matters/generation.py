"""Topics for language models that generate text: memory and links shared by several GPUs, and the traffic on one GPU's link."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.core.text import opening, the
from gpuwise.core.units import format_si
from gpuwise.questions.matters.host import other_cpu
from gpuwise.questions.matters.language_case import SMALLER, LanguageCase
from gpuwise.questions.matters.links import format_each, format_gain, format_loss
from gpuwise.questions.matters.sheet import faster, ranked
from gpuwise.questions.matters.types import Matter
from gpuwise.scale.cluster.shape import takes_bridge, usual_wires

__all__ = ["cpu", "egpu", "memory_adds_up", "nvlink", "pcie_gen", "pcie_lanes", "riser", "spec_sheet"]

_JOINED_BY_A_BRIDGE = 2
_WIDTHS = (8, 4, 1)  # lanes, fewer than a slot has
_TOKENS_ONLY = "the weights cross PCIe once, when the model is loaded; after that, only tokens do"
_PARTIALS = "after each layer, the GPUs add up their partial results over the same lanes"
_LAYERS = "each GPU holds some of the layers and passes its result on, so little data crosses the lanes"
_MOVED = "weights that stay in RAM cross PCIe when a prompt is read, but not for each token of the output"
_LOADED_OFTEN = "layers run on the CPU because the model does not fit, or you load models very often"


def memory_adds_up(case: LanguageCase) -> Matter:
    """Whether two GPUs of 12 GB hold as large a model as one of 24 GB."""
    needed, alone, has = case.needs_gib(case.count), case.needs_gib(), case.has_gib()
    divides = f"{case.engine} splits the model across the {case.count} GPUs"
    if case.fits(case.count):
        text = f"Yes. {divides}, and each holds {needed:.1f} of the {has:.1f} GiB that it can use. "
        text += "The model fits on one GPU as well." if case.fits() else f"On one GPU, the model would need {alone:.1f} GiB."
    else:
        text = (
            f"Yes, but {case.count} GPUs are not enough. {divides}, but each would need {needed:.1f} GiB and can use only "
            f"{has:.1f} GiB. {_describe_smaller(case)}"
        )
    return Matter(
        topic="memory-adds-up",
        question="Can several GPUs combine their memory?",
        value=needed,
        unit="GiB needed on each GPU",
        answer=text.strip(),
        how="the weights and the key-value cache are divided among the GPUs, as in `gpuwise predict --gpus`",
        source="computed",
        unless="you train the model with plain data parallelism, where each GPU holds a full copy (`--mode train`)",
    )


def nvlink(case: LanguageCase) -> Matter:
    """A bridge between cards that share a model."""
    slot = usual_wires(((case.gpu, case.count),), []).host_link.name
    joined = takes_bridge(case.gpu) and case.count <= _JOINED_BY_A_BRIDGE
    gain = 0.0
    if takes_bridge(case.gpu) and not joined:
        text = f"A bridge connects two cards, so {case.count} cards that share a model still use PCIe."
    elif case.serving(case.count).split != "tensor":
        text = f"No. {case.engine} gives each GPU whole layers of the model, so little data crosses the link between them."
    elif joined or (case.gpu.cooler == "module" and case.gpu.nvlink_generation):
        gain, text = _describe_bridge(case, slot)
    else:
        found = case.generated(count=case.count, gpu_link=slot).decode.bound_fractions["communication"]
        gain = float(found[0, 0])
        waits = f"the {100 * gain:.1f}% of the time that {case.count} GPUs spend exchanging results"
        text = f"{the(case.gpu.name, first=True)} has no NVLink, which could save at most {waits}."
    return Matter(
        topic="nvlink",
        question="Do I need NVLink?",
        value=100 * gain,
        unit="% gained when the GPUs share a model",
        answer=f"{text} {_describe_misfit(case)}".strip(),
        how=_describe_traffic(case),
        source="computed",
        unless="many users are served at once, which sends more data over the link, or you train the model",
    )


def _describe_bridge(case: LanguageCase, slot: str) -> tuple[float, str]:
    """The gain from NVLink for GPUs that share the model, and a sentence about it."""
    without, with_it = (case.generated(count=case.count, gpu_link=link) for link in (slot, "NVLink"))
    rates = [float(found.tokens_per_s[0]) for found in (with_it, without)]
    waits = [format_si(float(found.first_token_s[0]), "s") for found in (with_it, without)]
    gain = rates[0] / rates[1] - 1
    first = f" The first token arrives after {waits[0]} instead of {waits[1]}." if waits[0] != waits[1] else ""
    speeds = f"{rates[0]:.3g} tokens/s instead of {rates[1]:.3g} over {slot} each"
    return gain, f"{case.count}x {case.gpu.name} that share the model are {format_gain(gain)} with NVLink: {speeds}.{first}"


def pcie_lanes(case: LanguageCase) -> Matter:
    """x8, x4 or x1 instead of x16."""
    shared = {f"x{lanes}": _lost_sharing(case, _generation(case), lanes) for lanes in _WIDTHS}
    links = {f"x{lanes}": _slot(case, lanes) for lanes in _WIDTHS if lanes <= _own_lanes(case)}
    one = "" if case.held > 1 else f"{_describe_one(case, 'at x8, x4 or x1', (16, *_WIDTHS))} "
    return Matter(
        topic="pcie-lanes",
        question="Do I need 16 lanes for each GPU?",
        value=0.0,
        unit="% slower at x8",
        together=100 * shared["x8"],
        gpu_count=case.count,
        answer=f"{one}{opening(case.count)} GPUs that share the model are {format_each(shared)}."
        f"{_describe_first_tokens(case, links)}",
        how=f"{_TOKENS_ONLY if _is_held(case) else _MOVED}; {_describe_traffic(case)}",
        source="computed",
        unless=_LOADED_OFTEN,
    )


def _is_held(case: LanguageCase) -> bool:
    """Whether the GPUs that the user has hold the whole model."""
    return not case.offloads or (case.held > 1 and case.fits(case.count))


def riser(case: LanguageCase) -> Matter:
    """A cable between the slot and the card, with all lanes or with one."""
    single = f"PCIe {min(3, _generation(case))}.0 x1"
    lost = _lost_sharing(case, min(3, _generation(case)), 1)
    one = "" if case.held > 1 else "one GPU generates tokens just as fast, and "
    return Matter(
        topic="riser",
        question="Does a riser cable cost speed?",
        value=0.0,
        unit=f"% slower with a cable for PCIe {_generation(case)}.0; mining risers with one lane: {100 * lost:.1f}%",
        answer=f"A cable made for PCIe {_generation(case)}.0 x16 carries all lanes, so nothing is slower. With mining risers, "
        f"which have a single lane ({single}), {one}{case.count} GPUs that share the model are {format_loss(lost)}."
        f"{_describe_first_tokens(case, {single: single})} Loading the model over a single lane takes far longer.",
        how=f"{_TOKENS_ONLY if _is_held(case) else _MOVED}; {_describe_traffic(case)}",
        source="computed for the lanes and the generation that remain; we know of no measurement of a cable's own loss",
        unless=_LOADED_OFTEN,
    )


def _describe_one(case: LanguageCase, where: str, lanes: tuple[int, ...]) -> str:
    """What fewer lanes do to one GPU: nothing, unless prompts are read with weights that stay in RAM."""
    if not case.offloads:
        return f"One GPU is no slower {where}."
    own = case.gpu.pcie_lanes or 16
    waits = [
        (min(count, own), float(case.generated(gpu=case.with_gpu(pcie_lanes=min(count, own))).first_token_s[0]))
        for count in lanes
    ]
    times = ", ".join(f"{format_si(wait, 's')} at x{count}" for count, wait in dict(waits).items())
    return f"One GPU generates tokens just as fast {where}, but the first token arrives after {times}."


def _describe_first_tokens(case: LanguageCase, links: Mapping[str, str]) -> str:
    """The time to the first token over each link, for GPUs that share the model. Where it does not change, it is given only to
    users with several GPUs."""
    waits = {
        name: float(case.generated(count=case.count, gpu_link=link).first_token_s[0])
        for name, link in {f"x{_own_lanes(case)}": _slot(case, _own_lanes(case)), **links}.items()
    }
    least, most = min(waits.values()), max(waits.values())
    if most < 1.01 * least:
        return f" The first token arrives after {format_si(least, 's')} in each case." if case.held > 1 else ""
    times = ", ".join(f"{format_si(wait, 's')} at {name}" for name, wait in waits.items())
    return f" Reading a prompt sends far more data: with {case.count} GPUs, the first token arrives after {times}."


def pcie_gen(case: LanguageCase) -> Matter:
    """An older generation of PCIe."""
    older = max(1, min(3, _generation(case) - 1))
    shared = _lost_sharing(case, older, 16)
    return Matter(
        topic="pcie-gen",
        question="Is an old PCIe slot a problem?",
        value=0.0,
        unit=f"% slower with PCIe {older}.0",
        together=100 * shared,
        gpu_count=case.count,
        answer=f"In a PCIe {older}.0 x16 slot, one GPU generates tokens just as fast, and "
        f"{case.count} GPUs that share the model are {format_loss(shared)}."
        + (" Reading a prompt takes longer, because part of the model stays in RAM." if case.offloads else ""),
        how=f"{_MOVED if case.offloads else _TOKENS_ONLY}; {_describe_traffic(case)}",
        source="computed",
        unless=_LOADED_OFTEN,
    )


def egpu(case: LanguageCase) -> Matter:
    """A desktop card in an enclosure beside a laptop."""
    return Matter(
        topic="egpu",
        question="How much speed does an external GPU lose?",
        value=0.0,
        unit="% slower over Thunderbolt 3",
        answer="An external GPU generates text as fast as one in a slot, but loading the model takes longer"
        + (", and so does reading a prompt, because part of the model stays in RAM." if case.offloads else "."),
        how=_MOVED if case.offloads else _TOKENS_ONLY,
        source="computed from the bytes that cross the cable",
        unless=_LOADED_OFTEN,
    )


def cpu(case: LanguageCase) -> Matter:
    """The user's CPU, or an old one, in place of a current one."""
    own = other_cpu(case.cpu)
    lost = 1 - case.seconds(cpu="desktop") / case.seconds(cpu=own.asked)
    return Matter(
        topic="cpu",
        question="Is my CPU fast enough?",
        value=max(0.0, 100 * lost),
        unit=f"% slower with {own.name}",
        answer=f"With {own.name} instead of a current desktop CPU, text generation is {format_loss(lost)}.",
        how="the CPU runs what does not fit on the GPU; its cores and the usual RAM for its class limit the speed"
        if case.offloads
        else "the host launches every op for each token; this costs time only where it does not overlap with GPU work",
        source="computed",
        unless="your RAM is faster or slower than usual (see `gpuwise matters ram-speed`)"
        if case.offloads
        else "layers run on the CPU because the model does not fit; the CPU's memory bandwidth then limits the speed",
    )


def spec_sheet(case: LanguageCase) -> Matter:
    """What to look at when you compare cards."""
    base, gpu = case.seconds(), case.gpu
    gains = {
        "flops": base / case.seconds(gpu=faster(gpu)),
        "bandwidth": base / case.seconds(gpu=case.with_gpu(memory_bytes_per_s=2 * gpu.memory_bytes_per_s)),
    }
    return ranked(
        gains,
        work=case.work,
        source="computed",
        unless="many users are served at once, so that arithmetic counts more, or the model does not fit",
    )


def _generation(case: LanguageCase) -> int:
    return case.gpu.pcie_generation or 3


def _own_lanes(case: LanguageCase) -> int:
    return case.gpu.pcie_lanes if case.gpu.pcie_lanes in (4, 8, 16) else 16


def _slot(case: LanguageCase, lanes: int) -> str:
    return f"PCIe {_generation(case)}.0 x{lanes}"


def _lost_sharing(case: LanguageCase, generation: int, lanes: int) -> float:
    """The fraction of speed that GPUs lose when they share a model over fewer lanes than the card has."""
    own = _own_lanes(case)
    full = case.seconds(count=case.count, gpu_link=_slot(case, own))
    return 1 - full / case.seconds(count=case.count, gpu_link=f"PCIe {generation}.0 x{min(lanes, own)}")


def _describe_traffic(case: LanguageCase) -> str:
    return _PARTIALS if case.serving(case.count).split == "tensor" else _LAYERS


def _describe_smaller(case: LanguageCase) -> str:
    """Whether the model fits in 4 bits, where it does not as it is published."""
    if not case.fits_smaller(case.count):
        return "See `gpuwise fit` for what would make it fit."
    return f"With 4-bit weights (`--weights {SMALLER}`), each needs {case.needs_gib(case.count, SMALLER):.1f} GiB, which fits."


def _describe_misfit(case: LanguageCase) -> str:
    if case.fits(case.count):
        return ""
    need = f"The model does not fit on these GPUs in {case.query.format_name} ({case.needs_gib(case.count):.1f} GiB on each)"
    return f"{need}, but it does with `--weights {SMALLER}`." if case.fits_smaller(case.count) else f"{need}."
