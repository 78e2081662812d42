"""Finds values that are impossible for a GPU. The same rules apply to our own rows, a third party's data and a user's typed
specs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from gpuwise.core.units import GIB, KIB, MIB, format_si
from gpuwise.hardware.types import Gpu

__all__ = ["PEAK_TOLERANCE", "Fault", "faults"]

PEAK_TOLERANCE = 0.03
BANDWIDTH_TOLERANCE = 0.03

# Gbit/s per pin of each memory type as sold on GPUs (JEDEC standards and shipped products).
_RATE_RANGE = {
    "DDR2": (0.4, 1.2),
    "DDR3": (0.8, 2.4),
    "DDR4": (1.6, 4.3),
    "DDR5": (4.0, 8.0),
    "GDDR2": (0.5, 1.2),
    "GDDR3": (0.8, 2.6),
    "GDDR4": (1.5, 2.6),
    "GDDR5": (1.6, 9.2),
    "GDDR5X": (9.0, 12.0),
    "GDDR6": (8.0, 21.0),
    "GDDR6X": (18.0, 24.0),
    "GDDR7": (18.0, 37.0),
    "HBM": (0.9, 1.1),
    "HBM2": (1.2, 2.5),
    "HBM2e": (2.4, 3.7),
    "HBM3": (4.0, 6.5),
    "HBM3e": (5.5, 9.6),
    "LPDDR3": (1.3, 2.2),
    "LPDDR4": (2.1, 4.3),
    "LPDDR4X": (3.2, 4.3),
    "LPDDR5": (4.2, 6.5),
    "LPDDR5X": (6.3, 10.8),
}

_NAMES = {
    "sm_count": "number of SMs",
    "boost_clock_hz": "boost clock",
    "base_clock_hz": "base clock",
    "matrix_clock_hz": "matrix clock",
    "memory_bytes": "memory size",
    "memory_bytes_per_s": "memory bandwidth",
    "memory_bits_per_s_per_pin": "memory pin rate",
    "usable_memory_bytes": "usable memory",
    "slow_memory_bytes": "slow memory",
    "slow_memory_bytes_per_s": "slow memory bandwidth",
    "l2_bytes": "L2 cache",
    "l3_bytes": "L3 cache",
    "tdp_watts": "TDP",
    "power_min_watts": "lowest power limit",
    "power_max_watts": "highest power limit",
    "pcie_lanes": "PCIe lanes",
    "pcie_generation": "PCIe generation",
    "nvlink_bytes_per_s": "NVLink bandwidth",
    "launch_usd": "launch price",
    "launched_on": "launch date",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One impossible value: the field, and what it contradicts."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{_NAMES.get(self.field, self.field.replace('_', ' ').replace('.', ' '))} {self.message}"


def faults(gpu: Gpu, *, today: date | None = None) -> tuple[Fault, ...]:
    """Return everything about this GPU that contradicts physics or its other values."""
    alone = tuple(fault for rule in _LIMITS for fault in rule(gpu, today or date.today()))
    if any(getattr(gpu, fault.field) <= 0 for fault in alone):
        return alone  # ratios with this value are meaningless
    return alone + tuple(fault for rule in _RELATIONS for fault in rule(gpu, today or date.today()))


def _peaks(gpu: Gpu, _: date) -> Iterator[Fault]:
    """Published peaks are dense and follow from units x clock x rate within 3%."""
    for engine, by_dtype in gpu.published_flops_per_s.items():
        for dtype, published in by_dtype.items():
            derived = gpu.peak_flops_per_s.get(engine, {}).get(dtype)
            if derived is None:
                yield Fault(field=f"{engine}.{dtype}", message=f"does not exist on {gpu.architecture.title}")
            elif abs(derived * gpu.devices_per_board / published - 1) > PEAK_TOLERANCE:
                shown = format_si(derived * gpu.devices_per_board, "FLOP/s", 4)
                yield Fault(
                    field=f"{engine}.{dtype}",
                    message=f"is published as {format_si(published, 'FLOP/s', 4)} but derived as {shown}",
                )


def _cores(gpu: Gpu, _: date) -> Iterator[Fault]:
    expected = gpu.sm_count * gpu.architecture.cores_per_unit
    if gpu.core_count is not None and expected and gpu.core_count != expected:
        product = f"{gpu.sm_count} x {gpu.architecture.cores_per_unit}"
        yield Fault(field="sm_count", message=f"does not match the cores: {product} is {expected}, not {gpu.core_count}")


def _bandwidth(gpu: Gpu, _: date) -> Iterator[Fault]:
    """Bandwidth is bus width times pin rate, and the pin rate must be possible for the memory type."""
    rate = gpu.memory_bits_per_s_per_pin
    if rate is None or gpu.memory_bus_bits is None:
        return
    product = gpu.memory_bus_bits * rate / 8
    if abs(product / gpu.memory_bytes_per_s - 1) > BANDWIDTH_TOLERANCE:
        yield Fault(
            field="memory_bytes_per_s",
            message=f"does not match the bus: {gpu.memory_bus_bits} bit x {rate / 1e9:g} Gbit/s is {product / 1e9:.1f} GB/s, "
            f"not {gpu.memory_bytes_per_s / 1e9:.1f}",
        )
    if gpu.memory_type not in _RATE_RANGE:
        yield Fault(field="memory_type", message=f"is unknown: '{gpu.memory_type}'")
        return
    low, high = _RATE_RANGE[gpu.memory_type]
    if not low <= rate / 1e9 <= high:
        yield Fault(
            field="memory_bits_per_s_per_pin",
            message=f"must be between {low:g} and {high:g} Gbit/s for {gpu.memory_type}, not {rate / 1e9:g} Gbit/s",
        )


def _within(field: str, low: float, high: float, unit: str) -> Callable[[Gpu, date], Iterator[Fault]]:
    def rule(gpu: Gpu, _: date) -> Iterator[Fault]:
        value = getattr(gpu, field)
        if value is not None and not low <= value <= high:
            yield Fault(
                field=field, message=f"must be between {_show(low, unit)} and {_show(high, unit)}, not {_show(value, unit)}"
            )

    return rule


def _show(value: float, unit: str) -> str:
    if unit in ("$", ""):
        return f"{unit}{value:,.0f}"
    return format_si(value, unit)


def _order(gpu: Gpu, _: date) -> Iterator[Fault]:
    pairs = (
        ("base_clock_hz", "boost_clock_hz"),
        ("matrix_clock_hz", "boost_clock_hz"),
        ("usable_memory_bytes", "memory_bytes"),
        ("power_min_watts", "tdp_watts"),
        ("tdp_watts", "power_max_watts"),
    )
    for low_name, high_name in pairs:
        low, high = getattr(gpu, low_name), getattr(gpu, high_name)
        if low is not None and high is not None and low > high:
            yield Fault(field=low_name, message=f"of {low:g} is above the {_NAMES[high_name]} of {high:g}")
    if gpu.usable_memory_bytes + gpu.slow_memory_bytes > gpu.memory_bytes:
        yield Fault(field="slow_memory_bytes", message="and fast memory together exceed the memory size")
    if bool(gpu.slow_memory_bytes) != bool(gpu.slow_memory_bytes_per_s):
        yield Fault(field="slow_memory_bytes_per_s", message="must be given together with the size of the slow memory")
    elif gpu.slow_memory_bytes_per_s and gpu.slow_memory_bytes_per_s > 0.5 * gpu.memory_bytes_per_s:
        yield Fault(field="slow_memory_bytes_per_s", message="is too close to the bandwidth of the remaining memory")


def _balance(gpu: Gpu, _: date) -> Iterator[Fault]:
    """Every GPU sold so far has between 2 and 300 fp32 operations per byte of bandwidth."""
    fp32 = gpu.peak_flops_per_s.get("vector", {}).get("fp32")
    if fp32 is not None and not 2 <= fp32 / gpu.memory_bytes_per_s <= 300:
        yield Fault(
            field="memory_bytes_per_s",
            message=f"must correspond to 2 to 300 fp32 operations per byte, not {fp32 / gpu.memory_bytes_per_s:.2g}",
        )


def _power_per_flop(gpu: Gpu, _: date) -> Iterator[Fault]:
    """Each TFLOP/s of fp32 takes between 1.5 W and 1 kW: the range from 2010 to today, with some margin."""
    fp32 = gpu.peak_flops_per_s.get("vector", {}).get("fp32")
    if gpu.tdp_watts is not None and fp32 is not None and not 1.5 <= gpu.tdp_watts / (fp32 / 1e12) <= 1000:
        yield Fault(field="tdp_watts", message=f"of {gpu.tdp_watts:g} W is implausible for {fp32 / 1e12:.3g} fp32 TFLOP/s")


def _engines(gpu: Gpu, _: date) -> Iterator[Fault]:
    """A matrix engine slower than the vector engine would not have been built."""
    vector = gpu.peak_flops_per_s.get("vector", {})
    for dtype, peak in gpu.peak_flops_per_s.get("matrix", {}).items():
        if not dtype.startswith("int") and peak < 0.99 * vector.get(dtype, 0.0):
            yield Fault(field=f"matrix.{dtype}", message="is slower than the vector engine")


def _l2(gpu: Gpu, _: date) -> Iterator[Fault]:
    largest = gpu.architecture.largest_l2_bytes
    if gpu.l2_bytes is not None and largest is not None and gpu.l2_bytes > largest:
        yield Fault(
            field="l2_bytes",
            message=f"of {gpu.l2_bytes / MIB:g} MiB is larger than the {largest / MIB:g} MiB of the largest chip",
        )


def _memory_chips(gpu: Gpu, _: date) -> Iterator[Fault]:
    """GDDR chips have 32 data pins and 1/8 to 4 GiB; a board carries one or two for each 32 bits of the bus."""
    if gpu.memory_bus_bits is None or gpu.memory_type[:5] not in ("GDDR5", "GDDR6", "GDDR7"):
        return
    size = gpu.memory_bytes / GIB
    if not 0.1 <= size / (gpu.memory_bus_bits / 32) <= 6:
        yield Fault(field="memory_bytes", message=f"of {size:g} GiB does not match a {gpu.memory_bus_bits}-bit bus")


_NVLINK_GB_PER_S = {1: 160, 2: 300, 3: 600, 4: 900, 5: 1800}  # the most that any GPU of each generation has had


def _links(gpu: Gpu, _: date) -> Iterator[Fault]:
    if gpu.pcie_lanes is not None and gpu.pcie_lanes not in (1, 2, 4, 8, 16):
        yield Fault(field="pcie_lanes", message=f"must be 1, 2, 4, 8 or 16, not {gpu.pcie_lanes}")
    if gpu.pcie_generation is not None and not 1 <= gpu.pcie_generation <= 6:
        yield Fault(field="pcie_generation", message=f"must be between 1 and 6, not {gpu.pcie_generation}")
    most = _NVLINK_GB_PER_S.get(gpu.nvlink_generation or 0, 0)
    if gpu.nvlink_bytes_per_s is not None and not 0 < gpu.nvlink_bytes_per_s <= most * 1e9:
        yield Fault(
            field="nvlink_bytes_per_s", message=f"must be above 0 and at most {most} GB/s for NVLink {gpu.nvlink_generation}"
        )


def _date(gpu: Gpu, today: date) -> Iterator[Fault]:
    if gpu.launched_on is None:
        return
    if gpu.launched_on > today:
        yield Fault(field="launched_on", message=f"{gpu.launched_on} is in the future")
    if (gpu.launched_on - gpu.architecture.introduced_on).days > 8 * 365:
        yield Fault(field="launched_on", message=f"{gpu.launched_on} is over eight years after {gpu.architecture.title}")
    if (gpu.architecture.introduced_on - gpu.launched_on).days > 370:
        yield Fault(
            field="launched_on",
            message=f"{gpu.launched_on} is over a year before {gpu.architecture.title} ({gpu.architecture.introduced_on})",
        )


_LIMITS: tuple[Callable[[Gpu, date], Iterator[Fault]], ...] = (
    _within("sm_count", 1, 2048, ""),
    _within("boost_clock_hz", 0.1e9, 4e9, "Hz"),
    _within("base_clock_hz", 0.1e9, 4e9, "Hz"),
    _within("memory_bytes", 0.06 * GIB, 1024 * GIB, "B"),
    _within("memory_bytes_per_s", 1e9, 30e12, "B/s"),
    _within("l2_bytes", 16 * KIB, 1 * GIB, "B"),
    _within("l3_bytes", 1024 * KIB, 1 * GIB, "B"),
    _within("usable_memory_bytes", 0.06 * GIB, 1024 * GIB, "B"),
    _within("tdp_watts", 1, 2000, "W"),
    _within("power_min_watts", 1, 2000, "W"),
    _within("power_max_watts", 1, 2500, "W"),
    _within("launch_usd", 10, 100_000, "$"),
    _within("slots", 1, 5, "slots"),
)
_RELATIONS: tuple[Callable[[Gpu, date], Iterator[Fault]], ...] = (
    _order,
    _cores,
    _peaks,
    _bandwidth,
    _balance,
    _power_per_flop,
    _engines,
    _l2,
    _memory_chips,
    _links,
    _date,
)
