// Charts that more than one view can show. Each takes an answer's own entries and gives what `draw` of charts.js takes:
//   draw(node, servingSays(points), () => servingCurve(points, { limit_s: 0.05 }))
//   draw(node, flipSays(entries), () => flipChart(entries))
//   draw(node, batchSays(points, most), () => batchCurve(points, { most: fit.max_batch, unit: "samples/s" }))

import { colour, labelled, logTicks, narrow, plain } from "./charts.js";
import * as f from "./format.js";

// ---------------------------------------------------------------- many users of a language model

// `points` are the results of /api/predict for several `users` (such as "1,2,4,8"): one line for each GPU, with what each user waits
// for a token across and what all users get together up. `limit_s` is the longest wait accepted.
export function servingCurve(points, { limit_s: limit } = {}) {
  const gpus = [...new Set(points.map((point) => point.gpu))];
  const traces = gpus.map((gpu, place) => {
    const mine = points.filter((point) => point.gpu === gpu && point.fits);
    const told = mine.map((point) => point.generation);
    return {
      type: "scatter", mode: "lines+markers+text", label: gpu, x: told.map((one) => 1000 * one.time_per_token_s), y: told.map((one) => one.tokens_per_s),
      text: told.map((one) => String(one.users)), textposition: "top left", textfont: { size: 11, color: colour("muted") }, cliponaxis: false,
      line: { color: colour(`c${place % 8}`), width: 2 }, marker: { size: 7 },
      hovertext: told.map((one) => `${plain(gpu)}, ${one.users} ${one.users === 1 ? "user" : "users"}: ${f.number(one.tokens_per_s)} tokens/s together, ${f.number(one.tokens_per_s / one.users)} each, first after ${f.seconds(one.time_to_first_token_s)}`), hoverinfo: "text",
    };
  }).filter((trace) => trace.x.length);
  const shapes = limit ? [{ type: "line", x0: 1000 * limit, x1: 1000 * limit, yref: "paper", y0: 0, y1: 1, line: { color: colour("muted"), dash: "dash", width: 1.5 } }] : [];
  const annotations = limit ? [{ x: 1000 * limit, y: 1, yref: "paper", yanchor: "bottom", showarrow: false, text: `limit ${f.seconds(limit)}`, font: { size: 12, color: colour("muted") } }] : [];
  const waits = [...traces.flatMap((trace) => trace.x), ...(limit ? [1000 * limit] : [])];
  return labelled({
    traces, shapes, annotations, hovermode: "closest", height: narrow() ? 340 : 400,
    x: { title: "milliseconds between tokens of one user (labels: users)", range: [0, 1.08 * Math.max(...waits)] },
    y: { title: "tokens per second for all users", ...logTicks(traces.flatMap((trace) => trace.y), (value) => f.number(value)) },
  });
}

export const servingSays = (points) => `Tokens per second for all users against the time between tokens: ${points.filter((point) => point.fits).map((point) => `${point.gpu}, ${point.generation.users} users ${f.number(point.generation.tokens_per_s)} tokens per second`).join("; ")}`;

// ---------------------------------------------------------------- at which price another card is the better buy

// `entries`: {name, usd, low_usd, high_usd, flip_usd, picked}. A bar is the range of prices seen, the dot the price used, and the
// diamond the price at which this card and the picked one would cost the same for the same work.
export function flipChart(entries) {
  const known = entries.filter((entry) => entry.usd != null);
  const names = known.map((entry) => plain(entry.name)).reverse();
  const at = (key) => [...known].reverse().map((entry) => entry[key] ?? null);
  const spread = [...known].reverse().flatMap((entry, place) => (entry.low_usd != null && entry.high_usd > entry.low_usd ? [entry.low_usd, entry.high_usd, null].map((usd) => [usd, names[place]]) : []));
  const line = (entry) => (entry.flip_usd == null ? "" : entry.picked ? `<br>another card is the better buy above ${f.usd(entry.flip_usd)}` : `<br>the better buy below ${f.usd(entry.flip_usd)}`);
  const traces = [
    { type: "scatter", mode: "lines", name: "prices seen", x: spread.map(([usd]) => usd), y: spread.map(([, name]) => name), line: { color: colour("grey"), width: 9 }, hoverinfo: "skip" },
    { type: "scatter", mode: "markers", name: "price used", x: at("usd"), y: names, marker: { color: [...known].reverse().map((entry) => colour(entry.picked ? "accent" : "c6")), size: 12 }, hovertext: [...known].reverse().map((entry) => `${plain(entry.name)}: ${f.usd(entry.usd)}${line(entry)}`), hoverinfo: "text" },
    { type: "scatter", mode: "markers", name: "price at which the order changes", x: at("flip_usd"), y: names, marker: { color: colour("c1"), symbol: "diamond", size: 12 }, hovertext: [...known].reverse().map((entry) => `${plain(entry.name)}${line(entry)}`), hoverinfo: "text" },
  ];
  return { traces, hovermode: "closest", height: 130 + 38 * known.length, x: { title: "price, $", rangemode: "tozero", tickprefix: "$", tickformat: ",.0f" }, y: { type: "category" } };
}

export const flipSays = (entries) => entries.filter((entry) => entry.flip_usd != null).map((entry) => `${entry.name} costs ${f.usd(entry.usd)}; the order changes at ${f.usd(entry.flip_usd)}`).join("; ") || "Prices";

// ---------------------------------------------------------------- a model by batch

// `points` are those of /api/sweep; `most` is the largest batch that fits (`max_batch` of /api/fit), marked exactly.
export function batchCurve(points, { most, unit = "samples/s", rate = (point) => point.samples_per_s } = {}) {
  const inside = points.filter((point) => most == null || point.batch <= most);
  const beyond = points.filter((point) => most != null && point.batch > most);
  const trace = (mine, more) => ({ type: "scatter", mode: "lines+markers", x: mine.map((point) => point.batch), y: mine.map(rate), hovertext: mine.map((point) => `batch ${point.batch}: ${f.number(rate(point))} ${unit}, ${f.seconds(point.step_s)} per step${most != null && point.batch > most ? ", does not fit" : ""}`), hoverinfo: "text", ...more });
  const traces = [trace(inside, { label: "fits", line: { color: colour("c0"), width: 3 } })];
  if (beyond.length) traces.push(trace([...inside.slice(-1), ...beyond], { label: "does not fit", line: { color: colour("grey"), dash: "dot", width: 2 } }));
  const shapes = most ? [{ type: "line", x0: most, x1: most, yref: "paper", y0: 0, y1: 1, line: { color: colour("c1"), width: 2 } }] : [];
  const annotations = most ? [{ x: Math.log10(most), y: 1, yref: "paper", yanchor: "bottom", showarrow: false, text: `largest batch: ${most.toLocaleString("en-US")}`, font: { size: 13, color: colour("c1") } }] : [];
  const batches = [...points.map((point) => point.batch), ...(most ? [most] : [])];
  return labelled({ traces, shapes, annotations, margin: { t: 28 }, x: { title: "batch", ...logTicks(batches, (value) => f.number(value)), range: [Math.log10(Math.min(...batches) / 1.15), Math.log10(Math.max(...batches) * 1.15)] }, y: { title: unit } });
}

export const batchSays = (points, most) => `Throughput by batch${most ? `; the largest batch that fits is ${most}` : ""}: ${points.map((point) => `${point.batch} gives ${f.number(point.samples_per_s)}`).join(", ")}`;

// ---------------------------------------------------------------- a roofline that ends where the GPU does

// `ops`: {name, flops, bytes, seconds}; the roof is the GPU's peak, and no op is drawn above it: one that seems to be faster (it finds
// its data in the cache) is put on the roof and says so.
export function roofline(ops, { peak, bandwidth }) {
  const useful = ops.filter((op) => op.flops > 0 && op.bytes > 0 && op.seconds > 0);
  const across = useful.map((op) => op.flops / op.bytes);
  const reached = useful.map((op) => op.flops / op.seconds);
  const roof = (intensity) => Math.min(peak, bandwidth * intensity);
  const capped = reached.map((rate, place) => Math.min(rate, roof(across[place])));
  const ridge = peak / bandwidth;
  const [low, high] = [Math.min(...across, ridge) / 3, Math.max(...across, ridge) * 3];
  const size = useful.map((op) => 8 + 26 * Math.sqrt(op.seconds / Math.max(...useful.map((one) => one.seconds))));
  const traces = [
    { type: "scatter", mode: "lines", x: [low, ridge, high], y: [low * bandwidth, peak, peak], line: { color: colour("muted"), width: 2 }, hoverinfo: "skip", showlegend: false },
    { type: "scatter", mode: "markers", x: across, y: capped, marker: { size, color: useful.map((_, place) => colour(`c${place % 8}`)), opacity: 0.85 }, showlegend: false, hoverinfo: "text", hovertext: useful.map((op, place) => `${plain(op.name)}: ${f.seconds(op.seconds)}<br>${f.si(capped[place], "FLOP/s")}, ${f.percent(capped[place] / roof(across[place]))} of what its bytes allow${reached[place] > roof(across[place]) * 1.01 ? "<br>part of its data stays in the cache, so it is drawn on the roof" : ""}`) },
  ];
  const annotations = [
    { x: Math.log10(high), y: Math.log10(peak), xanchor: "right", yanchor: "bottom", showarrow: false, text: `peak ${f.si(peak, "FLOP/s")}`, font: { color: colour("muted") } },
    { x: Math.log10(low), y: Math.log10(low * bandwidth), xanchor: "left", yanchor: "bottom", showarrow: false, text: `memory ${f.si(bandwidth, "B/s")}`, font: { color: colour("muted") }, textangle: 0 },
  ];
  const rates = [...capped, low * bandwidth, peak];
  return { traces, annotations, hovermode: "closest", x: { title: "FLOPs per byte", ...logTicks([low, high], (value) => f.number(value)) }, y: { title: "FLOP/s", ...logTicks(rates, (value) => f.si(value, "")) } };
}
