// One step in charts: the time op by op, the roofline, and throughput against the batch.

import { colour, logTicks, narrow, plain, uncrowded } from "../charts.js";
import * as f from "../format.js";

export function waterfallChart({ result }) {
  const ops = result.by_op.filter((op) => op.seconds > result.step_s / 100);
  const rows = [...ops.map((op) => [f.words(op.op), op.seconds, op.bound]), ["waiting and small ops", Math.max(0, result.step_s - ops.reduce((total, op) => total + op.seconds, 0)), "wait"], ["the step", result.step_s, "step"]];
  let start = 0;
  const base = rows.map(([, value, kind]) => {
    const at = kind === "step" ? 0 : start;
    start += kind === "step" ? 0 : value;
    return at * 1e3;
  });
  const shade = { compute: colour("c0"), memory: colour("c1"), wait: colour("grey"), step: colour("ink") };
  return {
    traces: [{ type: "bar", orientation: "h", y: rows.map(([label]) => plain(label)), x: rows.map(([, value]) => value * 1e3), base, marker: { color: rows.map(([, , kind]) => shade[kind] ?? colour("c6")) }, hovertext: rows.map(([label, value, kind]) => `${plain(label)}: ${f.seconds(value)}${shade[kind] && kind !== "step" && kind !== "wait" ? `, limited by ${f.bound(kind)}` : ""}`), hoverinfo: "text" }],
    x: { title: "milliseconds", rangemode: "tozero" },
    y: { autorange: "reversed" }, bargap: 0.3, showlegend: false,
  };
}

export const peakOf = (gpu, { precision, peak_flops_per_s: peak }) => {
  if (peak) return peak;
  const type = { fp32: "fp32", tf32: "tf32", bf16: "bf16", "amp-bf16": "bf16", fp8: "fp8" }[precision] ?? "fp16";
  const peaks = gpu.peak_dense_flops_per_s;
  return Math.max(peaks.matrix?.[type] ?? 0, peaks.vector?.[type] ?? 0, peaks.vector?.fp32 ?? 0);
};

// No op is drawn above the roof: one that seems to be faster keeps part of its data in the cache, and says so.
export function rooflineChart({ result, gpu }) {
  const peak = peakOf(gpu, result);
  const wide = gpu.memory_bytes_per_s;
  const ops = result.by_op.filter((op) => op.moved_bytes > 0 && op.seconds > result.step_s / 2000).sort((one, other) => other.seconds - one.seconds);
  const edge = 0.3;
  const roof = (across) => Math.min(peak, across * wide);
  const at = (op) => (op.flops > 0 ? [op.flops / op.moved_bytes, op.flops / op.seconds] : [edge, (edge * op.moved_bytes) / op.seconds]);
  const places = ops.map((op) => { const [across, rate] = at(op); return [across, Math.min(rate, roof(across))]; });
  const above = (op) => at(op)[1] > 1.02 * roof(at(op)[0]);
  const xs = [edge / 1.5, Math.max(8 * (peak / wide), ...places.map(([across]) => 5 * across))];
  const ys = [Math.min(xs[0] * wide, ...places.map(([, rate]) => rate)) / 4, 8 * peak];
  const share = (value, [low, high]) => Math.log10(value / low) / Math.log10(high / low);
  const [broad, tall] = [narrow() ? 230 : Math.max(240, Math.min(560, innerWidth / 2 - 260)), 280];
  const sides = places.map(([x, y]) => (y <= 0.4 * roof(x) ? `middle ${share(x, xs) > 0.65 ? "left" : "right"}` : share(x, xs) < 0.2 ? "bottom right" : "bottom center")); // below its own dot, so that no other one seems to be meant
  const texts = uncrowded(ops.map((op) => (op.seconds > result.step_s / 60 ? plain(f.words(op.op)) : "")), places.map(([x, y]) => [broad * share(x, xs), tall * (1 - share(y, ys))]), sides);
  const size = (op) => 8 + 26 * Math.sqrt(op.seconds / result.step_s);
  const along = xs[0] ** 0.25 * (peak / wide) ** 0.75; // where the slope is named, above it: nothing is drawn there
  const note = (x, y, text, more) => ({ x: Math.log10(x), y: Math.log10(y), showarrow: false, text, font: { size: 12, color: colour("muted") }, ...more });
  return {
    traces: [
      { type: "scatter", mode: "lines", name: "roof", x: [xs[0], peak / wide, xs[1]], y: [xs[0] * wide, peak, peak], line: { color: colour("ink"), width: 2 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers+text", x: places.map(([x]) => x), y: places.map(([, y]) => y), text: texts, textposition: sides, cliponaxis: false,
        marker: { size: ops.map(size), color: ops.map((op) => colour(op.bound === "compute" ? "c0" : "c1")), opacity: 0.85 },
        hovertext: ops.map((op, place) => `${plain(f.words(op.op))}: ${f.seconds(op.seconds)}<br>${op.flops ? `${f.si(op.flops / op.seconds, "FLOP/s")}, ` : ""}${f.si(op.moved_bytes / op.seconds, "B/s")}<br>${above(op) ? "part of its data stays in the cache, so it is drawn on the roof" : `${f.percent(places[place][1] / roof(places[place][0]))} of what the GPU allows`}`), hoverinfo: "text" },
    ],
    annotations: [note(xs[1], 2 * peak, `peak ${f.si(peak, "FLOP/s")}`, { xanchor: "right", yanchor: "bottom" }), note(along / 1.25, 1.15 * wide * along, `memory ${f.si(wide, "B/s")}`, { xanchor: "right", yanchor: "bottom" })],
    x: { title: "FLOPs per byte moved", ...logTicks(xs, (value) => f.number(value)), range: xs.map(Math.log10) },
    y: { title: "FLOP/s", ...logTicks(ys, (value) => f.si(value, "")), range: ys.map(Math.log10) },
    showlegend: false,
  };
}

export function growthChart({ swept: counted, fit, result: step, unit }) {
  const scaled = (point) => ({ ...point, samples_per_s: point.samples_per_s * unit.each });
  const [swept, result] = [{ points: counted.points.map(scaled) }, scaled(step)];
  const most = Math.max(result.batch, (fit.max_batch || 1) * 2);
  const shown = swept.points.filter((point) => point.batch <= most * 1.5);
  const top = Math.max(...shown.map((point) => point.samples_per_s));
  const named = (text, batch, rate, more) => ({ x: Math.log10(batch), y: rate, text, showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: colour("muted"), standoff: 8, font: { size: 13, color: colour("ink") }, bgcolor: colour("panel"), ...more });
  const ticked = shown.filter((_, place) => innerWidth >= 820 || place % 3 === 0);
  const inside = shown.filter((point) => point.batch <= fit.max_batch);
  const outside = shown.filter((point) => point.batch > fit.max_batch);
  const last = inside.at(-1);
  if (last && outside.length && fit.max_batch > last.batch) { // both lines meet at the largest batch itself
    const share = Math.log(fit.max_batch / last.batch) / Math.log(outside[0].batch / last.batch);
    inside.push(Object.fromEntries(["batch", "samples_per_s", "step_s"].map((key) => [key, key === "batch" ? fit.max_batch : last[key] * (outside[0][key] / last[key]) ** share])));
  }
  const trace = (points, more) => ({ type: "scatter", mode: "lines+markers", x: points.map((point) => point.batch), y: points.map((point) => point.samples_per_s), hovertext: points.map((point) => `batch ${point.batch}: ${f.number(point.samples_per_s)} ${unit.name}s/s, ${f.seconds(point.step_s)} per step`), hoverinfo: "text", ...more });
  return {
    traces: [
      trace([...inside.slice(-1), ...outside], { name: "does not fit", line: { color: colour("grey"), dash: "dot" } }),
      trace(inside, { name: "fits", line: { color: colour("c0"), width: 2.5 } }),
      fit.max_batch > 0 && { type: "scatter", mode: "lines", name: `largest batch, ${fit.max_batch}`, x: [fit.max_batch, fit.max_batch], y: [0, top], line: { color: colour("muted"), dash: "dash", width: 1.5 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers", name: "your batch", x: [result.batch], y: [result.samples_per_s], marker: { size: 15, color: "rgba(0,0,0,0)", line: { width: 2, color: colour("ink") } }, hoverinfo: "skip" },
    ].filter(Boolean),
    annotations: narrow() ? [] : [named("your batch", result.batch, result.samples_per_s, { ax: -46, ay: -26 }), fit.max_batch > 0 && named(`largest that fits: ${fit.max_batch}`, fit.max_batch, 0.08 * top, { ax: -8, ay: 0, xanchor: "right" })].filter(Boolean),
    showlegend: narrow(),
    x: { title: "batch", type: "log", tickvals: ticked.map((point) => point.batch), ticktext: ticked.map((point) => String(point.batch)) },
    y: { title: `${unit.name}s per second`, rangemode: "tozero" },
  };
}
