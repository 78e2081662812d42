"""The input of a live check: the measured values of a watched run and of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["GpuVitals", "Vitals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVitals:
    """One GPU over a run; None for values that its driver does not report. Values "at load" are from samples while it was busy.

    `reasons` are the shares of samples at load in which the driver gave each reason for not raising the clock.
    """

    name: str
    sample_count: int
    load_count: int
    busy_fraction: float | None = None
    memory_busy_fraction: float | None = None
    clock_hz: float | None = None
    boost_hz: float | None = None
    reasons: Mapping[str, float] | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    temperature_c: float | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_lanes: int | None = None
    pcie_lanes_max: int | None = None
    traffic_bytes_per_s: float | None = None
    memory_used_fraction: float | None = None
    other_processes: int | None = None
    other_busy_fraction: float = 0.0
    other_memory_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """A watched run. Seconds are of a mean steady step; `step_s` of 0 means that no steps were seen.

    `work_low_s` is a step at its best without waiting, `wait_cpu_s` what the process itself computed while it waited for a
    batch, `delayed_fraction` the share of time in which it could run and had no core, `own_cores_fraction` the run's own part of
    `cores_used_fraction`.
    """

    step_s: float = 0.0
    wait_s: float = 0.0
    wait_cpu_s: float = 0.0
    cpu_s: float = 0.0
    work_low_s: float = 0.0
    workers: int | None = None
    expected_s: float | None = None
    core_count: int = 0
    cores_used_fraction: float | None = None
    own_cores_fraction: float | None = None
    delayed_fraction: float | None = None
    gpus: tuple[GpuVitals, ...] = ()
    blind: str = ""
    without_steps: str = ""
    faults: tuple[str, ...] = field(default=())

    @property
    def on_cpu(self) -> bool:
        """Whether the work itself seems to run on the host, because there is no GPU or none that is ever busy."""
        return not any((gpu.busy_fraction or 0.0) > 0.01 for gpu in self.gpus)
