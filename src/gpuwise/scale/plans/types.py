"""The types for a plan, the memory of a rank, and the time of a step under a plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from gpuwise.scale.split.share import Degrees

__all__ = ["RECOMPUTE", "SCHEDULES", "Collective", "Estimate", "Mesh", "Plan", "RankMemory", "group"]

RECOMPUTE = ("none", "selective", "full")
SCHEDULES = ("1f1b", "gpipe")

# Plans are ranked from simple to complex by how much a person must set up and can get wrong. Ranks that share layers or matrices
# need their own code, and a pipeline also needs a schedule. The parts that are divided count first, so data parallelism with any
# setting is simpler than a divided model. Settings decide between plans that divide the same parts.
_DIVIDED = {"data": 1, "tensor": 3, "sequence": 3, "expert": 3, "pipeline": 4, "chunks": 1}
_ZERO = (0, 2, 2, 1)  # FSDP (3) is part of PyTorch; the others come from another library or wrap the optimizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """How the ranks of a cluster divide the work. Adjacent ranks share matrices first, then the sequence, then samples; stages
    are farthest apart. `expert` ranks are taken from those for data and sequence. `chunks` is the number of model parts per
    stage (interleaved stages).
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    sequence: int = 1
    expert: int = 1
    chunks: int = 1
    tokens: bool = False

    @property
    def ranks(self) -> int:
        return self.data * self.tensor * self.pipeline * self.sequence

    @property
    def degrees(self) -> Degrees:
        return Degrees(tensor=self.tensor, tokens=self.tokens and self.tensor > 1, context=self.sequence, expert=self.expert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way to run a step: a mesh, and the work of each rank over time. If a batch does not divide evenly, `short` of the
    micro-batches are one sample smaller than `micro_batch`.
    """

    mesh: Mesh
    micro_batch: int = 1
    micro_count: int = 1
    zero_stage: int = 0
    recompute: str = "none"
    schedule: str = "1f1b"
    offload: bool = False
    short: int = 0

    @property
    def samples(self) -> int:
        """Samples of a step on all GPUs together."""
        return self.micro_batch * self.micro_count * self.mesh.data - self.short

    @property
    def divides_samples_only(self) -> bool:
        """Whether every GPU holds the whole model and its states, and runs different samples, as in DistributedDataParallel."""
        return self.mesh.data == self.mesh.ranks and self.mesh.expert == 1 and self.zero_stage == 0 and not self.offload

    @property
    def is_plain(self) -> bool:
        """Whether, in addition, a GPU runs all its samples at once and recomputes nothing, as in `predict --gpus N`."""
        return self.divides_samples_only and self.micro_count == 1 and self.recompute == "none"

    @property
    def complexity(self) -> tuple[int, int]:
        """How complex the plan is to set up: first what it divides, then its settings. A single GPU divides nothing."""
        divided = sum(cost for axis, cost in _DIVIDED.items() if getattr(self.mesh, axis) > 1)
        settings = (
            _ZERO[self.zero_stage]
            + RECOMPUTE.index(self.recompute)
            + (2 if self.offload else 0)
            + (1 if self.micro_count > 1 and self.mesh.pipeline == 1 else 0)
            + (1 if self.short else 0)
        )
        return divided, settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """Bytes on the fullest rank, in the categories of `fit`, and its stage."""

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    activation_bytes: float
    workspace_bytes: float
    framework_bytes: float
    stage: int = 0

    @property
    def total_bytes(self) -> float:
        return (
            self.weight_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.workspace_bytes
            + self.framework_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """All messages with one purpose that one rank sends in a step: their number, total bytes and seconds."""

    purpose: str
    op: str
    count: float
    total_bytes: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A step under a plan. Its time consists of `compute_s`, `recompute_s`, `update_s`, `exposed_comm_s`, `bubble_s` and
    `wait_s`, in which the GPU waits for the host and for slower GPUs; `hidden_comm_s` overlaps with compute.
    """

    plan: Plan
    step_s: float
    compute_s: float
    recompute_s: float
    update_s: float
    exposed_comm_s: float
    hidden_comm_s: float
    bubble_s: float
    wait_s: float
    flops: float
    memory: RankMemory
    collectives: tuple[Collective, ...] = ()
    stages: tuple[int, ...] = ()

    @property
    def samples(self) -> int:
        """Samples of a step on all GPUs together."""
        return self.plan.samples


def group(stride: int, size: int, per_node: int) -> tuple[int, int]:
    """Return how many ranks of a group share a node, and how many nodes it spans, if its ranks are `stride` apart.

    >>> group(2, 8, 8)
    (4, 2)
    """
    inner = gcd(size, max(1, per_node // stride)) if stride < per_node else 1
    return inner, size // inner
