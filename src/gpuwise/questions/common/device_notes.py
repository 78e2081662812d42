"""What must be said of one device beside its figures: its software and what it reaches, slow memory, that it is a CPU."""

from __future__ import annotations

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.units import GIB, MIB, format_si
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.constants import load_constants
from gpuwise.questions.common.backends import generation_note, maker_notes
from gpuwise.step.time.cpu import CPU_RANGE
from gpuwise.step.time.segments import spilled_bytes
from gpuwise.step.types import Stack

__all__ = ["device_notes"]


def device_notes(gpu: Gpu, stack: Stack, resident_bytes: float, *, ranged: bool = True) -> tuple[Assumption, ...]:
    """What this GPU's answer rests on that others' does not; `ranged` where the answer has a range of ours."""
    if gpu.is_cpu:
        return (_cpu_note(gpu),)
    notes = (_age_note(gpu, stack), _libraries_note(gpu), _segment_note(gpu, resident_bytes))
    seen = (*maker_notes(gpu, stack.name, ranged=ranged), *(generation_note(gpu) if ranged else ()))
    return (*(note for note in notes if note is not None), *seen)


def _age_note(gpu: Gpu, stack: Stack) -> Assumption | None:
    """The last software that serves a GPU which the current one no longer does, or never did."""
    architecture = gpu.architecture
    if not architecture.first_software:
        effect = f"no release of CUDA, ROCm or oneAPI serves it; the times are as if {stack.name} did"
        return assumed(f"{gpu.name} software", "none", effect, code="device_software")
    if not architecture.last_software:
        return None
    torch = architecture.last_torch
    shown = f" and PyTorch {torch[0]}.{torch[1]} ({architecture.last_torch_build} build)" if torch else ""
    newer = torch is None or (stack.framework == "torch" and stack.version > torch)
    effect = f"the times are as if {stack.name} served it" if newer else "newer releases no longer serve it"
    return assumed(
        f"{gpu.name} software", f"nothing newer than {architecture.last_software}{shown}", effect, code="device_software"
    )


def _libraries_note(gpu: Gpu) -> Assumption | None:
    """What explains that a ratio to another maker's GPU is not that of their sheets."""
    if gpu.vendor != "AMD":
        return None
    constants = load_constants()
    memory = f" and {constants['memory.slower_hbm']:.2f} of its bandwidth" if "hbm" in gpu.memory_type.lower() else ""
    reached = f"{constants['engine.amd']:.2f} of what NVIDIA's reach of their arithmetic{memory}"
    return assumed(
        f"{gpu.name} libraries", reached, "fitted on other GPUs of AMD; releases of ROCm differ", code="device_libraries"
    )


def _segment_note(gpu: Gpu, resident_bytes: float) -> Assumption | None:
    spilled = spilled_bytes(gpu, resident_bytes)
    if not spilled or gpu.slow_memory_bytes_per_s is None:
        return None
    where = f"{spilled / MIB:.0f} MiB behind {format_si(gpu.slow_memory_bytes_per_s, 'B/s')}"
    effect = f"only {gpu.usable_memory_bytes / GIB:g} GiB of the {gpu.name} are fast; traffic is taken as spread evenly"
    return assumed(f"{gpu.name} slow memory", where, effect, code="slow_memory")


def _cpu_note(gpu: Gpu) -> Assumption:
    low, high = CPU_RANGE
    clock = f"{gpu.sm_count} cores at {gpu.boost_clock_hz / 1e9:.1f} GHz, {gpu.memory_bytes / GIB:.0f} GiB"
    effect = f"a CPU, through the kernel models of GPUs; no CPU was fitted, so {low:g} to {high:g} times the step"
    return assumed(f"{gpu.name} as a device", clock, effect, code="cpu_device")
