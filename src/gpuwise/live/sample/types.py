"""The types for samples of a GPU and of the host, and for what a watched run leaves behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["GpuProcess", "GpuSample", "HostSample", "Run", "Sampler", "Sight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process on a GPU; None for values that the driver does not report."""

    pid: int
    memory_bytes: float | None = None
    busy_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One GPU at one moment; None for unknown values. `reasons` say why its clock is not higher."""

    index: int
    name: str
    busy_fraction: float | None = None
    memory_busy_fraction: float | None = None
    clock_hz: float | None = None
    clock_max_hz: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    temperature_c: float | None = None
    reasons: tuple[str, ...] | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_lanes: int | None = None
    pcie_lanes_max: int | None = None
    received_bytes_per_s: float | None = None
    sent_bytes_per_s: float | None = None
    memory_used_bytes: float | None = None
    memory_bytes: float | None = None
    processes: tuple[GpuProcess, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """The host since the previous sample: the share of each core in use, by the run and in total, and its waits for a core."""

    core_fractions: tuple[float, ...]
    ram_used_bytes: float
    ram_bytes: float
    own_cores: float | None = None
    own_processes: int = 0
    own_ram_bytes: float = 0.0
    delayed_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All samples at one moment, `at_s` after the start."""

    at_s: float
    gpus: tuple[GpuSample, ...]
    host: HostSample | None


class Sampler(Protocol):
    """One method of sampling GPUs. `sample` never raises; `faults` reports each loss once."""

    faults: list[str]

    def sample(self) -> tuple[GpuSample, ...]:
        """Return a sample of every GPU that responds."""
        ...

    def close(self) -> None:
        """Release the driver."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a watched run leaves behind. `marks` are the records of each process, `exit_code` is None if gpuwise did not start
    the process.
    """

    sights: tuple[Sight, ...]
    marks: dict[int, bytes]
    traces: tuple[Path, ...]
    pids: frozenset[int]
    faults: tuple[str, ...]
    waiting_s: float | None = None
    seconds: float = 0.0
    exit_code: int | None = None
    ended_by: str = ""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Return all GPUs that were sampled, in order."""
        return tuple({gpu.index: gpu.name for sight in self.sights for gpu in sight.gpus}.values())

    def of_gpu(self, index: int) -> Iterable[GpuSample]:
        """Return all samples of one GPU."""
        return (gpu for sight in self.sights for gpu in sight.gpus if gpu.index == index)
