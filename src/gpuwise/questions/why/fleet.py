"""Many runs diagnosed at once: one row for each, the worst first. If interrupted, it continues where it stopped.

A run is one file, or all files in one folder as its ranks (`--each`). Use `why` for the files of a single run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from gpuwise.core.errors import BadFile, BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.hardware import tables
from gpuwise.hardware.catalog import load_catalog
from gpuwise.questions.common.diagnosis import WhyAnswer, diagnose, finding_dict
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.runs.parts import Parts, alone
from gpuwise.questions.common.runs.spread import Progress, carry_out
from gpuwise.questions.common.runs.tables import check_table, write_table
from gpuwise.questions.common.runs.versions import Versions, check_versions, versions
from gpuwise.questions.why.ask import FleetQuery
from gpuwise.questions.why.remote import at_hand, is_url, list_urls, stamp
from gpuwise.trace.read import find_files
from gpuwise.workload import find
from gpuwise.workload.store import cache, zoo

__all__ = ["FLEET_COLUMNS", "Diagnosed", "FleetAnswer", "FleetTask", "diagnose_each", "diagnosed"]

_MOST_FILES = 1_000_000
FLEET_COLUMNS: dict[str, type] = {
    "job": str,
    "files": int,
    "gpu": str,
    "step_s": float,
    "steps": int,
    "busy_fraction": float,
    "code": str,
    "share_fraction": float,
    "gain_low": float,
    "gain_high": float,
    "verdict": str,
    "reason": str,
}


class Diagnosed(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `code` and the gains are those of its first finding above minor; `cut`: one of its files is truncated. A run
    that cannot be read has only a `reason`.
    """

    job: str
    files: int
    gpu: str | None = None
    step_s: float | None = None
    steps: int | None = None
    busy_fraction: float | None = None
    code: str | None = None
    share_fraction: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    verdict: str | None = None
    reason: str | None = None
    cut: bool = False
    findings: tuple[dict[str, Any], ...] = ()

    @property
    def badness(self) -> tuple[bool, float, float, str]:
        """Return a key that sorts the worst run first, by the middle of its first gain and then by idle time; unreadable runs
        come last.
        """
        gain = (self.gain_low or 1.0) * (self.gain_high or 1.0)
        return (self.reason is not None, -gain, self.busy_fraction or 0.0, self.job)


class FleetTask(msgspec.Struct, frozen=True, kw_only=True):
    """One run to diagnose."""

    job: str
    files: tuple[str, ...]
    model: str
    gpu: str
    versions: Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAnswer(Shown):
    """Every run, the worst first."""

    TEXT: ClassVar[str] = "questions.why.fleet_text.render"

    jobs: tuple[Diagnosed, ...]
    each: str
    out: Path | None
    kept_parts: int
    assumptions: tuple[Assumption, ...]
    data_date: date

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "jobs": [msgspec.structs.asdict(job) for job in self.jobs],
            "each": self.each,
            "failed": sum(job.reason is not None for job in self.jobs),
            "out": str(self.out) if self.out else None,
            "parts_kept": self.kept_parts,
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def diagnose_each(query: FleetQuery, progress: Progress = lambda done, total: None) -> FleetAnswer:
    """Diagnose every run separately. Without `out`, finished runs are kept in the cache until the end."""
    each, model, gpu, out = query.each, query.model, query.gpu, query.out
    if out is not None:
        check_table(out)
    if gpu:
        load_catalog().find(gpu)
    if model and ":" not in model and not find.tells_itself(model):
        zoo.entry(model)
    tasks = _tasks(query)
    question = _question(tasks, each, model, gpu)
    folder = out.with_name(f"{out.name}.parts") if out else cache.folder() / "why" / _digest(question)
    with alone(folder):
        parts = Parts(folder)
        parts.begin(question, fresh=query.fresh, out=out)
        kept, finished = len(tasks), parts.finished
        if finished is None:
            kept = carry_out(parts, tasks, diagnosed, lost=_lost, on=query.on, progress=progress)
            jobs = [msgspec.json.decode(data, type=Diagnosed) for data in parts.read(len(tasks))]
            jobs.sort(key=lambda job: job.badness)
            _keep(parts, jobs, out)
        else:
            jobs = msgspec.convert(finished["jobs"], list[Diagnosed])
    return FleetAnswer(jobs=tuple(jobs), each=each, out=out, kept_parts=kept, assumptions=(), data_date=tables.data_date())


def _keep(parts: Parts, jobs: list[Diagnosed], out: Path | None) -> None:
    """Write the table, if one was requested; the parts are no longer needed."""
    if out is None:
        parts.empty()
        return
    write_table(out, FLEET_COLUMNS, [{name: [getattr(job, name) for job in jobs] for name in FLEET_COLUMNS}])
    parts.finish({"jobs": [msgspec.structs.asdict(job) for job in jobs]})


def _tasks(query: FleetQuery) -> list[FleetTask]:
    """The runs in the order of their names."""
    named, each = query.files, query.each
    local = [text for text in named if not is_url(text)]
    found = [url for text in named if is_url(text) for url in list_urls(text)]
    found += [str(path) for path in find_files(local, most=_MOST_FILES)] if local else []
    if not found:
        raise BadValue("no profiler file was given", hint="try `gpuwise why 'runs/*/trace.json.gz' --each file`")
    runs: dict[str, list[str]] = {}
    for file in dict.fromkeys(found):
        runs.setdefault(file if each == "file" else _folder(file), []).append(file)
    return [
        FleetTask(job=job, files=tuple(_whole(file) for file in inside), model=query.model, gpu=query.gpu, versions=versions())
        for job, inside in sorted(runs.items())
    ]


def _folder(file: str) -> str:
    return file.rpartition("/")[0] if is_url(file) else str(Path(file).parent)


def _whole(file: str) -> str:
    return file if is_url(file) else str(Path(file).resolve())


def _question(tasks: Sequence[FleetTask], each: str, model: str, gpu: str) -> dict[str, Any]:
    """Return everything that the rows depend on, including whether a file has changed since."""
    files = [file for task in tasks for file in task.files]
    try:
        stamps = "\n".join(f"{file} {stamp(file)}" for file in files)
    except OSError as fault:
        raise BadFile(f"'{fault.filename}' no longer exists", hint="check the folder and run the command again") from None
    asked = {"each": each, "model": model, "gpu": gpu, "files": files, "contents": _digest(stamps)}
    return {**asked, **msgspec.structs.asdict(versions())}


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]


def diagnosed(task: FleetTask) -> bytes:
    """Return one run's row, in bytes. A run that cannot be read also has a row."""
    check_versions(task.versions)
    try:
        with at_hand(task.files) as files:
            return msgspec.json.encode(_row(task, diagnose(files, model=task.model, gpu=task.gpu)))
    except GpuwiseError as fault:
        return _lost(task, fault.message)
    except Exception as fault:  # one unusual file must not end the diagnosis of thousands; the row reports the bug
        return _lost(task, f"gpuwise failed ({type(fault).__name__}: {fault}); please report this bug")


def _lost(task: FleetTask, reason: str) -> bytes:
    return msgspec.json.encode(Diagnosed(job=task.job, files=len(task.files), reason=reason))


def _row(task: FleetTask, answer: WhyAnswer) -> Diagnosed:
    serious = [finding for finding in answer.findings if finding.severity != "minor"]
    top = serious[0] if serious else None
    scene = answer.view.scene
    return Diagnosed(
        job=task.job,
        files=len(task.files),
        gpu=None if scene.on_cpu else answer.device_name or None,
        step_s=scene.steps.median_s,
        steps=len(scene.steps.start_ns),
        busy_fraction=answer.view.whole.busy_fraction,
        code=top.code if top else None,
        share_fraction=top.share_fraction if top else None,
        gain_low=top.gain.low if top else None,
        gain_high=top.gain.high if top else None,
        verdict=answer.verdict,
        cut=bool(answer.cut),
        findings=tuple(finding_dict(finding) for finding in answer.findings),
    )
