"""Topics about number formats: tensor cores and 16-bit types."""

from __future__ import annotations

from dataclasses import replace

from gpuwise.core.text import the
from gpuwise.hardware.types import Gpu, has_matrix_cores, supported
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.types import Matter

__all__ = ["sixteen", "sixteen_bit", "tensor_cores", "without_matrix_cores"]


def tensor_cores(case: MattersCase) -> Matter:
    """Matrix engines."""
    low = sixteen(case)
    if not has_matrix_cores(case.gpu) or not low:
        answer, gain = f"{the(case.gpu.name, first=True)} has no tensor cores.", 1.0
    else:
        without = case.seconds(gpu=without_matrix_cores(case.gpu), precision=low)
        gain = without / case.seconds(precision=low)
        answer = f"In {low}, this step is {gain:.2f} times as fast as it would be without tensor cores, which are idle in fp32."
    return Matter(
        topic="tensor-cores",
        question="Do tensor cores matter?",
        value=gain,
        unit="times as fast",
        answer=answer,
        how="we predict the same step with its 16-bit matrix products on the ordinary cores",
        source="computed; a guide to GPUs for deep learning ranks tensor cores first for CNNs and transformers, and third for "
        "RNNs",
        unless="the step runs in plain fp32, its layers are tiny, or memory bandwidth limits it anyway",
    )


def sixteen_bit(case: MattersCase) -> Matter:
    """Mixed precision."""
    low = sixteen(case)
    if not low or "fp32" not in supported(case.gpu):
        return _none(case)
    speed = case.seconds(precision="fp32") / case.seconds(precision=low)
    batches = case.largest_batch("fp32"), case.largest_batch(low)
    room = "and it does not fit in fp32 at all"
    if batches[0]:
        room = f"and a batch {batches[1] / batches[0]:.2f} times as large fits ({batches[1]:,} instead of {batches[0]:,})"
    return Matter(
        topic="16-bit",
        question="How much faster is 16-bit precision?",
        value=speed,
        unit=f"times as fast in {low}",
        answer=f"The step is {speed:.2f} times as fast in {low} as in fp32, {room}.",
        how="we predict the step and the largest batch in both precisions",
        source="computed; readers of a guide to GPUs for deep learning measured 1.8 times the batch on an RTX 2070, and the "
        'guide mentions both "+50%" and "twice"',
        unless="the GPU has no fast 16-bit arithmetic (GTX 10 and older), so 16-bit precision saves only memory",
    )


def without_matrix_cores(gpu: Gpu) -> Gpu:
    """The same chip with only its ordinary cores."""
    rates = {engine: found for engine, found in gpu.architecture.ops_per_unit_per_clock.items() if engine != "matrix"}
    return replace(gpu, architecture=replace(gpu.architecture, ops_per_unit_per_clock=rates))


def sixteen(case: MattersCase) -> str:
    """The 16-bit precision that this step would use on this GPU, or an empty text."""
    able = supported(case.gpu)
    training = case.workload().mode == "train"
    wanted = ("amp", "amp-bf16") if training else ("fp16", "bf16")
    return next((name for name in wanted if name in able), "")


def _none(case: MattersCase) -> Matter:
    return Matter(
        topic="16-bit",
        question="How much faster is 16-bit precision?",
        value=1.0,
        unit="times as fast",
        answer=f"{the(case.gpu.name, first=True)} supports only one of the two precisions, so there is nothing to compare.",
        how="-",
        source="catalogue",
        unless="-",
    )
