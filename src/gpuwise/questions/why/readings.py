"""What GPU readings show without a trace: utilisation, clocks, power, temperature and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.vitals import GpuVitals
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.telemetry import check_readings, vitals_of_readings
from gpuwise.questions.why.file_answer import FileAnswer, Listing
from gpuwise.trace.formats import Format
from gpuwise.trace.readers.telemetry import read_telemetry

__all__ = ["explain_readings"]

_NO_TIMELINE = "a table of readings shows that a GPU waits, but not what it waits for"
_RECORD = "also record a trace with torch.profiler"
_COLUMNS = ("GPU", "busy", "clock", "power", "temp", "memory", "slowed down")
_OF_TIMELINES = ("input_starved", "launch_bound", "host_sync")
_IDLE = 0.7  # of the time busy, below which the verdict reports idle time first; assumed


def explain_readings(paths: Sequence[Path], gpu: str) -> FileAnswer:
    """Describe the GPUs of these files; `gpu` names the product if the files do not."""
    files = [read_telemetry(path) for path in paths]
    vitals = vitals_of_readings(files, load_catalog().find(gpu).gpu if gpu else None)
    findings, abstained = check_readings(vitals)
    shares = [one.busy_fraction for one in vitals.gpus if one.busy_fraction is not None]
    busy = sum(shares) / len(shares) if shares else None
    lost = sum(file.lost for file in files)
    blind = [Abstained(code=code, reason=_NO_TIMELINE, record_next=_RECORD) for code in _OF_TIMELINES]
    notes = [f"{lost:,} lines could not be read"] if lost else []
    if not gpu and not any(one.boost_hz for one in vitals.gpus):
        notes.append("the files do not name the GPU, so its boost clock and memory are unknown; name it with --gpu")
    return FileAnswer(
        files=tuple(file.file for file in files),
        format=Format.TELEMETRY.value,
        verdict=_verdict(findings, vitals.gpus),
        head=(f"{sum(len(file.readings) for file in files):,} readings, {_gpus(len(vitals.gpus))} ({files[0].source})",),
        key="readings",
        content={"gpus": [asdict(one) for one in vitals.gpus], "source": files[0].source, "lost_lines": lost},
        listings=(Listing(title="GPUs", columns=_COLUMNS, rows=tuple(_row(one) for one in vitals.gpus)),),
        findings=findings,
        abstained=(*abstained, *blind),
        notes=tuple(notes),
        gpu=vitals.gpus[0].name if any(one.boost_hz for one in vitals.gpus) else None,
        busy_fraction=busy,
    )


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' if count > 1 else ''}"


def _verdict(findings: Sequence[Finding], gpus: Sequence[GpuVitals]) -> str:
    shares = {one.name: one.busy_fraction for one in gpus if one.busy_fraction is not None}
    least = min(shares, key=lambda name: shares[name], default="")
    if findings:
        top = findings[0]
        gain = (
            f"; a fix would make the run {top.gain.low:.2f} to {top.gain.high:.2f} times as fast" if top.gain.high > 1.0 else ""
        )
        return f"{top.title}{gain}"
    which = "the GPU" if len(gpus) == 1 else least
    if least and shares[least] < _IDLE:
        return f"{which} is busy {shares[least]:.0%} of the time and otherwise waits; a trace would show what it waits for"
    unknown = any(one.reasons is None for one in gpus)
    found = "no lowered power limit or full memory" if unknown else "no throttling, lowered power limit or full memory"
    told = f"the readings show {found}{', but do not show whether the GPUs are throttled' if unknown else ''}"
    return f"{told}; {which} is busy {shares[least]:.0%} of the time" if least else told


def _row(gpu: GpuVitals) -> tuple[str, ...]:
    held = {name: share for name, share in (gpu.reasons or {}).items() if share > 0 and name != "idle"}
    reason = max(held.items(), key=lambda pair: pair[1]) if held else None
    return (
        gpu.name,
        "–" if gpu.busy_fraction is None else f"{gpu.busy_fraction:.0%}",
        "–" if gpu.clock_hz is None else f"{gpu.clock_hz / 1e6:,.0f} MHz",
        "–" if gpu.power_watts is None else f"{gpu.power_watts:.0f} W",
        "–" if gpu.temperature_c is None else f"{gpu.temperature_c:.0f} °C",
        "–" if gpu.memory_used_fraction is None else f"{gpu.memory_used_fraction:.0%}",
        "unknown" if gpu.reasons is None else f"{reason[0]} {reason[1]:.0%}" if reason else "no",
    )
