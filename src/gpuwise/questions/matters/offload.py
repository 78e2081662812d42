"""The topic of keeping activations in the host's memory until the backward pass."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.hardware.machines import find_link
from gpuwise.questions.matters.case import MattersCase
from gpuwise.questions.matters.links import format_loss
from gpuwise.questions.matters.types import Matter

__all__ = ["activation_offload"]

_FORWARD = 1 / 3  # of a training step: the backward pass does two products for each one of the forward pass


def activation_offload(case: MattersCase) -> Matter:
    """Activations are copied out during the forward pass, and back during the backward pass, one direction at a time."""
    step, rate = case.step(), _link_bytes_per_s(case)
    trains = step.mode == "train"
    kept = step.memory.activation_bytes if trains else 0.0
    copy_s, forward_s = kept / rate, _FORWARD * step.step_s
    offloaded_s = max(forward_s, copy_s) + max(step.step_s - forward_s, copy_s)
    lost = 1 - step.step_s / offloaded_s
    copied = f"{format_si(kept, 'B')} of activations take {format_si(copy_s, 's')} in each direction"
    return Matter(
        topic="activation-offload",
        question="Can activations be kept in RAM?",
        value=100 * lost,
        unit="% slower with activations in RAM",
        answer=(
            f"With all activations kept in RAM between the forward and the backward pass, the step is {format_loss(lost)}, and "
            f"up to {format_si(kept, 'B')} of GPU memory becomes free."
            if trains
            else "Inference keeps no activations, so there is nothing to move."
        ),
        how=f"{copied} at {format_si(rate, 'B/s')}, while the forward pass takes {format_si(forward_s, 's')} and the backward "
        "pass twice as long; copies overlap with compute",
        source="computed; a guide to GPUs for deep learning (2015) reports a loss of 10 to 30% at 8 GB/s",
        unless="the program waits for each copy, which makes the loss much larger; recomputing activations "
        "(`gpuwise fit`) is often cheaper",
    )


def _link_bytes_per_s(case: MattersCase) -> float:
    """What the link reaches: the one that was given, or that of the GPU's slot."""
    given = case.query.run.setting.link_bytes_per_s
    if given is not None:
        return given
    link = find_link(f"PCIe {case.generation}.0 x{case.lanes}")
    return link.bytes_per_s_one_way * link.achieved_fraction
