"""`gpuwise tune batch`: which batch is enough."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from gpuwise import api
from gpuwise.cli import options
from gpuwise.cli.output import colour, print_json, print_text, show_progress, terminal_width

__all__ = ["tune"]


def tune(
    what: Annotated[str, typer.Argument(help="What to tune: batch.")],
    model: options.Model,
    gpu: options.GpuNames = None,
    seq: Annotated[Optional[int], typer.Option(help="Sequence length in tokens.")] = None,
    image: options.Image = None,
    precision: options.Precision = "",
    mode: options.Mode = "",
    optimizer: options.Optimizer = "",
    compiled: options.Compiled = False,
    channels_last: options.ChannelsLast = False,
    stack: options.Stack = "",
    cpu: options.Cpu = "",
    on_this_machine: Annotated[
        bool, typer.Option("--on-this-machine", help="The batch for the device that `gpuwise bench` measured here.")
    ] = False,
    timeout_s: options.Timeout = 120.0,
    json: options.AsJson = False,
) -> None:
    """Predict which batch gives 90, 95 and 99 % of the speed, where doubling it stops paying, and the largest that fits."""
    asked = {name: value for name, value in locals().items() if name not in ("json", "what") and value is not None}
    from gpuwise.report.tune import render

    answer = api.tune(what, api.predict_query(**{"gpu": (), **asked}), progress=show_progress)
    if json:
        print_json(answer.to_dict())
    else:
        print_text(render(answer, width=terminal_width(), colour=colour()))
