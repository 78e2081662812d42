"""A watched run as text: the verdict in the form of `why`, and the panel while it runs."""

from __future__ import annotations

from gpuwise.diagnose.vitals import GpuVitals
from gpuwise.live.sample.steps import Pace
from gpuwise.live.sample.types import GpuSample, HostSample, Sight
from gpuwise.questions.common.findings_text import (
    MOST_FINDINGS,
    bar,
    finding_text,
    overlap,
    shares_of,
    smaller,
    time_text,
    untold,
)
from gpuwise.questions.watch.answer import WatchAnswer
from gpuwise.render.text import assumption_lines, bold, join_notes

__all__ = ["panel", "render"]

_BY = {"optimizer": "from one optimizer step to the next", "batches": "from one batch to the next"}


def render(answer: WatchAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Plain text that reads well without colour."""
    blocks = [bold(answer.verdict, colour=colour), _head(answer)]
    if answer.pace is not None and answer.parts_s:
        blocks.append(bar(shares_of(answer.parts_s, answer.pace.mean_s)))
    blocks += [
        finding_text(place, finding, width=width, colour=colour, verbose=verbose)
        for place, finding in enumerate(answer.findings[:MOST_FINDINGS], start=1)
    ]
    return "\n\n".join(blocks) + join_notes(_closing(answer))


def _head(answer: WatchAnswer) -> str:
    lines = [_end(answer)]
    pace = answer.pace
    if pace is not None:
        most = f"most {time_text(pace.low_s)} to {time_text(pace.high_s)}"
        spread = f"mean of {pace.steady_count} steady; median {time_text(pace.median_s)}, {most}"
        batch = f", batch {pace.batch}" if pace.batch else ""
        lines.append(f"step {time_text(pace.mean_s)} ({spread}){batch}, waits for input {pace.wait_fraction:.0%}")
        lines.append(f"steps: {_BY[pace.by]}")
    expected = answer.expected
    if expected is not None:
        measured = f", measured {time_text(pace.mean_s)}" if pace is not None else ""
        width = f"({time_text(expected.low_s)} to {time_text(expected.high_s)}; {expected.setting})"
        lines.append(f"expected on {expected.gpu}: {time_text(expected.step_s)} {width}{measured}")
    lines += [_gpu(gpu) for gpu in answer.vitals.gpus]
    vitals = answer.vitals
    if vitals.cores_used_fraction is not None:
        delayed = "" if vitals.delayed_fraction is None else f", without a core {vitals.delayed_fraction:.0%} of the time"
        lines.append(f"host: {vitals.core_count} cores, {vitals.cores_used_fraction:.0%} in use{delayed}")
    return "\n".join(lines)


def _end(answer: WatchAnswer) -> str:
    run = answer.run
    how = f"ended by {run.ended_by}" if run.ended_by else "ended"
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    return f"{answer.title}: {how} after {run.seconds:.0f} s{code}"


def _gpu(gpu: GpuVitals) -> str:
    parts = [f"busy {gpu.busy_fraction:.0%}" if gpu.busy_fraction is not None else "busy unknown"]
    if gpu.clock_hz is not None:
        parts.append(f"{gpu.clock_hz / 1e6:,.0f} MHz at load")
    if gpu.power_watts is not None:
        parts.append(f"{gpu.power_watts:.0f} W" + (f" of {gpu.power_limit_watts:.0f}" if gpu.power_limit_watts else ""))
    if gpu.temperature_c is not None:
        parts.append(f"up to {gpu.temperature_c:.0f} °C")
    if gpu.pcie_generation and gpu.pcie_lanes:
        parts.append(f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes}")
    if gpu.traffic_bytes_per_s is not None:
        parts.append(f"{gpu.traffic_bytes_per_s / 1e9:.2f} GB/s over it")
    if gpu.memory_used_fraction is not None:
        parts.append(f"memory {gpu.memory_used_fraction:.0%}")
    return f"{gpu.name}: " + ", ".join(parts)


def _closing(answer: WatchAnswer) -> list[str]:
    lines = [*smaller(answer.findings), *overlap(answer.findings)]
    lines += untold(answer.abstained, otherwise="not seen")
    lines += [f"note: {note}" for note in answer.notes]
    if answer.window is not None:
        count = len(answer.window.view.scene.steps.start_ns)
        lines.append(f"note: parts other than the wait are of a profiler's window of {count} steps, which are not timed")
    lines += assumption_lines(answer.assumptions)
    return lines


def panel(sight: Sight | None, pace: Pace | None, *, seconds: float, waiting_s: float | None, faults: tuple[str, ...]) -> str:
    """What is seen now, a line each: steps, GPUs, host."""
    lines = [f"gpuwise watch  {seconds:,.0f} s  " + _steps(pace)]
    if waiting_s is not None:
        lines.append(f"the loader has given no batch for {waiting_s:.0f} s")
    if sight is not None:
        lines += [_gpu_now(gpu) for gpu in sight.gpus]
        lines += [_host_now(sight.host)] if sight.host is not None else []
    return "\n".join([*lines, *(fault for fault in faults)])


def _steps(pace: Pace | None) -> str:
    if pace is None:
        return "no steps yet"
    return f"step {time_text(pace.median_s)}  input {pace.wait_fraction:.0%}  ({pace.count:,} steps)"


def _gpu_now(gpu: GpuSample) -> str:
    known = [f"GPU {gpu.index} {gpu.name}"]
    if gpu.busy_fraction is not None:
        known.append(f"SM {gpu.busy_fraction:.0%}  mem {gpu.memory_busy_fraction or 0.0:.0%}")
    if gpu.clock_hz is not None:
        known.append(f"{gpu.clock_hz / 1e6:,.0f} MHz")
    if gpu.power_watts is not None:
        known.append(f"{gpu.power_watts:.0f}" + (f"/{gpu.power_limit_watts:.0f} W" if gpu.power_limit_watts else " W"))
    if gpu.temperature_c is not None:
        known.append(f"{gpu.temperature_c:.0f} °C")
    if gpu.memory_used_bytes is not None and gpu.memory_bytes:
        known.append(f"VRAM {gpu.memory_used_bytes / 2**30:.1f}/{gpu.memory_bytes / 2**30:.1f} GB")
    if gpu.pcie_generation and gpu.pcie_lanes:
        moved = max(gpu.received_bytes_per_s or 0.0, gpu.sent_bytes_per_s or 0.0)
        known.append(f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes} {moved / 1e9:.1f} GB/s")
    if gpu.processes is not None:
        known.append(f"{len(gpu.processes)} process{'es' if len(gpu.processes) != 1 else ''}")
    if gpu.reasons:
        known.append("held by " + ", ".join(gpu.reasons))
    return "  ".join(known)


def _host_now(host: HostSample) -> str:
    used = sum(host.core_fractions)
    own = "" if host.own_cores is None else f"  ours {host.own_cores:.1f}"
    ram = f"RAM {host.ram_used_bytes / 2**30:.1f}/{host.ram_bytes / 2**30:.1f} GB"
    return f"CPU {used:.1f}/{len(host.core_fractions)} cores{own}  {ram}  {host.own_processes} processes"
