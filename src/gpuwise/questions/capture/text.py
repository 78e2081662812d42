"""A captured workload as text: size, work by phase and kind, memory, what was not understood."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.questions.capture.answer import CaptureAnswer
from gpuwise.render.text import Column, bold, join_notes, table

__all__ = ["render"]


def render(answer: CaptureAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """The workload on one screen."""
    workload, totals = answer.workload, answer.totals
    size = f"batch {workload.batch}" + (f", sequence {workload.seq}" if workload.seq is not None else "")
    how = ", ".join(filter(None, (workload.mode, workload.precision, workload.optimizer, size)))
    symbolic = f"symbolic in {' and '.join(workload.symbols)}" if workload.symbols else "at this size only"
    backward = f", backward {_flops(totals.backward_flops)}" if workload.mode == "train" else ""
    lines = [
        f"{bold(workload.model, colour=colour)}  {how}; {symbolic}",
        "",
        f"  parameters   {workload.parameters:,}",
        f"  FLOPs        forward {_flops(totals.forward_flops)}{backward}",
        f"  bytes        read {format_si(totals.read_bytes, 'B')}, written {format_si(totals.written_bytes, 'B')}",
        f"  memory       {_memory(answer)}",
        f"  kernels      {len(workload.calls):,} calls of {len(workload.ops):,} different ones",
        "",
        table(_columns(answer), width=width, colour=colour),
        "",
        f"  understood   {answer.coverage.calls_fraction:.1%} of calls, {answer.coverage.bytes_fraction:.1%} of bytes",
    ]
    if answer.coverage.unknown:
        lines.append("  not known    " + ", ".join(f"{name} ({count})" for name, count in answer.coverage.unknown.items()))
    if answer.output:
        lines.append(f"  written to   {answer.output}")
    assumed = [f"assumed: {note.name} = {note.value} ({note.effect})" for note in answer.assumptions]
    return "\n".join(lines) + join_notes([*(f"note: {note}" for note in workload.notes), *assumed])


def _flops(value: float) -> str:
    return format_si(value, "FLOP")


def _memory(answer: CaptureAnswer) -> str:
    parts = sorted(answer.peak.by_category.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {format_si(value, 'B')}" for name, value in parts if value > 0)
    return f"{format_si(answer.peak.total_bytes, 'B')} allocated at the peak ({shown})"


def _columns(answer: CaptureAnswer) -> list[Column]:
    flops = sum(row.flops for row in answer.kinds) or 1.0
    moved = sum(row.moved_bytes for row in answer.kinds) or 1.0
    return [
        Column(title="  kind", cells=[f"  {row.kind}" for row in answer.kinds], right=False),
        Column(title="calls", cells=[f"{row.calls:,}" for row in answer.kinds]),
        Column(title="FLOPs", cells=[_flops(row.flops) if row.flops else "" for row in answer.kinds]),
        Column(title="share", cells=[f"{row.flops / flops:.1%}" if row.flops else "" for row in answer.kinds]),
        Column(title="bytes", cells=[format_si(row.moved_bytes, "B") for row in answer.kinds]),
        Column(title="share", cells=[f"{row.moved_bytes / moved:.1%}" for row in answer.kinds]),
    ]
