"""The chart for `why`: what a step consists of, and what fixing each cause would gain."""

from __future__ import annotations

from gpuwise.diagnose.types import Finding
from gpuwise.questions.common.diagnosis import WhyAnswer
from gpuwise.questions.common.findings_text import MOST_FINDINGS, shares_of, time_text
from gpuwise.render.chart import Axis, Bar, Bars, Figure, Segment

__all__ = ["causes_figure"]


def causes_figure(answer: WhyAnswer, *, format: str = "text") -> Figure:
    """Return the chart of the parts of the step, next to its causes if any were found."""
    found = answer.findings[:MOST_FINDINGS]
    return Figure(
        title=f"A step of {time_text(answer.view.step_s)} on {answer.device_name or 'an unknown device'}",
        subtitle=answer.verdict,
        panels=(_parts(answer), *([_gains(found)] if found else [])),
        footer=f"gpuwise why {', '.join(answer.files)}. Gains are limited because removing one bottleneck exposes the next.",
    )


def _parts(answer: WhyAnswer) -> Bars:
    whole = answer.view.parts.step_s
    bars = tuple(
        Bar(
            label=name.replace("_", " "),
            segments=(Segment(value=share, tip=f"{name.replace('_', ' ')}: {time_text(share * whole)}"),),
            note=f"{share:.0%}, {time_text(share * whole)}",
        )
        for name, share in shares_of(answer.view.parts.parts_s, whole)
    )
    longest = max((bar.segments[0].value for bar in bars), default=1.0)
    axis = Axis(title="share of the step", low=0.0, high=longest * 1.02, unit="%")
    return Bars(title="Parts of a step", axis=axis, bars=bars, share=0.5)


def _gains(findings: tuple[Finding, ...]) -> Bars:
    bars = tuple(_gain(finding) for finding in findings)
    axis = Axis(title="times as fast after the fix", low=0.0, high=max(bar.high or 1.0 for bar in bars) * 1.02)
    return Bars(title="Speed-up from fixing each cause alone", axis=axis, bars=bars, share=0.5)


def _gain(finding: Finding) -> Bar:
    low, high = finding.gain.low, finding.gain.high
    return Bar(
        label=finding.code.replace("_", " "),
        segments=(Segment(value=finding.gain.middle, tip=f"{finding.title}; fix: {finding.remedy}"),),
        low=low,
        high=high,
        note=f"{low:.2f} to {high:.2f}x",
    )
