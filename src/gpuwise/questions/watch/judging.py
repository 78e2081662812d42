"""Turns the records of a watched run into its diagnosis, in the form of `why`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption
from gpuwise.core.text import counted
from gpuwise.diagnose.checks.slower_than_expected import CODE as SLOWER
from gpuwise.diagnose.checks.slower_than_expected import Expectation, judge_step
from gpuwise.diagnose.registry import ranked, run_live_checks
from gpuwise.diagnose.types import Abstained, Finding, Gain
from gpuwise.diagnose.vitals import Vitals
from gpuwise.hardware import tables
from gpuwise.hardware.types import Gpu
from gpuwise.live.bench import store
from gpuwise.live.sample.steps import Pace, typical_pace
from gpuwise.live.sample.types import Run
from gpuwise.questions.common.diagnosis import WhyAnswer, diagnose
from gpuwise.questions.common.gpu_vitals import catalogue_gpu
from gpuwise.questions.common.step_options import StepOptions
from gpuwise.questions.watch.types import WatchAnswer
from gpuwise.questions.watch.vitals import used_gpus, vitals_of

__all__ = ["check_expected", "judge"]

_TIMED = ("input_starved", "single_process_loader", "slower_than_expected")  # timed live, without a profiler
_UNEVEN = 0.05
_FEW = 10
_LEAST_LEFT = 0.05  # of a step remains, whatever is fixed


def check_expected(model: str, precision: str) -> None:
    """Refuse a model or precision that cannot be predicted, before hours of training rather than after them."""
    if precision and not model:
        raise BadValue("--precision works only with --model", hint="try `--model resnet50 --precision amp`")
    if model:
        from gpuwise.questions.common.capturing import captured
        from gpuwise.questions.common.step import step_query

        captured(step_query(StepOptions(model, mode="train", precision=precision, gpu="cpu")).capture)


def judge(run: Run, *, title: str, model: str = "", precision: str = "") -> WatchAnswer:
    """Turn the records of a run into a verdict."""
    pace = typical_pace(run.marks)
    notes: list[str] = []
    window = _window(run.traces, notes)
    held, assumptions = _expect_or_abstain(run, pace, model, precision) if model else (None, ())
    expected = held if isinstance(held, Expectation) else None
    vitals = vitals_of(run, pace, expected.step_s if expected else None)
    findings, abstained = run_live_checks(vitals)
    if window is not None:
        seen = [_as_timed(finding, window, pace) for finding in window.findings if finding.code not in _TIMED]
        findings = ranked([*findings, *seen])
        live = {entry.code for entry in abstained} | {"slower_than_expected"}
        told = {"pcie_degraded", "vram_spill", "throttled", "power_limited", "shared_gpu", "cpu_starved"} | live
        abstained += tuple(entry for entry in window.abstained if entry.code not in told)
    slow = judge_step(pace.mean_s, held) if pace else held
    if isinstance(slow, Finding):
        findings = (*findings, slow)
    elif isinstance(slow, Abstained):
        abstained = (*abstained, slow)
    notes += _notes(run, pace, vitals)
    return WatchAnswer(
        title=title,
        run=run,
        pace=pace,
        vitals=vitals,
        parts_s=_parts(pace, vitals, window),
        window=window,
        expected=expected,
        findings=findings,
        abstained=abstained,
        verdict=_verdict(run, pace, vitals, findings),
        notes=tuple(notes),
        assumptions=assumptions,
        data_date=tables.data_date(),
    )


def _window(traces: Sequence[Path], notes: list[str]) -> WhyAnswer | None:
    """Return what the profiler recorded of a few steps, if it could."""
    if not traces:
        return None
    ranks = [str(path) for path in traces if ".rank" in path.name]
    try:
        found = diagnose(ranks or [str(traces[0])])
    except GpuwiseError as fault:
        notes.append(f"the profiled steps could not be read: {fault.message}")
        return None
    notes += [f"in the profiled steps: {cut}" for cut in found.cut]
    return found


def _as_timed(finding: Finding, window: WhyAnswer, pace: Pace | None) -> Finding:
    """Convert a finding from the profiler's window to seconds of the timed step: the profiler slows everything except waiting,
    and none of its findings removes the wait.
    """
    recorded_s = window.view.step_s - window.view.parts.parts_s["input_wait"]
    if pace is None or recorded_s <= 0 or pace.mean_s <= 0:
        return finding
    step_s, rest_s = pace.mean_s, max(pace.mean_s - pace.wait_s, 0.0)
    scale = rest_s / recorded_s

    def gain(recorded: float) -> float:
        saved_s = window.view.step_s * (1.0 - 1.0 / recorded) * scale
        return step_s / max(step_s - min(saved_s, rest_s), _LEAST_LEFT * step_s)

    lost_s = min(finding.seconds_per_step * scale, rest_s)
    return replace(
        finding,
        seconds_per_step=lost_s,
        share_fraction=lost_s / step_s,
        gain=Gain(low=gain(finding.gain.low), high=gain(finding.gain.high), beyond=finding.gain.beyond),
    )


def _expect_or_abstain(
    run: Run, pace: Pace | None, model: str, precision: str
) -> tuple[Expectation | Abstained, tuple[Assumption, ...]]:
    """Return the prediction for the model, or why it cannot be predicted for the observed GPU and batch."""
    try:
        return _expected(run, pace, model, precision)
    except GpuwiseError as fault:
        reason = f"no prediction for {model}: {fault.message}"
        return Abstained(code=SLOWER, reason=reason, record_next=fault.hint or "`gpuwise predict` shows what is missing"), ()


def _expected(run: Run, pace: Pace | None, model: str, precision: str) -> tuple[Expectation | Abstained, tuple[Assumption, ...]]:
    """Return what `predict` says about the model on the observed GPU, at the observed batch; without a GPU, on this machine's
    CPU if it was measured.
    """
    from gpuwise.questions.common.predictions import predict
    from gpuwise.questions.common.step import step_query

    gpu = _gpu(run)
    batch = pace.batch if pace and pace.batch else None
    if gpu is None and not _cpu_was_measured():
        reason = f"no prediction for {model}: no GPU in the catalogue was found"
        return Abstained(code=SLOWER, reason=reason, record_next="run `gpuwise bench` first to measure the CPU"), ()
    options = StepOptions(
        model,
        mode="train",
        precision=precision or ("" if gpu else "fp32"),
        batch=batch,
        gpus=len(used_gpus(run)) if gpu else 1,
    )
    query = step_query(options, gpus=[gpu] if gpu else [], on_this_machine=gpu is None)
    found = predict(query).results[0]
    setting = (
        f"batch {found.batch}{'' if batch else ' (assumed)'}, {found.precision}{'' if precision else ' (assumed)'}, training"
    )
    expected = Expectation(
        model=model,
        gpu=gpu.name if gpu else "this machine's CPU",
        step_s=found.step_s,
        low_s=found.step_low_s,
        high_s=found.step_high_s,
        setting=setting,
    )
    return expected, found.assumptions


def _cpu_was_measured() -> bool:
    """Return whether the newest profile of this machine is for its CPU."""
    try:
        return store.latest().device == "cpu"
    except GpuwiseError:
        return False


def _gpu(run: Run) -> Gpu | None:
    for index in used_gpus(run):
        sample = next(iter(run.of_gpu(index)))
        return catalogue_gpu(sample.name, sample.memory_bytes)
    return None


def _parts(pace: Pace | None, vitals: Vitals, window: WhyAnswer | None) -> dict[str, float]:
    """Return the mean step by part: the wait as timed, the rest as divided by the profiler's window or else by the driver's
    counter.
    """
    if pace is None:
        return {}
    rest = max(pace.mean_s - pace.wait_s, 0.0)
    parts = {"input_wait": pace.wait_s}
    if window is not None:
        seen = {name: seconds for name, seconds in window.view.parts.parts_s.items() if name != "input_wait" and seconds > 0}
        total = sum(seen.values())
        return parts | {name: rest * seconds / total for name, seconds in seen.items()} if total > 0 else parts | {"work": rest}
    if vitals.on_cpu:
        return parts | {"work": rest}
    busy = min((vitals.gpus[0].busy_fraction or 0.0) * pace.mean_s, rest)
    return parts | {"gpu_busy": busy, "gpu_idle": rest - busy}


def _verdict(run: Run, pace: Pace | None, vitals: Vitals, findings: tuple[Finding, ...]) -> str:
    if run.waiting_s is not None:
        return f"the run hangs: the data loader has not delivered a batch for {run.waiting_s:.0f} s"
    if pace is None:
        ended = f" before it exited with code {run.exit_code}" if run.exit_code else ""
        load = [gpu.busy_fraction for gpu in vitals.gpus if gpu.busy_fraction is not None]
        seen = f"; GPU busy {max(load):.0%}" if load else ""
        return f"no diagnosis: the run completed too few steps{ended}{seen}"
    serious = [finding for finding in findings if finding.severity != "minor"]
    if serious:
        top = serious[0]
        gain = f"{top.gain.low:.2f} to {top.gain.high:.2f} times as fast"
        return f"{top.title} ({top.share_fraction:.0%} of the step); a fix would make the run {gain}"
    return f"healthy: steps wait for input {pace.wait_fraction:.0%} of the time, and no check found a significant loss"


def _notes(run: Run, pace: Pace | None, vitals: Vitals) -> list[str]:
    notes = [
        fault for fault in run.faults if vitals.gpus or fault != vitals.blind
    ]  # a fault that stops a check is reported with that check
    if pace is not None and pace.apart_fraction > _UNEVEN:
        notes.append(
            f"steps that start an epoch, evaluate or save take {pace.apart_fraction:.0%} of the time and are left out; "
            "persistent_workers=True keeps the workers between epochs"
        )
    if pace is not None and pace.steady_count < _FEW:
        notes.append(f"only {counted(pace.steady_count, 'steady step')} could be measured; let the program run longer")
    if len(run.marks) > 1 and pace is not None:
        notes.append(f"the steps are from process {pace.pid}, which is typical of all {len(run.marks)} processes")
    if any(gpu.other_processes is None and gpu.load_count for gpu in vitals.gpus):
        notes.append(
            "the driver does not list this run's processes on the GPU, so gpuwise cannot distinguish them from other programs"
        )
    return notes
