"""Notes on one device: supporting software, what its libraries reach, slow memory, CPUs, and makers and generations that were
never measured.
"""

from __future__ import annotations

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.units import GIB, MIB, format_si
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.times import load_constants
from gpuwise.questions.common.step import unmeasured_backends
from gpuwise.step.time.setting import CPU_RANGE, spilled_bytes
from gpuwise.step.types import Stack

__all__ = ["device_notes", "generation_note", "maker_notes"]


def device_notes(gpu: Gpu, stack: Stack, resident_bytes: float, *, ranged: bool = True) -> tuple[Assumption, ...]:
    """Return the assumptions specific to this GPU; `ranged` if the answer has its own range."""
    if gpu.is_cpu:
        return (_cpu_note(gpu),)
    notes = (_age_note(gpu, stack), _libraries_note(gpu), _segment_note(gpu, resident_bytes))
    seen = (*maker_notes(gpu, stack.name, ranged=ranged), *(generation_note(gpu) if ranged else ()))
    return (*(note for note in notes if note is not None), *seen)


def _age_note(gpu: Gpu, stack: Stack) -> Assumption | None:
    """Return the last software that supports a GPU, if current software does not or none ever did."""
    architecture = gpu.architecture
    if not architecture.first_software:
        effect = f"no release of CUDA, ROCm or oneAPI supports this GPU; the times assume that {stack.name} does"
        return assumed(f"software for {gpu.name}", "none", effect, code="device_software")
    if not architecture.last_software:
        return None
    torch = architecture.last_torch
    shown = f" and PyTorch {torch[0]}.{torch[1]} built for {architecture.last_torch_build}" if torch else ""
    newer = torch is None or (stack.framework == "torch" and stack.version > torch)
    effect = f"the times assume that {stack.name} supports this GPU" if newer else "later releases do not support this GPU"
    return assumed(f"newest software for {gpu.name}", f"{architecture.last_software}{shown}", effect, code="device_software")


def _libraries_note(gpu: Gpu) -> Assumption | None:
    """Why the ratio to another maker's GPU differs from that of their datasheets."""
    if gpu.vendor != "AMD":
        return None
    constants = load_constants()
    memory = f" and {constants['memory.slower_hbm']:.0%} of the memory bandwidth" if "hbm" in gpu.memory_type.lower() else ""
    reached = f"{constants['engine.amd']:.0%} of the compute efficiency of NVIDIA's libraries{memory}"
    return assumed(
        f"{gpu.name} libraries",
        reached,
        "fitted on other AMD GPUs; results differ between ROCm releases",
        code="device_libraries",
    )


def _segment_note(gpu: Gpu, resident_bytes: float) -> Assumption | None:
    spilled = spilled_bytes(gpu, resident_bytes)
    if not spilled or gpu.slow_memory_bytes_per_s is None:
        return None
    where = f"{spilled / MIB:.0f} MiB at {format_si(gpu.slow_memory_bytes_per_s, 'B/s')}"
    effect = f"only {gpu.usable_memory_bytes / GIB:g} GiB of the {gpu.name}'s memory is fast; traffic is assumed to spread evenly"
    return assumed(f"{gpu.name} slow memory", where, effect, code="slow_memory")


def _cpu_note(gpu: Gpu) -> Assumption:
    low, high = CPU_RANGE
    clock = f"{gpu.sm_count} cores at {gpu.boost_clock_hz / 1e9:.1f} GHz, {gpu.memory_bytes / GIB:.0f} GiB"
    effect = (
        f"predicted with GPU kernel models; no CPU was used in the fit, so the range is {low:g} to {high:g} times the step time"
    )
    return assumed(f"{gpu.name} specs", clock, effect, code="cpu_device")


def maker_notes(gpu: Gpu, stack: str, *, ranged: bool = True) -> tuple[Assumption, ...]:
    """For a GPU of such a maker: the assumed software and, if the answer has its own range, that it is assumed too."""
    if gpu.is_cpu or knows_vendor(gpu):
        return ()
    low, high = UNMEASURED_RANGE
    effect = f"not measured; the times assume that its kernels run as efficiently as those of {stack} on measured GPUs"
    notes = (
        [assumed(f"{gpu.name} backend", unmeasured_backends([gpu])[0], effect, code="device_backend")]
        if gpu.architecture.first_software
        else []
    )
    if ranged:
        effect = f"an estimate, because no {gpu.vendor} {'TPU' if gpu.segment == 'tpu' else 'GPU'} was measured"
        notes.append(assumed(f"{gpu.name} range", f"{low:g} to {high:g} times the step time", effect, code="device_range"))
    return tuple(notes)


def generation_note(gpu: Gpu) -> tuple[Assumption, ...]:
    """Return where the range comes from for a GPU whose generation was not measured, but whose maker was."""
    if gpu.is_cpu or knows(gpu) or not knows_vendor(gpu):
        return ()
    effect = f"no GPU of the {gpu.architecture.generation} generation was measured"
    return (assumed(f"{gpu.name} range", "the same as for GPU generations left out of the fit", effect, code="device_range"),)
