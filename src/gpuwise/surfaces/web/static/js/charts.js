// Charts, drawn by Plotly in the page's own colours. Its script comes from this server; without it, the tables still show everything.

import { capital, seconds } from "./format.js";
import { h } from "./ui.js";

let loading;
const drawn = new Map();

export function plotly() {
  loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = "/plotly.js";
    script.onload = () => resolve(globalThis.Plotly ?? null);
    script.onerror = () => resolve(null);
    document.head.append(script);
  });
  return loading;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const palette = (place) => `var(--c${place % 8})`;
// Plotly reads a little markup in its texts; names are data.
export const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// Labels of a log axis that can be read alone: 0.2, 0.5, 1, 2 and so on; only powers of ten where there are many.
export function logTicks(values, show) {
  const [low, high] = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const powers = Array.from({ length: 40 }, (_, place) => place - 20);
  const inside = (digits) => powers.flatMap((power) => digits.map((digit) => digit * 10 ** power)).filter((value) => value >= low && value <= high);
  const usual = inside([1, 2, 5]);
  const places = usual.length > 9 ? inside([1]) : usual.length < 4 ? inside([1, 1.5, 2, 3, 5, 7]) : usual;
  return { type: "log", tickvals: places, ticktext: places.map(show) };
}

// The same for seconds, round on a clock.
const CLOCK = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 43200, ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => 86400 * days)];
export function clockTicks(values) {
  const [low, high] = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const inside = CLOCK.filter((value) => value >= low && value <= high);
  const places = inside.length > 9 ? inside.filter((_, place) => place % 2 === 0) : inside;
  return { type: "log", tickvals: places, ticktext: places.map((value) => seconds(value)) };
}

const axis = (given) => ({
  separatethousands: true, gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true,
  ...given, title: { text: given?.title ?? "", font: { size: 13 }, standoff: 8 },
});

export const narrow = () => innerWidth < 820;
const ends = (values) => [Math.min(...values), Math.max(...values)];
const LINE_PX = 17;
const LETTER_PX = 7.2;

// Places for labels of one line each, near where they belong and never on top of each other: `wanted` and the answer are pixels.
export function apart(wanted, height, gap = LINE_PX) {
  const order = wanted.map((_, place) => place).sort((one, other) => wanted[one] - wanted[other]);
  const found = [...wanted];
  for (let turn = 0; turn < 60; turn += 1) {
    let moved = false;
    for (let place = 1; place < order.length; place += 1) {
      const [below, above] = [order[place - 1], order[place]];
      const short = gap - (found[above] - found[below]);
      if (short <= 0.5) continue;
      found[below] -= short / 2;
      found[above] += short / 2;
      moved = true;
    }
    for (const place of order) found[place] = Math.min(height - gap / 2, Math.max(gap / 2, found[place]));
    if (!moved) break;
  }
  return found;
}

// Names at the ends of lines instead of a legend. Traces with a `label` get one; the axes must state their range, in Plotly's units.
export function labelled({ traces, x, y, height = 340, margin: given = {}, ...more }) {
  const logs = { x: x.type === "log", y: y.type === "log" };
  const at = (value, which) => (logs[which] ? Math.log10(value) : value);
  const all = (which) => traces.flatMap((trace) => trace[which]).filter((value) => Number.isFinite(value) && (!logs[which] || value > 0));
  const span = (which, given) => {
    if (given.range) return given.range;
    const [low, high] = ends(all(which).map((value) => at(value, which)));
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    return [which === "y" && !logs.y && low >= 0 ? 0 : low - room, high + room];
  };
  const [xs, ys] = [span("x", x), span("y", y)];
  const named = traces.filter((trace) => trace.label && trace.x.length);
  const shown = { traces, x: { ...x, range: xs }, y: { ...y, range: ys }, height, ...more };
  if (narrow()) return { ...shown, margin: { l: 56, r: 12, t: 12, b: 48, ...given }, traces: traces.map((trace) => ({ ...trace, name: trace.name ?? plain(trace.label), showlegend: Boolean(trace.label) })) };
  const margin = { l: 60, r: 16 + LETTER_PX * Math.max(0, ...named.map((trace) => trace.label.length)), t: 14, b: 50, ...given };
  const tall = height - margin.t - margin.b;
  const last = (trace) => trace.y.findLastIndex((value) => Number.isFinite(value) && (!logs.y || value > 0));
  const wanted = named.map((trace) => (tall * (at(trace.y[last(trace)], "y") - ys[0])) / (ys[1] - ys[0]));
  const places = apart(wanted, tall);
  const annotations = named.map((trace, place) => ({ x: 1.01, y: places[place] / tall, xref: "paper", yref: "paper", xanchor: "left", yanchor: "middle", showarrow: false, text: plain(trace.label), font: { color: trace.line?.color ?? trace.marker?.color ?? colour("ink"), size: 13 } }));
  return { ...shown, margin, showlegend: false, annotations: [...annotations, ...(more.annotations ?? [])] };
}

// Charts of lines or bars show all values at one position; charts of points show the nearest point.
function hovered(traces) {
  const told = traces.filter((trace) => trace.hoverinfo !== "skip");
  if (told.some((trace) => trace.type === "bar" && trace.orientation === "h")) return "y unified";
  return told.some((trace) => trace.type === "bar" || (trace.mode ?? "").includes("lines")) ? "x unified" : "closest";
}

// Labels of points that do not overlap: the first ones are kept, and one without room appears only on hover. Places are
// pixels of a plot of this size; a text stands to the right of its point, or where `sides` says.
export function uncrowded(texts, places, sides = []) {
  const kept = [];
  return texts.map((text, number) => {
    if (!text) return "";
    const [x, y] = places[number];
    const [side, wide] = [sides[number] ?? "", 10 + LETTER_PX * text.length];
    const left = side.endsWith("left") ? x - wide : side.endsWith("center") ? x - wide / 2 : x;
    const top = y - LINE_PX / 2 + (side.startsWith("bottom") ? LINE_PX : side.startsWith("top") ? -LINE_PX : 0);
    const box = [left, top, left + wide, top + LINE_PX];
    if (kept.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) return "";
    kept.push(box);
    return text;
  });
}

const FEW_TICKS = 4; // as many as fit side by side on a phone
const ROW_PX = 46; // a bar with its name above it

// Of individually chosen positions, as many as fit side by side.
function thinned(given) {
  if (!given.tickvals) return { ...given, nticks: FEW_TICKS };
  const every = Math.ceil(given.tickvals.length / FEW_TICKS);
  const kept = (list) => list?.filter((_, place) => place % every === 0);
  return { ...given, tickvals: kept(given.tickvals), ticktext: kept(given.ticktext) };
}

// On a phone the whole width is for the plot: rows are named above their bars, and the axes by a line of text.
function slender({ traces, x, y, ...more }) {
  const rows = [...new Set(traces.flatMap((trace) => [...(trace.y ?? [])]))].filter((name) => typeof name === "string");
  const names = rows.map((name) => ({ x: 0, xref: "paper", xanchor: "left", y: name, yref: "y", yanchor: "bottom", yshift: 8, borderpad: 0, bgcolor: colour("panel"), showarrow: false, text: name, font: { size: 12, color: colour("ink") } }));
  const named = more.showlegend === false ? 0 : traces.filter((trace) => trace.showlegend !== false).length;
  return {
    ...more, traces, margin: { l: 8, r: 16, t: 8, b: 28 }, font: { size: 12 }, legend: { font: { size: 12 } },
    ...(rows.length ? { height: 60 + ROW_PX * rows.length + LINE_PX * 1.2 * named, bargap: 0.66, annotations: [...(more.annotations ?? []), ...names] } : {}),
    x: { ...thinned(x), title: "", tickangle: 0 }, y: { ...y, title: "", ...(rows.length ? { showticklabels: false, ticks: "" } : {}) },
  };
}

// What the axes are, above the chart.
function caption(node, x, y) {
  const [before] = node.previousElementSibling?.classList.contains("axes") ? [node.previousElementSibling] : [];
  const text = narrow() ? [y.title && `Up: ${y.title}.`, x.title && `Across: ${x.title}.`].filter(Boolean).join(" ") : "";
  if (!text) before?.remove();
  else if (before) before.textContent = text;
  else node.before(h("p", { class: "note axes" }, text));
}

// `build` gives {traces, x, y, ...layout} with the colours of the moment, so that dark and light can be changed while it is shown.
export async function draw(node, label, build, onclick) {
  const library = await plotly();
  if (!library) {
    node.textContent = "Charts need the plotly package on the server; the table shows the same values.";
    return;
  }
  const built = build();
  caption(node, built.x, built.y);
  const { traces, x, y, font, legend, ...more } = narrow() ? slender(built) : built;
  const layout = {
    margin: { l: 56, r: 12, t: 12, b: 48 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: hovered(traces), dragmode: false,
    hoverlabel: { align: "left", bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink"), size: 13 } }, ...more,
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink"), ...font },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 13 }, ...legend }, xaxis: axis(x), yaxis: axis(y),
  };
  node.style.minHeight = more.height ? "0" : "";
  node.style.height = more.height ? `${more.height}px` : ""; // otherwise, a change of width would leave the chart taller than its place
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", label);
  await library.react(node, traces.map(({ label: said, ...trace }) => ({ name: said && plain(said), ...trace })), layout, { displayModeBar: false, responsive: true });
  if (onclick) {
    node.removeAllListeners?.("plotly_click");
    node.on("plotly_click", (event) => event.points[0]?.customdata && onclick(event.points[0].customdata));
  }
  drawn.set(node, [label, build, onclick]);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [node, [label, build, onclick]] of drawn) {
    if (node.isConnected) draw(node, label, build, onclick);
    else drawn.delete(node);
  }
});
