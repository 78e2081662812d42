"""The options of `matters`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpuwise.questions.common.options import Batch, Cpu, Image, Mode, Option, Pcie, Phase, Precision, Seq
from gpuwise.questions.common.text.options import Engine, Output, Prompt, Users, Weights

__all__ = ["MOST_GPUS", "MattersOptions"]

MOST_GPUS = 8  # of one machine


@dataclass(frozen=True, slots=True, kw_only=True)
class MattersOptions:
    """Answer common questions about building a machine (lanes, NVLink, RAM, brand, ...) with one number for your case."""

    topic: Annotated[str, Option(help="A topic: pcie-lanes, nvlink, cpu, ram-size, ... (default: all).", argument=True)] = field(
        default="", kw_only=False
    )
    model: Annotated[str, Option(help="Your model (default: resnet50).")] = ""
    gpu: Annotated[str, Option(help="Your GPU (default: RTX 3090); for mixed-cards, also 'RTX 3090 + RTX 4090'.")] = ""
    gpus: Annotated[int, Option(help="The number of GPUs, for multi-GPU topics.", low=1, high=MOST_GPUS)] = 2
    batch: Batch = None
    seq: Seq = None
    image: Image = None
    precision: Precision = ""
    mode: Mode = ""
    phase: Phase = ""
    cpu: Cpu = ""
    pcie: Pcie = ""
    weights: Weights = ""
    engine: Engine = ""
    users: Users = None
    prompt: Prompt = None
    output: Output = None
