"""The chart for `compare`: the speedup over the first GPU, job by job, with ranges."""

from __future__ import annotations

from gpuwise.core.text import the
from gpuwise.questions.compare.types import CompareAnswer, Pair
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Segment
from gpuwise.render.text import range_words

__all__ = ["ratios_figure"]


def ratios_figure(answer: CompareAnswer) -> Figure:
    """One row for each job, under a heading for each set where there are several."""
    base, others = answer.rigs[0].name, answer.rigs[1:]
    bars: list[Bar] = []
    for rig in others:
        pairs = [pair for pair in answer.pairs if pair.gpu == rig.name]
        bars += [Bar(label=rig.name)] if len(others) > 1 else []
        bars += [_bar(pair) for pair in pairs]
    ranges = range_words(f"{pair.gpu} compared with {base}" for pair in answer.pairs if pair.range_basis == "assumed")
    longest = max([1.0, *(bar.high or 0.0 for bar in bars)])
    axis = Axis(title=f"times as fast as {base}", low=0.0, high=longest * 1.04)
    return Figure(
        title=f"{others[0].name} compared with {base}"
        if len(others) == 1
        else f"{len(others)} sets of GPUs compared with {base}",
        subtitle=answer.verdict,
        panels=(Bars(title=f"Longer is faster; {base} is 1", axis=axis, bars=tuple(bars), share=1.0),),
        footer=f"gpuwise compare. Lines: {ranges}. Data from {answer.data_date}.",
    )


def _bar(pair: Pair) -> Bar:
    fits = pair.comparable
    note = f"{pair.ratio:.2f}x" if fits else f"does not fit on {the(pair.gpu if not pair.fits else pair.baseline)}"
    return Bar(
        label=f"{pair.workload}, {pair.precision}",
        segments=(Segment(value=pair.ratio, tip=f"{pair.workload}: {pair.ratio:.2f}x; {pair.why}"),),
        low=pair.ratio_low,
        high=pair.ratio_high,
        note=note,
        faint=not fits,
    )
