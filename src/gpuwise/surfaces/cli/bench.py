"""`gpuwise bench`: what this machine's device reaches."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpuwise import api
from gpuwise.surfaces.cli.output import print_answer

__all__ = ["bench"]


def bench(
    device: Annotated[str, typer.Option(help="cpu, cuda:0 or mps; the fastest that torch sees if you do not say.")] = "",
    seconds: Annotated[float, typer.Option(help="The most it may take.")] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure this machine's device (products, convolutions, bandwidth, overheads, disk, decoding) and save a dated profile.

    `gpuwise predict --on-this-machine` predicts with it.
    """
    from gpuwise.questions.bench.text import render

    answer = api.bench(device, seconds=seconds, progress=_show)
    print_answer(answer, render, json=json)


def _show(text: str, share: float) -> None:
    """A bar on stderr, where a person is watching."""
    if sys.stderr.isatty():
        end = "\n" if share >= 1.0 and text == "done" else ""
        sys.stderr.write(f"\r{'█' * int(20 * share):20} {share:4.0%} {text:<24}{end}")
        sys.stderr.flush()
