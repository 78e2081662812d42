"""`gpuwise plan`: do more GPUs help, and how to split the work."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer, show_progress, wants_figure, write_figure

__all__ = ["plan"]

_OURS = ("json", "strict")


def plan(
    model: options.Model,
    cluster: Annotated[str, typer.Option(help="GPUs: '8xH100 SXM', '2x8xA100' (nodes x GPUs), 'RTX 3090 + RTX 2080 Ti'.")],
    network: Annotated[str, typer.Option(help="What joins nodes: 10Gbit, 8x400Gbit, 'InfiniBand NDR'.")] = "",
    link: Annotated[str, typer.Option(help="What joins GPUs: 'PCIe 3.0 x8', NVLink, 'PCIe 4.0 x16, no p2p'.")] = "",
    batch: Annotated[Optional[int], typer.Option(help="Samples of a step on all GPUs together.")] = None,
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    precision: options.Precision = "",
    optimizer: options.Optimizer = "",
    mode: options.Mode = "",
    compiled: options.Compiled = False,
    channels_last: options.ChannelsLast = False,
    data: Annotated[Optional[int], typer.Option(help="Fix the ranks that divide the samples.")] = None,
    tensor: Annotated[Optional[int], typer.Option(help="Fix the ranks that divide every matrix.")] = None,
    pipeline: Annotated[Optional[int], typer.Option(help="Fix the number of stages.")] = None,
    sequence: Annotated[Optional[int], typer.Option(help="Fix the ranks that divide the sequence.")] = None,
    expert: Annotated[Optional[int], typer.Option(help="Fix the ranks that divide the experts.")] = None,
    chunks: Annotated[Optional[int], typer.Option(help="Fix the chunks of each stage (interleaved).")] = None,
    micro_batch: Annotated[Optional[int], typer.Option(help="Fix the samples of a micro-batch.")] = None,
    zero_stage: Annotated[Optional[int], typer.Option("--zero", help="Fix the ZeRO stage: 0, 1, 2, or 3 (FSDP).")] = None,
    recompute: Annotated[str, typer.Option(help="Fix recomputation: none, selective or full.")] = "",
    schedule: Annotated[str, typer.Option(help="Order of a pipeline's passes: 1f1b or gpipe.")] = "1f1b",
    offload: Annotated[bool, typer.Option("--offload", help="The optimizer runs on the host.")] = False,
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    power_limit: options.PowerLimit = "",
    measured: options.Measured = None,
    inputs: options.Inputs = None,
    timeout_s: options.Timeout = 120.0,
    scaling: Annotated[bool, typer.Option(help="Also ask fewer GPUs.")] = True,
    on: Annotated[str, typer.Option(help="Where to search: processes:4, or dask://host:port.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where no plan fits.")] = False,
    json: options.AsJson = False,
) -> None:
    """Find the best split of a training step over a cluster, its time and memory, what limits it, and what more GPUs bring."""
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    from gpuwise.questions.plan.text import render

    answer = api.plan(api.plan_query(**asked), progress=show_progress)
    print_answer(answer, render, json=json)
    if wants_figure(None):  # for a report
        from gpuwise.questions.plan.figure import plans_figure

        write_figure(None, lambda: plans_figure(answer), quiet=json)
    if strict and not answer.fits:
        raise typer.Exit(1)
