"""Code shared by the op models: the rate that power allows, the cost of moving bytes through caches and memory, tiled matrix
products, the choice between TF32 and fp32, and the single model for ops whose time depends only on the bytes they move.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpuwise.kernels.types import (
    GENERATIONS,
    MAKERS,
    Array,
    Choices,
    Columns,
    Constants,
    Cost,
    Gpus,
    KernelModel,
    Measured,
    Signature,
    Sizes,
    dtype_code,
    half_of,
    is_backward,
    is_needless,
)

__all__ = [
    "CLASSES",
    "MEMORY_BOUND",
    "as_elementwise",
    "as_softmax",
    "class_columns",
    "either",
    "longer",
    "memory_bound",
    "moved_s",
    "or_plain",
    "peak_of",
    "powered",
    "tiled_s",
    "touched",
    "unit_bytes_per_s",
]

# ---------------------------------------------------------------- power and bytes

_YEAR = 2016.0
_NM = 16.0
_ROOT_OF_3 = math.sqrt(3.0)
_SMALL_BOARD = 70.0  # watts: smaller boards also have smaller fans and converters; the lowest value measured (T4)
_LEAST_LEFT = 0.1  # fraction of the limit: a board whose overhead is larger still makes progress
_FP16 = dtype_code("fp16")
_TF32 = dtype_code("tf32")
_KNEE = 10.0  # how sharply the power limit takes over from the boost clock
_MEMORY_KNEE = 8.0  # the same for bytes


def powered(gpu: Gpus, k: Constants, rate: Array, matrix: Array | float) -> Array:
    """Return the FLOP/s that the power limit allows a kernel that would reach `rate` at the boost clock, on the matrix engine or
    the vector lanes.

    Each clock costs energy for its FLOPs and for issuing them, so a narrow or poorly used engine spends more energy per FLOP.
    """
    wide = np.maximum(rate, 1.0) / gpu.clock  # FLOPs per clock
    each = either(matrix, k["power.matrix"], k["power.vector"])
    return wide * _allowed_clock(gpu, k, wide * each + gpu.lanes * k["power.issue"])


def _allowed_clock(gpu: Gpus, k: Constants, joules: Array) -> Array:
    """Return the clock in Hz at which a chip that needs this many joules per clock (at 16 nm and the lowest voltage) stays within
    its limit.

    Up to some clock, the voltage is at its minimum and power grows linearly with the clock; beyond it, power grows with the cube:
    watts = joules · f · (1 + (f / free)²), a cubic with one real root. Memory, fans and leakage draw power at any clock.
    """
    shared = np.where(gpu.hbm > 0, k["power.rest_hbm"], k["power.rest_gddr"]) * gpu.board
    rest = shared + k["power.board_watts"] * np.minimum(1.0, gpu.board / _SMALL_BOARD)
    left = np.maximum(gpu.watts - rest, _LEAST_LEFT * gpu.watts)
    free = k["power.free_clock"] * gpu.clock
    reached = left / (joules * (gpu.process / _NM) ** k["power.process"] * free)
    root: Array = 2.0 / _ROOT_OF_3 * np.sinh(np.arcsinh(1.5 * _ROOT_OF_3 * reached) / 3.0)
    return free * root


def either(flag: Array | float, yes: Array | float, no: Array | float) -> Array:
    """Return `yes` where the flag is 1 and `no` where it is 0, in the arrays' precision. `np.where` on plain numbers returns
    float64.
    """
    result: Array = np.asarray(no + flag * (yes - no))
    return result


def longer(one: Array, other: Array, sharp: float = _KNEE) -> Array:
    """Return the longer of two times, as a smooth maximum when they are close."""
    most = np.maximum(np.maximum(one, other), 1e-12)
    ratio = np.minimum(one, other) / most
    if sharp == _MEMORY_KNEE:  # an eighth power as three squarings is several times faster
        return most * np.sqrt(np.sqrt(np.sqrt(1.0 + np.square(np.square(np.square(ratio))))))
    return most * (1.0 + ratio**sharp) ** (1.0 / sharp)


def peak_of(op: Columns, gpu: Gpus, k: Constants) -> tuple[Array, Array]:
    """Return the FLOP/s at the boost clock and whether they are on the matrix engine, for ops with a `dtype`."""
    code = op["dtype"][:, 0].astype(np.intp)
    peak, matrix = gpu.peak[code], gpu.matrix[code]
    stored = (op["dtype"] == _FP16) * (gpu.converts * (k["half.stored"] - 1.0))
    lanes = (1.0 + stored) * (1.0 - gpu.mixed * (1.0 - k["vector.mixed"]))
    makers = np.array([1.0, *(k[f"engine.{name}"] for name in MAKERS)], dtype=gpu.clock.dtype)
    reached = makers[gpu.maker.astype(np.intp)]  # the share of a chip that other makers' libraries keep busy
    engine = 1.0 + (op["dtype"] == _TF32) * (k["engine.tf32"] - 1.0)  # operands are twice as large to move and to switch
    engine = engine * np.where(gpu.sums16 > 1.0, k["engine.halved"], 1.0)  # at half rate, the engine rarely waits for operands
    own = either(matrix, _of_generation(gpu, k, "matrix"), _of_generation(gpu, k, "vector"))
    return peak * reached * own * either(matrix, engine, lanes), matrix


def _of_generation(gpu: Gpus, k: Constants, what: str) -> Array:
    """Return how much more of `what` a generation reaches than the general model predicts; 1 if none of its GPUs was measured."""
    own = np.array([*(k.get(f"{what}.{name}", 1.0) for name in GENERATIONS), 1.0], dtype=gpu.clock.dtype)
    return own[gpu.generation.astype(np.intp)]


def touched(op: Columns) -> Array:
    """Return the bytes that an op reads and writes."""
    result: Array = op["read"] + op["written"]
    return result


def unit_bytes_per_s(gpu: Gpus, k: Constants) -> Array:
    """Return the bytes/s that all units together keep in flight: a number per unit and clock that grows with each
    generation.
    """
    return gpu.units * gpu.clock * k["memory.bytes_per_clock"] * 2.0 ** ((gpu.node - _YEAR) / k["memory.doubling_years"])


def moved_s(op: Columns, gpu: Gpus, k: Constants, factor: Array | float = 1.0) -> Array:
    """Return the seconds to move an op's bytes, each `factor` times: through the units at a fixed number of bytes per clock, then
    through memory.

    Bytes that the previous op left in the cache are not read from memory again. Their share falls as the op outgrows the cache.
    """
    size = touched(op) * factor
    kept = k["cache.share"] * gpu.cache / (gpu.cache + k["cache.reach"] * touched(op))
    memory = (1.0 - kept) / (_reached_fraction(gpu, k) * gpu.bandwidth)
    units = 1.0 / unit_bytes_per_s(gpu, k)
    sharp = k["memory.overlap"]
    seconds: Array = size * (memory**sharp + units**sharp) ** (1.0 / sharp)
    return longer(seconds, size / _powered_bytes(gpu, k), _MEMORY_KNEE)


def _reached_fraction(gpu: Gpus, k: Constants) -> Array:
    """Return the fraction of the datasheet bandwidth that a long copy reaches."""
    hbm = np.where(gpu.slower_hbm > 0, k["memory.slower_hbm"], k["memory.hbm"])
    gddr = k["memory.gddr"] * either(gpu.ecc, k["memory.ecc"], 1.0)
    return np.where(gpu.hbm > 0, hbm, gddr) * _of_generation(gpu, k, "bandwidth")


def _powered_bytes(gpu: Gpus, k: Constants) -> Array:
    """Return the bytes/s that the power limit allows: moving bytes through units and caches costs energy and scales with the
    clock.
    """
    return gpu.bandwidth * _allowed_clock(gpu, k, gpu.bandwidth / gpu.clock * k["power.byte"]) / gpu.clock


# ---------------------------------------------------------------- tiles
# Matrix products as tiles of the result, spread over the units in waves. Every op that contains a product uses this model.
#
# A unit works through a tile in steps of k: it computes while its operands arrive through the caches at a fixed number of bytes
# per clock. The library picks the fastest tile size, and splits k if the result has too few tiles to fill the GPU.

_TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (128, 32), (32, 32), (128, 8))
_FLOPS_PER_CLOCK = 256.0
_SMALLEST_SPLIT = 256.0
_WIDTH = np.array([4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 8.0, 0.5])  # bytes of each of DTYPES


def tiled_s(
    batch: Array, m: Array, n: Array, depth: Array, dtype: Array, peak: Array, gpu: Gpus, k: Constants, reuse: Array | float = 1.0
) -> Array:
    """Return the seconds that the units need with the best of a few tile sizes. `peak` is what a unit reaches inside a large
    tile.

    `reuse` is how often an operand byte is reused inside the unit, as in the overlapping windows of a convolution.
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


# ---------------------------------------------------------------- TF32 or fp32
# An op that may run as TF32 but is faster in fp32 runs in fp32: allowing a faster option never makes a product slower.
#
# On GeForce cards both have the same peak, and TF32 reaches a smaller share of it.

_FP32 = dtype_code("fp32")
_Model = Callable[[Columns, Gpus, Constants], Cost]


def or_plain(model: _Model) -> _Model:
    """Return the kernel's model, using the faster of TF32 and fp32 for ops that may run as TF32."""

    def priced(op: Columns, gpu: Gpus, k: Constants) -> Cost:
        own = model(op, gpu, k)
        may = op["dtype"][:, 0] == _TF32
        if not may.any():
            return own
        columns = {name: column[may] for name, column in op.items()}
        plain = model({**columns, "dtype": np.full_like(columns["dtype"], _FP32)}, gpu, k)
        shape = np.broadcast_shapes(np.shape(own.compute_s), np.shape(own.memory_s))
        parts = {name: np.array(np.broadcast_to(getattr(own, name), shape)) for name in ("compute_s", "memory_s", "launches")}
        compute, memory = np.broadcast_arrays(plain.compute_s, plain.memory_s)
        before = longer(parts["compute_s"][may], parts["memory_s"][may], k["overlap"])
        better = longer(compute, memory, k["overlap"]) < before
        for name, values in parts.items():
            values[may] = np.where(better, getattr(plain, name), values[may])
        return Cost(**parts)

    return priced


# ---------------------------------------------------------------- bytes alone
# Ops whose time depends only on the bytes they move: elementwise and row-wise ops, gathers, updates. One factor per class.
#
# A factor is the number of times that the op moves the bytes in its tensors, because of two passes over a batch norm's input,
# atomics or strided reads, for example. Factors are fitted; 1 is a perfect single pass.

# The column `class` of an op is its index here.
CLASSES = (
    "elementwise",
    "reduction",
    "batch_norm",
    "batch_norm_backward",
    "row_norm",
    "row_norm_backward",
    "softmax",
    "loss",
    "pool",
    "pool_backward",
    "cast",
    "copy",
    "index",
    "embedding",
    "embedding_backward",
    "optimizer",
    "sort",
    "random",
    "other",
    "batch_norm_infer",
    "group_norm_nhwc",
    "reordered",
    "row_norm_compiled",
    "reduction_compiled",
)
_CLASS = {name: float(place) for place, name in enumerate(CLASSES)}
_CURVES = frozenset("gelu sigmoid silu exp erf log softplus elu selu celu sin cos".split())
_SLOW_CURVES = frozenset(("tanh", "mish"))
_FROM_RESULT = frozenset(("tanh", "sigmoid"))  # their gradients are products of what the forward pass kept
_WORDS = re.compile("[a-z0-9]+")
_VECTOR = 16  # numbers of 32 bits in the widest vector registers (AVX-512)
_BY_ROW = [name in ("row_norm", "row_norm_backward", "softmax") for name in CLASSES]


def memory_bound(op: Columns, gpu: Gpus, k: Constants) -> Cost:
    """The time depends on the bytes moved, times the factor for the op's class."""
    factors = np.array([k[f"bytes.{name}"] for name in CLASSES])
    which = op["class"].astype(np.intp)
    seconds = moved_s(op, gpu, k, factors[which])
    looked = op["looked"] / (gpu.lanes * gpu.clock * k["pool.values_per_clock"])  # a window reads each value several times
    rows = np.where(np.array(_BY_ROW)[which], touched(op), 0.0) / (gpu.units * gpu.clock * k["row.bytes_per_clock"])
    return Cost(compute_s=looked + rows, memory_s=seconds, launches=op["launches"])


MEMORY_BOUND = KernelModel(name="memory_bound", price=memory_bound)


def class_columns(
    class_of: str | Callable[[Signature, Choices], str], backward: str = "", compiled: str = "", tensors_a_launch: float = 0.0
) -> Callable[[Sequence[Signature], Sizes, Choices], Mapping[str, Any]]:
    """Return the columns for ops of this class, or of each op's own class. Gradients and compiled kernels
    may have their own class.

    A compiler may turn one op into several launches; a kernel over a list of tensors handles a fixed number of them per launch.
    """

    def named(op: Signature, choices: Choices) -> str:
        if "reordered" in op.attrs and not (choices.nhwc and op.attrs["reordered"] == "image"):
            return "reordered"  # neighbours in one tensor are far apart in another
        if not isinstance(class_of, str):
            return class_of(op, choices)
        if compiled and choices.lays_out:
            return compiled
        return backward if backward and is_backward(op) else class_of

    def columns(ops: Sequence[Signature], size: Sizes, choices: Choices) -> Mapping[str, Any]:
        names = [named(op, choices) for op in ops]
        launches: Any = [0 if is_needless(op, choices) else op.attrs.get("launches", 1) for op in ops]
        if tensors_a_launch:
            launches = np.maximum(1.0, np.ceil(size["tensors"] / tensors_a_launch))
        return {"class": [_CLASS[name] for name in names], "launches": launches, "looked": 0.0}

    return columns


def as_elementwise(op: Signature, size: Mapping[str, float]) -> Measured:
    """Use measurements of elementwise loops: those of gelu or tanh if an op computes such a function, otherwise those of
    addition. Piecewise linear functions such as relu and hardtanh are as cheap as an addition. Most of a dropout's time goes into
    its random numbers.
    """
    if op.name == "native_dropout":
        return Measured(("dropout", "elementwise"))
    words = set(_WORDS.findall(op.name))
    if is_backward(op):
        words -= _FROM_RESULT
    if words & _SLOW_CURVES:
        return Measured(("tanh", "curve"))
    return Measured(("curve" if words & _CURVES else "elementwise",))


def as_softmax(op: Signature, size: Mapping[str, float]) -> Measured:
    """Use measurements of softmax. Rows that are shorter than a vector register, such as the scores of ten classes, are
    computed one number at a time on a CPU.
    """
    half = half_of(op)
    whole = (f"softmax.{half}",)
    return Measured((f"short_softmax.{half}", *whole) if size["columns"] < _VECTOR else whole)
