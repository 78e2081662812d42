"""A watched run as text: the verdict in the form of `why`."""

from __future__ import annotations

from gpuwise.core.text import counted
from gpuwise.diagnose.vitals import GpuVitals
from gpuwise.questions.common.findings_text import (
    MOST_FINDINGS,
    bar,
    brief_notes,
    describe_abstained,
    finding_text,
    overlap,
    shares_of,
    smaller,
    time_text,
)
from gpuwise.questions.watch.types import WatchAnswer
from gpuwise.render.text import assumption_lines, bold, folded, join_notes, wrapped

__all__ = ["render"]

_BRIEF_FINDINGS = 2  # what fits one screen with the lines about GPUs and host
_BY = {"optimizer": "from one optimizer step to the next", "batches": "from one batch to the next"}


def render(answer: WatchAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Plain text that reads well without colour."""
    shown = MOST_FINDINGS if verbose else _BRIEF_FINDINGS
    head = "\n".join(wrapped(line, width, "  ") for line in _head(answer).splitlines())
    blocks = [bold(wrapped(answer.verdict, width), colour=colour), head]
    if answer.pace is not None and answer.parts_s:
        blocks.append(bar(shares_of(answer.parts_s, answer.pace.mean_s), width))
    blocks += [
        finding_text(place, finding, width=width, colour=colour, verbose=verbose)
        for place, finding in enumerate(answer.findings[:shown], start=1)
    ]
    closing = _closing(answer) if verbose else _brief_closing(answer, shown)
    return "\n\n".join(blocks) + join_notes([wrapped(line, width, "  ") for line in closing])


def _head(answer: WatchAnswer) -> str:
    lines = [_end(answer)]
    pace = answer.pace
    if pace is not None:
        most = f"mostly {time_text(pace.low_s)} to {time_text(pace.high_s)}"
        spread = f"mean of {pace.steady_count} steady steps; median {time_text(pace.median_s)}, {most}"
        batch = f", batch {pace.batch}" if pace.batch else ""
        lines.append(f"step {time_text(pace.mean_s)} ({spread}){batch}, waiting for input {pace.wait_fraction:.0%} of the time")
        lines.append(f"a step is measured {_BY[pace.by]}")
    expected = answer.expected
    if expected is not None:
        measured = f", measured {time_text(pace.mean_s)}" if pace is not None else ""
        width = f"({time_text(expected.low_s)} to {time_text(expected.high_s)}; {expected.setting})"
        lines.append(f"expected on {expected.gpu}: {time_text(expected.step_s)} {width}{measured}")
    lines += [_gpu(gpu) for gpu in answer.vitals.gpus]
    vitals = answer.vitals
    if vitals.cores_used_fraction is not None:
        delayed = (
            "" if vitals.delayed_fraction is None else f", waiting for a free core {vitals.delayed_fraction:.0%} of the time"
        )
        lines.append(f"host: {counted(vitals.core_count, 'core')}, {vitals.cores_used_fraction:.0%} in use{delayed}")
    return "\n".join(lines)


def _end(answer: WatchAnswer) -> str:
    run = answer.run
    how = f"ended by {run.ended_by}" if run.ended_by else "ended"
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    return f"{answer.title}: {how} after {run.seconds:.0f} s{code}"


def _gpu(gpu: GpuVitals) -> str:
    parts = [f"busy {gpu.busy_fraction:.0%}" if gpu.busy_fraction is not None else "utilisation unknown"]
    if gpu.clock_hz is not None:
        parts.append(f"{gpu.clock_hz / 1e6:,.0f} MHz under load")
    if gpu.power_watts is not None:
        parts.append(f"{gpu.power_watts:.0f} W" + (f" of {gpu.power_limit_watts:.0f}" if gpu.power_limit_watts else ""))
    if gpu.temperature_c is not None:
        parts.append(f"up to {gpu.temperature_c:.0f} °C")
    if gpu.pcie_generation and gpu.pcie_lanes:
        parts.append(f"PCIe {gpu.pcie_generation}.0 x{gpu.pcie_lanes}")
    if gpu.traffic_bytes_per_s is not None:
        parts.append(f"{gpu.traffic_bytes_per_s / 1e9:.2f} GB/s of traffic")
    if gpu.memory_used_fraction is not None:
        parts.append(f"memory {gpu.memory_used_fraction:.0%}")
    return f"{gpu.name}: " + ", ".join(parts)


def _closing(answer: WatchAnswer) -> list[str]:
    lines = [*smaller(answer.findings), *overlap(answer.findings)]
    lines += describe_abstained(answer.abstained, otherwise="not visible")
    lines += [f"note: {note}" for note in _notes(answer)]
    lines += assumption_lines(answer.assumptions)
    return lines


def _brief_closing(answer: WatchAnswer, shown: int) -> list[str]:
    lines = [*smaller(answer.findings, shown), *overlap(answer.findings)]
    return [*lines, *brief_notes(_notes(answer), answer.abstained), *folded(answer.assumptions, verbose=False)]


def _notes(answer: WatchAnswer) -> list[str]:
    if answer.window is None:
        return list(answer.notes)
    count = len(answer.window.view.scene.steps.start_ns)
    return [
        *answer.notes,
        f"all parts except the input wait are from {count} profiled steps, which are not included in the step time",
    ]
