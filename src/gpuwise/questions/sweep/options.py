"""The options of `sweep`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from gpuwise.questions.common.options import (
    ChannelsLast,
    Compile,
    Cpu,
    Image,
    Mode,
    Names,
    Optimizer,
    Option,
    Seq,
    Stack,
    Timeout,
)

__all__ = ["SweepOptions"]

_MODELS = "A file that lists one model per line; # starts a comment."
_GPUS = "The GPUs: all, curated, a GPU name or custom specs; may be repeated."
_BATCHES = "The batch sizes: 1..1024 (doubling), 8..64:8 (in steps of 8) or 1,24,32."
_OUT = "Write the table to this file: FILE.parquet, FILE.csv or FILE.jsonl."
_ON = "Where to run: here, processes:4 or dask://host:port (default: all cores of this machine)."


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Predict step time and memory for many models, GPUs and batch sizes, and write one table. If a sweep is interrupted,
    the same command continues where it stopped."""

    models: Annotated[Path, Option(help=_MODELS, argument=True, metavar="MODELS.txt", page=False)] = field(kw_only=False)
    gpus: Annotated[Names, Option(help=_GPUS, page=False)]
    batches: Annotated[str, Option(help=_BATCHES, page=False)]
    out: Annotated[Path, Option(help=_OUT, page=False)]
    precisions: Annotated[str, Option(help="The precisions, such as fp32,amp (the default) or bf16.", page=False)] = ""
    mode: Mode = ""
    optimizer: Optimizer = ""
    seq: Seq = None
    image: Image = None
    compile: Compile = False
    channels_last: ChannelsLast = False
    stack: Stack = ""
    cpu: Cpu = ""
    timeout: Timeout = 120.0
    on: Annotated[str, Option(help=_ON, page=False)] = ""
    fresh: Annotated[bool, Option(help="Discard the results of an earlier sweep with the same --out.", page=False)] = False
