"""The options of `plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Optional

from gpuwise.questions.common.options import (
    ChannelsLast,
    Compile,
    Cpu,
    Image,
    Inputs,
    Link,
    Measured,
    Method,
    Mode,
    Model,
    Optimizer,
    Option,
    PowerLimit,
    Precision,
    Rank,
    Seq,
    Stack,
    Targets,
    Timeout,
)

__all__ = ["PlanOptions"]

_CLUSTER = "The GPUs: '8xH100 SXM', '2x8xA100' (nodes x GPUs), 'RTX 3090 + RTX 2080 Ti'."
_MOST_RANKS = 4096  # GPUs of the largest cluster on the page
_MOST_SAMPLES = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """Find the fastest way to split training across a cluster, and show its time, memory, bottleneck and scaling."""

    SURFACE: ClassVar[tuple[str, ...]] = ("strict",)

    model: Model = field(kw_only=False)
    cluster: Annotated[str, Option(help=_CLUSTER)]
    network: Annotated[str, Option(help="The network between nodes: 10Gbit, 8x400Gbit, 'InfiniBand NDR'.")] = ""
    link: Link = ""
    batch: Annotated[Optional[int], Option(help="The number of samples per step across all GPUs.", low=1, high=_MOST_SAMPLES)] = (
        None
    )
    seq: Seq = None
    image: Image = None
    precision: Precision = ""
    optimizer: Optimizer = ""
    method: Method = ""
    rank: Rank = None
    targets: Targets = ""
    mode: Mode = ""
    compile: Compile = False
    channels_last: ChannelsLast = False
    data: Annotated[Optional[int], Option(help="Fix the number of data-parallel ranks.", low=1, high=_MOST_RANKS)] = None
    tensor: Annotated[Optional[int], Option(help="Fix the number of tensor-parallel ranks.", low=1, high=_MOST_RANKS)] = None
    pipeline: Annotated[Optional[int], Option(help="Fix the number of pipeline stages.", low=1, high=_MOST_RANKS)] = None
    sequence: Annotated[Optional[int], Option(help="Fix the number of sequence-parallel ranks.", low=1, high=_MOST_RANKS)] = None
    expert: Annotated[Optional[int], Option(help="Fix the number of expert-parallel ranks.", low=1, high=_MOST_RANKS)] = None
    chunks: Annotated[
        Optional[int], Option(help="Fix the number of chunks per stage of an interleaved pipeline.", low=1, high=_MOST_RANKS)
    ] = None
    micro_batch: Annotated[
        Optional[int], Option(help="Fix the number of samples per micro-batch.", low=1, high=_MOST_SAMPLES)
    ] = None
    zero: Annotated[Optional[int], Option(help="Fix the ZeRO stage: 0, 1, 2, or 3 (FSDP).", low=0, high=3)] = None
    recompute: Annotated[str, Option(help="Fix the recomputation mode: none, selective or full.")] = ""
    schedule: Annotated[str, Option(help="The pipeline schedule: 1f1b or gpipe.")] = "1f1b"
    offload: Annotated[bool, Option(help="Run the optimizer on the host.")] = False
    stack: Stack = ""
    cpu: Cpu = ""
    power_limit: PowerLimit = ""
    measured: Measured = ()
    input: Inputs = ()
    timeout: Timeout = 120.0
    scaling: Annotated[bool, Option(help="Also show plans that use fewer GPUs.", flag="--scaling/--no-scaling")] = True
    on: Annotated[str, Option(help="Where to run the search: processes:4 or dask://host:port.", page=False)] = ""
