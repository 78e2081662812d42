"""The GPU waits while the host does something else.

## What it detects
This check looks for long pauses in which the host launches nothing and the device is idle. A pause is long if it lasts
at least 0.2 ms and at least ten times as long as the usual gap between launches. The check reports pauses that together
take at least 5% of the step. It names what the host did in the meantime, which can be a Python function, a CPU op, one
long driver call, or a range that the program marked.

## Why it costs time
The device has nothing to do until the host launches more work. CUDA graphs and larger kernels do not help, because this
is not launch overhead. The work itself must be moved elsewhere.

## What to do
Move preprocessing into the `Dataset`, so that loader workers do it. Create tensors on the GPU (`device="cuda"`) instead
of copying them there. Log, save and evaluate less often or in another thread. If nothing was recorded, record another
trace with `with_stack=True`, which shows the function.

## Confidence
Confidence is high if a function or an op fills the pauses, medium for a driver call, and low if nothing was
recorded. The lower end of the gain assumes that half of the work remains in the step. If nothing was recorded, it also
leaves out pauses that a median step does not have.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from gpuwise.diagnose.checks import host_sync
from gpuwise.diagnose.host import Cause, causes
from gpuwise.diagnose.intervals import Spans
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding, Gain
from gpuwise.diagnose.view import View
from gpuwise.trace.types import Kind

__all__ = ["CODE", "check"]

CODE = "host_work"
_THRESHOLD = 0.05
_LIKELY = 0.5
_LISTED = 3
_WORDS = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ADVICE = (  # by words in the function's name
    (
        ("save", "saving", "serialization", "checkpoint", "ckpt", "pickle", "dump"),
        "save less often, or in another thread or process",
    ),
    (("gc", "collect"), "call gc.collect() less often, or use gc.freeze() after the first step"),
    (
        ("log", "logger", "logging", "print", "summary", "tensorboard", "wandb", "tqdm"),
        "log every hundred steps instead of every step",
    ),
    (("sleep", "wait", "poll", "select", "recv", "acquire"), "find out what the host is waiting for here"),
    (("eval", "evaluate", "validate", "validation", "metric", "metrics"), "evaluate less often, or on the GPU"),
    (
        (
            "image",
            "images",
            "resize",
            "transform",
            "transforms",
            "augment",
            "preprocess",
            "decode",
            "crop",
            "collate",
            "load",
            "open",
        ),
        "move this into the Dataset, so that loader workers do it, or do it on the GPU",
    ),
)
_BY_KIND = {
    Kind.OP: "run this op on the GPU, create the tensor there, or move the work into the loader workers",
    Kind.RUNTIME: "warm up before the steps that you measure; a long driver call usually loads code or sets up memory",
    Kind.MARK: "move this work out of the step, or let it overlap with work on the GPU",
    Kind.PYTHON: "move this work out of the step, do it on the GPU, or let it overlap with work on the GPU",
}
_AHEAD = "a host that does not pause can run ahead, which also closes later gaps"
_UNRECORDED = "record again with torch.profiler.profile(with_stack=True), which names the function"


def check(view: View) -> Finding | None:
    """Find long pauses in which the host launches nothing and the device is idle."""
    spans = view.parts.idle["host_work"]
    if view.scene.on_cpu and host_sync.check(view) is not None:
        spans = spans.without(host_sync.reading_spans(view))
    steps = max(view.scene.steps.steady_count, 1)
    lost_s = spans.total_ns * 1e-9 / steps
    if lost_s < _THRESHOLD * view.step_s or not len(spans):
        return None
    found = causes(view.scene, spans)
    few, each = view.seldom(spans)
    return Finding(
        code=CODE,
        title=_title(found[0], view.scene.on_cpu) + few,
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=_gain(view, lost_s) if found[0].kind is not None else _gain_if_again(view, lost_s, spans),
        confidence=_confidence(found[0]),
        evidence=(
            f"the host launches nothing for {lost_s * 1e3:,.1f} ms {view.per}, in {len(spans) / steps:,.1f} long pauses "
            "on average",
            *each,
            *(_line(cause, steps) for cause in found[:_LISTED]),
        ),
        remedy=_remedy(found[0]),
        verify="these pauses should be gone, and the device should be busier",
        where=found[0].where,
    )


def _gain(view: View, lost_s: float) -> Gain:
    """At best the pauses are gone, and the host runs ahead of the device. A CPU has no queue to run ahead of: it saves what the
    pauses take, and a replay would also shorten those that other programs cause."""
    if view.scene.on_cpu:
        return view.gain(lost_s, least=_LIKELY)
    without = view.gain(lost_s, likely=Change(stalling=_LIKELY), beyond=_AHEAD)
    if view.recording is None:
        return without
    ahead = view.gain(lost_s, best=Change(stalling=0.0), beyond=_AHEAD).high
    return without if without.high >= ahead else replace(without, high=ahead)


def _gain_if_again(view: View, lost_s: float, spans: Spans) -> Gain:
    """Without a known cause, a single long pause cannot be fixed, so the lower end counts only what a median step loses."""
    found, held = _gain(view, lost_s), view.by_step_ns(spans)
    usual_s = float(np.median(held)) * 1e-9 if len(held) else lost_s
    least = view.step_s / max(view.step_s - _LIKELY * usual_s, 0.05 * view.step_s)
    return found if usual_s >= lost_s else replace(found, low=min(found.low, least))


def _title(cause: Cause, on_cpu: bool) -> str:
    waits = "the step waits" if on_cpu else "the GPU waits"
    if cause.kind is None:
        return f"{waits} while the host does something that the trace does not show"
    if cause.kind == Kind.RUNTIME:
        return f"{waits} while the host is inside {cause.where}"
    if cause.kind == Kind.MARK:
        return f"{waits} during '{cause.where}'"
    return f"{waits} while the host runs {cause.where}"


def _line(cause: Cause, steps: int) -> str:
    what = cause.where or "nothing recorded"
    inside = f", mostly in {cause.inside}" if cause.inside else ""
    return f"{what}: {cause.seconds / steps * 1e3:,.1f} ms per step{inside}"


def _confidence(cause: Cause) -> str:
    return "low" if cause.kind is None else "medium" if cause.kind in (Kind.RUNTIME, Kind.MARK) else "high"


def _remedy(cause: Cause) -> str:
    if cause.kind is None:
        return _UNRECORDED
    if cause.kind == Kind.PYTHON:
        said = set(_WORDS.findall(_CAMEL.sub("_", f"{cause.where} {cause.inside}").lower()))
        return next((advice for words, advice in _ADVICE if said & set(words)), _BY_KIND[Kind.PYTHON])
    return _BY_KIND[cause.kind]
