"""`gpuwise matters`: lanes, NVLink, RAM, brands: does it matter for me?"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer, show_progress

__all__ = ["matters"]


def matters(
    topic: Annotated[str, typer.Argument(help="pcie-lanes, nvlink, cpu, ram-size, ...; all if you give none.")] = "",
    model: Annotated[str, typer.Option(help="Your model (resnet50 if you do not say).")] = "",
    gpu: Annotated[str, typer.Option(help="Your GPU (RTX 3090 if you do not say).")] = "",
    gpus: Annotated[int, typer.Option(help="How many GPUs, where a topic is about several.")] = 2,
    batch: Annotated[str, typer.Option(help="Samples per step and GPU.")] = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    precision: options.Precision = "",
    mode: options.Mode = "",
    phase: options.Phase = "",
    cpu: options.Cpu = "",
    json: options.AsJson = False,
) -> None:
    """Answer the eternal questions of builders (lanes, NVLink, RAM, brand, ...) with one number for your case."""
    asked = {name: value for name, value in locals().items() if name != "json" and value is not None}
    from gpuwise.questions.matters.text import render

    answer = api.matters(**asked, progress=show_progress)
    print_answer(answer, render, json=json)
