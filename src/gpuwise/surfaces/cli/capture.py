"""`gpuwise capture`: what a model asks of a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer

__all__ = ["capture"]

_MODEL = "A zoo name, timm:NAME, torchvision:NAME, hf:ID, keras:NAME, config.json, file.py:Net or train.py."


def capture(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    arguments: Annotated[Optional[list[str]], typer.Argument(metavar="[-- ARGS]", help="Arguments of a training script.")] = None,
    batch: Annotated[Optional[int], typer.Option(help="Samples per step (and GPU).")] = None,
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    precision: options.Precision = "",
    mode: Annotated[str, typer.Option(help="train (if you give none) or infer.")] = "",
    optimizer: options.Optimizer = "",
    implementation: Annotated[str, typer.Option("--optimizer-impl", help="foreach (if you give none), fused or for-loop.")] = "",
    accumulate: options.Accumulate = None,
    checkpoint: options.Checkpoint = False,
    channels_last: options.ChannelsLast = False,
    clip: Annotated[bool, typer.Option("--clip", help="Clip the gradient norm.")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Fuse kernels as torch.compile would.")] = False,
    phase: options.Phase = "",
    inputs: options.Inputs = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds the capture may take.")] = 120.0,
    memory_limit: Annotated[str, typer.Option(help="Memory the capture may use.")] = "16GB",
    output: Annotated[Optional[Path], typer.Option("--output", "-o", help="Write the workload here (.json, .json.gz).")] = None,
    json: options.AsJson = False,
) -> None:
    """Capture a model without a GPU and without weights: its ops, FLOPs, bytes and memory, for any batch size."""
    asked = {name: value for name, value in locals().items() if name != "json" and value is not None}
    from gpuwise.questions.capture.text import render

    answer = api.capture(api.capture_query(**asked), progress=_show_progress)
    print_answer(answer, render, json=json)


def _show_progress(text: str) -> None:
    """One line on stderr for each thing the capture begins, where a person is watching."""
    if sys.stderr.isatty():
        sys.stderr.write(f"… {text}\n")
