"""The chart for one model on one GPU by batch: how samples per second grow, and where they stop growing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from gpuwise.render.chart import Axis, Figure, Line, Mark, Plot, Series

__all__ = ["batches_figure"]


def batches_figure(model: str, gpu: str, subtitle: str, rates: Sequence[tuple[int, float]], dated: date) -> Figure:
    ranked = sorted(rates)
    sizes, speeds = [size for size, _ in ranked], [speed for _, speed in ranked]
    marks = tuple(Mark(x=float(size), y=speed, tip=f"batch {size}: {speed:,.4g} samples per second") for size, speed in ranked)
    lines = (Line(points=tuple((float(size), speed) for size, speed in ranked), colour=0),) if len(ranked) > 1 else ()
    plot = Plot(
        title="Higher is faster",
        x=Axis(title="batch", low=sizes[0] / 1.2, high=sizes[-1] * 1.2, log=True),
        y=Axis(title="samples per second", low=0.0, high=max(speeds) * 1.05),
        series=(Series(label=gpu, colour=0, marks=marks),),
        lines=lines,
        share=1.0,
    )
    return Figure(
        title=f"{model} on {gpu}: samples per second by batch size",
        subtitle=subtitle,
        panels=(plot,),
        footer=f"Predicted by gpuwise with data from {dated}.",
    )
