"""Matrix products as tiles of the result, spread over the units in waves. Whatever is a product inside runs so.

A unit works through a tile in steps of k: it computes, and its operands come through the caches at so many bytes a clock. The
library picks the tile that is fastest, and splits k where the result has too few tiles to fill the GPU.
"""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.types import Array, Constants, Gpus

__all__ = ["tiled_s"]

_TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (128, 32), (32, 32), (128, 8))
_FLOPS_PER_CLOCK = 256.0
_SMALLEST_SPLIT = 256.0
_WIDTH = np.array([4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 8.0, 0.5])  # bytes of each of DTYPES


def tiled_s(
    batch: Array, m: Array, n: Array, depth: Array, dtype: Array, peak: Array, gpu: Gpus, k: Constants, reuse: Array | float = 1.0
) -> Array:
    """Seconds the units need, with the best of a few tile sizes; `peak` is what a unit reaches inside a large tile.

    `reuse` is how often an operand byte serves again inside the unit, as the overlapping windows of a convolution do.
    """
    width = _WIDTH.astype(peak.dtype)[dtype.astype(np.intp)] / reuse
    long, short = np.maximum(m, n), np.minimum(m, n)
    per_unit = peak / gpu.units  # FLOP/s of one unit
    wider = np.maximum(1.0, per_unit / gpu.clock / _FLOPS_PER_CLOCK) ** k["tile.feed_growth"]
    fed = gpu.clock * k["tile.bytes_per_clock"] * wider  # newer units are fed through wider paths and by multicast
    start = k["tile.start_clocks"] / gpu.clock
    whole = min(1.0, k["tile.whole_waves"])
    most = np.maximum(1.0, depth / _SMALLEST_SPLIT)
    best = np.full(np.broadcast_shapes(m.shape, peak.shape), np.inf, dtype=peak.dtype)
    for high, wide in _TILES:
        tiles = batch * np.ceil(long / high) * np.ceil(short / wide)
        step = np.maximum(2.0 * high * wide / per_unit, (high + wide) * width / fed)
        share = np.maximum(tiles / gpu.units, 1e-9)
        splits = np.minimum(np.maximum(1.0 / share, 1.0), most) ** k["tile.split"]
        waves = np.maximum(1.0, share) * (1.0 - whole) + np.ceil(share) * whole
        np.minimum(best, waves * (depth * step / splits + start), out=best)
    return best
