"""How training software behaves between kernels: which messages overlap with which work, and the overhead of each message."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwise.scale.cluster.collectives import load_scaling, slowed_fraction
from gpuwise.step.types import Setting

__all__ = ["Habits", "habits_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """`overlap_fraction` of computing can hide messages of a layer's weights, `data_overlap_fraction` of the backward pass those
    of gradients; `contention_fraction` of what hides is felt, for messages take units and memory from the kernels. Seconds:
    `message_s` of GPU and `message_host_s` of host for each sum between ranks that share matrices, `neighbour_s` for each handing
    on to a stage, `step_s` for each step. `waits_per_doubling` of a step is spent waiting for slower GPUs for each doubling of
    them; `slowed_fraction` is how much slower computing is while gradients are averaged in buckets, None where they are taken
    in one piece: both belong to plans, for the numbers of a source were fitted without them."""

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
    """How a step of a plan passes that nothing else is known of: where only samples are divided, as `data_parallel` has it."""
    return Habits(waits_per_doubling=float(load_scaling()["waits_per_doubling"]), slowed_fraction=slowed_fraction(setting))
