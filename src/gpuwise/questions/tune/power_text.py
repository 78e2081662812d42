"""Time and energy by power limit, as text: the limits worth choosing, and the table behind them."""

from __future__ import annotations

from gpuwise.questions.common.findings_text import time_text
from gpuwise.questions.tune.power import PowerAnswer, PowerPoint
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render_power"]


def render_power(answer: PowerAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Return the text, with the choice first."""
    how = "measured" if answer.is_measured else "predicted"
    model, gpu = bold(answer.model, colour=colour), bold(answer.gpu, colour=colour)
    head = f"{model}  {answer.mode}, {answer.precision}, batch {answer.batch} on {gpu}"
    fast, least = answer.cheapest_fast, answer.least_energy
    kept = f"{answer.kept_fraction(least):.0%} of the full speed"
    lines = [
        f"  {how}; the default limit is {answer.rated_watts:g} W",
        f"  {fast.limit_watts:g} W is enough for 95% of the full speed",
        f"  the energy per sample is lowest at {least.limit_watts:g} W: {_joules(least):.3g} J, at {kept}",
    ]
    faults = [f"{point.limit_watts:g} W: {point.fault}" for point in answer.points if point.fault]
    notes = [wrapped(note, width, "  ") for note in (*faults, *folded(answer.assumptions, verbose=verbose))]
    return "\n".join([head, "", *lines, "", _table(answer, width or WIDTH, colour)]) + join_notes(notes)


def _joules(point: PowerPoint) -> float:
    return point.measured_joules_per_sample or point.joules_per_sample


def _table(answer: PowerAnswer, width: int | None, colour: bool) -> str:
    points = answer.points
    columns = [
        Column(title="limit", cells=[f"{point.limit_watts:g} W" for point in points]),
        Column(title="step", cells=[time_text(point.step_s) for point in points]),
        Column(title="speed", cells=[f"{point.speed_fraction:.0%}" for point in points]),
        Column(title="range", cells=[f"{p.speed_low_fraction:.0%} to {p.speed_high_fraction:.0%}" for p in points], drop=1),
        Column(title="draws", cells=[f"{point.watts:.0f} W" for point in points]),
        Column(title="J/sample", cells=[f"{point.joules_per_sample:.3g}" for point in points]),
    ]
    if answer.is_measured:
        columns += [
            Column(title="measured", cells=[time_text(p.measured_step_s) if p.measured_step_s else "–" for p in points]),
            Column(title="speed", cells=[f"{answer.kept_fraction(p):.0%}" if p.measured_step_s else "–" for p in points]),
            Column(title="drew", cells=[f"{p.measured_watts:.0f} W" if p.measured_watts else "–" for p in points]),
            Column(
                title="J/sample",
                cells=[f"{p.measured_joules_per_sample:.3g}" if p.measured_joules_per_sample else "–" for p in points],
            ),
        ]
    return table(columns, width=width, colour=colour)
