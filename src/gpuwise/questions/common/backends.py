"""Makers of which no step was measured: what their GPUs are reached through, and what must be said of an answer for them."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.hardware.types import Gpu

__all__ = ["generation_note", "maker_notes", "unmeasured_backends"]

_BACKENDS = {"Apple": "MPS", "Intel": "XPU", "Google": "XLA"}  # in PyTorch and TensorFlow alike


def unmeasured_backends(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Through what frameworks reach those of these GPUs whose makers were never measured, each once."""
    makers = dict.fromkeys(gpu.vendor for gpu in gpus if not gpu.is_cpu and not knows_vendor(gpu))
    return tuple(_BACKENDS.get(maker, f"the software of {maker}") for maker in makers)


def maker_notes(gpu: Gpu, stack: str, *, ranged: bool = True) -> tuple[Assumption, ...]:
    """For a GPU of such a maker: what software is meant, and, where the answer has a range of ours, that it is assumed."""
    if gpu.is_cpu or knows_vendor(gpu):
        return ()
    low, high = UNMEASURED_RANGE
    effect = f"none was measured: the times are as if it issued and ran kernels as {stack} does on GPUs that were"
    notes = (
        [assumed(f"{gpu.name} backend", unmeasured_backends([gpu])[0], effect, code="device_backend")]
        if gpu.architecture.first_software
        else []
    )
    if ranged:
        effect = f"no measurement of {gpu.vendor} {'TPUs' if gpu.segment == 'tpu' else 'GPUs'} supports it"
        notes.append(assumed(f"{gpu.name} range", f"{low:g} to {high:g} times the step", effect, code="device_range"))
    return tuple(notes)


def generation_note(gpu: Gpu) -> tuple[Assumption, ...]:
    """For a GPU of a generation that was not measured, of a maker that was: where its range comes from."""
    if gpu.is_cpu or knows(gpu) or not knows_vendor(gpu):
        return ()
    effect = f"no GPU of its generation ({gpu.architecture.generation}) was measured"
    return (assumed(f"{gpu.name} range", "what was missed on generations left out of the fit", effect, code="device_range"),)
