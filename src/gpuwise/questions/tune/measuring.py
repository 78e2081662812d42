"""Which settings make this model or script faster here? Measured in short runs and compared with predictions."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from gpuwise.core.errors import BadValue, GpuwiseError
from gpuwise.core.provenance import Assumption, assumed
from gpuwise.hardware import tables
from gpuwise.live.tune.combine import product, together, without_least
from gpuwise.live.tune.models import facts_of, run_model
from gpuwise.live.tune.rounds import measured
from gpuwise.live.tune.scripts import Script, run_script
from gpuwise.live.tune.types import BASELINE, LEAST_ROUNDS, Change, DeviceFacts, Gain, Order, Trial, Variant, gain_of
from gpuwise.questions.tune.ask import TuneQuery
from gpuwise.questions.tune.changes import Plan, applied, model_plan, script_plan, start_of
from gpuwise.questions.tune.predicting import Predictor, predictor_of
from gpuwise.questions.tune.types import NO_TIME, Best, MeasuredAnswer, Tried
from gpuwise.workload import find
from gpuwise.workload.model.types import Settings, Workload

__all__ = ["tune_measured"]

_ALONE = 0.8  # of the time, at most, is for single changes; the rest is for the best ones together
_MODEL_S = 2.0  # of timed steps in a run of a model, at most; it ends earlier once it is stable
_SCRIPT_S = 6.0  # of steady steps in a run of a script, because loaders begin with full queues
_LONG_STEP_S = 1.0  # if a longer step is predicted and the user gave no batch, a smaller one is used
Progress = Callable[[str], None]
Run = Callable[[Variant], Trial]


def tune_measured(query: TuneQuery, progress: Progress = lambda text: None) -> MeasuredAnswer:
    """Try settings on this machine. The user's code runs in a separate process for each run, with a time limit."""
    begun = time.monotonic()
    progress("checking the device")
    facts = facts_of(query.device)
    return (_script if query.capture is None else _model)(query, facts, begun, progress)


# ---------------------------------------------------------------- a model


def _model(query: TuneQuery, facts: DeviceFacts, begun: float, progress: Progress) -> MeasuredAnswer:
    captured, predictor = _capturing(query, progress), predictor_of(facts)
    order, assumptions = _start(query, facts, predictor, captured)
    plan = model_plan(query.names, order, facts, predictor, captured)
    runs = msgspec.structs.replace(order, request=msgspec.structs.replace(order.request, model=query.runs))
    with tempfile.TemporaryDirectory(prefix="gpuwise-tune-", ignore_cleanup_errors=True) as folder:

        def run(variant: Variant) -> Trial:
            return run_model(applied(runs, variant), facts, timeout_s=query.timeout_s, cache=Path(folder))

        told = (*query.assumptions, *assumptions, *predictor.notes(tuple(dict.fromkeys(change.name for change in plan.tried))))
        return _answer(query, facts, plan, run, None, told, begun, progress)


def _capturing(query: TuneQuery, progress: Progress) -> Callable[[Order], Workload]:
    """Return the workload of a run, from the zoo, the cache or a capture; each is loaded once."""
    asked = query.capture
    assert asked is not None  # noqa: S101

    @cache
    def found(settings: Settings, compiled: bool) -> Workload:
        if settings.implementation == "for-loop":  # the zoo has no such variant, but its computation is the same
            settings = replace(settings, implementation="foreach")
        request = msgspec.structs.replace(asked.request, settings=settings)
        return find.workload(
            request, compiled=compiled, timeout_s=asked.timeout_s, memory_bytes=asked.memory_limit_bytes, progress=progress
        )

    return lambda order: found(order.request.settings, order.compiled)


def _start(
    query: TuneQuery, facts: DeviceFacts, predictor: Predictor, captured: Callable[[Order], Workload]
) -> tuple[Order, tuple[Assumption, ...]]:
    """Return the run with which every change is compared."""
    asked = query.capture
    assert asked is not None  # noqa: S101
    request = asked.request
    able = (*facts.precisions, "fp16", "bf16")
    if request.settings.precision not in able:
        raise BadValue(
            f"{facts.name} ({facts.device}) does not support {request.settings.precision}",
            known=", ".join(able),
            hint="leave out `--precision`; gpuwise tries the supported precisions",
        )
    if request.settings.mode == "train":
        request = msgspec.structs.replace(request, settings=replace(request.settings, implementation=start_of(facts)))
    order = Order(request=request, device=facts.device, compiled=asked.compiled, seconds=_MODEL_S)
    workload = captured(order)
    batch, assumptions = workload.batch, list[Assumption]()
    if request.batch is None:
        seconds = predictor.step_s(workload, batch, order.compiled)
        while batch > 1 and "batch" in workload.symbols and seconds and seconds > _LONG_STEP_S:
            batch //= 2
            seconds = predictor.step_s(workload, batch, order.compiled)
        why = (
            "the usual batch"
            if batch == workload.batch
            else f"a step at the usual batch of {workload.batch} is predicted to take more than {_LONG_STEP_S:g} s"
        )
        assumptions.append(assumed("batch at the start", str(batch), f"{why}; change it with `--batch`"))
    request = msgspec.structs.replace(request, batch=batch, seq=workload.seq)
    return msgspec.structs.replace(order, request=request), tuple(assumptions)


# ---------------------------------------------------------------- a script


def _script(query: TuneQuery, facts: DeviceFacts, begun: float, progress: Progress) -> MeasuredAnswer:
    script = Script(
        path=Path(query.model), arguments=query.arguments, flags={setting.name: setting.flags for setting in query.own}
    )

    def run(variant: Variant) -> Trial:
        return run_script(script, variant, seconds=_SCRIPT_S, timeout_s=query.timeout_s)

    progress(f"running {query.model} unchanged")
    first = run(BASELINE)
    _refuse(query, first)
    plan = script_plan(query.names, query.own, first, facts)
    return _answer(query, facts, plan, run, first, query.assumptions, begun, progress)


# ---------------------------------------------------------------- both


def _answer(
    query: TuneQuery,
    facts: DeviceFacts,
    plan: Plan,
    run: Run,
    first: Trial | None,
    assumptions: tuple[Assumption, ...],
    begun: float,
    progress: Progress,
) -> MeasuredAnswer:
    variants = [(change,) for change in plan.tried]
    before_s, runs = time.monotonic() - begun, _Timed(run)
    found = measured(
        variants,
        runs,
        seconds=_ALONE * query.seconds - before_s if variants else 0.0,
        seed=query.seed,
        first=first,
        progress=lambda variant, turn: progress(f"round {turn + 1}: {_named(variant)}"),
    )
    start = found[BASELINE]
    _refuse(query, start[-1])
    needed_s = _needed_s(before_s, runs.mean_s, len(variants) + 1)
    tried = tuple(_tried(plan, change, start, found[(change,)], needed_s) for change in plan.tried)
    gains = {one.change: one.gain for one in tried if one.gain is not None}
    left = query.seconds - (time.monotonic() - begun)
    best = _best(together(gains), gains, run, left, query.seed, progress)
    return MeasuredAnswer(
        model=query.model,
        facts=facts,
        start=tuple(start),
        tried=tried,
        pruned=tuple(plan.pruned),
        best=best,
        seconds=time.monotonic() - begun,
        is_script=query.capture is None,
        assumptions=assumptions,
        data_date=tables.data_date(),
        needed_s=needed_s,
    )


class _Timed:
    """Counts runs and their average duration, including everything before their steps."""

    def __init__(self, run: Run) -> None:
        self._run, self._count, self._all_s = run, 0, 0.0

    def __call__(self, variant: Variant) -> Trial:
        begun = time.monotonic()
        try:
            return self._run(variant)
        finally:
            self._count, self._all_s = self._count + 1, self._all_s + time.monotonic() - begun

    @property
    def mean_s(self) -> float:
        return self._all_s / max(self._count, 1)


def _needed_s(before_s: float, run_s: float, variants: int) -> float:
    """Return the time that the minimum number of rounds and the combined run would take, in tens of seconds."""
    return 10.0 * math.ceil((before_s + LEAST_ROUNDS * run_s * variants) / _ALONE / 10.0)


def _tried(plan: Plan, change: Change, start: list[Trial], trials: list[Trial], needed_s: float) -> Tried:
    good = [trial for trial in trials if not trial.fault]
    fault = next((trial for trial in trials if trial.fault), None) or (
        None if trials else Trial(fault=f"{NO_TIME}; `--seconds {needed_s:.0f}` should be enough", kind="timeout")
    )
    return Tried(
        change=change,
        expected=plan.tried[change],
        gain=gain_of(start, good) if good and fault is None else None,
        trials=tuple(good),
        fault=fault.fault if fault else "",
        kind=fault.kind if fault else "",
    )


def _best(variant: Variant, gains: Mapping[Change, Gain], run: Run, seconds: float, seed: int, progress: Progress) -> Best | None:
    """Measure the helpful changes together. If they do not run together, leave out the one that gains least."""
    while variant:
        found = measured(
            [variant],
            run,
            seconds=seconds,
            seed=seed + 1,
            progress=lambda one, turn: progress(f"together, round {turn + 1}: {_named(one)}"),
        )
        trials, start = found[variant], found[BASELINE]
        if start and not start[-1].fault and trials and not trials[-1].fault:
            return Best(
                changes=variant,
                gain=gain_of(start, trials),
                product=product(variant, gains),
                start=tuple(start),
                trials=tuple(trials),
            )
        if not trials:
            return None
        variant = without_least(variant, gains)
    return None


def _refuse(query: TuneQuery, trial: Trial) -> None:
    """Raise an error if the unchanged run fails, because nothing can be compared with it."""
    if not trial.fault:
        return
    hints = {
        "memory": "start with a smaller batch, such as `--batch 8`",
        "timeout": f"give each run more time, such as `--timeout {4 * query.timeout_s:g}`, or start with a smaller batch",
    }
    own = (
        "make sure that the script trains for a few seconds with a torch optimizer, a DataLoader or Keras `fit`; "
        "put its arguments after `--`"
    )
    hint = own if query.capture is None else hints.get(trial.kind, "run the model without gpuwise to see whether it works")
    kind = GpuwiseError if trial.kind == "error" else BadValue
    raise kind(f"{query.model} does not run even without changes: {trial.fault}", hint=hint)


def _named(variant: Variant) -> str:
    return ", ".join(f"{name} {value}" for name, value in variant) or "unchanged"
