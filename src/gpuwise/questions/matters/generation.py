"""Topics for language models that generate text: memory and links shared by several GPUs, and the traffic on one GPU's link."""

from __future__ import annotations

from gpuwise.core.text import the
from gpuwise.core.units import format_si
from gpuwise.questions.matters.host import other_cpu
from gpuwise.questions.matters.links import format_gain, format_loss, format_losses
from gpuwise.questions.matters.sheet import faster, ranked
from gpuwise.questions.matters.text_case import SMALLER, TextCase
from gpuwise.questions.matters.types import Matter
from gpuwise.scale.cluster.shape import takes_bridge, usual_wires

__all__ = ["cpu", "egpu", "memory_adds_up", "nvlink", "pcie_gen", "pcie_lanes", "spec_sheet"]

_JOINED_BY_A_BRIDGE = 2
_TOKENS_ONLY = "the weights cross PCIe once, when the model is loaded; after that, only tokens do"
_PARTIALS = "after each layer, the GPUs add up their partial results over the same lanes"
_LAYERS = "each GPU holds some of the layers and passes its result on, so little data crosses the lanes"
_LOADED_OFTEN = "layers run on the CPU because the model does not fit, or you load models very often"


def memory_adds_up(case: TextCase) -> Matter:
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
        question="Does the memory of several GPUs add up?",
        value=needed,
        unit="GiB needed on each GPU",
        answer=text.strip(),
        how="weights and key-value cache are divided among the GPUs, as in `gpuwise predict --gpus`",
        source="computed",
        unless="you train the model with plain data parallelism, where each GPU holds a full copy (`--mode train`)",
    )


def nvlink(case: TextCase) -> Matter:
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


def _describe_bridge(case: TextCase, slot: str) -> tuple[float, str]:
    """The gain from NVLink for GPUs that share the model, and a sentence about it."""
    without, with_it = (case.generated(count=case.count, gpu_link=link) for link in (slot, "NVLink"))
    rates = [float(found.tokens_per_s[0]) for found in (with_it, without)]
    waits = [format_si(float(found.first_token_s[0]), "s") for found in (with_it, without)]
    gain = rates[0] / rates[1] - 1
    first = f" The first token arrives after {waits[0]} instead of {waits[1]}." if waits[0] != waits[1] else ""
    speeds = f"{rates[0]:.3g} tokens/s instead of {rates[1]:.3g} over {slot} each"
    return gain, f"{case.count}x {case.gpu.name} that share the model are {format_gain(gain)} with NVLink: {speeds}.{first}"


def pcie_lanes(case: TextCase) -> Matter:
    """x8 or x4 instead of x16."""
    shared = {lanes: _lost_sharing(case, _generation(case), lanes) for lanes in (8, 4)}
    return Matter(
        topic="pcie-lanes",
        question="Do I need 16 lanes for each GPU?",
        value=0.0,
        unit="% slower at x8",
        together=100 * shared[8],
        gpu_count=case.count,
        answer=f"One GPU is no slower at x8 or at x4. {case.count} GPUs that share the model are "
        f"{format_losses(shared[8], 'at x8', shared[4], 'at x4')}.",
        how=f"{_TOKENS_ONLY}; {_describe_traffic(case)}",
        source="computed",
        unless=_LOADED_OFTEN,
    )


def pcie_gen(case: TextCase) -> Matter:
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
        answer=f"In a PCIe {older}.0 x16 slot, one GPU is no slower; "
        f"{case.count} GPUs that share the model are {format_loss(shared)}.",
        how=f"{_TOKENS_ONLY}; {_describe_traffic(case)}",
        source="computed",
        unless=_LOADED_OFTEN,
    )


def egpu(case: TextCase) -> Matter:
    """A desktop card in an enclosure beside a laptop."""
    return Matter(
        topic="egpu",
        question="How much speed does an external GPU lose?",
        value=0.0,
        unit="% slower over Thunderbolt 3",
        answer="An external GPU generates text as fast as one in a slot, but loading the model takes longer.",
        how=_TOKENS_ONLY,
        source="computed from the bytes that cross the cable",
        unless=_LOADED_OFTEN,
    )


def cpu(case: TextCase) -> Matter:
    """The user's CPU, or an old one, in place of a current one."""
    own = other_cpu(case.cpu)
    lost = 1 - case.seconds(cpu="desktop") / case.seconds(cpu=own.host)
    return Matter(
        topic="cpu",
        question="Is my CPU fast enough?",
        value=max(0.0, 100 * lost),
        unit=f"% slower with {own.name}",
        answer=f"With {own.name} instead of a current desktop CPU, text generation is {format_loss(lost)}.",
        how="the host launches every op for each token; this costs time only where it does not overlap with GPU work",
        source="computed",
        unless="layers run on the CPU because the model does not fit; the CPU's memory bandwidth then limits the speed",
    )


def spec_sheet(case: TextCase) -> Matter:
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


def _generation(case: TextCase) -> int:
    return case.gpu.pcie_generation or 3


def _lost_sharing(case: TextCase, generation: int, lanes: int) -> float:
    """The fraction of speed that GPUs lose when they share a model over fewer lanes than the card has."""
    own = case.gpu.pcie_lanes if case.gpu.pcie_lanes in (4, 8, 16) else 16
    full = case.seconds(count=case.count, gpu_link=f"PCIe {_generation(case)}.0 x{own}")
    return 1 - full / case.seconds(count=case.count, gpu_link=f"PCIe {generation}.0 x{min(lanes, own)}")


def _describe_traffic(case: TextCase) -> str:
    return _PARTIALS if case.serving(case.count).split == "tensor" else _LAYERS


def _describe_smaller(case: TextCase) -> str:
    """Whether the model fits in 4 bits, where it does not as it is published."""
    if not case.fits_smaller(case.count):
        return "See `gpuwise fit` for what would make it fit."
    return f"With 4-bit weights (`--weights {SMALLER}`), each needs {case.needs_gib(case.count, SMALLER):.1f} GiB, which fits."


def _describe_misfit(case: TextCase) -> str:
    if case.fits(case.count):
        return ""
    need = f"The model does not fit on these GPUs in {case.query.format_name} ({case.needs_gib(case.count):.1f} GiB on each)"
    return f"{need}, but it does with `--weights {SMALLER}`." if case.fits_smaller(case.count) else f"{need}."
