"""`gpuwise gpus`: the catalogue as a list, a fact sheet or a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.questions.gpus.text import render
from gpuwise.surfaces.cli.output import print_answer

__all__ = ["gpus"]


def gpus(
    names: Annotated[Optional[list[str]], typer.Argument(metavar="[NAME]...", help="GPUs by any name, or typed specs.")] = None,
    arch: Annotated[str, typer.Option(help="Only this architecture, such as ada or ampere.")] = "",
    vendor: Annotated[str, typer.Option(help="Only this vendor, such as NVIDIA or AMD.")] = "",
    min_memory: Annotated[str, typer.Option(help="Only GPUs with at least this memory, such as 24GB.")] = "",
    year: Annotated[str, typer.Option(help="Only GPUs launched then: 2022, 2020-2023 or 2020-.")] = "",
    sort: Annotated[str, typer.Option(help="name, memory, bandwidth, fp32, fp16, tdp, year or price.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="List the long tail too.")] = False,
    catalog: Annotated[Optional[Path], typer.Option(help="A TOML file with GPUs of your own.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (always with the long tail).")] = False,
) -> None:
    """List GPUs; one name gives its fact sheet with sources, several are set side by side."""
    query = api.GpuQuery(
        names=tuple(names or ()),
        arch=arch,
        vendor=vendor,
        min_memory=min_memory,
        year=year,
        sort=sort,
        catalog=catalog,
    )
    answer = api.gpus(query)
    print_answer(answer, render, json=json, everything=everything)
