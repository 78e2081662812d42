"""What every kernel shares: the rate its power allows, and what bytes cost on the way through caches and memory."""

from __future__ import annotations

import math

import numpy as np

from gpuwise.kernels.types import Array, Columns, Constants, Gpus, dtype_code

__all__ = ["either", "longer", "moved_s", "peak_of", "powered", "touched", "unit_bytes_per_s"]

_YEAR = 2016.0
_NM = 16.0
_ROOT_OF_3 = math.sqrt(3.0)
_SMALL_BOARD = 70.0  # watts: below, fans and converters are smaller too; the least that was measured (T4)
_LEAST_LEFT = 0.1  # of the limit: a board that takes more for itself does not stand still
_FP16, _TF32 = dtype_code("fp16"), dtype_code("tf32")
_KNEE = 10.0  # how sharply the power limit takes over from the boost clock
_MEMORY_KNEE = 8.0  # the same for bytes


def powered(gpu: Gpus, k: Constants, rate: Array, matrix: Array | float) -> Array:
    """FLOP/s that the power limit allows a kernel that does `rate` at the boost clock, on the matrix engine or the vector lanes.

    A clock costs what its FLOPs need, and what the units take to issue them: a narrow engine or one used badly pays more a FLOP.
    """
    wide = np.maximum(rate, 1.0) / gpu.clock  # FLOPs a clock
    each = either(matrix, k["power.matrix"], k["power.vector"])
    return wide * _allowed_clock(gpu, k, wide * each + gpu.lanes * k["power.issue"])


def _allowed_clock(gpu: Gpus, k: Constants, joules: Array) -> Array:
    """Hz at which a chip that needs so many joules a clock (at 16 nm and the least voltage) stays within its limit.

    Up to some clock the voltage is the least there is and watts grow with the clock; beyond it they grow with its third power:
    watts = joules · f · (1 + (f / free)²), a cubic with one real root. Memory, fans and leakage take theirs at any clock.
    """
    shared = np.where(gpu.hbm > 0, k["power.rest_hbm"], k["power.rest_gddr"]) * gpu.board
    rest = shared + k["power.board_watts"] * np.minimum(1.0, gpu.board / _SMALL_BOARD)
    left = np.maximum(gpu.watts - rest, _LEAST_LEFT * gpu.watts)
    free = k["power.free_clock"] * gpu.clock
    reached = left / (joules * (gpu.process / _NM) ** k["power.process"] * free)
    root: Array = 2.0 / _ROOT_OF_3 * np.sinh(np.arcsinh(1.5 * _ROOT_OF_3 * reached) / 3.0)
    return free * root


def either(flag: Array | float, yes: Array | float, no: Array | float) -> Array:
    """`yes` where the flag is 1, `no` where it is 0, in the precision of the arrays; `np.where` of plain numbers is float64."""
    result: Array = np.asarray(no + flag * (yes - no))
    return result


def longer(one: Array, other: Array, sharp: float = _KNEE) -> Array:
    """The longer of two times, rounded where they are alike."""
    most = np.maximum(np.maximum(one, other), 1e-12)
    ratio = np.minimum(one, other) / most
    if sharp == _MEMORY_KNEE:  # an eighth power is three squares: several times faster
        return most * np.sqrt(np.sqrt(np.sqrt(1.0 + np.square(np.square(np.square(ratio))))))
    return most * (1.0 + ratio**sharp) ** (1.0 / sharp)


def peak_of(op: Columns, gpu: Gpus, k: Constants) -> tuple[Array, Array]:
    """FLOP/s at the boost clock and whether on the matrix engine, for ops with a `dtype`."""
    code = op["dtype"][:, 0].astype(np.intp)
    peak, matrix = gpu.peak[code], gpu.matrix[code]
    stored = (op["dtype"] == _FP16) * (gpu.converts * (k["half.stored"] - 1.0))
    lanes = (1.0 + stored) * (1.0 - gpu.mixed * (1.0 - k["vector.mixed"]))
    reached = np.where(gpu.amd > 0, k["engine.amd"], 1.0)  # its libraries keep less of the chip busy
    engine = 1.0 + (op["dtype"] == _TF32) * (k["engine.tf32"] - 1.0)  # operands twice as large to feed and to switch
    return peak * reached * either(matrix, engine, lanes), matrix


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
    memory = (1.0 - kept) / (_reached_fraction(gpu, k) * gpu.bandwidth)
    units = 1.0 / unit_bytes_per_s(gpu, k)
    sharp = k["memory.overlap"]
    seconds: Array = size * (memory**sharp + units**sharp) ** (1.0 / sharp)
    return longer(seconds, size / _powered_bytes(gpu, k), _MEMORY_KNEE)


def _reached_fraction(gpu: Gpus, k: Constants) -> Array:
    """What a long copy reaches of the bandwidth on the data sheet."""
    hbm = np.where(gpu.slower_hbm > 0, k["memory.slower_hbm"], k["memory.hbm"])
    return np.where(gpu.hbm > 0, hbm, k["memory.gddr"])


def _powered_bytes(gpu: Gpus, k: Constants) -> Array:
    """Bytes/s that the power limit allows: their way through units and caches costs joules, and goes with the clock."""
    return gpu.bandwidth * _allowed_clock(gpu, k, gpu.bandwidth / gpu.clock * k["power.byte"]) / gpu.clock
