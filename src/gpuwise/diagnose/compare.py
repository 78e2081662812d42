"""Explains the difference between two traces: whether they are comparable, which parts got faster, and what the datasheets
promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.diagnose import shapes
from gpuwise.diagnose.view import View
from gpuwise.hardware.types import Gpu

__all__ = ["Difference", "PartChange", "difference"]

_MATH = ("matmul", "conv", "attention")
_MEMORY = ("norm", "embedding", "elementwise", "optimizer", "other")
_HOST = {
    "profiler": "this is the profiler's own work",
    "input_wait": "this depends on the data loader, not on the GPU",
    "allocation": "this depends on the driver, not on the GPU",
    "compiling": "this depends on what is compiled during the steps",
    "host_work": "this depends on what the host does besides launching",
    "synchronisation": "this depends on how often the host waits",
    "host_launch": "this depends on the host; a faster GPU waits longer",
    "other_gpus": "this depends on how the model is spread across the GPUs",
    "graph_wait": "this depends on CUDA graph launches",
    "idle_unexplained": "the traces do not show the cause",
    "communication": "this depends on the link and on the slowest rank",
    "copy": "this depends on the link to the host",
}
_SAME = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChange:
    """One part of the step in both traces. `speed_up` above 1 means faster; `promised` is the ratio from the datasheets, if
    available.
    """

    part: str
    before_s: float
    after_s: float
    speed_up: float | None
    promised: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What changed from one trace to the other, by the median step and by the mean of the steady steps."""

    speed_up: float
    before_s: float
    after_s: float
    mean_speed_up: float
    before_mean_s: float
    after_mean_s: float
    step_counts: tuple[int, int]
    parts: tuple[PartChange, ...]
    unlike: tuple[str, ...]
    unknown: tuple[str, ...]
    verdict: str


def difference(before: View, after: View) -> Difference:
    """Compare `before` with `after`, by median step and by part of the mean steady step."""
    first, second = before.scene.steps.median_s, after.scene.steps.median_s
    parts = tuple(_change(part, before, after) for part in before.parts.parts_s)
    told = sorted(
        (part for part in parts if max(part.before_s, part.after_s) >= 0.005 * first),
        key=lambda part: part.after_s - part.before_s,
    )
    unlike, unknown = _unlike(before, after)
    return Difference(
        speed_up=first / max(second, 1e-12),
        before_s=first,
        after_s=second,
        mean_speed_up=before.step_s / max(after.step_s, 1e-12),
        before_mean_s=before.step_s,
        after_mean_s=after.step_s,
        step_counts=(before.scene.steps.steady_count, after.scene.steps.steady_count),
        parts=tuple(told),
        unlike=unlike,
        unknown=unknown,
        verdict=_verdict(first, second, told, unlike),
    )


def _change(part: str, before: View, after: View) -> PartChange:
    one, two = before.parts.parts_s[part], after.parts.parts_s.get(part, 0.0)
    promised, basis = _promise(part, before, after)
    speed_up = one / two if two > 0 else None
    return PartChange(
        part=part, before_s=one, after_s=two, speed_up=speed_up, promised=promised, why=_why(part, speed_up, promised, basis)
    )


def _promise(part: str, before: View, after: View) -> tuple[float | None, str]:
    old, new = before.gpu, after.gpu
    if old is None or new is None or old is new:
        return None, ""
    if part in _MEMORY:
        return new.memory_bytes_per_s / old.memory_bytes_per_s, "memory bandwidth"
    if part in _MATH:
        one, two = _rate(before, old), _rate(after, new)
        return (two / one, "peak rate of the units used") if one and two else (None, "")
    return None, ""


def _rate(view: View, gpu: Gpu) -> float | None:
    """Return the peak of the unit that does most of the matrix work in this trace."""
    matrix, vector = view.work_s(view.scene.is_unit("matrix")), view.work_s(view.scene.is_unit("fp32"))
    peaks = gpu.peak_flops_per_s
    if matrix > vector:
        word = (
            "tf32"
            if view.scene.named("s1688", "tf32").any() and not view.scene.named("bf16", "16816", "h884", "f16").any()
            else "fp16"
        )
        return peaks.get("matrix", {}).get(word) or gpu.best_peak("fp16")
    return peaks.get("vector", {}).get("fp32")


def _why(part: str, speed_up: float | None, promised: float | None, basis: str) -> str:
    if part in _HOST:
        return _HOST[part]
    if promised is None or speed_up is None:
        return ""
    if speed_up > promised / (1.0 - _SAME):
        return f"more than the {basis} suggests: the first run is further from its peak, or does different work"
    if speed_up >= promised * (1.0 - _SAME):
        return f"as the {basis} suggests"
    return f"less than the {basis} suggests: the kernels are too short, or something else slows them down"


def _unlike(before: View, after: View) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what differs besides the GPU, and what cannot be determined."""
    found, unknown = [], []
    batches = shapes.batch_of(before.scene), shapes.batch_of(after.scene)
    if None in batches:
        unknown.append("the batch size (record with record_shapes=True)")
    elif batches[0] != batches[1]:
        found.append(f"batch {batches[0]} in the first run, {batches[1]} in the second")
    one, two = _precision(before), _precision(after)
    if one != two:
        found.append(f"{one} in the first run, {two} in the second")
    first, second = before.scene.trace, after.scene.trace
    if first.world_size != second.world_size:
        found.append(
            f"{first.world_size or 'an unknown number of'} ranks in the first run, "
            f"{second.world_size or 'an unknown number'} in the second"
        )
    if first.framework and second.framework and first.framework != second.framework:
        found.append(f"{first.framework} in the first run, {second.framework} in the second")
    counts = before.count(before.scene.kernels), after.count(after.scene.kernels)
    if min(counts) > 0 and max(counts) / min(counts) > 1.0 + _SAME:
        found.append(f"{counts[0]:,.0f} kernels per step in the first run, {counts[1]:,.0f} in the second")
    if before.scene.on_cpu and after.scene.on_cpu:
        unknown.append("the expected difference, because neither trace contains a GPU")
    elif before.gpu is None or after.gpu is None:
        unknown.append("the expected difference, because one of the GPUs is not in the catalogue (name it with --gpu)")
    return tuple(found), tuple(unknown)


def _precision(view: View) -> str:
    """Name the unit that does the matrix work."""
    matrix, vector = view.work_s(view.scene.is_unit("matrix")), view.work_s(view.scene.is_unit("fp32"))
    if matrix + vector < 0.02 * max(view.kernel_s, 1e-12):
        return "no matrix work"
    return "matrix units (16-bit or TF32)" if matrix > vector else "fp32 without matrix units"


def _verdict(before_s: float, after_s: float, parts: list[PartChange], unlike: tuple[str, ...]) -> str:
    ratio = before_s / max(after_s, 1e-12)
    head = (
        f"the second run is {ratio:.2f} times as fast"
        if ratio >= 1
        else f"the second run takes {1 / max(ratio, 1e-12):.2f} times as long"
    )
    gained = [part for part in parts if part.after_s < part.before_s]
    grown = [part for part in reversed(parts) if part.after_s > part.before_s]
    if ratio >= 1 and gained:
        saved_s = gained[0].before_s - gained[0].after_s
        head += f", with the largest saving in {gained[0].part.replace('_', ' ')} ({saved_s * 1e3:,.1f} ms)"
    elif ratio < 1 and grown:
        added_s = grown[0].after_s - grown[0].before_s
        head += f", with the largest increase in {grown[0].part.replace('_', ' ')} ({added_s * 1e3:,.1f} ms)"
    return head + (f"; the comparison is not like for like: {unlike[0]}" if unlike else "")
