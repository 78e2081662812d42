"""The timeline of one step for the HTML report: lanes with a time axis, drawn as SVG, with a short script for zooming.

The page contains everything, so it works offline. Without its script, it shows the whole step. Positions are percentages of the
step, so zooming changes one width and the ticks of the axis.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import defaultdict
from html import escape

from gpuwise.diagnose.classes import CLASSES
from gpuwise.diagnose.timeline import Lane, LaneSpan, Timeline
from gpuwise.questions.common.findings_text import time_text

__all__ = ["POLICY", "SCRIPT", "STYLE", "colour_of", "timeline_html"]

_LANE, _BAR, _AXIS = 42, 18, 26  # pixels: from lane to lane, of a bar, of the axis
_TICKS = 5  # of the whole step, before the script draws its own
_HOST = ("loading", "waiting", "launching", "input_wait", "compiling", "allocation", "graph_wait", "synchronisation")
_KINDS = (*CLASSES, "copy", *_HOST, "host_work", "host_launch", "idle_unexplained", "other_gpus", "profiler")
_SAME = {"loading": "input_wait", "waiting": "synchronisation", "launching": "host_launch"}
_STEPS = (1.0, 2.0, 5.0)

STYLE = (
    ".zoom{margin:.5em 0}.zoom button{font:inherit;min-width:2.5em;padding:.15em .6em;margin-right:.3em}"
    ".timeline{position:relative;border:1px solid #ccc}.pan{overflow-x:auto}.pan svg{display:block;min-width:100%}"
    ".timeline p{position:absolute;left:4px;margin:0;padding:0 3px;font-size:12px;line-height:16px;pointer-events:none}"
    ".key{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2em 1.2em;font-size:.9em}"
    ".key i{display:inline-block;width:.9em;height:.9em;margin-right:.35em;vertical-align:-.1em}"
)
SCRIPT = """
(() => {
  const pan = document.querySelector(".pan"), svg = pan.querySelector("svg"), axis = svg.querySelector(".axis");
  const step = Number(svg.dataset.stepS), most = 2000;
  let zoom = 1;
  const made = (name, values, text) => {
    const found = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(values)) found.setAttribute(key, value);
    if (text) found.textContent = text;
    return found;
  };
  const unit = () => (step >= 1 ? [1, "s"] : step >= 1e-4 ? [1e3, "ms"] : [1e6, "µs"]);
  function ticks() {
    const room = (step * 90) / (pan.clientWidth * zoom), power = 10 ** Math.floor(Math.log10(room));
    const gap = power * ([1, 2, 5, 10].find((times) => times * power >= room) || 10), [factor, name] = unit();
    const digits = Math.max(0, -Math.floor(Math.log10(gap * factor) + 1e-9));
    const from = Math.floor((step * pan.scrollLeft) / (pan.clientWidth * zoom) / gap) - 1;
    axis.replaceChildren();
    for (let number = Math.max(0, from); number * gap <= step && number < from + 40; number += 1) {
      const x = `${(100 * number * gap) / step}%`;
      axis.append(made("line", { x1: x, x2: x, y1: 0, y2: svg.dataset.high, stroke: "#ddd" }));
      const text = `${(number * gap * factor).toFixed(digits)} ${name}`;
      axis.append(made("text", { x, dx: 3, y: Number(svg.dataset.high) - 8 }, text));
    }
  }
  function to(wanted, at = pan.clientWidth / 2) {
    const next = Math.min(most, Math.max(1, wanted)), place = (pan.scrollLeft + at) / zoom;
    zoom = next;
    svg.style.width = `${100 * zoom}%`;
    pan.scrollLeft = place * zoom - at;
    ticks();
  }
  const at = (event) => event.clientX - pan.getBoundingClientRect().left;
  const keys = { "+": () => to(zoom * 2), "=": () => to(zoom * 2), "-": () => to(zoom / 2), 0: () => to(1) };
  document.querySelector(".zoom").hidden = false;
  document.querySelectorAll(".zoom button").forEach((button) => button.addEventListener("click", () => keys[button.value]()));
  pan.addEventListener("keydown", (event) => keys[event.key] && keys[event.key]());
  pan.addEventListener("dblclick", (event) => to(zoom * 2, at(event)));
  pan.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    to(zoom * 1.2 ** (-event.deltaY / 50), at(event));
  }, { passive: false });
  pan.addEventListener("scroll", ticks);
  addEventListener("resize", ticks);
  ticks();
})();
"""
_HASH = b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"  # this script and nothing else


def colour_of(kind: str) -> str:
    """Return the colour of a kind, which is the same in the bar and in the timeline.

    >>> colour_of("waiting") == colour_of("synchronisation")
    True
    """
    known = _SAME.get(kind, kind)
    if known in ("idle_unexplained", "other") or known not in _KINDS:
        return "hsl(0,0%,65%)"
    return f"hsl({_KINDS.index(known) * 47 % 360},55%,60%)"


def timeline_html(line: Timeline) -> str:
    """Return the section of the report."""
    high = _LANE * len(line.lanes) + _AXIS
    lanes = "".join(_lane(lane, place, line.step_s) for place, lane in enumerate(line.lanes))
    labels = "".join(f'<p style="top:{place * _LANE + 3}px">{escape(lane.name)}</p>' for place, lane in enumerate(line.lanes))
    names = ", ".join(lane.name for lane in line.lanes)
    joined = f" Short spans ({line.joined:,} in total) are drawn together with their neighbours." if line.joined else ""
    return (
        '<h2>Timeline of one step</h2>\n<div class="zoom" hidden><button type="button" value="+" aria-label="zoom in">+</button>'
        '<button type="button" value="-" aria-label="zoom out">−</button>'
        '<button type="button" value="0">whole step</button></div>\n'
        f'<div class="timeline"><div class="pan" tabindex="0" aria-label="timeline, scrolls sideways">'
        f'<svg width="100%" height="{high}" data-step-s="{line.step_s!r}" data-high="{high}" role="img" font-size="12" '
        f'aria-label="{escape(names)}"><g class="axis">{_axis(line.step_s, high)}</g>{lanes}</svg></div>{labels}</div>\n'
        f'<ul class="key">{_key(line)}</ul>\n'
        f"<p>A step of median length ({time_text(line.step_s)}). To zoom, use the buttons, the + and − keys, a double-click, or "
        f"Ctrl and the mouse wheel. Hover over a span to see its name.{joined}</p>\n"
    )


def _lane(lane: Lane, place: int, step_s: float) -> str:
    top = place * _LANE + _LANE - _BAR - 4
    return "<g>" + "".join(_span(span, top, step_s) for span in lane.spans) + "</g>"


def _span(span: LaneSpan, top: int, step_s: float) -> str:
    told = f"{span.name} ({span.kind.replace('_', ' ')}): {time_text(span.seconds)} at {time_text(span.start_s)}"
    return (
        f'<rect x="{100 * span.start_s / step_s:.4f}%" width="{100 * span.seconds / step_s:.4f}%" y="{top}" height="{_BAR}" '
        f'fill="{colour_of(span.kind)}"><title>{escape(told)}</title></rect>'
    )


def _axis(step_s: float, high: int) -> str:
    """Return ticks at round times of the whole step."""
    power = 10.0 ** len(str(int(1 / step_s))) if step_s < 1 else 1.0
    gaps = [times / (power * 10) * scale for scale in (1, 10, 100) for times in _STEPS]
    gap = next((gap for gap in gaps if step_s / gap <= _TICKS), step_s)
    marks = []
    for number in range(int(step_s / gap + 1e-9) + 1):
        x = f"{100 * number * gap / step_s:.3f}%"
        marks.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{high}" stroke="#ddd"/>')
        marks.append(f'<text x="{x}" dx="3" y="{high - 8}">{time_text(number * gap) if number else "0"}</text>')
    return "".join(marks)


def _key(line: Timeline) -> str:
    """Return the legend of the colours, with the time of each kind in this step."""
    total: dict[str, float] = defaultdict(float)
    for lane in line.lanes:
        for span in lane.spans:
            total[span.kind] += span.seconds
    return "".join(
        f'<li><i style="background:{colour_of(kind)}"></i>{escape(kind.replace("_", " "))} {time_text(seconds)}</li>'
        for kind, seconds in sorted(total.items(), key=lambda entry: -entry[1])
    )
