"""Many diagnosed runs as one table, the worst first."""

from __future__ import annotations

from gpuwise.questions.common.findings_text import time_text
from gpuwise.questions.why.fleet import Diagnosed, FleetAnswer
from gpuwise.render.text import Column, bold, join_notes, table

__all__ = ["render"]

_SHOWN = 40


def render(answer: FleetAnswer, *, width: int | None = None, colour: bool = False) -> str:
    """One line a run; those that could not be read below, with the reason."""
    read = [job for job in answer.jobs if job.reason is None]
    failed = [job for job in answer.jobs if job.reason is not None]
    ill = sum(job.code is not None for job in read)
    head = f"{len(read)} runs: {ill} with a cause above minor" + (f"; {len(failed)} could not be read" if failed else "")
    blocks = [bold(head, colour=colour)]
    if read:
        blocks.append(_table(read[:_SHOWN], width, colour) + _more(len(read)))
    if failed:
        blocks.append("\n".join(f"{job.job}: {job.reason}" for job in failed[:_SHOWN]) + _more(len(failed)))
    return "\n\n".join(blocks) + join_notes(_notes(answer))


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
    return (job.code or "none above minor") + (" (file cut off)" if job.cut else "")


def _gain(job: Diagnosed) -> str:
    return f"{job.gain_low:.2f}–{job.gain_high:.2f}×" if job.gain_low is not None and job.gain_high is not None else "–"


def _more(count: int) -> str:
    return f"\n… and {count - _SHOWN} more; --out or --json has all" if count > _SHOWN else ""


def _notes(answer: FleetAnswer) -> list[str]:
    notes = ["gain: what fixing the first cause gives, as times the speed; `gpuwise why FILE` says more about one run"]
    if answer.kept_parts:
        notes.append(f"{answer.kept_parts} of {len(answer.jobs)} runs were diagnosed before")
    if answer.out:
        notes.append(f"table: {answer.out}")
    return notes
