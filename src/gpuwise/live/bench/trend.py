"""Times of products between the measured sizes.

A product takes a time per call (or time step), a time per value that it reads or writes, and a time per FLOP. These rates are
fitted to the rows of one kind, never below zero. Each row then says by which factor the fit is off near its sizes. Nearer rows
count more, on a scale of doublings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwise.live.bench.types import Row

__all__ = ["Trend", "trend_of"]

Array = NDArray[np.float64]
_NEAR = 0.05  # of a doubling; a measured size this close counts as the same
_SHORTEST_S = 1e-9
_VECTOR = 16  # numbers of 32 bits in the widest vector registers (AVX-512)
_FEW = 4  # channels, as in images


def _of_matmul(work: float, batch: float, m: float, n: float, k: float) -> tuple[float, ...]:
    return 1.0, batch * (m * k + k * n + m * n), work


def _of_convolution(work: float, n: float, c_in: float, c_out: float, kernel: float, positions: float) -> tuple[float, ...]:
    filled = c_in * c_out / (_whole_vectors(c_in) * _whole_vectors(c_out))
    return 1.0, n * positions * (c_in + c_out) + c_in * c_out * kernel, work / filled


def _of_layers(work: float, steps: float, batch: float, hidden: float, layers: float) -> tuple[float, ...]:
    return steps * layers, steps * layers * batch * hidden, work


def _of_attention(work: float, batch: float, heads: float, length: float, width: float) -> tuple[float, ...]:
    return batch * heads * length * length, work


def _whole_vectors(channels: float) -> float:
    """Return the channels that a convolution computes: libraries fill up the last vector, except for a few channels."""
    return channels if channels <= _FEW else math.ceil(channels / _VECTOR) * _VECTOR


_PARTS: dict[str, Callable[..., tuple[float, ...]]] = {
    "matmul": _of_matmul,
    **dict.fromkeys(("conv", "strided", "depthwise", "depthwise_strided"), _of_convolution),
    **dict.fromkeys(("lstm", "gru", "rnn"), _of_layers),
    "attention": _of_attention,
}


class Trend:
    """The rates of one kind, and the rows they come from."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._parts = _PARTS[rows[0].kind.partition(".")[0]]
        seconds = np.array([row.seconds for row in rows])
        parts = np.array([self._parts(row.work, *row.sizes) for row in rows])
        self._rates = _never_negative(parts / seconds[:, None])
        self._factors = np.log(seconds / np.maximum(parts @ self._rates, _SHORTEST_S))
        self._sizes = _doublings([row.sizes for row in rows])
        self._spreads = np.array([row.spread_fraction for row in rows])

    def seconds(self, sizes: Sequence[float], work: float) -> tuple[float, float]:
        """Return the seconds at these sizes, and the spread of the rows nearby."""
        fitted = max(float(np.array(self._parts(work, *sizes)) @ self._rates), _SHORTEST_S)
        weight = 1.0 / np.maximum(np.abs(self._sizes - _doublings(sizes)).sum(axis=1), _NEAR) ** 4
        weight /= weight.sum()
        return fitted * float(np.exp(weight @ self._factors)), float(weight @ self._spreads)


@lru_cache(maxsize=64)
def trend_of(rows: tuple[Row, ...]) -> Trend:
    """Return the trend of these rows, computed once."""
    return Trend(rows)


def _doublings(sizes: Any) -> Array:
    found: Array = np.log2(np.maximum(sizes, 1.0))
    return found


def _never_negative(parts: Array) -> Array:
    """Return the rates with which all rows come close to 1, leaving out one part after another that would have to be negative."""
    left = list(range(parts.shape[1]))
    while True:
        found = np.linalg.lstsq(parts[:, left], np.ones(len(parts)), rcond=None)[0]
        if len(left) == 1 or found.min() >= 0.0:
            break
        left.pop(int(np.argmin(found)))
    rates = np.zeros(parts.shape[1])
    rates[left] = np.maximum(found, 0.0)
    return rates
