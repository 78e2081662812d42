"""`gpuwise sweep`: many models on many GPUs at many batches, as one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.surfaces.cli import options
from gpuwise.surfaces.cli.output import print_answer
from gpuwise.surfaces.cli.progress import counting

__all__ = ["sweep"]

_OURS = ("out", "fresh", "json")


def sweep(
    models: Annotated[Path, typer.Argument(metavar="MODELS.txt", help="Models, one a line; # begins a comment.")],
    gpus: Annotated[list[str], typer.Option(help="all, curated, a GPU by any name, or typed specs; may be repeated.")],
    batches: Annotated[str, typer.Option(help="1..1024 (doubling), 8..64:8 (every eighth), 1,24,32.")],
    out: Annotated[Path, typer.Option(help="The table: FILE.parquet, FILE.csv or FILE.jsonl.")],
    precisions: Annotated[str, typer.Option(help="A list: fp32,amp (the default), bf16, ...")] = "",
    mode: options.Mode = "",
    optimizer: options.Optimizer = "",
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    compiled: options.Compiled = False,
    channels_last: options.ChannelsLast = False,
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    timeout_s: options.Timeout = 120.0,
    on: Annotated[str, typer.Option(help="Where: here, processes:4 (all cores if not given), or dask://host:port.")] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop what an earlier sweep left under this --out.")] = False,
    json: options.AsJson = False,
) -> None:
    """Predict every model of a list on many GPUs at many batches into one table; killed, the same command goes on."""
    asked = {name: value for name, value in locals().items() if name not in _OURS and value is not None}
    from gpuwise.questions.sweep.text import render

    query = api.sweep_query(**asked)
    with counting("parts") as tell:
        answer = api.sweep_models(query, out, on=on, fresh=fresh, progress=tell)
    print_answer(answer, render, json=json)
