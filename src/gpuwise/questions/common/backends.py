"""Makers without any measured step: which backend frameworks use for their GPUs, and the notes an answer for them needs."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwise.core.provenance import Assumption, assumed
from gpuwise.evidence.ranges import UNMEASURED_RANGE, knows, knows_vendor
from gpuwise.hardware.types import Gpu

__all__ = ["generation_note", "maker_notes", "unmeasured_backends"]

_BACKENDS = {"Apple": "MPS", "Intel": "XPU", "Google": "XLA"}  # the same in PyTorch and TensorFlow


def unmeasured_backends(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The backends of those GPUs whose makers were never measured, each once."""
    makers = dict.fromkeys(gpu.vendor for gpu in gpus if not gpu.is_cpu and not knows_vendor(gpu))
    return tuple(_BACKENDS.get(maker, f"the software of {maker}") for maker in makers)


def maker_notes(gpu: Gpu, stack: str, *, ranged: bool = True) -> tuple[Assumption, ...]:
    """For a GPU of such a maker: the software we assume, and, where the answer has a range of its own, that it is assumed too."""
    if gpu.is_cpu or knows_vendor(gpu):
        return ()
    low, high = UNMEASURED_RANGE
    effect = f"not measured: times assume that it issues and runs kernels as {stack} does on measured GPUs"
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
    """Where the range comes from for a GPU whose generation was not measured, but whose maker was."""
    if gpu.is_cpu or knows(gpu) or not knows_vendor(gpu):
        return ()
    effect = f"no GPU of its generation ({gpu.architecture.generation}) was measured"
    return (assumed(f"{gpu.name} range", "the error on generations left out of the fit", effect, code="device_range"),)
