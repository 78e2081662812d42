"""Parses the platform and the CPU of a box as people type them, checks them and fills in stated defaults."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuwise.box.parts import find_board, find_cpu_family, find_platform, is_desktop, platform_with_lanes
from gpuwise.box.types import Box, Platform
from gpuwise.core.errors import BadValue, UnknownName
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.core.text import a
from gpuwise.hardware.catalog import load_catalog
from gpuwise.hardware.machines import find_host, find_link
from gpuwise.hardware.types import Gpu, Host

__all__ = ["pcie_name", "with_cpu", "with_platform"]


def pcie_name(text: str, option: str) -> str:
    """The full name of a PCIe link; empty where none is given."""
    if not text:
        return ""
    link = find_link(text)
    if link.kind != "pcie":
        raise BadValue(f"{link.name} is not a PCIe link", hint=f"try `{option} 'PCIe 3.0 x4'`")
    return link.name


# ---------------------------------------------------------------- platform


def with_platform(box: Box, lanes: str, chipset_link: str, cpu: str, notes: list[Assumption]) -> Box:
    """The box with the platform that was asked for, that of the named CPU, or the usual one."""
    platform = _platform(lanes, _usual(box.platform, cpu), notes)
    if chipset_link:
        platform = replace(platform, chipset_link=chipset_link)
    board = find_board("ATX") if is_desktop(platform) else box.board
    return replace(box, platform=platform, board=board, cpu_watts=platform.cpu_watts, core_count=platform.core_count)


def _usual(usual: Platform, cpu: str) -> Platform:
    """The socket of a named CPU where it is known, else the usual one."""
    family = find_cpu_family(cpu) if cpu else None
    return usual if family is None else find_platform(family.platform)


def _platform(text: str, usual: Platform, notes: list[Assumption]) -> Platform:
    if not text:
        notes.append(
            assumed(
                "platform",
                usual.name,
                f"{usual.slot_lanes} PCIe {usual.generation}.0 lanes for slots; set yours with `--lanes X299`",
            )
        )
        return usual
    if not re.fullmatch(r"\s*[-+]?\d{1,9}\s*", text):
        return find_platform(text)
    count = int(text.strip())
    if not 4 <= count <= 256:
        raise BadValue(
            f"--lanes {count} is out of range",
            hint="give a number such as `--lanes 16`, `28`, `44`, `64` or `128`, or a platform such as `X299`",
        )
    found = platform_with_lanes(count)
    effect = f"{found.slot_lanes} of the {count} lanes reach slots; all other values are those of {a(found.example)}"
    notes.append(assumed("lanes", f"PCIe {found.generation}.0", f"{effect}; name yours with `--lanes X299`"))
    return found


# ---------------------------------------------------------------- CPU


def with_cpu(box: Box, name: str, watts: float | None, notes: list[Assumption]) -> Box:
    """The box with the CPU that was named, as far as its watts, cores and class are known."""
    if watts is not None and not 0 < watts <= 1000:
        raise BadValue(f"--cpu-watts {watts:g} is out of range", hint="try `--cpu-watts 125`")
    known = box if not name else _named(box, name, watts, notes)
    drawn = watts or known.cpu_watts
    if not watts and known.cpu_watts == box.cpu_watts and not any(note.code == "cpu_class" for note in notes):
        notes.append(
            assumed("cpu", f"{drawn:.0f} W", f"the rated power of the {box.platform.example}; set yours with `--cpu-watts 150`")
        )
    notes.append(assumed("rest", f"{box.rest_watts:.0f} W", "drawn by the board, disks, fans and memory"))
    return replace(known, cpu_watts=drawn)


def _named(box: Box, name: str, watts: float | None, notes: list[Assumption]) -> Box:
    """Watts, cores and class of a CPU by name. A CPU that is not in the tables has those of the example of its class."""
    family = find_cpu_family(name)
    if family is not None:
        host = find_host(name).name
        return replace(
            box, cpu_watts=family.watts, core_count=family.core_count, threads_per_core=family.threads_per_core, host=host
        )
    gpu = _listed(name)
    if gpu is not None:
        return replace(box, cpu_watts=gpu.tdp_watts or box.cpu_watts, core_count=gpu.sm_count, host=find_host(gpu.name).name)
    host_class = find_host(name)
    if host_class.name.lower() == name.strip().lower():
        return replace(box, core_count=host_class.core_count, host=host_class.name)
    drawn = watts or _example_watts(host_class) or box.cpu_watts
    figures = f"{host_class.core_count} cores" if watts else f"{drawn:.0f} W and {host_class.core_count} cores"
    value = f"{figures} as in the class `{host_class.name}` ({name.strip()} is not in the catalogue)"
    effect = f"those of the {_example(host_class)}" + ("" if watts else "; set the power with `--cpu-watts 150`")
    notes.append(assumed("cpu", value, effect, code="cpu_class", overrides=True))
    return replace(box, cpu_watts=drawn, core_count=host_class.core_count, host=host_class.name)


def _listed(name: str) -> Gpu | None:
    """The CPU of this name in the catalogue."""
    try:
        found = load_catalog().find(name).gpu
    except UnknownName:
        return None
    return found if found.is_cpu else None


def _example_watts(host: Host) -> float | None:
    """The rated power of the CPU that stands for a class, where it is known."""
    family, listed = find_cpu_family(_example(host)), _listed(_example(host))
    return family.watts if family is not None else listed.tdp_watts if listed is not None else None


def _example(host: Host) -> str:
    return re.sub(r" \(\d{4}\)$", "", host.example)
