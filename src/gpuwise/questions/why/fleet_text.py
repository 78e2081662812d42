"""Many diagnosed runs as one table, the worst first."""

from __future__ import annotations

from gpuwise.core.text import counted
from gpuwise.questions.common.findings_text import time_text
from gpuwise.questions.why.fleet import Diagnosed, FleetAnswer
from gpuwise.render.text import WIDTH, Column, bold, join_notes, table, wrapped

__all__ = ["render"]

_SHOWN = 40  # runs that the long answer lists; the table in --out has all
_BRIEF = 12  # runs that leave room for the notes on one screen


def render(
    answer: FleetAnswer, *, format: str = "text", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Return one line for each run, followed by those that could not be read, with the reason. The only `format` is text."""
    most = _SHOWN if verbose else _BRIEF
    read = [job for job in answer.jobs if job.reason is None]
    failed = [job for job in answer.jobs if job.reason is not None]
    ill = sum(job.code is not None for job in read)
    head = f"{counted(len(read), 'run')}, {ill} with a significant cause" + (
        f"; {len(failed)} could not be read" if failed else ""
    )
    blocks = [bold(head, colour=colour)]
    if read:
        blocks.append(_table(read[:most], width or WIDTH, colour) + _more(len(read) - most))
    if failed:
        blocks.append("\n".join(f"{job.job}: {job.reason}" for job in failed[:most]) + _more(len(failed) - most))
    return "\n\n".join(blocks) + join_notes([wrapped(note, width, "  ") for note in _notes(answer)])


def _table(jobs: list[Diagnosed], width: int | None, colour: bool) -> str:
    columns = [
        Column(title="run", cells=[job.job for job in jobs], right=False),
        Column(title="GPU", cells=[job.gpu or "CPU" for job in jobs], right=False, drop=3),
        Column(title="step", cells=[time_text(job.step_s or 0.0) for job in jobs], drop=1),
        Column(title="busy", cells=[f"{job.busy_fraction or 0.0:.0%}" for job in jobs], drop=2),
        Column(title="gain", cells=[_gain(job) for job in jobs]),
        Column(title="first cause", cells=[_cause(job) for job in jobs], right=False),
    ]
    return table(columns, width=width, colour=colour)


def _cause(job: Diagnosed) -> str:
    return (job.code or "none significant") + (" (file cut off)" if job.cut else "")


def _gain(job: Diagnosed) -> str:
    return f"{job.gain_low:.2f}–{job.gain_high:.2f}×" if job.gain_low is not None and job.gain_high is not None else "–"


def _more(count: int) -> str:
    return f"\n… and {count} more; `-v` shows up to {_SHOWN}, while `--out` and `--json` contain all" if count > 0 else ""


def _notes(answer: FleetAnswer) -> list[str]:
    notes = ["the gain is the speed-up from fixing the first cause; `gpuwise why FILE` explains one run in full"]
    if answer.kept_parts:
        notes.append(f"{answer.kept_parts} of {len(answer.jobs)} runs had already been diagnosed")
    if answer.out:
        notes.append(f"table: {answer.out}")
    return notes
