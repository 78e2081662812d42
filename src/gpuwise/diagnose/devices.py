"""Finds the GPUs in a trace. Several in one file count as one run, each with the calls of the process that drives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpuwise.diagnose.intervals import among
from gpuwise.trace.types import Device, Events, Kind, Trace

__all__ = ["each_device", "with_accelerators_named"]

_MTIA_CALL = "runFunction - job_prep_and_submit"
_ON_DEVICE = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)


def with_accelerators_named(trace: Trace) -> Trace:
    """Return the trace with devices marked as another accelerator if they are one: PyTorch's profiler writes them like GPUs.
    They are recognised by the categories of their calls, and Meta's MTIA also by the backend or by the call that submits
    its work.
    """
    told = trace.accelerator or ("MTIA" if _is_mtia(trace) else "")
    if not told or trace.named("cudalaunchkernel", "hiplaunchkernel").any():
        return trace
    kind = trace.events.kind
    indices = np.unique(trace.events.device[(kind == Kind.KERNEL) | (kind == Kind.MEMCPY) | (kind == Kind.MEMSET)])
    return replace(
        trace, devices=tuple(Device(index=int(index), name=told, vendor="Meta" if told == "MTIA" else "") for index in indices)
    )


def _is_mtia(trace: Trace) -> bool:
    return "mtia" in trace.backend.lower() or any(
        name.startswith(_MTIA_CALL) or "mtia" in name[:40].lower() for name in trace.names
    )


def each_device(trace: Trace) -> Iterator[tuple[Trace, int, bool]]:
    """Return what belongs to each GPU, the one with the most kernel time first; its number; and whether it has a process of
    its own. If one process drives all of them, they share its calls; otherwise none sees those of another. Empty without a
    GPU.
    """
    kind = trace.events.kind
    work = trace.events.where((kind == Kind.KERNEL) | (kind == Kind.MEMCPY) | (kind == Kind.MEMSET))
    indices = _by_kernel_time(work)
    owners = {index: _owners(trace.events, work.where(work.device == index)) for index in indices} if len(indices) > 1 else {}
    alone = len(indices) > 1 and all(len(found) == 1 for found in owners.values()) and len(set.union(*owners.values())) > 1
    for index in indices:
        yield (_of_processes(trace, owners[index]) if alone else trace), index, alone


def _by_kernel_time(work: Events) -> list[int]:
    if not len(work):
        return []
    devices, place = np.unique(work.device, return_inverse=True)
    kernels = work.kind == Kind.KERNEL
    counted = kernels if kernels.any() else np.ones(len(work), dtype=bool)
    spent = np.bincount(place.reshape(-1), weights=np.where(counted, work.duration_ns, 0), minlength=len(devices))
    return [int(devices[row]) for row in np.argsort(-spent, kind="stable")]


def _owners(events: Events, work: Events) -> set[int]:
    """Return the processes that launched this work, if the trace records them."""
    calls = (events.kind == Kind.RUNTIME) & (events.correlation >= 0)
    known = work.correlation[work.correlation >= 0]
    return set(np.unique(events.process[calls][among(events.correlation[calls], known)]).tolist())


def _of_processes(trace: Trace, owners: set[int]) -> Trace:
    """The trace without the calls and marks of other processes."""
    events = trace.events
    return replace(trace, events=events.where(events.is_kind(*_ON_DEVICE) | np.isin(events.process, list(owners))))
