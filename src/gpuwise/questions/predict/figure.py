"""The chart for `predict`: several GPUs by time and by what limits them, or one GPU by op and on its roofline."""

from __future__ import annotations

from gpuwise.core.units import format_si
from gpuwise.questions.common.prediction_types import OpShare, PredictAnswer, Prediction
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Line, Mark, Plot, Segment, Series
from gpuwise.render.text import range_words
from gpuwise.step.types import BOUNDS

__all__ = ["steps_figure"]

_COLOURS = {name: place for place, name in enumerate(BOUNDS)}
_SMALL = 0.005  # of the time: ops that take less get no row


def steps_figure(answer: PredictAnswer) -> Figure:
    """GPUs side by side, or the parts of one step."""
    first, alone = answer.results[0], len(answer.results) == 1
    sizes = {result.batch for result in answer.results}
    size = f"batch {first.batch}" if len(sizes) == 1 else "the largest batch that fits on each"
    kind = " or ".join(dict.fromkeys(one.precision for one in answer.results))
    how = ", ".join(filter(None, (first.mode, kind, size, f"sequence {first.seq}" if first.seq else "")))
    time = f"{format_si(first.step_s, 's')} per step ({format_si(first.step_low_s, 's')} to {format_si(first.step_high_s, 's')})"
    panels = (_ops(first), _roofline(first)) if alone else (_speeds(answer, same=len(sizes) == 1), _limits(answer))
    used = {name for result in answer.results for name, share in result.bound_fractions.items() if share >= 0.01}
    kept = ("compute", "memory") if alone else [name for name in BOUNDS if name in used]
    ranges = "" if alone else f" Lines: {range_words(one.gpu.name for one in answer.results if one.range_basis == 'assumed')}."
    return Figure(
        title=f"{answer.model} on {first.gpu.name}" if alone else f"{answer.model} on {len(answer.results)} GPUs",
        subtitle=f"{how}: {time}, limited by {first.bound}" if alone else how,
        panels=panels,
        legend=tuple((f"limited by {name}", _COLOURS[name]) for name in kept),
        footer=f"gpuwise predict.{ranges} Data from {answer.data_date}.",
    )


def _speeds(answer: PredictAnswer, *, same: bool) -> Bars:
    """Step times, or samples per second where batches differ and times cannot be compared."""
    bars = []
    for result in answer.results:
        speed = result.samples_per_s
        value, low, high = (
            (result.step_s, result.step_low_s, result.step_high_s)
            if same
            else (speed, speed * result.step_s / result.step_high_s, speed * result.step_s / result.step_low_s)
        )
        shown = format_si(result.step_s, "s") if same else f"{_rate(speed)}/s, batch {result.batch}"
        note = shown if result.fits else f"{shown}, does not fit"
        tip = f"{result.gpu.name}: {format_si(result.step_s, 's')} per step, {_rate(speed)} samples/s"
        segment = Segment(value=value, tip=tip)
        bars.append(Bar(label=_name(result), segments=(segment,), low=low, high=high, note=note, faint=not result.fits))
    longest = max(bar.high or 0.0 for bar in bars) * 1.02
    axis = Axis(title="time per step" if same else "samples per second", low=0.0, high=longest, unit="s" if same else "")
    return Bars(title="Shorter is better" if same else "Longer is better", axis=axis, bars=tuple(bars), share=0.6)


def _name(result: Prediction) -> str:
    return f"{result.gpu_count} × {result.gpu.name}" if result.gpu_count > 1 else result.gpu.name


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _limits(answer: PredictAnswer) -> Bars:
    bars = tuple(
        Bar(
            label=result.gpu.name,
            segments=tuple(
                Segment(value=share, colour=_COLOURS[name], tip=f"{result.gpu.name}: {name} {100 * share:.0f}%")
                for name, share in result.bound_fractions.items()
                if share > 0
            ),
            faint=not result.fits,
        )
        for result in answer.results
    )
    axis = Axis(title="share of the step", low=0.0, high=1.0, unit="%")
    return Bars(title="What limits the step", axis=axis, bars=bars, labelled=False, share=0.4)


def _ops(result: Prediction) -> Bars:
    total = sum(row.seconds for row in result.by_op) or 1.0
    rows = [row for row in result.by_op if row.seconds >= _SMALL * total]
    bars = tuple(
        Bar(
            label=row.op.replace("_", " "),
            segments=(Segment(value=row.seconds, colour=_COLOURS[row.bound], tip=f"{row.op}: {row.count:,} calls"),),
            note=f"{format_si(row.seconds, 's')}, {100 * row.seconds / total:.0f}%",
        )
        for row in rows
    )
    axis = Axis(title="time on the GPU", low=0.0, high=max(row.seconds for row in rows) * 1.02, unit="s")
    return Bars(title="Where the time goes", axis=axis, bars=bars)


def _roofline(result: Prediction) -> Plot:
    """FLOPs per byte against FLOPs per second, under the limits of bandwidth and peak; ops without counted FLOPs are left out."""
    bandwidth, peak = result.gpu.memory_bytes_per_s, result.peak_flops_per_s or 1.0
    rows = [row for row in result.by_op if row.flops > 0 and row.seconds > 0 and row.moved_bytes > 0]
    ridge = peak / bandwidth
    reach = [row.flops / row.moved_bytes for row in rows] + [ridge]
    low, high = min(reach) / 4, max(reach) * 4
    slowest = min([row.flops / row.seconds for row in rows] + [low * bandwidth])
    series = tuple(
        Series(label=name, colour=_COLOURS[name], marks=tuple(_mark(row, rows) for row in rows if row.bound == name))
        for name in ("compute", "memory")
    )
    return Plot(
        title=f"Roofline: {format_si(bandwidth, 'B/s')}, {format_si(peak, 'FLOP/s')} in {result.computes_in}",
        x=Axis(title="FLOPs per byte moved", low=low, high=high, log=True),
        y=Axis(title="FLOPs per second", low=slowest / 2, high=peak * 2, unit="FLOP/s", log=True),
        series=series,
        lines=(Line(points=((low, low * bandwidth), (ridge, peak), (high, peak))),),
    )


def _mark(row: OpShare, rows: list[OpShare]) -> Mark:
    share = row.seconds / sum(other.seconds for other in rows)
    rate = row.flops / row.seconds
    return Mark(
        x=row.flops / row.moved_bytes,
        y=rate,
        weight=0.6 + 5.0 * share,
        label=row.op.replace("_", " "),
        tip=f"{row.op}: {format_si(rate, 'FLOP/s')}, {format_si(row.seconds, 's')} per step",
    )
