"""What was found on this machine, as text."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.questions.doctor.answer import CheckedGpu, Checkup
from gpuwise.render.text import bold, wrapped

__all__ = ["render"]


def render(checkup: Checkup, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The machine, its software and GPUs, and how to fix what is missing."""
    machine = checkup.machine
    lines = [bold("machine", colour=colour), f"  Python      {machine.python}", f"  platform    {machine.platform}", ""]
    lines += [bold("packages", colour=colour), *_packages(machine.packages, width, verbose)]
    lines += ["", bold("GPUs", colour=colour)]
    for checked in checkup.gpus:
        lines += [wrapped(line, width, "      ") for line in _gpu_lines(checked)]
    if not checkup.gpus:
        lines.append(
            "  no GPU was found on this machine; gpuwise can still make predictions for any GPU that `gpuwise gpus` lists"
        )
    lines += ["", bold("where gpuwise looked", colour=colour)]
    for probe in machine.probes:
        lines.append(wrapped(f"  {'yes' if probe.found else 'no ':<4} {probe.name}: {probe.detail}", width, " " * 7))
        if probe.hint:
            lines.append(wrapped(f"       hint: {probe.hint}", width, " " * 7))
    return "\n".join(lines)


def _packages(found: Mapping[str, str], width: int | None, verbose: bool) -> list[str]:
    """One after the other, or with `verbose` one on each line."""
    if not found:
        return ["  no deep-learning packages were found"]
    if verbose:
        return [f"  {name:<14}{version}" for name, version in found.items()]
    return [wrapped("  " + ", ".join(f"{name} {version}" for name, version in found.items()), width, "  ")]


def _gpu_lines(checked: CheckedGpu) -> list[str]:
    device = checked.device
    memory = f", {device.memory_bytes / 2**30:.1f} GiB" if device.memory_bytes else ""
    driver = f", driver {device.driver}" if device.driver else ""
    known = f"{checked.gpu.name} in the catalogue" if checked.gpu else "not in the catalogue"
    return [f"  {device.name}{memory}{driver}: {known}", *(f"    {note}" for note in checked.notes)]
