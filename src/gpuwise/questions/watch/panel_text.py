"""The panel shown while a run is watched: steps, GPUs and host, one line each."""

from __future__ import annotations

from gpuwise.live.sample.steps import Pace
from gpuwise.live.sample.types import GpuSample, HostSample, Sight
from gpuwise.questions.common.findings_text import time_text

__all__ = ["panel"]


def panel(sight: Sight | None, pace: Pace | None, *, seconds: float, waiting_s: float | None, faults: tuple[str, ...]) -> str:
    """Return the current values of steps, GPUs and host, one line each."""
    lines = [f"gpuwise watch  {seconds:,.0f} s  " + _steps(pace)]
    if waiting_s is not None:
        lines.append(f"the data loader has not delivered a batch for {waiting_s:.0f} s")
    if sight is not None:
        lines += [_gpu_now(gpu) for gpu in sight.gpus]
        lines += [_host_now(sight.host)] if sight.host is not None else []
    return "\n".join([*lines, *(fault for fault in faults)])


def _steps(pace: Pace | None) -> str:
    if pace is None:
        return "no steps yet"
    return f"step {time_text(pace.median_s)}  input {pace.wait_fraction:.0%}  ({pace.count:,} steps)"


def _gpu_now(gpu: GpuSample) -> str:
    known = [f"GPU {gpu.index} {gpu.name}"]
    if gpu.busy_fraction is not None:
        known.append(f"SM {gpu.busy_fraction:.0%}  mem {gpu.memory_busy_fraction or 0.0:.0%}")
    if gpu.clock_hz is not None:
        known.append(f"{gpu.clock_hz / 1e6:,.0f} MHz")
    if gpu.power_watts is not None:
        known.append(f"{gpu.power_watts:.0f}" + (f"/{gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else " W"))
    if gpu.temperature_c is not None:
        known.append(f"{gpu.temperature_c:.0f} °C")
    if gpu.memory_used_bytes is not None and gpu.memory_bytes:
        known.append(f"VRAM {gpu.memory_used_bytes / 2**30:.1f}/{gpu.memory_bytes / 2**30:.1f} GB")
    if gpu.pcie_generation and gpu.pcie_lanes:
        moved = max(gpu.received_bytes_per_s or 0.0, gpu.sent_bytes_per_s or 0.0)
        known.append(f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes} {moved / 1e9:.1f} GB/s")
    if gpu.processes is not None:
        known.append(f"{len(gpu.processes)} process{'es' if len(gpu.processes) != 1 else ''}")
    if gpu.reasons:
        known.append("limited by " + ", ".join(gpu.reasons))
    return "  ".join(known)


def _host_now(host: HostSample) -> str:
    used = sum(host.core_fractions)
    own = "" if host.own_cores is None else f"  this run {host.own_cores:.1f}"
    ram = f"RAM {host.ram_used_bytes / 2**30:.1f}/{host.ram_bytes / 2**30:.1f} GB"
    return f"CPU {used:.1f}/{len(host.core_fractions)} cores{own}  {ram}  {host.own_processes} processes"
