"""Compares the time of each op with its expected time: kernels are assigned to the ops that launched them, and the kernel
models of `predict` give the expected times on the same GPU, in the same type.

The floor is a time that no kernel can beat: FLOPs at 95% of the rated peak, and the bytes that no cache holds at 95% of the rated
bandwidth. The expected time is that of the fitted model, and never below the floor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuwise.diagnose.classes import UNITS
from gpuwise.diagnose.roofline.op_time import OpTime
from gpuwise.diagnose.roofline.sized_ops import NAMES, Sized, outputs_of, sized
from gpuwise.diagnose.scene import Scene
from gpuwise.diagnose.shapes import dims_of
from gpuwise.diagnose.view import View
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.registry import KINDS
from gpuwise.kernels.times import floors_s, gpus_of, load_constants, times
from gpuwise.kernels.types import Choices, Group, Ops
from gpuwise.trace.types import Events, Kind

__all__ = ["op_times", "slow_ops"]

_REACHED = 0.95  # of peak and bandwidth: what the best kernels reach
_MOST_SHAPES = 2_000

Times = npt.NDArray[np.int64]


def op_times(view: View) -> tuple[OpTime, ...]:
    """Return every op with recorded sizes that the models support, the one that loses most first; nothing without sizes or a
    known GPU.
    """
    return tuple(sorted((row for row, _ in _rows(view)), key=lambda row: -row.lost_s))


def slow_ops(view: View, reached: float, least_share: float) -> tuple[tuple[OpTime, ...], npt.NDArray[np.float64]]:
    """Return the ops that run at no more than `reached` of the expected speed and take `least_share` of the step, the one that
    loses most first; and the factor on the time of each piece of work that would bring it to the expected speed.
    """
    factors = np.ones(len(view.scene.work))
    slow = []
    for row, found in _rows(view):
        if row.reached_fraction <= reached and row.measured_s >= least_share * view.step_s:
            slow.append(row)
            factors[found.rows] = row.reached_fraction
    return tuple(sorted(slow, key=lambda row: -row.lost_s)), factors


@dataclass(frozen=True, slots=True)
class _Found:
    """Calls of one op at one size, and the kernels that they launched."""

    name: str
    shape: bytes
    count: int
    rows: npt.NDArray[np.intp]
    seconds: float
    on_matrix: bool


def _rows(view: View) -> list[tuple[OpTime, _Found]]:
    if view.gpu is None or not view.is_gpu or not view.scene.trace.shapes:
        return []
    found = _by_shape(view.scene)
    shapes: dict[str, list[bytes]] = defaultdict(list)
    for one in found:
        shapes[one.name].append(one.shape)
    outputs = outputs_of(shapes)
    known = [(one, calls) for one in found if (calls := sized(one.name, one.shape, outputs))]
    priced = _priced([calls for _, calls in known], [one.on_matrix for one, _ in known], view.gpu)
    steps = max(view.scene.steps.steady_count, 1)
    return [
        (
            OpTime(
                op=_label(one.name, one.shape),
                count=one.count / steps,
                dtype=calls[0].dtype,
                measured_s=one.seconds / steps,
                expected_s=expected * one.count / steps,
                floor_s=floor * one.count / steps,
            ),
            one,
        )
        for (one, calls), (expected, floor) in zip(known, priced, strict=True)
    ]


def _by_shape(scene: Scene) -> list[_Found]:
    """Return the outermost ops that the models support, by name and size, with the kernels of steady steps that they launched."""
    names = np.array([name in NAMES for name in scene.trace.names], dtype=bool)
    events = scene.trace.events
    ops = events.where((events.kind == Kind.OP) & (events.shape >= 0) & names[events.name])
    rows, launched, thread = _launched_in(scene)
    if not len(ops) or not len(rows):
        return []
    owner = np.full(len(rows), -1, dtype=np.intp)
    for number in np.unique(thread):
        outer = _outermost(ops, np.flatnonzero(ops.thread == number))
        mine = np.flatnonzero(thread == number)
        if len(outer):
            place = np.searchsorted(ops.start_ns[outer], launched[mine], side="right") - 1
            candidate = outer[np.maximum(place, 0)]
            owner[mine] = np.where((place >= 0) & (launched[mine] < ops.end_ns[candidate]), candidate, -1)
    rows, owner = rows[owner >= 0], owner[owner >= 0]
    keys = ops.name.astype(np.int64) << 32 | ops.shape
    found = []
    for key, members in _groups(keys[owner]):
        spent = scene.work.duration_ns[rows[members]] * 1e-9
        matrix = scene.unit_id[rows[members]] == UNITS.index("matrix")
        found.append(
            _Found(
                name=scene.trace.names[key >> 32],
                shape=scene.trace.shapes[key & 0xFFFFFFFF],
                count=_distinct(owner[members]),
                rows=rows[members],
                seconds=float(spent.sum()),
                on_matrix=float(spent[matrix].sum()) > 0.5 * float(spent.sum()),
            )
        )
    return sorted(found, key=lambda one: -one.seconds)[:_MOST_SHAPES]


def _distinct(values: npt.NDArray[np.intp]) -> int:
    """Return how many different values there are. For nearly sorted ones, this is many times as fast as `np.unique`."""
    ordered = np.sort(values, kind="stable")
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(len(ordered), 1)


def _groups(keys: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.intp]]]:
    """Return each distinct key, and where it occurs."""
    order = np.argsort(keys, kind="stable")
    found, first = np.unique(keys[order], return_index=True)
    return list(zip(found.tolist(), np.split(order, first[1:]), strict=True)) if len(keys) else []


def _launched_in(scene: Scene) -> tuple[npt.NDArray[np.intp], Times, npt.NDArray[np.int32]]:
    """Return the kernels of steady steps whose launch is known: their rows, launch times and threads."""
    known = scene.launches.where(scene.launches.correlation >= 0)
    rows = np.flatnonzero(scene.kernels & scene.steady & (scene.launch_ns >= 0) & ~scene.is_class("communication"))
    if not len(known) or not len(rows):
        return rows[:0], scene.launch_ns[:0], known.thread[:0]
    order = np.argsort(known.correlation, kind="stable")
    place = np.minimum(np.searchsorted(known.correlation[order], scene.work.correlation[rows]), len(order) - 1)
    return rows, scene.launch_ns[rows], known.thread[order][place]


def _outermost(ops: Events, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the rows of a thread's ops that are not inside others, in order of start."""
    if not len(rows):
        return rows
    reach = np.maximum.accumulate(ops.end_ns[rows])
    kept: npt.NDArray[np.bool_] = np.concatenate([[True], ops.start_ns[rows][1:] >= reach[:-1]])
    return np.asarray(rows[kept], dtype=np.intp)


def _priced(calls: Sequence[tuple[Sized, ...]], on_matrix: Sequence[bool], gpu: Gpu) -> list[tuple[float, float]]:
    """Return the expected and the least seconds of one call of each op. Products in fp32 on matrix units are priced as TF32."""
    columns = gpus_of([gpu])
    totals = [[0.0, 0.0] for _ in calls]
    by_kind: dict[tuple[str, bool], list[tuple[int, Sized]]] = defaultdict(list)
    for place, parts in enumerate(calls):
        for one in parts:
            by_kind[one.kind, on_matrix[place]].append((place, one))
    for (kind, matrix), entries in by_kind.items():
        listed = [one for _, one in entries]
        choices = Choices(tf32=matrix, tf32_convolutions=matrix, nhwc=None)
        ops = Ops(count=len(listed), groups=(_group(kind, listed, choices, [one.read for one in listed]),))
        expected = times(ops, columns, load_constants()).seconds[:, 0]
        sure = Ops(count=len(listed), groups=(_group(kind, listed, choices, [one.least_read for one in listed]),))
        least = floors_s(sure, columns)[:, 0] / _REACHED
        for (place, _), seconds, floor in zip(entries, np.maximum(expected, least).tolist(), least.tolist(), strict=True):
            totals[place][0] += seconds
            totals[place][1] += floor
    return [(expected, floor) for expected, floor in totals]


def _group(kind: str, calls: Sequence[Sized], choices: Choices, read: Sequence[float]) -> Group:
    found = KINDS[kind]
    sizes = {name: np.array([call.sizes[name] for call in calls], dtype=np.float64) for name in found.sizes}
    columns = {
        **found.columns(calls, sizes, choices),
        "read": read,
        "written": [call.written for call in calls],
    }
    shaped = {name: np.broadcast_to(np.asarray(column, dtype=np.float64), len(calls)) for name, column in columns.items()}
    return Group(
        kind=found.model.name,
        rows=np.arange(len(calls)),
        columns={name: column.reshape(-1, 1) for name, column in shaped.items()},
    )


def _label(name: str, shape: bytes) -> str:
    """The op and the sizes of its first tensors."""
    sizes = [size for size in dims_of(shape)[0] if isinstance(size, list) and len(size) > 1][:2]
    return f"{name.removeprefix('aten::')} {', '.join('×'.join(map(str, size)) for size in sizes)}".strip()
