"""Which settings to try on this device, and why others are skipped: unsupported by the device, of no use to the model, or
predicted not to pay off.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from gpuwise.core.errors import GpuwiseError
from gpuwise.diagnose.checks.input_starved import live_gain
from gpuwise.diagnose.vitals import Vitals
from gpuwise.live.tune.scripts import HOOKED
from gpuwise.live.tune.types import BASELINE, Change, DeviceFacts, Order, Trial, Variant
from gpuwise.questions.tune.ask import OwnSetting
from gpuwise.questions.tune.predicting import Expected, Predictor
from gpuwise.workload.model.types import Workload

__all__ = ["WORTH", "Plan", "Pruned", "applied", "model_plan", "script_plan", "start_of"]

WORTH = 1.02  # smaller gains are not tried
_DOUBLINGS = 3
_ROOMY = 1.2  # times the available memory, above which a predicted step is not tried; nine in ten predictions are within 16%
_WAITING_KEPT = 0.6
_HAVE_FUSED = ("sgd", "momentum", "adam", "adamw")
Captured = Callable[[Order], Workload]


class Pruned(NamedTuple):
    """A setting that was not tried."""

    name: str
    value: str
    reason: str


@dataclass(slots=True)
class Plan:
    """The changes to try, with their expected gains, and the changes to skip."""

    tried: dict[Change, Expected | None] = field(default_factory=dict)
    pruned: list[Pruned] = field(default_factory=list)

    def take(self, change: Change, expected: Expected | None) -> None:
        """Try a change, unless even the upper end of the expected gain is not worth it."""
        if expected is not None and expected.high < WORTH:
            self.leave(
                change.name,
                change.value,
                f"with this change, the run is predicted to be only {expected.low:.2f} to {expected.high:.2f} times as fast",
            )
        else:
            self.tried[change] = expected

    def leave(self, name: str, value: str, reason: str) -> None:
        """Skip a change."""
        self.pruned.append(Pruned(name, value, reason))


def start_of(facts: DeviceFacts) -> str:
    """Return how PyTorch runs an optimizer on this device by default."""
    return "foreach" if facts.device.startswith("cuda") else "for-loop"


def applied(order: Order, variant: Variant) -> Order:
    """Return the same run with these settings changed."""
    for name, value in variant:
        request, settings = order.request, order.request.settings
        if name == "batch":
            request = msgspec.structs.replace(request, batch=int(value))
        elif name == "precision":
            request = msgspec.structs.replace(request, settings=replace(settings, precision=value))
        elif name == "channels-last":
            request = msgspec.structs.replace(request, settings=replace(settings, channels_last=True))
        elif name == "optimizer":
            request = msgspec.structs.replace(request, settings=replace(settings, implementation=value))
        order = msgspec.structs.replace(order, request=request, compiled=order.compiled or name == "compile")
    return order


# ---------------------------------------------------------------- a model


def model_plan(names: Sequence[str], order: Order, facts: DeviceFacts, predictor: Predictor, captured: Captured) -> Plan:
    """Return what to try on a model; `captured` returns the workload of a run, for predictions."""
    plan, workload = Plan(), captured(order)
    expect = _Expecting(order, predictor, captured)
    for name, value, reason in _possible(order, facts, workload):
        if name not in names:
            continue
        if reason:
            plan.leave(name, value, reason)
        else:
            plan.take(Change(name, value), expect(Change(name, value)))
    if "batch" in names:
        _batches(plan, order, facts, workload, predictor, expect)
    for name in ("workers", "pinned"):
        if name in names:
            plan.leave(name, "", "a model alone has no data loader; name the training script to try this setting")
    return plan


def _possible(order: Order, facts: DeviceFacts, workload: Workload) -> Iterator[tuple[str, str, str]]:
    """Yield the name and value of each setting other than the batch, and why it cannot be tried."""
    settings = order.request.settings
    for precision in facts.precisions:
        if precision not in ("fp32", settings.precision):
            yield (
                "precision",
                precision,
                "" if settings.precision in ("fp32", "tf32") else "the model already runs in 16-bit precision",
            )
    has_images = any(op.kind == "conv" for op in workload.ops)
    if not settings.channels_last:
        yield "channels-last", "on", "" if has_images else "the model has no convolutions"
    if not order.compiled:
        yield "compile", "on", facts.no_compiler
    if settings.mode == "train":
        for how in ("foreach", "fused"):
            if how != settings.implementation:
                has = settings.optimizer in _HAVE_FUSED
                yield "optimizer", how, "" if has else f"{settings.optimizer} has no {how} implementation"


class _Expecting:
    """Predicts the gain from a change, relative to the start."""

    def __init__(self, order: Order, predictor: Predictor, captured: Captured) -> None:
        self._order, self._predictor, self._captured = order, predictor, captured
        self._start = self.samples_per_s(BASELINE)

    def __call__(self, change: Change) -> Expected | None:
        if change.name == "optimizer" and self._order.request.settings.implementation == "for-loop":
            return None  # the cost of a loop over tensors is not modelled
        after = self.samples_per_s((change,))
        gain = after / self._start if after and self._start else None
        return self._predictor.expected(change.name, gain)

    def samples_per_s(self, variant: Variant) -> float | None:
        """Return None if no prediction is possible."""
        order = applied(self._order, variant)
        try:
            workload = self._captured(order)
        except GpuwiseError:
            return None
        batch = order.request.batch or workload.batch
        seconds = self._predictor.step_s(workload, batch, order.compiled)
        return batch / seconds if seconds else None


def _batches(plan: Plan, order: Order, facts: DeviceFacts, workload: Workload, predictor: Predictor, expect: _Expecting) -> None:
    """Double the batch while the prediction says that it fits and pays off; the first doubling is tried whenever it fits."""
    start = order.request.batch or workload.batch
    if "batch" not in workload.symbols:
        plan.leave("batch", "", f"the model was captured only at batch {workload.batch}")
        return
    before = expect.samples_per_s(BASELINE)
    for power in range(1, _DOUBLINGS + 1):
        size = start * 2**power
        change = Change("batch", str(size))
        needed = predictor.needed_bytes(workload, size)
        if facts.memory_bytes and needed > _ROOMY * facts.memory_bytes:
            plan.leave(
                "batch",
                str(size),
                f"this batch needs about {needed / 1e9:.3g} GB, but only {facts.memory_bytes / 1e9:.3g} GB is free",
            )
            return
        after = expect.samples_per_s((change,))
        if power > 1 and before and after and after < WORTH * before:
            plan.leave(
                "batch", str(size), f"with twice the batch, the run is predicted to be only {after / before:.2f} times as fast"
            )
            return
        plan.tried[change] = expect(change)
        before = after


# ---------------------------------------------------------------- a script


def script_plan(names: Sequence[str], own: Sequence[OwnSetting], first: Trial, facts: DeviceFacts) -> Plan:
    """Return what to try on a script, based on a first run without changes."""
    plan, flags = Plan(), {setting.name: setting for setting in own}
    for name in names:
        setting = flags.get(name)
        values = setting.values if setting and setting.values else tuple(_usual_values(name, first, facts))
        if name == "batch" and not first.batch:
            values = ()  # without the samples of a step, steps of other batches cannot be compared
        if setting is None and name not in HOOKED:
            plan.leave(
                name,
                "",
                f"gpuwise cannot change this setting from outside; if the script has a flag for it, use `--set {name}='--FLAG'`",
            )
        elif not values:
            plan.leave(name, "", _why_none(name, first, facts))
        for value in values if setting is not None or name in HOOKED else ():
            more = name == "workers" and value.isdigit() and int(value) > (first.workers or 0)
            plan.take(Change(name, value), _without_waiting(first) if more else None)
    return plan


def _without_waiting(first: Trial) -> Expected:
    """Return what more workers may gain, as in `watch`: between three fifths and none of the waiting time remains."""
    vitals = Vitals(
        step_s=first.step_s, wait_s=first.wait_s, work_low_s=first.work_low_s, cpu_s=first.cpu_s, core_count=_core_count()
    )
    gain = live_gain(vitals, _WAITING_KEPT)
    return Expected(gain.low, math.sqrt(gain.low * gain.high), gain.high)


def _core_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _usual_values(name: str, first: Trial, facts: DeviceFacts) -> Iterator[str]:
    """Return the values to try if the user names none."""
    cuda = facts.device.startswith("cuda")
    if name == "batch" and first.batch:
        yield from (str(first.batch * factor) for factor in (2, 4))
    elif name == "precision":
        yield from (precision for precision in facts.precisions if precision in ("tf32", "amp-bf16"))
    elif name == "optimizer":
        yield from ("fused",) if cuda else ("foreach", "fused")
    elif name == "workers" and first.workers is not None:
        cores = _core_count()
        sizes = {0, 1, 2, cores // 2, cores, first.workers * 2}
        yield from (str(size) for size in sorted(sizes) if size != first.workers and size <= 2 * cores)
    elif (name == "pinned" and cuda) or name in ("compile", "channels-last"):
        yield "on"


def _why_none(name: str, first: Trial, facts: DeviceFacts) -> str:
    if name == "pinned":
        return f"copies to {facts.device} do not need pinned memory"
    if name == "batch":
        return "the script's batch size is not visible"
    if name == "workers":
        return "the script does not create a torch DataLoader"
    return f"{facts.name} offers no other value to try"
