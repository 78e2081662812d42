"""A diagnosis as text, Markdown or HTML: verdict, one bar of the step, at most five findings, and which checks could not run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuwise.diagnose.compare import Difference
from gpuwise.diagnose.ranks import in_one_file, peers
from gpuwise.diagnose.roofline.pricing import op_times
from gpuwise.diagnose.rows import last_fractions
from gpuwise.diagnose.timeline import timeline
from gpuwise.diagnose.types import Finding
from gpuwise.questions.common.diagnosis import WhyAnswer
from gpuwise.questions.common.findings_text import (
    MOST_FINDINGS,
    bar,
    brief_notes,
    cost,
    describe_abstained,
    finding_text,
    overlap,
    shares_of,
    smaller,
    time_text,
)
from gpuwise.questions.why.timeline_html import POLICY, SCRIPT, STYLE, colour_of, timeline_html
from gpuwise.render.text import WIDTH, Column, assumption_lines, bold, folded, join_notes, table, wrapped

__all__ = ["render", "render_html", "render_markdown"]

_CERTAIN = ("profiler", "steps line")  # step marks that a brief answer need not mention
_LEAST_SHARE = 0.01  # of a step; less hidden communication is not worth a line
_UNEVEN = 0.05  # if the mean step differs from the median by more, both are shown
_BRIEF_FINDINGS = 3  # what fits one screen with the verdict and the bar
_FINDINGS_BESIDE_A_TABLE = 1  # what fits on one screen together with a table of ranks or differences
_BRIEF_RANKS = 4  # the slowest ones, with room for a finding on one screen
_BRIEF_PARTS = 3  # those that differ most between two runs
_BRIEF_NOTES = 2  # as many notes as findings, and no more than this
_FINER = 5  # times as many spans in the report as in the JSON, because the report can zoom
_TOLD_OPS = 10
_NAMED_RANKS = 8  # numbers of missing ranks that fit one line


def render(
    answer: WhyAnswer, *, format: str = "text", width: int | None = None, colour: bool = False, verbose: bool = False
) -> str:
    """Plain text that reads well without colour, or the whole answer as Markdown or HTML."""
    if format != "text":
        return {"markdown": render_markdown, "html": render_html}[format](answer)
    shown = MOST_FINDINGS if verbose else _brief_findings(answer)
    blocks = [
        bold(wrapped(answer.verdict, width), colour=colour),
        "\n".join(wrapped(line, width, "  ") for line in _head(answer, verbose).splitlines()),
        _bar(answer, width),
    ]
    if len(answer.ranks) > 1:
        blocks.append(_rank_table(answer, width, colour, verbose))
    blocks += [
        finding_text(place, finding, width=width, colour=colour, verbose=verbose, per=answer.view.per)
        for place, finding in enumerate(answer.findings[:shown], start=1)
    ]
    if answer.difference is not None:
        blocks.append(_difference(answer, answer.difference, width, colour, verbose))
    closing = _closing(answer) if verbose else _brief_closing(answer, shown)
    return "\n\n".join(blocks) + join_notes([wrapped(line, width, "  ") for line in closing])


def _brief_findings(answer: WhyAnswer) -> int:
    """Return how many findings fit on one screen next to the other tables."""
    return _FINDINGS_BESIDE_A_TABLE if len(answer.ranks) > 1 or answer.difference is not None else _BRIEF_FINDINGS


def _head(answer: WhyAnswer, verbose: bool = True) -> str:
    view = answer.view
    steps = view.scene.steps
    where = "CPU" if view.scene.on_cpu else answer.device_name or "unknown GPU"
    busy = f"{'computing' if view.scene.on_cpu else f'{view.calls_it} busy'} {view.whole.busy_fraction:.1%}"
    if steps.steady_count < len(steps.start_ns):
        busy += f" ({view.facts.busy_fraction:.1%} in steady steps)"
    count = f"mean of {steps.steady_count} steps" if steps.steady_count > 1 else "only one step"
    if abs(view.step_s / max(steps.median_s, 1e-12) - 1.0) > _UNEVEN:
        count += f"; median {time_text(steps.median_s)}"
    length = f"step {time_text(view.step_s)} ({count})" if steps.marked else f"{time_text(view.step_s)} recorded"
    by = [f"steps: {answer.steps_by}"] if verbose or steps.by not in _CERTAIN else []
    return "\n".join([*map(str, answer.cut), f"{where}, {length}, {busy}", *by])


def _parts(answer: WhyAnswer) -> list[tuple[str, float]]:
    return shares_of(answer.view.parts.parts_s, answer.view.parts.step_s)


def _bar(answer: WhyAnswer, width: int | None) -> str:
    hidden = answer.view.parts.hidden_communication_s / answer.view.parts.step_s
    beside = f"\ncommunication that overlaps with compute: {hidden:.0%}" if hidden >= _LEAST_SHARE else ""
    return bar(_parts(answer), width) + beside


def _rank_table(answer: WhyAnswer, width: int | None, colour: bool, verbose: bool) -> str:
    ranks = answer.ranks if verbose else sorted(answer.ranks, key=lambda rank: -rank.view.step_s)[:_BRIEF_RANKS]
    views = [rank.view for rank in ranks]
    columns = [
        Column(title="GPU" if in_one_file(answer.ranks) else "rank", cells=[rank.label for rank in ranks], right=False),
        Column(title="step", cells=[time_text(view.step_s) for view in views]),
        Column(title="busy", cells=[f"{view.whole.busy_fraction:.0%}" for view in views]),
        Column(title="in collectives", cells=[time_text(rank.communication_s) for rank in ranks]),
        Column(title="exposed", cells=[f"{view.whole.communication_exposed_fraction:.0%}" for view in views], drop=2),
        Column(title="loader", cells=[f"{view.whole.loader_fraction:.0%}" for view in views], drop=1),
    ]
    if shares := last_fractions(list(peers(answer.ranks)))[0]:
        by_label = dict(zip((rank.label for rank in peers(answer.ranks)), shares, strict=True))
        cells = [f"{by_label[rank.label]:.0%}" if rank.label in by_label else "–" for rank in ranks]
        columns.insert(4, Column(title="last", cells=cells, drop=3))
    more = len(answer.ranks) - len(ranks)
    rest = "GPUs" if in_one_file(answer.ranks) else "ranks"
    return table(columns, width=width or WIDTH, colour=colour) + (
        f"\n… and {more} faster {rest}; `-v` lists them all" if more else ""
    )


def _difference(answer: WhyAnswer, found: Difference, width: int | None, colour: bool, verbose: bool) -> str:
    parts = found.parts if verbose else sorted(found.parts, key=lambda part: -abs(part.after_s - part.before_s))[:_BRIEF_PARTS]
    head = f"compared with {answer.compared}: {found.verdict}"
    steps = (
        f"median step: {time_text(found.before_s)} and {time_text(found.after_s)} ({found.speed_up:.2f}x); mean of "
        f"{found.step_counts[0]} and {found.step_counts[1]} steady steps: {time_text(found.before_mean_s)} and "
        f"{time_text(found.after_mean_s)} ({found.mean_speed_up:.2f}x)"
    )
    columns = [
        Column(title="part", cells=[part.part.replace("_", " ") for part in parts], right=False),
        Column(title="first", cells=[time_text(part.before_s) for part in parts]),
        Column(title="second", cells=[time_text(part.after_s) for part in parts]),
        Column(title="faster", cells=[f"{part.speed_up:.2f}x" if part.speed_up is not None else "–" for part in parts]),
        Column(title="expected", cells=[f"{part.promised:.2f}x" if part.promised else "–" for part in parts], drop=1),
        Column(title="why", cells=[part.why for part in parts], right=False, drop=2),
    ]
    unlike = [f"different: {text}" for text in found.unlike[0 if verbose else 1 :]]  # the verdict names the first one
    notes = unlike + [f"unknown: {text}" for text in found.unknown]
    return "\n".join(
        [
            bold(wrapped(head, width), colour=colour),
            wrapped(steps, width),
            "",
            table(columns, width=width or WIDTH, colour=colour),
            *notes,
        ]
    )


def _missing(answer: WhyAnswer) -> list[str]:
    shown = ", ".join(f"rank {number}" for number in answer.missing[:_NAMED_RANKS])
    more = ", …" if len(answer.missing) > _NAMED_RANKS else ""
    return [f"missing: {shown}{more}"] if answer.missing else []


def _closing(answer: WhyAnswer) -> list[str]:
    lines = [*smaller(answer.findings), *overlap(answer.findings), *_missing(answer)]
    lines += describe_abstained(answer.abstained)
    lines += [f"note: {note}" for note in answer.notes]
    lines += assumption_lines(answer.assumptions)
    return lines


def _brief_closing(answer: WhyAnswer, shown: int) -> list[str]:
    lines = [*smaller(answer.findings, shown), *overlap(answer.findings[:shown]), *_missing(answer)]
    notes = brief_notes(answer.notes, answer.abstained, most=min(shown, _BRIEF_NOTES))
    return [*lines, *notes, *folded(answer.assumptions, verbose=False)]


def render_markdown(answer: WhyAnswer) -> str:
    """Return Markdown for an issue or a pull request."""
    parts = _parts(answer)
    lines = [f"# {answer.verdict}", "", _head(answer).replace("\n", "  \n"), "", "| part | share |", "|---|---|"]
    lines += [f"| {name.replace('_', ' ')} | {share:.1%} |" for name, share in parts]
    for place, finding in enumerate(answer.findings[:MOST_FINDINGS], start=1):
        price = cost(finding, answer.view.per) + "."
        lines += ["", f"## {place}. {finding.title} (`{finding.code}`)", "", price, ""]
        lines += [f"- {line}" for line in finding.lines]
        lines += [f"- fix: {finding.remedy}", f"- check: {finding.verify}"]
    if answer.difference is not None:
        lines += ["", f"## Compared with {answer.compared}", "", answer.difference.verdict + "."]
    return "\n".join([*lines, "", *(f"- {line}" for line in _closing(answer))])


def render_html(answer: WhyAnswer) -> str:
    """Return a complete offline page, with one script that zooms the timeline. Everything from the files is escaped."""
    bar = "".join(
        f'<span title="{escape(name)} {share:.1%}" style="width:{share:.4%};background:{colour_of(name)}"></span>'
        for name, share in _parts(answer)
    )
    legend = ", ".join(f"{escape(name.replace('_', ' '))} {share:.0%}" for name, share in _parts(answer))
    line = timeline(answer.view.scene, answer.view.parts.idle, finer=_FINER)
    findings = "".join(_html_finding(finding, answer.view.per) for finding in answer.findings[:MOST_FINDINGS])
    closing = "".join(f"<li>{escape(line)}</li>" for line in _closing(answer))
    script = f'<script type="text/javascript">{SCRIPT}</script>' if line else ""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>gpuwise why</title>'
    )
    return (
        f'<!doctype html>\n<html lang="en">{head}\n<style>{_STYLE}{STYLE}</style>\n'
        f"<h1>{escape(answer.verdict)}</h1>\n<p>{escape(_head(answer))}</p>\n"
        f'<div class="bar">{bar}</div>\n<p>{legend}</p>\n{timeline_html(line) if line else ""}'
        f"<ol>{findings}</ol>\n{_html_tables(answer)}<ul>{closing}</ul>\n{script}\n</html>"
    )


def _html_tables(answer: WhyAnswer) -> str:
    """Return all GPUs or ranks if there are several, and the ops that lose the most time if their sizes were recorded."""
    tables = ""
    if len(answer.ranks) > 1:
        cells = [
            (rank.label, time_text(rank.view.step_s), f"{rank.view.whole.busy_fraction:.0%}", time_text(rank.communication_s))
            for rank in answer.ranks
        ]
        tables += _html_table("GPUs and ranks", ("", "step", "busy", "in collectives"), cells)
    ops = [row for row in op_times(answer.view) if row.lost_s > 0][:_TOLD_OPS]
    if ops:
        timed = [
            (row.op, time_text(row.measured_s), time_text(row.expected_s), time_text(row.floor_s), f"{row.reached_fraction:.2f}")
            for row in ops
        ]
        titles = ("op", "measured", "expected", "at least", "speed")
        tables += _html_table("Ops that lose the most time", titles, timed)
    return tables


def _html_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<h2>{escape(title)}</h2>\n<div class="pane"><table><tr>{head}</tr>{body}</table></div>\n'


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}h1{font-size:1.3em}h2{font-size:1.1em}"
    ".bar{display:flex;height:1.5em}.bar span{display:block}.pane{overflow-x:auto}table{border-collapse:collapse;font-size:.85em}"
    "th,td{text-align:right;padding:.1em .8em .1em 0;white-space:nowrap}th:first-child,td:first-child{text-align:left}"
)


def _html_finding(finding: Finding, per: str) -> str:
    evidence = "".join(f"<li>{escape(line)}</li>" for line in finding.lines)
    steps = f"<li>fix: {escape(finding.remedy)}</li><li>check: {escape(finding.verify)}</li>"
    head = f"<b>{escape(finding.title)}</b> (<code>{escape(finding.code)}</code>)"
    return f"<li>{head}<br>{escape(cost(finding, per))}<ul>{evidence}{steps}</ul></li>"
