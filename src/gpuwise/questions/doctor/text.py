"""What was found on this machine, as text."""

from __future__ import annotations

from gpuwise.questions.doctor.answer import CheckedGpu, Checkup
from gpuwise.render.text import bold

__all__ = ["render"]


def render(checkup: Checkup, *, colour: bool = False) -> str:
    """The machine, its software, its GPUs, and what to do about what is missing."""
    machine = checkup.machine
    lines = [bold("machine", colour=colour), f"  Python      {machine.python}", f"  platform    {machine.platform}", ""]
    lines.append(bold("packages", colour=colour))
    lines += [f"  {name:<14}{version}" for name, version in machine.packages.items()] or ["  no deep-learning package found"]
    lines += ["", bold("GPUs", colour=colour)]
    for checked in checkup.gpus:
        lines += _gpu_lines(checked)
    if not checkup.gpus:
        lines.append("  no GPU found here; any GPU can be asked for by name all the same: try `gpuwise gpus`")
    lines += ["", bold("looked through", colour=colour)]
    for probe in machine.probes:
        lines.append(f"  {'yes' if probe.found else 'no ':<4} {probe.name}: {probe.detail}")
        if probe.hint:
            lines.append(f"       hint: {probe.hint}")
    return "\n".join(lines)


def _gpu_lines(checked: CheckedGpu) -> list[str]:
    device = checked.device
    memory = f", {device.memory_bytes / 2**30:.1f} GiB" if device.memory_bytes else ""
    driver = f", driver {device.driver}" if device.driver else ""
    known = f"known as {checked.gpu.name}" if checked.gpu else "not in the catalogue"
    return [f"  {device.name}{memory}{driver}: {known}", *(f"    {note}" for note in checked.notes)]
