"""Kernels compute in double precision.

## What it detects
This check looks for kernels that run for more than 10 µs and whose names show that they compute only in fp64 (`dgemm`,
`d884`, `f64`, `<double>`). It reports them if they take at least 5% of the step. Kernels whose names also mention a
shorter type are ignored, because fused optimizers take their learning rate as a double.

## Why it costs time
A double has twice the bytes of a float, so even a plain copy takes twice as long. GeForce and workstation cards compute
fp64 at 1/32 or 1/64 of their fp32 rate, so matrix products take much longer. The use of fp64 is rarely intended. NumPy
arrays are fp64 by default, and a single fp64 input makes all later results fp64 as well.

## What to do
Use `torch.from_numpy(array).float()`, or create arrays as `np.float32`. Do not call
`torch.set_default_dtype(torch.float64)`. In Keras, call `keras.config.set_floatx("float32")`. If part of the
computation needs fp64, use it only there.

## Confidence
Confidence in the time is high, because the names show the type. For matrix products, the upper end of the gain is
computed with the kernel models of `gpuwise predict` for TF32 if the GPU has it, otherwise for fp32 (for square matrix
products if the trace has no shapes). The lower end always assumes fp32. For all other kernels, the upper end assumes
that they speed up by the ratio of the GPU's fp32 and fp64 rates. The lower end assumes half of that gain for matrix
products and half the time for other kernels, which move half the bytes. Kernels of 10 µs or less are ignored, because
they take a few microseconds in any type.
"""

from __future__ import annotations

import re

import numpy as np

from gpuwise.core.text import counted
from gpuwise.diagnose import shapes, whatif
from gpuwise.diagnose.replay import Change
from gpuwise.diagnose.types import Finding
from gpuwise.diagnose.view import View
from gpuwise.hardware.types import Gpu
from gpuwise.trace.types import Mask

__all__ = ["CODE", "check", "is_double"]

CODE = "fp64_kernels"
_THRESHOLD = 0.05  # a fix saves at least half of it: 2.5% of the step, which is more than steps usually vary
_LONG_NS = 10_000
_FEWER_BYTES = 2.0
_SLOWEST = 64.0  # fp32 rate over fp64 rate of GeForce cards since Ampere; used for an unknown GPU
_SURE = re.compile(r"(?<![a-z])dgemm|d884|(?<![a-z0-9])f64|^Cijk_\w+?_DB_")
_WORD = re.compile(r"\bdouble\b")
_SHORTER = re.compile(r"\b(float|half|__half|Half|BFloat16|bfloat16|__nv_bfloat16)\b")


def is_double(name: str) -> bool:
    """Return whether a kernel's name shows that it computes only in fp64.

    >>> [is_double(name) for name in ("volta_dgemm_64x64_nn", "MulFunctor<double>", "FusedAdam<float>, double", "volta_sgemm")]
    [True, True, False, False]
    """
    return bool(_SURE.search(name) or (_WORD.search(name) and not _SHORTER.search(name)))


def check(view: View) -> Finding | None:
    """Find time in which only fp64 kernels run."""
    scene = view.scene
    names = np.array([is_double(name) for name in scene.trace.names], dtype=bool)
    chosen = names[scene.work.name] & scene.kernels & (scene.work.duration_ns > _LONG_NS)
    lost_s = view.exposed_s(chosen)
    if lost_s < _THRESHOLD * view.step_s:
        return None
    products = chosen & scene.is_class("matmul", "conv", "attention")
    of_products, of_others = _ratios(view)
    saved_s = view.exposed_s(products) * (1.0 - 1.0 / of_products[1])
    saved_s += view.exposed_s(chosen & ~products) * (1.0 - 1.0 / of_others[1])
    return Finding(
        code=CODE,
        title="kernels compute in double precision",
        seconds_per_step=lost_s,
        share_fraction=lost_s / view.step_s,
        gain=view.gain(saved_s, likely=_faster(view, products, of_products[0], chosen & ~products, of_others[0])),
        confidence="high",
        evidence=(
            f"{lost_s / view.step_s:.1%} of the step is spent in {counted(view.count(chosen), 'fp64 kernel')} {view.per}",
            _rates(view.gpu),
        ),
        remedy="find out where fp64 values are introduced (NumPy arrays are fp64 by default), and convert them to float32",
        verify="no kernel name should contain double, dgemm or f64",
    )


def _ratios(view: View) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return how many times as fast fp32 is, low and high, for products and for everything else."""
    if view.gpu is None:
        return (1.0, _SLOWEST), (_FEWER_BYTES, _SLOWEST)
    fastest = "tf32" if view.gpu.peak_flops_per_s.get("matrix", {}).get("tf32") else "fp32"
    products = shapes.products(view.scene)
    low, high = (whatif.speed_up(products, view.gpu, "fp64", single)[end] for end, single in enumerate(("fp32", fastest)))
    return (low, high), (_FEWER_BYTES, max(_FEWER_BYTES, _rate_ratio(view.gpu) or _SLOWEST))


def _rate_ratio(gpu: Gpu) -> float | None:
    """Return the fp32 rate of the vector lanes divided by their fp64 rate."""
    peaks = gpu.peak_flops_per_s.get("vector", {})
    single, double = peaks.get("fp32"), peaks.get("fp64")
    return single / double if single and double else None


def _rates(gpu: Gpu | None) -> str:
    ratio = _rate_ratio(gpu) if gpu else None
    if gpu is None or ratio is None:
        return "the fp64 rate of this GPU is unknown; name the GPU with --gpu to narrow the range"
    return f"the {gpu.name} computes fp64 at 1/{ratio:.0f} of its fp32 rate, and a double has twice the bytes"


def _faster(view: View, products: Mask, by: float, others: Mask, others_by: float) -> Change | None:
    """Return a modest version of the fix, for a replay."""
    if view.recording is None:
        return None
    return Change(work=view.recording.factors(products, 1.0 / by) * view.recording.factors(others, 1.0 / others_by))
