"""Data parallelism: every GPU runs the step on its own samples, and gradients are averaged over the links.

The captured graph determines how much of the averaging overlaps: when each gradient is ready on the compute lane, and how long
its bucket takes on the communication lane.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.units import MIB
from gpuwise.hardware.types import Gpu
from gpuwise.kernels.types import Constants
from gpuwise.scale.cluster.collectives import collective_s, gradient_bytes, slowed_fraction, waits_fraction
from gpuwise.scale.cluster.shape import Cluster, usual_cluster
from gpuwise.step.time.setting import as_run
from gpuwise.step.time.simulate import simulate
from gpuwise.step.types import Setting, StepTimes
from gpuwise.workload.model.evaluate import product_values
from gpuwise.workload.model.types import CATEGORIES, DTYPE_BYTES, PHASES, Workload

__all__ = [
    "BUCKET_BYTES",
    "FIRST_BUCKET_BYTES",
    "Buckets",
    "DataParallel",
    "Gradients",
    "Overlap",
    "Timeline",
    "all_reduce_s",
    "averaged",
    "bucket_ends",
    "data_parallel",
    "exposed_s",
    "gradients_of",
    "overlapped",
    "recomputing",
    "threaded_s",
    "timeline_at",
    "timeline_of",
]

# ---------------------------------------------------------------- when gradients are ready
# Determines when each gradient is ready: the calls of a step run one after another on a GPU, and each leaves its gradients.

Array = NDArray[np.float64]
_FORWARD = PHASES.index("forward")
_BACKWARD = PHASES.index("backward")
_OPTIMIZER = PHASES.index("optimizer")


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """One step on one GPU: when each call ends, and when its passes end."""

    call_end_s: Array
    forward_end_s: float
    backward_end_s: float
    step_s: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Gradients:
    """The gradients of a step in the order they are completed: after which call, and their bytes."""

    call: NDArray[np.int64]
    size_bytes: Array
    _messages: dict[object, Array] = field(default_factory=dict, repr=False)

    @cached_property
    def buckets(self) -> Buckets:
        """The buckets in which they are averaged."""
        return Buckets.of(self.size_bytes)

    def messages_s(self, op: str, cluster: Cluster) -> Array:
        """Return the seconds of the messages that average them. Many GPUs have the same links, so most are computed once."""
        key = (op, cluster.wires, cluster.gpus_per_node) if cluster.node_count == 1 else None
        if key is None or key not in self._messages:
            sizes = self.buckets.size_bytes
            self._messages[key] = collective_s(op, sizes, cluster, cluster.gpus_per_node, cluster.node_count)
        return self._messages[key]


def timeline_of(
    workload: Workload,
    gpu: Gpu,
    setting: Setting,
    *,
    batch: float | None = None,
    seq: float | None = None,
    power_limit_watts: float | None = None,
    constants: Constants | None = None,
) -> Timeline:
    """Return the step of this size on this GPU, call by call."""
    sizes: dict[str, Any] = {
        name: np.array([float(value)]) if value is not None and name in workload.symbols else None
        for name, value in (("batch", batch), ("seq", seq if seq is not None else workload.seq))
    }
    setting = as_run(setting, workload)
    steps = simulate(workload, [gpu], setting, **sizes, power_limit_watts=power_limit_watts, constants=constants, by_kind=False)
    return timeline_at(workload, steps)


def timeline_at(workload: Workload, steps: StepTimes, point: int = 0, place: int = 0) -> Timeline:
    """Return one of these steps, call by call. If the host or a loader determines the time, every call is stretched equally."""
    whole = float(steps.seconds[point, place])
    ends = np.cumsum(steps.op_s[point, workload.calls.op, place], dtype=np.float64)
    ends = ends * (whole / max(float(ends[-1]), 1e-12))
    backward_end = _last_end(workload, ends, _BACKWARD, float(ends[-1]))
    forward_end = _last_end(workload, ends, _FORWARD, 0.0)
    return Timeline(call_end_s=ends, forward_end_s=min(forward_end, backward_end), backward_end_s=backward_end, step_s=whole)


def recomputing(line: Timeline, again_s: float) -> Timeline:
    """Return the timeline with a backward pass extended by recomputation, spread over all of it."""
    backward_s = max(line.backward_end_s - line.forward_end_s, 1e-12)
    after = np.clip(line.call_end_s - line.forward_end_s, 0.0, backward_s)
    return Timeline(
        call_end_s=line.call_end_s + again_s * after / backward_s,
        forward_end_s=line.forward_end_s,
        backward_end_s=line.backward_end_s + again_s,
        step_s=line.step_s + again_s,
    )


def _last_end(workload: Workload, ends: Array, phase: int, otherwise: float) -> float:
    last = np.flatnonzero(workload.calls.phase == phase)
    return float(ends[last[-1]]) if len(last) else otherwise


def gradients_of(workload: Workload, batch: float | None = None, seq: float | None = None) -> Gradients:
    """Return gradients by the last backward call that writes each: gradients of shared weights are complete only then."""
    buffers, calls = workload.buffers, workload.calls
    sizes = {"batch": batch, "seq": seq}
    values = product_values(workload, **{name: size for name, size in sizes.items() if name in workload.symbols})[0]
    chosen = np.flatnonzero(buffers.category == CATEGORIES.index("gradient"))
    owner = np.repeat(np.arange(len(calls)), calls.read_count + calls.written_count)
    backward = calls.phase[owner] == _BACKWARD
    last = buffers.born.astype(np.int64).copy()
    np.maximum.at(last, calls.refs[backward], owner[backward])
    specs = [workload.tensors[row] for row in buffers.tensor[chosen].tolist()]
    size = np.array([float(values[spec.elements]) * DTYPE_BYTES[spec.dtype] for spec in specs])
    order = np.argsort(last[chosen], kind="stable")
    return Gradients(call=last[chosen][order], size_bytes=size[order])


# ---------------------------------------------------------------- buckets
# Gradients in buckets, averaged while the backward pass is still running: two lanes, compute and communication.
#
# As in PyTorch's DistributedDataParallel: gradients fill buckets in the order they are completed, a small one first so that
# communication starts early; a full bucket is averaged as soon as the lane is free; the optimizer waits for the last one. This
# part is independent of GPUs and links: it only uses times, sizes and the cost of a message.

BUCKET_BYTES = 25 * MIB  # torch DistributedDataParallel: bucket_cap_mb
FIRST_BUCKET_BYTES = 1 * MIB  # torch.distributed: _DEFAULT_FIRST_BUCKET_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlap:
    """A backward pass and its communication. `exposed_s` is how much longer the pass is than it would be alone.

    `bucket_bytes`, `start_s` and `end_s` have a row for each bucket. `comm_s` is the total time of messages; the part that is not
    exposed is hidden.
    """

    exposed_s: float
    comm_s: float
    bucket_bytes: Array
    start_s: Array
    end_s: Array

    @property
    def hidden_s(self) -> float:
        return max(0.0, self.comm_s - self.exposed_s)


def bucket_ends(
    size_bytes: Array, *, cap_bytes: float = BUCKET_BYTES, first_bytes: float = FIRST_BUCKET_BYTES
) -> NDArray[np.int64]:
    """Return the last gradient of each bucket. A bucket is full once it holds at least its size; no gradient is split.

    >>> bucket_ends(np.array([1.0, 2.0, 3.0, 4.0]), cap_bytes=5, first_bytes=1).tolist()
    [0, 2, 3]
    """
    ends, held, limit = [], 0.0, first_bytes
    for place, size in enumerate(np.asarray(size_bytes, dtype=float).tolist()):
        held += size
        if held >= limit:
            ends.append(place)
            held, limit = 0.0, cap_bytes
    if held > 0.0:
        ends.append(len(size_bytes) - 1)
    return np.array(ends, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Buckets:
    """The last gradient of each bucket, and the bytes in it."""

    ends: NDArray[np.int64]
    size_bytes: Array

    @classmethod
    def of(cls, size_bytes: Array) -> Buckets:
        """Return the buckets of gradients with these sizes."""
        ends = bucket_ends(size_bytes)
        return cls(ends=ends, size_bytes=np.diff(np.cumsum(size_bytes)[ends], prepend=0.0))


def overlapped(
    ready_s: Array, buckets: Buckets, backward_end_s: float, took_s: Array, *, slowed_fraction: float = 0.0
) -> Overlap:
    """Return the backward pass with its gradients averaged at the same time.

    `ready_s` says when each gradient would be complete without communication, in ascending order; `took_s` are the seconds of
    the message for each bucket. During messages, compute is slower by `slowed_fraction`, because they use the same units and
    memory.
    """
    now, done, free = 0.0, 0.0, 0.0
    starts, stops = [], []
    for ready, seconds in zip(np.asarray(ready_s)[buckets.ends].tolist(), took_s.tolist(), strict=True):
        now, done = _reached(now, done, ready, free, slowed_fraction), max(done, ready)
        start = max(now, free)
        free = start + seconds
        starts.append(start)
        stops.append(free)
    whole = max(_reached(now, done, backward_end_s, free, slowed_fraction), free)
    return Overlap(
        exposed_s=max(0.0, whole - backward_end_s),
        comm_s=float(took_s.sum()),
        bucket_bytes=buckets.size_bytes,
        start_s=np.array(starts),
        end_s=np.array(stops),
    )


def _reached(now: float, done: float, target: float, busy_until: float, slowed: float) -> float:
    """Return when compute has done its work up to `target`, which takes longer during messages."""
    missing = max(0.0, target - done)
    meanwhile = max(0.0, busy_until - now) * (1.0 - slowed)
    if slowed < 1.0 and missing <= meanwhile:
        return now + missing / (1.0 - slowed)
    return max(now, busy_until) + missing - meanwhile


# ---------------------------------------------------------------- a step on several GPUs

# Both estimated by eye from the DataParallel rows of one source (ryujaehun), which therefore cannot validate them.
_FORWARD_OF_HOST = 0.33  # share of the host's time in a training step
_REPLICATING = 1.0  # copying a model costs the host about as much as launching its forward pass
_HIDDEN_FRACTION = 0.45  # share of the GPU's time, if no graph is available: most of the backward pass


@dataclass(frozen=True, kw_only=True, eq=False)
class DataParallel:
    """One step on all GPUs of a cluster, with `batch` samples on each. `alone_s` is the step on a single GPU."""

    gpu_count: int
    batch: float
    alone_s: float
    overlap: Overlap

    @property
    def waits_s(self) -> float:
        """Waiting for the slowest GPU, and for a host that serves them all."""
        return waits_fraction(self.gpu_count) * (self.alone_s + self.overlap.exposed_s)

    @property
    def step_s(self) -> float:
        return self.alone_s + self.overlap.exposed_s + self.waits_s

    @property
    def samples_per_s(self) -> float:
        return self.gpu_count * self.batch / self.step_s

    @property
    def efficiency_fraction(self) -> float:
        """Efficiency relative to one GPU working alone."""
        return self.alone_s / self.step_s

    @property
    def speed_up(self) -> float:
        """The speed-up over one GPU with the same batch."""
        return self.gpu_count * self.efficiency_fraction


def data_parallel(
    workload: Workload,
    cluster: Cluster,
    setting: Setting,
    *,
    batch: float | None = None,
    seq: float | None = None,
    power_limit_watts: float | None = None,
    constants: Constants | None = None,
) -> DataParallel:
    """Predict a training step with this many samples on each GPU of the cluster, as DistributedDataParallel runs it. For mixed
    cards, the first is used.
    """
    line = timeline_of(
        workload, cluster.gpu, setting, batch=batch, seq=seq, power_limit_watts=power_limit_watts, constants=constants
    )
    gradients = gradients_of(workload, batch, seq)
    overlap = averaged(line, gradients, cluster, slowed_fraction=slowed_fraction(setting))
    size = float(workload.batch if batch is None else batch)
    return DataParallel(gpu_count=cluster.gpu_count, batch=size, alone_s=line.step_s, overlap=overlap)


def averaged(
    line: Timeline, gradients: Gradients, cluster: Cluster, op: str = "all_reduce", /, *, slowed_fraction: float = 0.0
) -> Overlap:
    """Average the gradients of a step with this timeline over the whole cluster."""
    if cluster.gpu_count == 1:
        gradients = Gradients(call=gradients.call[:0], size_bytes=gradients.size_bytes[:0])
    return overlapped(
        line.call_end_s[gradients.call],
        gradients.buckets,
        line.backward_end_s,
        gradients.messages_s(op, cluster),
        slowed_fraction=slowed_fraction,
    )


def threaded_s(workload: Workload, cluster: Cluster, host_s: float) -> float:
    """Return the time that `nn.DataParallel` adds to a step for which the host needs `host_s` on one GPU.

    One process copies the weights to all GPUs, recreates the model for each of them, launches their forward passes in turn and
    sums the gradients on the first; backward passes have a thread each. None of this overlaps.
    """
    count = cluster.gpu_count
    if count == 1:
        return 0.0
    training = workload.mode == "train"
    copied = float(collective_s("broadcast", gradient_bytes(workload), cluster, cluster.gpus_per_node, cluster.node_count))
    forward = host_s * (_FORWARD_OF_HOST if training else 1.0)
    return (count - 1) * forward + count * forward * _REPLICATING + copied * (2.0 if training else 1.0)


@lru_cache(maxsize=256)
def _usual(gpu: Gpu, count: int, link: str) -> Cluster:
    return usual_cluster(gpu, count, link=link)


def all_reduce_s(moved_bytes: float, gpu: Gpu, count: int, link: str = "") -> float:
    """Return the seconds to average this many bytes over `count` GPUs of a kind, in typical machines or connected by this
    link.
    """
    if count <= 1:
        return 0.0
    cluster = _usual(gpu, count, link)
    return float(collective_s("all_reduce", moved_bytes, cluster, cluster.gpus_per_node, cluster.node_count))


def exposed_s(moved_bytes: float, gpu: Gpu, count: int, gpu_s: float) -> float:
    """Return the seconds by which several GPUs extend a step if only its length is known and not its graph: messages that do not
    overlap with the backward pass (at least the last bucket, which is complete when the pass ends), and waiting for each other.
    """
    if count <= 1:
        return 0.0
    last = all_reduce_s(min(moved_bytes, BUCKET_BYTES), gpu, count)
    exposed = max(last, all_reduce_s(moved_bytes, gpu, count) - _HIDDEN_FRACTION * gpu_s)
    return exposed + waits_fraction(count) * (gpu_s + exposed)
