"""How a model is run: what its source is asked for, and what is then rewritten."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METHODS", "RANK", "Choices", "DoesNotApply"]

METHODS = ("lora", "qlora", "dora")  # of training adapters in place of the weights
RANK = 16  # of adapters


class DoesNotApply(Exception):
    """A remedy that would change nothing here, or cannot be had; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a model is run. The first group is asked of the source of the model, the second is made from what it gives.

    `fused_attention` is what the software has for attention that is one op; `folded_attention` makes one op of what a model
    writes out. `checkpoint` is how deep the recomputed blocks lie and how many there are, counted from the first. `adapters` is
    one of `METHODS`; they have this `rank` and sit on the linear layers that `targets` names.
    """

    precision: str
    optimizer: str = ""
    implementation: str = "foreach"
    channels_last: bool = False
    seq: int | None = None
    image: int | None = None

    adapters: str = ""
    rank: int = RANK
    targets: str = "all"
    weights: str = ""
    fused_attention: bool = True
    folded_attention: bool = False
    checkpoint: tuple[int, int] = (0, 0)
    accumulate: int = 1
    compiled: bool = False
    offload: bool = False
    gpu_count: int = 1
    zero_stage: int = 0
    split: str = ""
