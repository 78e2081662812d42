"""A captured workload as text: size, work by phase and kind, memory, and ops that were not recognised."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwise.core.units import format_si
from gpuwise.questions.capture.answer import CaptureAnswer, KindRow
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render"]

_WORTH_A_ROW = 0.01  # of the FLOPs or bytes: kinds below that are left out of a brief answer
_MOST_UNKNOWN = 5  # op names that a brief answer lists


def render(answer: CaptureAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """The workload on one screen."""
    workload, totals = answer.workload, answer.totals
    size = f"batch {workload.batch}" + (f", sequence {workload.seq}" if workload.seq is not None else "")
    how = ", ".join(filter(None, (workload.mode, workload.precision, workload.optimizer, size)))
    symbolic = f"valid for any {' and '.join(workload.symbols)}" if workload.symbols else "valid only at this size"
    backward = f", backward {_flops(totals.backward_flops)}" if workload.mode == "train" else ""
    kinds = answer.kinds if verbose else _main_kinds(answer)
    lines = [
        f"{bold(workload.model, colour=colour)}  {how}; {symbolic}",
        "",
        f"  parameters   {workload.parameters:,}",
        f"  FLOPs        forward {_flops(totals.forward_flops)}{backward}",
        f"  bytes        read {format_si(totals.read_bytes, 'B')}, written {format_si(totals.written_bytes, 'B')}",
        wrapped(f"  memory       {_memory(answer)}", width, " " * 15),
        f"  kernels      {len(workload.calls):,} calls to {len(workload.ops):,} different kernels",
        "",
        table(_columns(answer, kinds), width=width or WIDTH, colour=colour),
        *_left_out(answer, kinds),
        "",
        f"  understood   {answer.coverage.calls_fraction:.1%} of calls, {answer.coverage.bytes_fraction:.1%} of bytes",
    ]
    if answer.coverage.unknown:
        lines.append(wrapped(f"  unknown ops  {_unknown(answer, verbose)}", width, " " * 15))
    if answer.output:
        lines.append(f"  written to   {answer.output}")
    notes = [*(f"note: {note}" for note in workload.notes), *folded(answer.assumptions, verbose=verbose)]
    return "\n".join(lines) + join_notes([wrapped(note, width, "  ") for note in notes])


def _main_kinds(answer: CaptureAnswer) -> tuple[KindRow, ...]:
    """The kinds of op that matter for time: by FLOPs or by bytes."""
    flops, moved = sum(row.flops for row in answer.kinds), sum(row.moved_bytes for row in answer.kinds)
    return tuple(
        row
        for row in answer.kinds
        if row.flops >= _WORTH_A_ROW * (flops or 1.0) or row.moved_bytes >= _WORTH_A_ROW * (moved or 1.0)
    )


def _left_out(answer: CaptureAnswer, shown: Sequence[KindRow]) -> list[str]:
    more = len(answer.kinds) - len(shown)
    return [f"  {more} smaller kind{'s' if more > 1 else ''} not shown; `-v` lists them all"] if more else []


def _unknown(answer: CaptureAnswer, verbose: bool) -> str:
    found = [f"{name} ({count})" for name, count in answer.coverage.unknown.items()]
    more = len(found) - _MOST_UNKNOWN
    return ", ".join(found) if verbose or more <= 0 else f"{', '.join(found[:_MOST_UNKNOWN])} and {more} more"


def _flops(value: float) -> str:
    return format_si(value, "FLOP")


def _memory(answer: CaptureAnswer) -> str:
    parts = sorted(answer.peak.by_category.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {format_si(value, 'B')}" for name, value in parts if value > 0)
    return f"{format_si(answer.peak.total_bytes, 'B')} allocated at the peak ({shown})"


def _columns(answer: CaptureAnswer, kinds: Sequence[KindRow]) -> list[Column]:
    flops = sum(row.flops for row in answer.kinds) or 1.0
    moved = sum(row.moved_bytes for row in answer.kinds) or 1.0
    return [
        Column(title="  kind", cells=[f"  {row.kind}" for row in kinds], right=False),
        Column(title="calls", cells=[f"{row.calls:,}" for row in kinds]),
        Column(title="FLOPs", cells=[_flops(row.flops) if row.flops else "" for row in kinds]),
        Column(title="share", cells=[f"{row.flops / flops:.1%}" if row.flops else "" for row in kinds]),
        Column(title="bytes", cells=[format_si(row.moved_bytes, "B") for row in kinds]),
        Column(title="share", cells=[f"{row.moved_bytes / moved:.1%}" for row in kinds]),
    ]
