"""What every kernel shares: the rate its power allows, and what bytes cost on the way through caches and memory."""

from __future__ import annotations

import numpy as np

from gpuwise.kernels.types import Array, Columns, Constants, Gpus, dtype_code

__all__ = ["longer", "moved_s", "peak_of", "powered", "touched", "unit_bytes_per_s"]

_YEAR = 2016.0
_NM = 16.0
_CLOCK = 1.5e9
_FP16 = dtype_code("fp16")
_KNEE = 14.0  # how sharply the power limit takes over from the boost clock


def powered(gpu: Gpus, k: Constants, rate: Array, load: str) -> Array:
    """FLOP/s that the power limit allows, on engines that do `rate` at the boost clock, for `vector` or `matrix` work.

    A FLOP needs a number of joules: fewer with every process, more at a higher clock, which needs more voltage. A wider engine
    does the same at a lower clock. The boost clock plays no part here.
    """
    joules = k[f"power.{load}"] * (gpu.process / _NM) ** k["power.process"]
    rest = k["power.rest"] * gpu.board + k["power.board_watts"]  # memory, fans and leakage take theirs whatever the limit
    left = np.maximum(gpu.watts - rest, 0.2 * gpu.watts)
    wide = np.maximum(rate, 1.0) / gpu.clock  # FLOPs a clock
    return wide * _CLOCK * (left / (wide * _CLOCK * joules)) ** (1.0 / (1.0 + k["power.voltage"]))


def longer(one: Array, other: Array, sharp: float = _KNEE) -> Array:
    """The longer of two times, rounded where they are alike."""
    most = np.maximum(np.maximum(one, other), 1e-12)
    return most * (1.0 + (np.minimum(one, other) / most) ** sharp) ** (1.0 / sharp)


def peak_of(op: Columns, gpu: Gpus, k: Constants) -> tuple[Array, Array, Array]:
    """FLOP/s at the boost clock, whether on the matrix engine, and FLOP/s under the power limit, for ops with a `dtype`."""
    code = op["dtype"][:, 0].astype(np.intp)
    peak, matrix = gpu.peak[code], gpu.matrix[code]
    allowed = np.where(matrix > 0, powered(gpu, k, peak, "matrix"), powered(gpu, k, peak, "vector"))
    stored = (matrix == 0) & (op["dtype"] == _FP16) & (gpu.half < 1)  # computed in fp32, converted on the way
    return peak * np.where(stored, k["half.stored"], 1.0), matrix, allowed


def touched(op: Columns) -> Array:
    """Bytes an op reads and writes."""
    result: Array = op["read"] + op["written"]
    return result


def unit_bytes_per_s(gpu: Gpus, k: Constants) -> Array:
    """Bytes all units together keep in flight: so many a clock for each, more with every generation."""
    return gpu.units * gpu.clock * k["memory.bytes_per_clock"] * 2.0 ** ((gpu.node - _YEAR) / k["memory.doubling_years"])


def moved_s(op: Columns, gpu: Gpus, k: Constants, factor: Array | float = 1.0) -> Array:
    """Seconds to move an op's bytes, `factor` times each: through the units at so many bytes a clock, then through memory.

    What the op before left in the cache is not fetched again: the share falls as the op outgrows the cache.
    """
    size = touched(op) * factor
    kept = k["cache.share"] * gpu.cache / (gpu.cache + k["cache.reach"] * touched(op))
    reached = np.where(gpu.hbm > 0, k["memory.hbm"], k["memory.gddr"]) * gpu.bandwidth
    memory = (1.0 - kept) / reached
    units = 1.0 / unit_bytes_per_s(gpu, k)
    sharp = k["memory.overlap"]
    seconds: Array = size * (memory**sharp + units**sharp) ** (1.0 / sharp)
    return seconds
