"""Why is my training slow? Turns profiler files into the parts of a step and the gain from each fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any, ClassVar

from gpuwise.core.errors import BadValue
from gpuwise.core.provenance import Assumption, as_dicts
from gpuwise.core.units import format_si
from gpuwise.diagnose import shapes
from gpuwise.diagnose.checks.slower_than_expected import CODE as SLOWER
from gpuwise.diagnose.checks.slower_than_expected import Expectation
from gpuwise.diagnose.compare import Difference, difference
from gpuwise.diagnose.ranks import Rank, as_ranks, in_one_file, missing_ranks, typical
from gpuwise.diagnose.registry import run_checks
from gpuwise.diagnose.roofline.pricing import op_times
from gpuwise.diagnose.rows import MOST_OPS, collective_rows, gpu_rows, op_rows, rank_row
from gpuwise.diagnose.timeline import timeline
from gpuwise.diagnose.types import Abstained, Finding
from gpuwise.diagnose.view import View
from gpuwise.hardware import tables
from gpuwise.questions.common.findings_text import promise
from gpuwise.questions.common.options import Shown
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.common.telemetry import with_readings
from gpuwise.questions.common.trace_views import Progress, read_view, read_views
from gpuwise.trace.read import find_files
from gpuwise.trace.readers.telemetry import Telemetry

__all__ = ["CutFile", "WhyAnswer", "diagnose", "finding_dict"]

_FRAGMENT = 0.25  # share of what was recorded on the device: a single step that covers less is a fragment; assumed
_LEAST_WORK, _LEAST_NS = 24, 3e6  # without steps: fewer kernels, or less time, do not represent a run; assumed
_LEAST_GAIN = 1.02
_ALWAYS_TOLD = (SLOWER, "wrong_backend")  # faults, whatever they cost in this recording
_RECORD = "record at least three complete steps"
_OWN_TIME = 0.01  # of a step, from which on the profiler's own time is mentioned
_DIFFERS = 0.05  # busy share of all steps and of the steady ones
_BEHIND = 0.1  # of the work outside of the steps, from which on it is mentioned; assumed
_NO_GPU = ("no GPU work", "for a CPU, run `gpuwise bench` once, then compare with `gpuwise watch --model`")
_UNNAMED = ("no known GPU", "name it with --gpu")
_STEPS_BY = {
    "profiler": "ProfilerStep marks",
    "steps line": "the Steps line of the device",
    "marks": "marked by the program",
    "loader": "inferred from one loader batch to the next",
    "optimizer": "inferred from one Optimizer.step to the next",
    "kernels": "inferred from repeating kernels",
    "span": "none found, so the whole recording is treated as one step",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFile:
    """A truncated file, and how much of it the answer is based on. `read_fraction` is an upper bound, None if unknown."""

    file: str
    where: str
    read_fraction: float | None
    whole_steps: int
    lost_steps: int

    def __str__(self) -> str:
        share = "" if self.read_fraction is None else f", and at most {self.read_fraction:.0%} of its data is present"
        rest = f"; {self.lost_steps} of its steps are left out because they may be incomplete" if self.lost_steps else ""
        return f"{self.file} is cut off {self.where}{share}{rest}; copy or export it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyAnswer(Shown):
    """What a run spends its time on, what is wrong with it, and what the files do not show."""

    TEXT: ClassVar[str] = "questions.why.text.render"
    FIGURE: ClassVar[str] = "questions.why.figure.causes_figure"

    files: tuple[str, ...]
    view: View
    ranks: tuple[Rank, ...]
    missing: tuple[int, ...]
    findings: tuple[Finding, ...]
    abstained: tuple[Abstained, ...]
    verdict: str
    cut: tuple[CutFile, ...]
    notes: tuple[str, ...]
    difference: Difference | None
    compared: str
    assumptions: tuple[Assumption, ...]
    data_date: date

    @property
    def device_name(self) -> str:
        """The GPU's name in the catalogue, or else in the profile."""
        return self.view.gpu.name if self.view.gpu is not None else self.view.scene.device.name

    @property
    def steps_by(self) -> str:
        """How steps were identified."""
        return _STEPS_BY[self.view.scene.steps.by]

    def to_dict(self) -> dict[str, Any]:
        """The answer with the keys of the JSON contract."""
        steps = self.view.scene.steps
        return {
            "files": list(self.files),
            "cut": [asdict(one) for one in self.cut],
            "format": self.view.scene.trace.format,
            "gpu": (self.device_name or None) if self.view.is_gpu else None,
            "step_s": steps.median_s,
            "mean_step_s": self.view.step_s,
            "busy_fraction": self.view.whole.busy_fraction,
            "verdict": self.verdict,
            "findings": [finding_dict(finding) for finding in self.findings],
            "abstained": [asdict(entry) for entry in self.abstained],
            "ranks": [rank_row(rank) for rank in self.ranks],
            "gpus": gpu_rows(self.ranks),
            "collectives": collective_rows(self.ranks),
            "missing_ranks": list(self.missing),
            "steps": {
                "count": len(steps.start_ns),
                "steady_count": steps.steady_count,
                "by": self.steps_by,
                "each_s": [float(length) * 1e-9 for length in steps.end_ns - steps.start_ns],
            },
            "parts": {
                "step_s": self.view.parts.step_s,
                "seconds": self.view.parts.parts_s,
                "hidden_communication_s": self.view.parts.hidden_communication_s,
            },
            "ops": op_rows(op_times(self.view)[:MOST_OPS]),
            "timeline": asdict(line) if (line := timeline(self.view.scene, self.view.parts.idle)) else None,
            "facts": {"all_steps": asdict(self.view.whole), "steady_steps": asdict(self.view.facts)},
            "compare": None if self.difference is None else {"file": self.compared, **asdict(self.difference)},
            "notes": list(self.notes),
            "assumptions": as_dicts(self.assumptions),
            "data_date": self.data_date.isoformat(),
        }


def diagnose(
    files: Sequence[str],
    *,
    model: str = "",
    gpu: str = "",
    compare: str = "",
    readings: Sequence[Telemetry] = (),
    progress: Progress = lambda text, fraction: None,
) -> WhyAnswer:
    """Read the files as ranks of one run and diagnose it; with `compare`, explain the difference from another run. GPU
    `readings` taken at the same time are checked too.
    """
    if not files:
        raise BadValue("no profiler file was given", hint="try `gpuwise why trace.json.gz`")
    for file in files:
        if "://" in file:
            raise BadValue(
                f"'{file}' is a remote path; `why` reads local files",
                hint="use `--each file` to diagnose remote files one by one, or `--each folder` for ranks of one run",
            )
    paths = find_files(files)
    notes: list[Assumption] = []
    views, skipped = read_views(paths, gpu, notes, progress)
    ranks = as_ranks([found[0] for found in views], [found[1:] for found in views])
    chosen = typical(ranks).view
    expected = _expected(chosen, model, progress) if model else None
    found, abstained = run_checks(ranks, expected)
    findings = tuple(finding for finding in found if _is_worth(finding))
    if readings:
        findings, abstained = with_readings(readings, chosen.gpu, chosen.step_s, findings, abstained)
    lacking = _lacking(chosen)
    findings, abstained = _without_basis(lacking, tuple(_called(chosen, found) for found in findings), abstained)
    other = read_view(find_files([compare])[0], "", notes, progress, otherwise=gpu) if compare else None
    looked_at = [*(rank.view for rank in ranks if rank.first), *filter(None, [other])]
    cut = _cut_files(looked_at)
    return WhyAnswer(
        files=tuple(rank.view.scene.trace.file for rank in ranks if rank.first),
        view=chosen,
        ranks=ranks,
        missing=missing_ranks(ranks),
        findings=findings,
        abstained=abstained,
        verdict=_cut_first(cut, len(looked_at)) + _verdict(chosen, findings, lacking),
        cut=cut,
        notes=(*skipped, *_notes(ranks, chosen)),
        difference=difference(chosen, other) if other is not None else None,
        compared=other.scene.trace.file if other is not None else "",
        assumptions=tuple(notes),
        data_date=tables.data_date(),
    )


def _expected(view: View, model: str, progress: Progress) -> Expectation | Abstained:
    """Return the prediction for the model on the GPU, at the batch and precision of the trace, or why there is none."""
    from gpuwise.questions.common.predictions import predict
    from gpuwise.questions.common.step import step_query
    from gpuwise.workload.find import check_name

    if view.gpu is None or view.scene.on_cpu:
        check_name(model)
        missing, then = _NO_GPU if view.scene.on_cpu else _UNNAMED
        return Abstained(code=SLOWER, reason=f"{model} cannot be compared, because the trace has {missing}", record_next=then)
    batch = shapes.batch_of(view.scene)
    precision = _precision(view)
    mode = "train" if view.scene.trains else "infer"
    query = step_query(StepOptions(model, mode=mode, precision=precision, batch=batch or None), gpus=[view.gpu])
    found = predict(query, lambda text: progress(text, 0.0)).results[0]
    setting = f"batch {found.batch}{'' if batch else ' (assumed)'}, {found.precision}, {mode}"
    return Expectation(
        model=model, gpu=view.gpu.name, step_s=found.step_s, low_s=found.step_low_s, high_s=found.step_high_s, setting=setting
    )


def _precision(view: View) -> str:
    matrix, vector = view.work_s(view.scene.is_unit("matrix")), view.work_s(view.scene.is_unit("fp32"))
    if vector >= matrix:
        return "fp32"
    return (
        "tf32"
        if view.scene.named("s1688", "tf32").any() and not view.scene.named("bf16", "16816", "h884", "f16").any()
        else "amp"
    )


def _lacking(view: View) -> str:
    """Return why the recording is too short for a verdict, or nothing: one step that fills a small part of what was recorded
    on the device, or no steps and almost no work.
    """
    begin, end = view.scene.steps.window
    work = view.scene.work
    if not view.scene.steps.marked:
        few, short = len(work) < _LEAST_WORK, end - begin < _LEAST_NS
        held = f"{len(work):,} {'piece' if len(work) == 1 else 'pieces'} of work in {format_si((end - begin) * 1e-9, 's')}"
        return f"the recording is too short: it contains {held} and no steps" if few or short else ""
    span = int(work.end_ns.max() - work.start_ns.min())
    if len(view.scene.steps.start_ns) > 1 or (end - begin) >= _FRAGMENT * span:
        return ""
    return f"the recording is a fragment: its only step covers {(end - begin) / max(span, 1):.0%} of the device activity"


def _is_worth(finding: Finding) -> bool:
    """Return whether a fix could gain anything significant. Problems in the environment are always reported."""
    return finding.circumstance or finding.code in _ALWAYS_TOLD or finding.gain.high >= _LEAST_GAIN


def _called(view: View, finding: Finding) -> Finding:
    """Return the finding in words for the device at hand: checks speak of GPUs, but other accelerators are not GPUs."""
    if view.scene.on_cpu or view.is_gpu:
        return finding

    def word(text: str) -> str:
        return text.replace("the GPU", f"the {view.calls_it}")

    return replace(
        finding,
        title=word(finding.title),
        evidence=tuple(map(word, finding.evidence)),
        remedy=word(finding.remedy),
        verify=word(finding.verify),
    )


def _without_basis(
    lacking: str, findings: tuple[Finding, ...], abstained: tuple[Abstained, ...]
) -> tuple[tuple[Finding, ...], tuple[Abstained, ...]]:
    """Withdraw findings that lack a basis."""
    if not lacking:
        return findings, abstained
    withdrawn = tuple(Abstained(code=finding.code, reason=lacking, record_next=_RECORD) for finding in findings)
    return (), withdrawn + abstained


def _verdict(view: View, findings: tuple[Finding, ...], lacking: str) -> str:
    serious = [finding for finding in findings if finding.severity != "minor"]
    is_busy = f"the {view.calls_it} {'computes' if view.scene.on_cpu else 'is busy'}"
    busy = f"{is_busy} {view.whole.busy_fraction:.0%} of the time"
    if lacking:
        return f"no verdict, because {lacking} ({busy}); {_RECORD}"
    if serious:
        top = serious[0]
        of = "step" if view.scene.steps.marked else "recording"
        return f"{top.title} ({top.share_fraction:.0%} of the {of}); {promise(top.gain)}"
    if view.parts.share("idle_unexplained", "graph_wait") > 0.3 and not view.scene.on_cpu:
        return f"the device is idle much of the time, and the trace does not show why ({busy})"
    if view.facts.busy_fraction >= 0.8:
        if abs(view.facts.busy_fraction - view.whole.busy_fraction) > _DIFFERS:
            busy = f"{is_busy} {view.facts.busy_fraction:.0%} of the steady steps"
        return f"healthy: {busy}, and no check found a significant loss"
    return f"only minor causes were found ({busy})"


def _cut_files(views: Sequence[View]) -> tuple[CutFile, ...]:
    return tuple(
        CutFile(
            file=view.scene.trace.file,
            where=cut.where,
            read_fraction=cut.read_fraction,
            whole_steps=len(view.scene.steps.start_ns),
            lost_steps=view.scene.steps.lost_count,
        )
        for view in views
        if (cut := view.scene.trace.cut) is not None
    )


def _cut_first(cut: Sequence[CutFile], file_count: int) -> str:
    """Return the beginning of the verdict if one of this many files was truncated."""
    if not cut:
        return ""
    if len(cut) > 1:
        return f"{len(cut)} files are cut off, so only their complete steps are used: "
    whole, lost = cut[0].whole_steps, cut[0].lost_steps
    count = (
        f", so only {whole} of {whole + lost} steps are used"
        if lost
        else f", so only its {whole} complete steps are used"
        if whole > 1
        else ""
    )
    return f"{'the file' if file_count == 1 else cut[0].file} is cut off{count}: "


def _notes(ranks: Sequence[Rank], view: View) -> tuple[str, ...]:
    notes = []
    if view.scene.on_cpu:
        notes.append("the trace contains no GPU activity, so the innermost host ops are counted as the work")
    notes += view.scene.steps.notes
    if not view.scene.steps.marked:
        notes.append("no steps were found, so shares refer to the whole recording, including warm-up")
    several = view.scene.steps.marked and len(view.scene.steps.start_ns) > 1 and not view.scene.steps.lost_count
    if view.whole.outside_fraction > _BEHIND and several:
        notes.append(
            f"the {view.calls_it} lags behind the host: {view.whole.outside_fraction:.0%} of its work falls outside the steps"
        )
    if not view.scene.on_cpu and not view.scene.trains:
        notes.append("there is no backward pass, so this looks like inference")
    for rank in (rank for rank in ranks if rank.first):
        notes += [f"{rank.view.scene.trace.file}: {_loss(loss.count)}{loss.what}" for loss in rank.view.scene.trace.losses]
    if len(ranks) > 1:
        chosen = "the most kernel time" if in_one_file(ranks) else "the median step"
        notes.append(f"the parts and findings are from {typical(ranks).label}, which has {chosen}")
    own = view.parts.share("profiler")
    measured = f" by at least {own:.0%} of the step" if own >= _OWN_TIME else ""
    notes.append(f"the profiler slows the host{measured}, so idle time is somewhat lower without profiling")
    return tuple(notes)


def _loss(count: int) -> str:
    return f"{count:,} " if count else ""


def finding_dict(finding: Finding) -> dict[str, Any]:
    """The answer with the keys of the JSON contract."""
    return {
        "code": finding.code,
        "title": finding.title,
        "severity": finding.severity,
        "seconds_per_step": finding.seconds_per_step,
        "share_fraction": finding.share_fraction,
        "gain_low": finding.gain.low,
        "gain_high": finding.gain.high,
        "gain_reason": finding.gain.beyond or None,
        "confidence": finding.confidence,
        "evidence": list(finding.lines),
        "remedy": finding.remedy,
        "verify": finding.verify,
        **({"where": finding.where} if finding.where else {}),
        **({"ops": op_rows(finding.ops)} if finding.ops else {}),
    }
