"""Applies the live checks to GPU readings from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwise.diagnose.registry import ranked, run_live_checks
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.vitals import GpuVitals, Vitals
from gpuwise.hardware.types import Gpu
from gpuwise.live.sample.nvidia import REASONS
from gpuwise.live.sample.types import GpuSample
from gpuwise.questions.common.gpu_vitals import gpu_vitals
from gpuwise.trace.readers.telemetry import Reading, Telemetry

__all__ = ["check_readings", "vitals_of_readings", "with_readings"]

_RECORD = "record with `nvidia-smi dmon -s pucvmet`, or run `gpuwise watch` on the job"


def vitals_of_readings(files: Sequence[Telemetry], gpu: Gpu | None, step_s: float = 0.0) -> Vitals:
    """Return the readings of all files as values; `gpu` is their GPU, if they do not name it."""
    by_gpu: dict[int, list[Reading]] = {}
    for file in files:
        for reading in file.readings:
            by_gpu.setdefault(reading.index, []).append(reading)
    vitals = tuple(gpu_vitals(tuple(_sample(one, gpu) for one in found)) for _, found in sorted(by_gpu.items()))
    return Vitals(step_s=step_s, gpus=vitals)


def _sample(one: Reading, gpu: Gpu | None) -> GpuSample:
    memory = one.memory_bytes or (gpu.memory_bytes if gpu is not None else None)
    used = one.memory_used_bytes
    if used is None and one.memory_used_fraction is not None:
        memory = memory or 1.0  # only the share counts where nothing tells the size
        used = one.memory_used_fraction * memory
    return GpuSample(
        index=one.index,
        name=one.name or (gpu.name if gpu is not None else ""),
        busy_fraction=one.busy_fraction,
        memory_busy_fraction=one.memory_busy_fraction,
        clock_hz=one.clock_hz,
        clock_max_hz=one.clock_max_hz,
        power_watts=one.power_watts,
        power_limit_watts=one.power_limit_watts,
        power_default_watts=one.power_default_watts,
        temperature_c=one.temperature_c,
        reasons=_reasons(one),
        pcie_generation=_whole(one.pcie_generation),
        pcie_generation_max=_whole(one.pcie_generation_max),
        pcie_lanes=_whole(one.pcie_lanes),
        pcie_lanes_max=_whole(one.pcie_lanes_max),
        received_bytes_per_s=one.received_bytes_per_s,
        sent_bytes_per_s=one.sent_bytes_per_s,
        memory_used_bytes=used,
        memory_bytes=memory,
    )


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and 0 < value < 1000 else None


def _reasons(one: Reading) -> tuple[str, ...] | None:
    if one.reason_bits is not None:
        return tuple(name for bit, name in REASONS.items() if one.reason_bits & bit)
    return one.reasons


def check_readings(vitals: Vitals) -> tuple[tuple[Finding, ...], tuple[Abstained, ...]]:
    """Return what the live checks find in readings, and which of them lack a column."""
    findings, _ = run_live_checks(vitals)
    lacking = [
        Abstained(code=code, reason=f"the readings do not contain {what}", record_next=_RECORD)
        for code, what in _lacking(vitals.gpus)
    ]
    return findings, tuple(lacking)


def _lacking(gpus: Sequence[GpuVitals]) -> Iterable[tuple[str, str]]:
    if not any(gpu.reasons is not None or (gpu.clock_hz and gpu.boost_hz and gpu.power_limit_watts) for gpu in gpus):
        yield "throttled", "throttle reasons, or the clock together with the power limit"
    if not any(gpu.memory_used_fraction is not None for gpu in gpus):
        yield "vram_spill", "the share of GPU memory in use"
    if not any(gpu.power_limit_watts and gpu.power_default_watts for gpu in gpus):
        yield "power_limited", "the power limit and its default"
    if not any(gpu.pcie_generation and gpu.pcie_generation_max for gpu in gpus):
        yield "pcie_degraded", "the PCIe generation and width"
    yield "shared_gpu", "other processes on the GPU"


def with_readings(
    files: Sequence[Telemetry], gpu: Gpu | None, step_s: float, findings: tuple[Finding, ...], abstained: tuple[Abstained, ...]
) -> tuple[tuple[Finding, ...], tuple[Abstained, ...]]:
    """Combine the findings of a trace with those of readings taken at the same time; checks that the readings answer no longer
    abstain.
    """
    live, lacking = check_readings(vitals_of_readings(files, gpu, step_s))
    unanswered = {entry.code for entry in lacking}
    answered = {"throttled", "vram_spill", "power_limited", "pcie_degraded", "shared_gpu"} - unanswered
    kept = tuple(entry for entry in abstained if entry.code not in answered and entry.code not in unanswered)
    return ranked((*findings, *live)), (*kept, *lacking)
