"""How training software behaves between kernels: which messages overlap with which work, and the overhead of each message."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwise.scale.cluster.collectives import load_scaling, slowed_fraction
from gpuwise.step.types import Array, Setting

__all__ = ["Habits", "gathered_width", "habits_of", "sharded_s"]

_LOW = ("amp", "amp-bf16")  # fp32 weights, 16-bit products: gathered in 16 bits, gradients averaged in 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Constants for the behaviour of training software between kernels.

    Messages with a layer's weights can be hidden behind `overlap_fraction` of compute, and messages with gradients behind
    `data_overlap_fraction` of the backward pass. `contention_fraction` of the hidden time is still added to the step, because
    messages take compute units and memory from the kernels. Each sum between ranks that share matrices takes `message_s` on the
    GPU and `message_host_s` on the host, each transfer to another stage takes `neighbour_s`, and each step takes another
    `step_s`. For each doubling of the number of GPUs, `waits_per_doubling` of a step is spent waiting for slower GPUs.
    `slowed_fraction` is how much slower compute is while gradients are averaged in buckets; None if they are sent in one piece.
    The last two apply only to plans, because the values for a source were fitted without them.
    """

    overlap_fraction: float = 0.9
    data_overlap_fraction: float = 0.8
    contention_fraction: float = 0.5  # as fitted on FSDP steps of llm-foundry
    message_s: float = 0.0
    message_host_s: float = 20e-6
    neighbour_s: float = 20e-6
    step_s: float = 0.0
    even_stages: bool = False
    waits_per_doubling: float = 0.0
    slowed_fraction: float | None = None


def habits_of(setting: Setting) -> Habits:
    """Return the default behaviour for a step of a plan; if only samples are divided, it matches `data_parallel`."""
    return Habits(waits_per_doubling=float(load_scaling()["waits_per_doubling"]), slowed_fraction=slowed_fraction(setting))


def gathered_width(precision: str) -> float:
    """Return the bytes sent for each byte of weights that is gathered."""
    return 0.5 if precision in _LOW else 1.0


def sharded_s(ahead_s: Array, behind_s: Array, forward_s: Array, backward_s: Array, habits: Habits) -> tuple[Array, Array]:
    """Return the seconds that a micro-batch waits for sharded weights and gradients, and the seconds that overlap with it.
    `ahead_s` is the time of messages in the forward pass, and `behind_s` is that of messages in the backward pass.
    """
    room = habits.overlap_fraction
    shown: Array = np.maximum(0.0, ahead_s - room * forward_s) + np.maximum(0.0, behind_s - room * backward_s)
    return shown, ahead_s + behind_s - shown
