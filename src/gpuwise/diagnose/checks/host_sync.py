"""The host waits for the GPU, and then the GPU waits for the host.

## What it detects
This check looks for synchronising calls (`.item()`, `.cpu()`, `cudaStreamSynchronize`, `cudaDeviceSynchronize`) that
are followed by a gap on the device. It reports them if these gaps take at least 2% of the step. Without a GPU, it looks
for values that are read out of tensors one by one. It includes the time that Python spends between the reads and on
creating an object for each value.

## Why it costs time
While the host waits, it launches nothing. When it returns, the queue is empty, and the device is idle until the next
launch arrives.

## What to do
Keep losses on the device and read them every hundred steps. Avoid `.item()`, `.cpu()`, `print(tensor)` and `if tensor:`
in the loop, and use `non_blocking=True` for copies. If every launch waits for its kernel, unset
`CUDA_LAUNCH_BLOCKING` or `AMD_SERIALIZE_KERNEL`. An engine that generates text needs the tokens of each step, but can
prepare the next step while the GPU works.

## Confidence
Confidence in the gaps is high. The upper end of the gain assumes a step without them. The lower end comes from a
replay in which the host does not wait but still does all its other work.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.cpu_work import named_ops
from gpuwise.diagnose.intervals import Spans, union
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.trace.types import Events, Kind, Trace, printable

__all__ = ["CODE", "check", "reading_spans"]

CODE = "host_sync"
_THRESHOLD = 0.02
_UNBIND = "aten::unbind"
_ITEMS = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", _UNBIND)
_CLOSE_NS = 100_000
_MANY = 10
_SERIAL = "every launch waits for its kernel: unset CUDA_LAUNCH_BLOCKING or AMD_SERIALIZE_KERNEL, which are meant for debugging"
_IN_TRAINING = "keep values on the GPU, and call .item() or .cpu() every hundred steps instead of every step"
_IN_INFERENCE = (
    "keep values on the GPU; if each step needs a result of the one before, as in text generation, prepare the next step "
    "while the GPU works (asynchronous scheduling), or process more requests at once"
)
_AHEAD = "a host that does not wait can run ahead, which also closes later gaps"


def check(view: View) -> Finding | None:
    """Find gaps after synchronising calls."""
    if view.scene.on_cpu:
        return _on_cpu(view)
    lost_s = view.parts.parts_s["synchronisation"]
    scene = view.scene
    begin, end = scene.steps.steady_window
    waits = scene.waits
    calls = waits.where((waits.start_ns >= begin) & (waits.start_ns < end))
    if lost_s < _THRESHOLD * view.step_s or not len(calls):
        return None
    steps = max(scene.steps.steady_count, 1)
    held_s = float(calls.duration_ns.sum()) * 1e-9 / steps
    names = [printable(scene.trace.names[number]) for number in np.unique(calls.name)[:3]]
    return Finding(
        code=CODE,
        title="the host waits for the GPU inside the step",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s, likely=Change(waiting=False), beyond=_AHEAD),
        confidence="high" if lost_s >= 0.05 * view.step_s else "medium",
        evidence=(
            f"{len(calls) / steps:,.1f} synchronising calls {view.per} ({', '.join(names)}), {held_s * 1e3:,.2f} ms in total",
            f"they are followed by gaps of {lost_s * 1e3:,.2f} ms per step",
        ),
        remedy=_remedy(view),
        verify="these calls should no longer appear in steady steps",
    )


def _remedy(view: View) -> str:
    if view.scene.serial.any():
        return _SERIAL
    return _IN_TRAINING if view.scene.trains else _IN_INFERENCE


def reading_spans(view: View) -> Spans:
    """Return when Python reads values one by one. Without a GPU, nothing waits, but each `.item()` keeps Python busy until the
    next.
    """
    trace = view.scene.trace
    items = named_ops(trace, *_ITEMS)
    if not len(items):
        return union(items.start_ns, items.end_ns)
    following = np.concatenate([items.start_ns[1:], items.end_ns[-1:]])
    whole = (following - items.start_ns < _CLOSE_NS) | _makes_values(trace, items, following)
    return union(items.start_ns, np.where(whole, following, items.end_ns))


def _makes_values(trace: Trace, items: Events, following: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether the time after an `unbind` counts: Python makes an object for each value before it reads the first. It counts if
    no other op lies in between."""
    unbinds = np.array([name == _UNBIND for name in trace.names], dtype=bool)[items.name]
    starts = np.sort(trace.events.of(Kind.OP).start_ns)
    after = np.searchsorted(starts, items.end_ns, side="left")
    later = starts[np.minimum(after, len(starts) - 1)]
    return np.asarray(unbinds & (after < len(starts)) & (later == following))


def _on_cpu(view: View) -> Finding | None:
    scene = view.scene
    begin, end = scene.steps.steady_window
    steps = max(scene.steps.steady_count, 1)
    items = named_ops(scene.trace, "aten::item")
    count = float(((items.start_ns >= begin) & (items.start_ns < end)).sum()) / steps
    lost_s = reading_spans(view).within(begin, end).total_ns * 1e-9 / steps
    if lost_s < _THRESHOLD * view.step_s or count < _MANY:
        return None
    return Finding(
        code=CODE,
        title="values are read out of tensors one by one",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(lost_s),
        confidence="medium",
        evidence=(f"{count:,.0f} calls to .item() {view.per} take {lost_s * 1e3:,.2f} ms, including the gaps between them",),
        remedy="compute on whole tensors and read one value, or use .tolist()",
        verify="there should be only a handful of .item() calls per step",
    )
