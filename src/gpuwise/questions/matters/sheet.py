"""Which datasheet value matters for this model: each is improved in turn, and the step is predicted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuwise.hardware.types import Gpu, has_matrix_cores, supported
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.numbers import sixteen, without_matrix_cores
from gpuwise.questions.matters.types import Matter

__all__ = ["faster", "gains", "ranked", "spec_sheet"]

_TWICE = 2.0  # a factor large enough to show which figure limits the step
_TITLES = {
    "tensor cores": "tensor cores",
    "flops": "twice the FLOPS",
    "bandwidth": "twice the bandwidth",
    "16-bit": "16-bit precision",
}


def gains(case: MattersCase) -> dict[str, float]:
    """Return the speedup from each improvement: arithmetic and bandwidth doubled in the requested precision, 16 bit over fp32
    on the ordinary cores, tensor cores over those. What the GPU does not support is left out.
    """
    base, gpu = case.seconds(), case.gpu
    found = {
        "flops": base / case.seconds(gpu=faster(gpu)),
        "bandwidth": base / case.seconds(gpu=case.with_gpu(memory_bytes_per_s=_TWICE * gpu.memory_bytes_per_s)),
    }
    low = sixteen(case)
    if not low or "fp32" not in supported(gpu):
        return found
    plain = without_matrix_cores(gpu) if has_matrix_cores(gpu) else gpu
    halved = case.seconds(gpu=plain, precision=low)
    found["16-bit"] = case.seconds(precision="fp32") / halved
    if has_matrix_cores(gpu):
        found["tensor cores"] = halved / case.seconds(precision=low)
    return found


def spec_sheet(case: MattersCase) -> Matter:
    """What to look at when you compare cards."""
    return ranked(
        gains(case),
        work=case.work,
        source="computed; for CNNs and transformers, a guide to GPUs for deep learning ranks tensor cores, FLOPS, bandwidth and "
        "16-bit precision in this order; for RNNs, it ranks bandwidth first",
        unless="the batch changes: small batches are limited by memory and the host, and large ones by compute",
    )


def ranked(gains: Mapping[str, float], *, work: str, source: str, unless: str) -> Matter:
    """These gains, the largest first."""
    found = sorted(gains.items(), key=lambda entry: -entry[1])
    order = ", ".join(f"{_TITLES[name]} ({gain:.2f} times as fast)" for name, gain in found)
    compared = "; for tensor cores and 16-bit precision, we compare the step with and without them" if "16-bit" in gains else ""
    return Matter(
        topic="spec-sheet",
        question="Which number on the spec sheet matters most?",
        value=found[0][1],
        unit=f"times as fast with {_TITLES[found[0][0]]}",
        answer=f"Each of these changes alone affects {work} as follows, largest gain first: {order}.",
        how=f"we improve one number at a time under the same power limit{compared}",
        source=source,
        unless=unless,
    )


def faster(gpu: Gpu) -> Gpu:
    """The same chip with twice the arithmetic per clock."""
    rates = {
        engine: {dtype: _TWICE * rate for dtype, rate in found.items()}
        for engine, found in gpu.architecture.ops_per_unit_per_clock.items()
    }
    return replace(gpu, architecture=replace(gpu.architecture, ops_per_unit_per_clock=rates))
