"""How a model is run: the options passed to its source, and the rewrites applied afterwards."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METHODS", "RANK", "Choices", "DoesNotApply"]

METHODS = ("lora", "qlora", "dora")  # ways of training adapters instead of the weights
RANK = 16  # the default rank of adapters


class DoesNotApply(Exception):
    """A remedy that would change nothing here, or is not available; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a model is run. The first group is passed to the source of the model; the second is applied to the resulting workload.

    `fused_attention` says whether the software has a fused kernel for attention ops; `folded_attention` merges attention that a
    model writes out into one op. `checkpoint` is the depth of the recomputed blocks and their number, counted from the first.
    `adapters` is one of `METHODS`; adapters have this `rank` and are added to the linear layers named by `targets`.
    `weights_on_host` keeps the shards of frozen weights in the host's memory.
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
    weights_on_host: bool = False
    split: str = ""
