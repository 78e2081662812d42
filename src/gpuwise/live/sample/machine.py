"""What this machine has: Python, frameworks, drivers, GPUs. Imports no framework and needs none.

Versions come from package metadata. NVIDIA GPUs are queried through NVML (`nvidia-ml-py`), AMD ones are read from the kernel's
topology files, Apple ones from `sysctl` and `system_profiler`. Each method is a `Probe` that reports what it found or why it
found nothing.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuwise.core.text import counted

__all__ = ["Device", "Machine", "Probe", "apple_device", "gfx_name", "kfd_devices", "look_around", "nvml_devices"]

_PACKAGES = (
    "torch torchvision timm transformers lightning tensorflow keras jax numpy nvidia-ml-py amdsmi plotly fastapi dask"
).split()
_KFD = Path("/sys/class/kfd/kfd/topology/nodes")
_DRIVER_FILE = Path("/proc/driver/nvidia/version")
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU as its driver describes it; None for values that the driver does not report."""

    name: str
    found_by: str
    memory_bytes: float | None = None
    unit_count: int | None = None
    driver: str = ""
    power_limit_watts: float | None = None
    power_default_watts: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    pcie_lanes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One method of looking for GPUs, and its result."""

    name: str
    found: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Everything that was found on this machine."""

    python: str
    platform: str
    packages: dict[str, str]
    probes: tuple[Probe, ...]
    devices: tuple[Device, ...]


def look_around() -> Machine:
    """Examine this machine. This never raises: a probe says what could not be detected."""
    probes, devices = [], []
    for look in (_nvidia, _amd, _apple):
        probe, found = look()
        probes.append(probe)
        devices += found
    return Machine(
        python=platform.python_version(),
        platform=platform.platform(),
        packages=_versions(),
        probes=tuple(probes),
        devices=tuple(devices),
    )


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and every command passes here

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# ---------------------------------------------------------------- NVIDIA


def _nvidia() -> tuple[Probe, list[Device]]:
    driver = _DRIVER_FILE.exists()
    try:
        import pynvml
    except ImportError:
        hint = 'run `pip install "gpuwise[nvidia]"` to detect NVIDIA GPUs'
        detail = "an NVIDIA driver is loaded, but nvidia-ml-py is not installed" if driver else "nvidia-ml-py is not installed"
        return Probe(name="NVIDIA (NVML)", found=False, detail=detail, hint=hint), []
    return nvml_devices(pynvml)


def nvml_devices(nvml: Any) -> tuple[Probe, list[Device]]:
    """Return every GPU that a `pynvml` module lists, after initialising it."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as fault:
        return Probe(name="NVIDIA (NVML)", found=False, detail=f"no NVIDIA driver responded: {fault}"), []
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        devices = [_nvml_device(nvml, index, driver) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as fault:
        return Probe(name="NVIDIA (NVML)", found=False, detail=f"the driver stopped responding: {fault}"), []
    finally:
        nvml.nvmlShutdown()
    return Probe(name="NVIDIA (NVML)", found=bool(devices), detail=f"driver {driver}, {counted(len(devices), 'GPU')}"), devices


def _nvml_device(nvml: Any, index: int, driver: str) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(query: Callable[[Any], Any]) -> Any:
        try:
            return query(handle)
        except nvml.NVMLError:  # many cards do not support every query
            return None

    memory = ask(nvml.nvmlDeviceGetMemoryInfo)
    limit, default = ask(nvml.nvmlDeviceGetPowerManagementLimit), ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit)
    return Device(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        found_by="NVML",
        memory_bytes=float(memory.total) if memory is not None else None,
        driver=driver,
        power_limit_watts=limit / 1000 if limit is not None else None,
        power_default_watts=default / 1000 if default is not None else None,
        pcie_generation=ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration),
        pcie_lanes=ask(nvml.nvmlDeviceGetCurrPcieLinkWidth),
        pcie_lanes_max=ask(nvml.nvmlDeviceGetMaxPcieLinkWidth),
    )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# ---------------------------------------------------------------- AMD


def _amd() -> tuple[Probe, list[Device]]:
    return kfd_devices(_KFD)


def kfd_devices(topology: Path) -> tuple[Probe, list[Device]]:
    """Return every GPU node in the topology folder of the amdgpu kernel driver. CPUs are also nodes there, but without SIMDs."""
    if not topology.is_dir():
        return Probe(name="AMD (amdgpu driver)", found=False, detail="no AMD compute driver is loaded"), []
    devices = []
    for node in sorted(topology.iterdir(), key=lambda path: path.name):
        properties = _numbers(node / "properties")
        if properties.get("simd_count", 0) > 0:
            memory = sum(_numbers(bank).get("size_in_bytes", 0) for bank in node.glob("mem_banks/*/properties"))
            name = gfx_name(properties.get("gfx_target_version", 0))
            units = properties["simd_count"] // max(1, properties.get("simd_per_cu", 1))
            devices.append(Device(name=name, found_by="amdgpu topology", memory_bytes=float(memory) or None, unit_count=units))
    return Probe(name="AMD (amdgpu driver)", found=bool(devices), detail=counted(len(devices), "GPU")), devices


def gfx_name(target: int) -> str:
    """`90402` -> gfx942, `90010` -> gfx90a, `110000` -> gfx1100: major, minor, hexadecimal stepping."""
    return f"gfx{target // 10000}{target // 100 % 100}{target % 100:x}"


def _numbers(path: Path) -> dict[str, int]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {key: int(value) for key, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}


# ---------------------------------------------------------------- Apple


def _apple() -> tuple[Probe, list[Device]]:
    name = "Apple (Metal)"
    if sys.platform != "darwin" or platform.machine() != "arm64":
        return Probe(name=name, found=False, detail="not an Apple silicon Mac"), []
    chip = _run("sysctl", "-n", "machdep.cpu.brand_string").strip()
    memory = _run("sysctl", "-n", "hw.memsize").strip()
    device = apple_device(chip, memory, _run("system_profiler", "SPDisplaysDataType", "-json"))
    return Probe(name=name, found=True, detail=device.name), [device]


def apple_device(chip: str, memory: str, displays: str) -> Device:
    """Return the GPU of a Mac from the output of `sysctl` and `system_profiler`."""
    try:
        cores = json.loads(displays)["SPDisplaysDataType"][0]["sppci_cores"]
    except (ValueError, KeyError, IndexError, TypeError):
        cores = ""
    name = chip.replace("Apple ", "") + (f" {cores}-core" if cores else "")
    return Device(name=name, found_by="system_profiler", memory_bytes=float(memory) if memory.isdigit() else None)


def _run(*command: str) -> str:
    import subprocess  # slow to import, and every command passes here

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
