"""What is installed on this machine, and does gpuwise know its GPUs?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.errors import UnknownName
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import Catalog, Match, load_catalog
from gpuwise.hardware.types import Gpu
from gpuwise.live.sample.machine import Device, Machine, look_around
from gpuwise.questions.common.options import Shown
from gpuwise.questions.doctor.options import DoctorOptions
from gpuwise.questions.face import face

__all__ = ["CheckedGpu", "Checkup", "answer", "doctor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGpu:
    """A device of this machine with its catalogue entry, if it has one."""

    device: Device
    gpu: Gpu | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup(Shown):
    """What was found on this machine."""

    TEXT: ClassVar[str] = "questions.doctor.text.render"

    machine: Machine
    gpus: tuple[CheckedGpu, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        machine = self.machine
        return {
            "python": machine.python,
            "platform": machine.platform,
            "packages": machine.packages,
            "probes": [{"name": p.name, "found": p.found, "detail": p.detail, "hint": p.hint} for p in machine.probes],
            "gpus": [_checked_dict(checked) for checked in self.gpus],
            "assumptions": [],
            "data_date": self.data_date.isoformat(),
        }


def answer(options: DoctorOptions, progress: Callable[[str], None] = lambda text: None) -> Checkup:
    """Inspect Python, the frameworks, the drivers and the GPUs of this machine; any of them may be missing."""
    machine = look_around()
    known = load_catalog(options.catalog)
    checked = tuple(_check(device, known) for device in machine.devices)
    return Checkup(machine=machine, gpus=checked, data_date=tables.data_date())


def _check(device: Device, known: Catalog) -> CheckedGpu:
    try:
        match = known.find(device.name)
    except UnknownName as unknown:
        return CheckedGpu(device=device, gpu=None, notes=(unknown.message, unknown.hint))
    gpu = min(_candidates(device, match, known), key=lambda gpu: _memory_distance(device, gpu))
    return CheckedGpu(device=device, gpu=gpu, notes=tuple(_notes(device, gpu)))


def _candidates(device: Device, match: Match, known: Catalog) -> tuple[Gpu, ...]:
    """The products a driver's name leaves open. A gfx id names a chip family: its compute units tell more."""
    candidates = (match.gpu, *match.others)
    if device.unit_count is None:
        return candidates
    same = tuple(gpu for gpu in known.curated if gpu.architecture is match.gpu.architecture and gpu.sm_count == device.unit_count)
    return same or candidates


def _memory_distance(device: Device, gpu: Gpu) -> float:
    return abs(gpu.memory_bytes - device.memory_bytes) if device.memory_bytes else 0.0


def _notes(device: Device, gpu: Gpu) -> list[str]:
    notes = []
    shared = gpu.segment in ("soc", "embedded")
    if device.memory_bytes and not shared and not 0.85 < device.memory_bytes / gpu.memory_bytes < 1.02:
        notes.append(
            f"the driver reports {device.memory_bytes / 2**30:.1f} GiB, but the catalogue lists "
            f"{gpu.memory_bytes / 2**30:g} GiB: "
            "this may be another variant or a slice of the GPU (MIG, vGPU)"
        )
    if device.power_limit_watts and device.power_default_watts and device.power_limit_watts < device.power_default_watts - 1:
        notes.append(
            f"the power limit of {device.power_limit_watts:.0f} W is below the default of {device.power_default_watts:.0f} W"
        )
    if device.pcie_lanes and device.pcie_lanes_max and device.pcie_lanes < device.pcie_lanes_max:
        notes.append(f"PCIe uses {device.pcie_lanes} of {device.pcie_lanes_max} lanes: check the slot")
    if gpu.architecture.last_software:
        notes.append(f"{gpu.architecture.last_software} is the last release that supports {gpu.architecture.title} GPUs")
    return notes


def _checked_dict(checked: CheckedGpu) -> dict[str, Any]:
    device = checked.device
    return {
        "device": device.name,
        "found_by": device.found_by,
        "memory_bytes": device.memory_bytes,
        "driver": device.driver,
        "power_limit_watts": device.power_limit_watts,
        "pcie_generation": device.pcie_generation,
        "pcie_lanes": device.pcie_lanes,
        "gpu": checked.gpu.name if checked.gpu else None,
        "notes": list(checked.notes),
    }


doctor = face(DoctorOptions, answer)
