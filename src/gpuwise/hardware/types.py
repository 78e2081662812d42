"""The types for GPUs, architectures, links, nodes and hosts. They hold facts only: no predicted times and no current prices.

All quantities are in SI units. A GPU is one *device* as the driver shows it: a K80 board carries two, so its row describes one
half, with `devices_per_board = 2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from gpuwise.core.provenance import Fact, Source
from gpuwise.core.text import a

__all__ = [
    "DTYPES",
    "Architecture",
    "Gpu",
    "Host",
    "Link",
    "Loader",
    "Node",
    "Peaks",
    "convolves_in_tf32",
    "has_matrix_cores",
    "supported",
]

DTYPES = ("fp64", "fp32", "tf32", "fp16", "fp16_acc16", "bf16", "fp8", "fp6", "fp4", "int8", "int4")

# Peaks by engine ("vector", "matrix") and dtype: operations per unit and clock, or FLOP/s, as the name says.
Peaks = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """The operations that one compute unit (SM, CU, Xe-core, core, MXU) of a chip family performs per clock."""

    id: str
    title: str
    vendor: str
    generation: str
    capability: str
    unit: str
    cores_per_unit: int
    largest_l2_bytes: float | None
    core_clock_ratio: float
    ops_per_unit_per_clock: Peaks
    half_accumulate: tuple[str, ...]
    warps_per_unit: int | None
    register_bytes_per_unit: float | None
    shared_bytes_per_unit: float | None
    features: tuple[str, ...]
    first_software: str
    last_software: str
    process_nm: float | None
    mixed_lanes: bool
    last_torch: tuple[int, int] | None
    last_torch_build: str
    introduced_on: date
    source: Source


@dataclass(frozen=True, kw_only=True, eq=False)
class Gpu:
    """One product, and one device of it. `None` means not published; nothing is filled in silently.

    A CPU can take the place of a GPU, with the segment `cpu`. `slow_memory_bytes` is additional memory behind a narrow path, such
    as the last half gigabyte of the GTX 970. Its `slow_memory_bytes_per_s` is part of `memory_bytes_per_s`, and the two kinds of
    memory are not accessed at the same time.
    """

    name: str
    aliases: tuple[str, ...] = ()
    vendor: str
    segment: str
    chip: str = ""
    architecture: Architecture
    sm_count: int
    core_count: int | None = None
    base_clock_hz: float | None = None
    boost_clock_hz: float
    matrix_clock_hz: float
    memory_bytes: float
    usable_memory_bytes: float
    slow_memory_bytes: float = 0.0
    slow_memory_bytes_per_s: float | None = None
    memory_type: str = ""
    memory_bus_bits: int | None = None
    memory_bits_per_s_per_pin: float | None = None
    memory_bytes_per_s: float
    l2_bytes: float | None = None
    l3_bytes: float | None = None
    tdp_watts: float | None = None
    power_min_watts: float | None = None
    power_max_watts: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    nvlink_generation: int | None = None
    nvlink_bytes_per_s: float | None = None
    slots: float | None = None
    cooler: str = ""
    power_connectors: str = ""
    launched_on: date | None = None
    launch_usd: float | None = None
    ecc: bool | None = None
    display: bool | None = None
    devices_per_board: int = 1
    half_accumulate: bool = False
    rate_exceptions: Peaks = field(default_factory=dict)
    published_flops_per_s: Peaks = field(default_factory=dict)
    curated: bool = True
    note: str = ""
    source: Source
    exceptions: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def is_cpu(self) -> bool:
        """Whether this is a CPU used in place of a GPU."""
        return self.segment == "cpu"

    @cached_property
    def peak_flops_per_s(self) -> Peaks:
        """Dense operations per second by engine and dtype: units x clock x operations per clock.

        The vector engine and fp64 use the boost clock. Other matrix rates use the clock at which the maker rates them, which
        differs only on Hopper and Blackwell servers. GeForce cards halve matrix rates that accumulate in fp32.
        """
        return {
            engine: {dtype: self.sm_count * self._clock(engine, dtype) * self._rate(engine, dtype) for dtype in rates}
            for engine, rates in self.architecture.ops_per_unit_per_clock.items()
        }

    def best_peak(self, dtype: str) -> float | None:
        """The rate that a framework gets for this dtype: on the matrix engine if there is one, otherwise on the vector engine."""
        peaks = self.peak_flops_per_s
        return peaks.get("matrix", {}).get(dtype) or peaks.get("vector", {}).get(dtype)

    def _clock(self, engine: str, dtype: str) -> float:
        if engine == "vector":
            return self.boost_clock_hz * self.architecture.core_clock_ratio
        return self.boost_clock_hz if dtype == "fp64" else self.matrix_clock_hz

    def _rate(self, engine: str, dtype: str) -> float:
        exception = self.rate_exceptions.get(engine, {}).get(dtype)
        if exception is not None:
            return exception
        rate = self.architecture.ops_per_unit_per_clock[engine][dtype]
        halved = self.half_accumulate and engine == "matrix" and dtype in self.architecture.half_accumulate
        return rate / 2 if halved else rate

    def fact(self, field_name: str) -> Fact:
        """Return the value of one field with its origin."""
        value = getattr(self, field_name)
        exception = self.exceptions.get(field_name)
        if exception is not None:
            return Fact(value=value, source=exception.source, basis=exception.basis, note=exception.note)
        return Fact(value=value, source=self.source, basis=self.source.basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A connection between two devices or nodes, in one direction."""

    name: str
    aliases: tuple[str, ...]
    kind: str
    bytes_per_s_one_way: float
    achieved_fraction: float
    latency_s: float
    source: Source
    achieved_source: Source
    latency_source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine: which GPUs it has, how many, and the links between them."""

    name: str
    aliases: tuple[str, ...]
    gpu: str
    gpu_count: int
    gpu_link: str
    peer_to_peer: bool
    host_link: str
    network_link: str
    network_count: int
    host: str
    source: Source
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A class of CPUs, described by the time it takes to launch work from Python. `models` are patterns for the names of its
    CPUs. Without `memory_channels`, its memory does not consist of modules.
    """

    name: str
    aliases: tuple[str, ...]
    models: tuple[str, ...]
    example: str
    core_count: int
    launch_s: float
    memory_bytes_per_s: float
    memory_channels: int = 0
    source: Source
    note: str = ""

    @property
    def described(self) -> str:
        """The class with an example, such as `desktop, like an AMD Ryzen 7 5800X from 2020`."""
        name, _, year = self.example.removesuffix(")").partition(" (")
        return f"{self.name}, like {a(name)}{f' from {year}' if year else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """A way of loading images, described by the time that one core of the host class `host` spends on each image.

    `handover_s` is spent in the training process, regardless of the number of workers. `low` and `high` bound the ratio of real
    rates to computed ones.
    """

    name: str
    title: str
    host: str
    decode_s: float
    transform_s: float
    handover_s: float
    low: float
    high: float
    decode_source: Source
    transform_source: Source
    handover_source: Source
    note: str = ""


# ---------------------------------------------------------------- number formats that models run in


def supported(gpu: Gpu) -> tuple[str, ...]:
    """Return the precisions this GPU can run. Storage-only fp16, as on GTX 10 cards, works but is no faster."""
    peaks = gpu.peak_flops_per_s
    matrix, vector = peaks.get("matrix", {}), peaks.get("vector", {})
    found = ["fp32"] if vector.get("fp32") or matrix.get("fp32") else []
    found += ["tf32"] if "tf32" in matrix else []
    found += ["fp16", "amp"] if "fp16" in matrix or "fp16" in vector or gpu.vendor == "NVIDIA" else []
    found += ["bf16", "amp-bf16"] if "bf16" in matrix or "bf16" in vector or "bf16" in gpu.architecture.features else []
    return (*found, *(["fp8"] if "fp8" in matrix else []))


def convolves_in_tf32(gpu: Gpu) -> bool:
    """Return whether fp32 convolutions run as TF32 by default, as in cuDNN on NVIDIA GPUs since Ampere."""
    return gpu.vendor == "NVIDIA" and bool(gpu.peak_flops_per_s.get("matrix", {}).get("tf32"))


def has_matrix_cores(gpu: Gpu) -> bool:
    """Return whether 16-bit matrix products are faster than fp32 ones on this GPU."""
    return bool(gpu.peak_flops_per_s.get("matrix", {}).get("fp16"))
