"""Gradients in buckets, averaged while the backward pass still runs: two lanes, compute and communication.

As PyTorch's DistributedDataParallel does it: gradients fill buckets in the order they become whole, a small one first so that
communication starts early; a full bucket is averaged as soon as the lane is free; the optimizer waits for the last one. Knows
neither GPUs nor links: only times, sizes and what a message costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwise.core.units import MIB

__all__ = ["BUCKET_BYTES", "FIRST_BUCKET_BYTES", "Overlap", "bucket_ends", "overlapped"]

Array = NDArray[np.float64]
BUCKET_BYTES = 25 * MIB  # torch DistributedDataParallel: bucket_cap_mb
FIRST_BUCKET_BYTES = 1 * MIB  # torch.distributed: _DEFAULT_FIRST_BUCKET_BYTES


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlap:
    """A backward pass and its communication. `exposed_s` is by how much the pass is longer than it would be alone.

    `bucket_bytes`, `start_s` and `end_s` have a row for each bucket. `comm_s` is how long messages take in all; what of it is not
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
    """The last gradient of each bucket. A bucket is full once it holds at least its size; no gradient is split.

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


def overlapped(
    ready_s: Array,
    size_bytes: Array,
    backward_end_s: float,
    cost: Callable[[Array], Array],
    *,
    slowed_fraction: float = 0.0,
    cap_bytes: float = BUCKET_BYTES,
    first_bytes: float = FIRST_BUCKET_BYTES,
) -> Overlap:
    """The backward pass with its gradients averaged meanwhile.

    `ready_s` says when each gradient would be whole without communication, in rising order; `cost` gives seconds of a message by
    its bytes. While messages are under way, compute is slower by `slowed_fraction`: they use the same units and memory.
    """
    if len(size_bytes) == 0:
        none = np.zeros(0)
        return Overlap(exposed_s=0.0, comm_s=0.0, bucket_bytes=none, start_s=none, end_s=none)
    ends = bucket_ends(size_bytes, cap_bytes=cap_bytes, first_bytes=first_bytes)
    edges = np.concatenate([[0.0], np.cumsum(size_bytes)[ends]])
    sizes = np.diff(edges)
    took = np.asarray(cost(sizes), dtype=float)
    now, done, free = 0.0, 0.0, 0.0
    starts, stops = [], []
    for ready, seconds in zip(np.asarray(ready_s)[ends].tolist(), took.tolist(), strict=True):
        now, done = _reached(now, done, ready, free, slowed_fraction), max(done, ready)
        start = max(now, free)
        free = start + seconds
        starts.append(start)
        stops.append(free)
    whole = max(_reached(now, done, backward_end_s, free, slowed_fraction), free)
    return Overlap(
        exposed_s=max(0.0, whole - backward_end_s),
        comm_s=float(took.sum()),
        bucket_bytes=sizes,
        start_s=np.array(starts),
        end_s=np.array(stops),
    )


def _reached(now: float, done: float, target: float, busy_until: float, slowed: float) -> float:
    """When compute has done its work up to `target`, which takes longer while messages are under way."""
    missing = max(0.0, target - done)
    meanwhile = max(0.0, busy_until - now) * (1.0 - slowed)
    if slowed < 1.0 and missing <= meanwhile:
        return now + missing / (1.0 - slowed)
    return max(now, busy_until) + missing - meanwhile
