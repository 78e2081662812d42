"""The options of `tune`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

from gpuwise.questions.common.options import (
    ChannelsLast,
    Compile,
    Cpu,
    GpuNames,
    Image,
    Inputs,
    Mode,
    Names,
    Optimizer,
    Option,
    Precision,
    Seq,
    Stack,
)

__all__ = ["TuneOptions"]

_SUBJECT = (
    "`batch MODEL` or `power MODEL` makes a prediction for any GPU; "
    "MODEL, file.py:Net or train.py alone tries settings on this machine."
)
_DEVICE = "Where to run: cpu, cuda:0 or mps (default: the fastest device that torch finds)."
_TRY = "What to try: batch, precision, channels-last, compile, optimizer, workers, pinned (default: all)."
_SET = "How to pass a setting to the script: workers='--workers {}'; may be repeated."
_SECONDS = "The time limit for all trials, in seconds (default: 600); trials end earlier once the results are stable."


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Measure, in short runs, which settings make training faster on this machine, both individually and in combination. The settings are
    batch, precision, channels-last, compile, optimizer, workers and pinned memory.

    `tune batch` predicts which batch sizes reach 90, 95 and 99% of the best speed on any GPU. `tune power` predicts the time
    and energy of a step at each power limit.
    """

    subject: Annotated[Names, Option(help=_SUBJECT, argument=True, metavar="[WHAT] MODEL [-- ARGS]", page=False)] = field(
        default=(), kw_only=False
    )
    gpu: GpuNames = ()
    batch: Annotated[Optional[int], Option(help="The batch size to start from.", low=1, high=2**31 - 1)] = None
    seq: Seq = None
    image: Image = None
    input: Inputs = ()
    precision: Precision = ""
    mode: Mode = ""
    optimizer: Optimizer = ""
    compile: Compile = False
    channels_last: ChannelsLast = False
    stack: Stack = ""
    cpu: Cpu = ""
    on_this_machine: Annotated[
        bool, Option(help="For `tune batch`: use the device that `gpuwise bench` measured on this machine.", page=False)
    ] = False
    device: Annotated[str, Option(help=_DEVICE, page=False)] = ""
    try_: Annotated[str, Option(help=_TRY, flag="--try", page=False)] = ""
    set: Annotated[Names, Option(help=_SET, page=False)] = ()
    limits: Annotated[str, Option(help="For `tune power`: the limits to compare, such as 200W,250W,300W.")] = ""
    apply: Annotated[
        bool,
        Option(
            help="For `tune power`: set each limit on this NVIDIA card, measure the speed, and restore the old limit.", page=False
        ),
    ] = False
    seconds: Annotated[Optional[float], Option(help=_SECONDS, page=False)] = None
    seed: Annotated[Optional[int], Option(help="The random seed for the order of the runs.", page=False)] = None
    timeout: Annotated[float, Option(help="The time limit for a capture or a single run, in seconds.", page=False)] = 120.0
