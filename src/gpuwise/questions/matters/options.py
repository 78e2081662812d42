"""The options of `matters`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Optional

from gpuwise.questions.common.language.options import Engine, Output, Prompt, Users, Weights
from gpuwise.questions.common.options import Batch, Cpu, Image, Mode, Names, Option, Pcie, Phase, Precision, Seq

__all__ = ["MOST_GPUS", "MattersOptions"]

MOST_GPUS = 8  # of one machine


@dataclass(frozen=True, slots=True, kw_only=True)
class MattersOptions:
    """Answer common questions about building a machine (lanes, NVLink, RAM, brand, ...) with one number for your case."""

    topic: Annotated[str, Option(help="A topic: pcie-lanes, nvlink, cpu, ram-size, ... (default: all).", argument=True)] = field(
        default="", kw_only=False
    )
    model: Annotated[str, Option(help="Your model (default: resnet50).")] = ""
    gpu: Annotated[
        Names, Option(help="Your GPU (default: RTX 3090), such as 'RTX 4090' or '2x RTX 3090'; mixed-cards takes two.")
    ] = ()
    gpus: Annotated[
        Optional[int], Option(help="The number of GPUs (default: 2 for topics about several GPUs).", low=1, high=MOST_GPUS)
    ] = None
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
