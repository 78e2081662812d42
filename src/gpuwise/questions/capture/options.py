"""The options of `capture`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Optional

from gpuwise.questions.common.options import (
    Accumulate,
    ChannelsLast,
    Checkpoint,
    Image,
    Inputs,
    Names,
    Optimizer,
    Option,
    Phase,
    Precision,
    Seq,
)

__all__ = ["CaptureOptions"]

_MODEL = "A built-in name, timm:NAME, torchvision:NAME, hf:ID, keras:NAME, config.json, file.py:Net or train.py."
_IMPLEMENTATION = "The optimizer implementation: foreach (the default), fused or for-loop."


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """Record a model's ops, FLOPs, bytes and memory for any batch size, without a GPU or the model's weights."""

    model: Annotated[str, Option(help=_MODEL, argument=True)] = field(kw_only=False)
    arguments: Annotated[
        Names, Option(help="Arguments to pass to the training script.", argument=True, metavar="[-- ARGS]", page=False)
    ] = ()
    batch: Annotated[Optional[int], Option(help="Samples per step on each GPU.", low=1, high=2**31 - 1)] = None
    seq: Seq = None
    image: Image = None
    precision: Precision = ""
    mode: Annotated[str, Option(help="The mode: train (the default) or infer.")] = ""
    optimizer: Optimizer = ""
    optimizer_impl: Annotated[str, Option(help=_IMPLEMENTATION)] = ""
    accumulate: Accumulate = None
    checkpoint: Checkpoint = False
    channels_last: ChannelsLast = False
    clip: Annotated[bool, Option(help="Clip the gradient norm.")] = False
    compile: Annotated[bool, Option(help="Fuse kernels as torch.compile would.")] = False
    phase: Phase = ""
    input: Inputs = ()
    timeout: Annotated[float, Option(help="The time limit for the capture, in seconds.", page=False)] = 120.0
    memory_limit: Annotated[str, Option(help="The maximum memory that the capture may use.", page=False)] = "8GB"
    output: Annotated[
        Optional[Path], Option(help="Write the workload to this file (.json, .json.gz).", flag="--output -o", page=False)
    ] = None
