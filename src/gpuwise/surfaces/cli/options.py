"""Options that several commands share, so that they read alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

__all__ = [
    "Accumulate",
    "AsJson",
    "ChannelsLast",
    "Checkpoint",
    "Compiled",
    "Cpu",
    "CurrencyRate",
    "FigureFile",
    "GpuCount",
    "GpuNames",
    "Image",
    "Inputs",
    "LoaderRate",
    "Measured",
    "Mode",
    "Model",
    "Optimizer",
    "Phase",
    "PowerLimit",
    "Precision",
    "PriceFile",
    "Prices",
    "Stack",
    "Timeout",
]

_MODEL = "A zoo name, a workload file, timm:NAME, torchvision:NAME, hf:ID, keras:NAME, config.json or file.py:Net."
Model = Annotated[str, typer.Argument(help=_MODEL)]
GpuNames = Annotated[Optional[list[str]], typer.Option("--gpu", help="A GPU by any name, or typed specs; may be repeated.")]
GpuCount = Annotated[int, typer.Option(help="How many of each GPU.")]
Image = Annotated[Optional[int], typer.Option(help="Image size in pixels.")]
Precision = Annotated[str, typer.Option(help="fp32, tf32, fp16, bf16, amp, amp-bf16 or fp8.")]
Mode = Annotated[str, typer.Option(help="train (the default) or infer.")]
Optimizer = Annotated[str, typer.Option(help="none, sgd, momentum, adam, adamw, adafactor, lion or adam8bit.")]
Phase = Annotated[str, typer.Option(help="prefill or decode, for generating language models.")]
Compiled = Annotated[bool, typer.Option("--compile", help="Run as torch.compile would.")]
ChannelsLast = Annotated[bool, typer.Option("--channels-last", help="NHWC memory layout.")]
Accumulate = Annotated[Optional[int], typer.Option(help="Micro-batches accumulated into one step.")]
Checkpoint = Annotated[bool, typer.Option("--checkpoint", help="Recompute activations of repeated blocks.")]
Inputs = Annotated[Optional[list[str]], typer.Option("--input", help="An input by hand: x=batch,3,224,224:fp32.")]
Stack = Annotated[str, typer.Option(help="Software, such as torch-2.4 or tf-2.4.")]
Cpu = Annotated[str, typer.Option(help="The host: desktop, laptop, server, or a CPU's name.")]
LoaderRate = Annotated[Optional[float], typer.Option(help="What the data loader delivers.")]
PowerLimit = Annotated[str, typer.Option(help="A power limit below the GPU's own, such as 250W.")]
Measured = Annotated[Optional[list[str]], typer.Option(help="A step you measured: 'RTX 3090=412ms'; may be repeated.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds a capture may take.")]
FigureFile = Annotated[Optional[Path], typer.Option("--figure", help="Draw it too: FILE.svg, FILE.html or FILE.png.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Prices = Annotated[Optional[list[str]], typer.Option("--price", help="Your price: 'RTX 3090=700'; may be repeated.")]
PriceFile = Annotated[Optional[Path], typer.Option("--prices", help="A file of your prices (TOML).")]
CurrencyRate = Annotated[str, typer.Option("--currency", help="A currency and its worth in dollars, such as EUR=1.08.")]
