"""Settings tried on this machine, as text: the verdict, every change with its prediction, what was not tried, and the diff."""

from __future__ import annotations

from statistics import median

from gpuwise.core.text import both
from gpuwise.live.tune.types import Gain
from gpuwise.questions.common.findings_text import time_text
from gpuwise.questions.tune.types import MeasuredAnswer, Tried
from gpuwise.render.text import WIDTH, Column, bold, folded, join_notes, table, wrapped

__all__ = ["render_measured"]


def render_measured(answer: MeasuredAnswer, *, width: int | None = None, colour: bool = False, verbose: bool = False) -> str:
    """Return the text, with the verdict first."""
    facts = answer.facts
    where = f"on {facts.name} ({facts.device}), torch {facts.torch}"
    parts = [bold(answer.verdict, colour=colour), f"{bold(answer.model, colour=colour)} {where}\n{_start(answer)}"]
    if answer.tried:
        parts.append(_table(answer, width, colour))
    parts += [part for part in (_failed(answer), _pruned(answer, verbose), _together(answer), _diff(answer)) if part]
    notes = [*folded(answer.assumptions, verbose=verbose), *_cautions(answer)]
    return "\n\n".join(parts) + join_notes([wrapped(note, width, "  ") for note in notes])


def _start(answer: MeasuredAnswer) -> str:
    start = answer.start
    step_s = median(trial.step_s for trial in start)
    rate = f", {start[0].batch / step_s:,.4g} samples/s at batch {start[0].batch}" if start[0].batch else ""
    waits = f", waiting for input {start[0].wait_fraction:.0%} of the time" if answer.is_script else ""
    return f"unchanged: {time_text(step_s)} per step{rate}{waits}; {_rounds(answer)} in {answer.seconds:,.0f} s"


def _rounds(answer: MeasuredAnswer) -> str:
    return "1 round" if len(answer.start) == 1 else f"{len(answer.start)} rounds"


def _table(answer: MeasuredAnswer, width: int | None, colour: bool) -> str:
    rows = [one for one in answer.tried if one.gain is not None]
    columns = [
        Column(title="setting", cells=[one.change.name for one in rows], right=False),
        Column(title="value", cells=[one.change.value for one in rows], right=False),
        Column(title="predicted", cells=[_expected(one) for one in rows]),
        Column(title="measured", cells=[f"{one.gain.middle:.2f}" for one in rows if one.gain]),
        Column(title="range", cells=[_range(one.gain) for one in rows if one.gain]),
        Column(title="as predicted", cells=[_against_prediction(one) for one in rows], drop=1),
        Column(title="rounds", cells=[str(len(one.trials)) for one in rows], drop=2),
    ]
    head = "speed relative to the unchanged run:\n" if rows else ""
    return head + table(columns, width=width or WIDTH, colour=colour) if rows else "none of the changes could be run"


def _range(gain: Gain) -> str:
    """Return the range; a single round has none."""
    return f"{gain.low:.2f} to {gain.high:.2f}" if gain.rounds > 1 else "–"


def _expected(one: Tried) -> str:
    if one.expected is None:
        return "–"
    return f"{one.expected.low:.2f} to {one.expected.high:.2f}"


def _against_prediction(one: Tried) -> str:
    if one.expected is None or one.gain is None:
        return "–"
    if one.is_as_predicted:
        return "yes"
    return "more" if one.gain.middle > one.expected.high else "less"


def _failed(answer: MeasuredAnswer) -> str:
    lines = [f"  {one.change.name} {one.change.value}: {one.fault}" for one in answer.tried if one.fault]
    return "\n".join(["not measured:", *lines]) if lines else ""


def _pruned(answer: MeasuredAnswer, verbose: bool) -> str:
    if not verbose:
        named = ", ".join(f"{one.name} {one.value}".rstrip() for one in answer.pruned)
        return f"not tried: {named}; `-v` explains why" if named else ""
    lines = [f"  {one.name} {one.value}".rstrip() + f": {one.reason}" for one in answer.pruned]
    return "\n".join(["not tried:", *lines]) if lines else ""


def _together(answer: MeasuredAnswer) -> str:
    best = answer.best
    if best is None:
        return ""
    names = both(f"{change.name} {change.value}" for change in best.changes)
    product = f"; their separate gains would multiply to {best.product:.2f}" if len(best.changes) > 1 else ""
    gain = best.gain
    spread = _range(gain) if gain.rounds > 1 else "one round"
    return f"measured together, {names} made the run {gain.middle:.2f} times as fast ({spread}){product}"


def _diff(answer: MeasuredAnswer) -> str:
    return "\n".join(answer.diff())


def _cautions(answer: MeasuredAnswer) -> list[str]:
    """Return what to consider besides the speed."""
    names = {change.name for change in answer.best.changes} if answer.best else set()
    ranged = f"ranges cover {_rounds(answer)}" if len(answer.start) > 1 else "a single round has no range"
    notes = [f"{ranged}; a change counts only if it was faster in each of at least three rounds"]
    if "batch" in names:
        notes.append("a different batch size changes training, so you may need to adjust the learning rate and its schedule")
    if "precision" in names:
        notes.append("a different precision changes the arithmetic, so check that the loss still falls")
    return notes
