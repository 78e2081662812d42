"""Topics about RAM: how much, and how fast. Both depend on whether weights are kept there."""

from __future__ import annotations

import math

from gpuwise.core.text import both, the
from gpuwise.core.units import GIB, format_si
from gpuwise.hardware.machines import with_ram
from gpuwise.prediction.generation import Serving, generation_memory
from gpuwise.questions.common.language.answer import offloaded_layers
from gpuwise.questions.matters.case import Case, MattersCase
from gpuwise.questions.matters.host import GUIDE
from gpuwise.questions.matters.language_case import LanguageCase
from gpuwise.questions.matters.links import format_gain
from gpuwise.questions.matters.types import Matter

__all__ = ["ram_size", "ram_speed", "text_ram_size", "text_ram_speed"]

_PAIRS_GB = (16, 32, 64, 96, 128, 192, 256)  # pairs of memory modules that are sold
_PASSES = 3.0  # of inputs through the host's memory: written by a worker, read and written again when collected into a batch
_SEEN = 0.005  # percent: two decimals show nothing smaller
_SYSTEM_GIB = 8.0  # of RAM for the system and the program itself, assumed
_OLDER, _NEWER = "DDR4-3200", "DDR5-6000"  # what machines of the last and of the current generation have
_SIZE, _SPEED = "How much RAM do I need?", "Does faster RAM help?"


def ram_size(case: Case) -> Matter:
    """How much memory the machine needs."""
    largest = case.gpu.memory_bytes / GIB
    alone = case.count == 1
    several = f"and RAM equal to the memory of all GPUs ({largest * case.count:.0f} GiB for {case.count}) is plenty"
    least, most = _modules_gb(largest), _modules_gb(largest * case.count)
    buy = f" Memory is sold in pairs of modules, so buy {least} GB" + (f", or {most} GB to have plenty." if most > least else ".")
    cache = "and more helps only as a cache for the dataset"
    return Matter(
        topic="ram-size",
        question=_SIZE,
        value=largest * case.count,
        unit="GiB is enough for one GPU" if alone else f"GiB is plenty for {case.count} GPUs; {largest:.0f} GiB is enough",
        answer=(
            f"RAM equal to the memory of one GPU ({largest:.0f} GiB) is enough, {cache if alone else several}."
            + ("" if alone else " More RAM alone does not speed anything up.")
            + buy
        ),
        how="a checkpoint passes through RAM on its way to the GPU, and data loaders keep a few batches there",
        source=f"{GUIDE} recommends RAM equal to at least the memory of the largest GPU, and ideally to that of all GPUs",
        unless="you offload weights or optimizer states to the host, or keep the whole dataset in memory",
    )


def text_ram_size(case: LanguageCase) -> Matter:
    """The same for a language model. What does not fit in GPU memory must fit in RAM, where the engine can run it from there."""
    serving = case.kept_in_ram(case.held)
    held = generation_memory(serving).host_bytes / GIB
    if not held:
        return ram_size(case)
    need = held + _SYSTEM_GIB
    usual = _modules_gb(need)
    on = the(case.gpu.name) if case.held == 1 else f"{case.held}x {case.gpu.name}"
    return Matter(
        topic="ram-size",
        question=_SIZE,
        value=float(usual),
        unit=f"GB, because {held:.1f} GiB of weights are kept in RAM",
        answer=(
            f"The model does not fit on {on}, so {held:.1f} GiB of its weights stay in RAM{_describe_engine(case, serving)} "
            f"({offloaded_layers(serving)}). With {_SYSTEM_GIB:.0f} GiB for the system and the program, "
            f"that is {need:.1f} GiB, so buy {usual} GB."
        ),
        how=f"we place as many layers or experts on the GPU as fit, as `gpuwise predict` does; we assume {_SYSTEM_GIB:.0f} GiB "
        f"for the system and the program; memory is sold in sizes of {both(str(size) for size in _PAIRS_GB)} GB",
        source="computed",
        unless="you use weights with fewer bits, a longer context or more GPUs, all of which change how much must stay in RAM",
    )


def _describe_engine(case: LanguageCase, serving: Serving) -> str:
    """In which engine and format, where the ones that were asked for keep nothing in RAM."""
    if serving.engine == case.query.serving.engine:
        return ""
    same = serving.weights.name == case.query.serving.weights.name
    return f" in {serving.engine.title}" + ("" if same else f" with {serving.weights.name} weights")


def _modules_gb(gib: float) -> int:
    """The smallest usual pair of memory modules with at least so much."""
    return next((size for size in _PAIRS_GB if size >= gib), 2 * _PAIRS_GB[-1] * math.ceil(gib / _PAIRS_GB[-1] / 2))


def ram_speed(case: MattersCase) -> Matter:
    """Faster memory modules, for inputs that pass through RAM."""
    host = case.query.run.setting.host
    rates = [with_ram(host, f"{max(1, host.memory_channels)}x {name}").memory_bytes_per_s for name in (_OLDER, _NEWER)]
    slow, fast = (case.seconds(link_bytes_per_s=rate / _PASSES) for rate in rates)
    gain = 100 * (slow / fast - 1)
    more = f"{gain:.2f}%" if gain >= _SEEN else "no"
    return Matter(
        topic="ram-speed",
        question=_SPEED,
        value=gain,
        unit=f"% faster with {_NEWER} than with {_OLDER}",
        answer=f"It makes the step {more} faster, because RAM traffic overlaps with the step.",
        how=f"each step moves {format_si(_PASSES * case.input_bytes(), 'B')} through RAM while the GPU works",
        source=f"computed; {GUIDE} reports 0 to 0.5%",
        unless="the model runs on the CPU, or weights are kept in RAM because they do not fit on the GPU; RAM then limits the "
        "speed (try `gpuwise matters ram-speed --model gpt-oss-120b`)",
    )


def text_ram_speed(case: LanguageCase) -> Matter:
    """Faster memory modules, for weights that are read from RAM for every token."""
    slow, fast = (case.generated(ram_speed=name) for name in (_OLDER, _NEWER))
    rates = [float(found.tokens_per_s[0]) for found in (slow, fast)]
    gain = rates[1] / rates[0] - 1
    bandwidths = [format_si(found.serving.host.memory_bytes_per_s, "B/s") for found in (slow, fast)]
    if slow.serving.offloaded:
        layers = offloaded_layers(slow.serving)
        answer = (
            f"Yes: text generation is {format_gain(gain)} with {_NEWER} ({bandwidths[1]}) than with {_OLDER} ({bandwidths[0]}): "
            f"{rates[1]:.3g} tokens/s instead of {rates[0]:.3g}. The CPU runs {layers} and reads "
            "their weights from RAM for every token."
        )
    elif case.fits():
        answer = "No: the model fits in GPU memory, so RAM is used only while the model is loaded."
    else:
        answer = f"No: {case.engine} keeps nothing in RAM, and the model does not fit on one GPU."
    return Matter(
        topic="ram-speed",
        question=_SPEED,
        value=100 * gain,
        unit=f"% faster with {_NEWER} than with {_OLDER}",
        answer=answer,
        how=f"we predict text generation with {bandwidths[0]} and {bandwidths[1]}; `gpuwise predict --ram-speed` accepts any "
        "other speed",
        source="computed",
        unless="the modules run below their rated speed, as four modules in a desktop often do, or more users are served at once",
    )
