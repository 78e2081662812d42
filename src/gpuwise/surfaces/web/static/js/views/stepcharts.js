// One step in charts: the time op by op, the roofline, and throughput against the batch.

import { colour, plain } from "../charts.js";
import * as f from "../format.js";

export function waterfallChart({ result }) {
  const ops = result.by_op.filter((op) => op.seconds > result.step_s / 500);
  const rows = [...ops.map((op) => [f.words(op.op), op.seconds, op.bound]), ["waiting and small ops", Math.max(0, result.step_s - ops.reduce((total, op) => total + op.seconds, 0)), "wait"], ["the step", result.step_s, "step"]];
  let start = 0;
  const base = rows.map(([, value, kind]) => {
    const at = kind === "step" ? 0 : start;
    start += kind === "step" ? 0 : value;
    return at * 1e3;
  });
  const shade = { compute: colour("c0"), memory: colour("c1"), wait: colour("grey"), step: colour("ink") };
  return {
    traces: [{ type: "bar", orientation: "h", y: rows.map(([label]) => plain(label)), x: rows.map(([, value]) => value * 1e3), base, marker: { color: rows.map(([, , kind]) => shade[kind] ?? colour("c6")) }, hovertext: rows.map(([label, value, kind]) => `${plain(label)}: ${f.seconds(value)}${shade[kind] && kind !== "step" && kind !== "wait" ? `, limited by ${kind}` : ""}`), hoverinfo: "text" }],
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

export function rooflineChart({ result, gpu }) {
  const peak = peakOf(gpu, result);
  const wide = gpu.memory_bytes_per_s;
  const ops = result.by_op.filter((op) => op.moved_bytes > 0 && op.seconds > 0);
  const edge = 0.3;
  const at = (op) => (op.flops > 0 ? [op.flops / op.moved_bytes, op.flops / op.seconds] : [edge, (edge * op.moved_bytes) / op.seconds]);
  const far = Math.max(8 * (peak / wide), ...ops.map((op) => 5 * at(op)[0]));
  const size = (op) => 8 + 26 * Math.sqrt(op.seconds / result.step_s);
  return {
    traces: [
      { type: "scatter", mode: "lines", name: "roof", x: [edge / 1.5, peak / wide, far], y: [(edge / 1.5) * wide, peak, peak], line: { color: colour("ink"), width: 2 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers+text", x: ops.map((op) => at(op)[0]), y: ops.map((op) => at(op)[1]), text: ops.map((op) => (op.seconds > result.step_s / 25 ? plain(f.words(op.op)) : "")), textposition: "middle right", cliponaxis: false,
        marker: { size: ops.map(size), color: ops.map((op) => colour(op.bound === "compute" ? "c0" : "c1")), opacity: 0.85 },
        hovertext: ops.map((op) => `${plain(f.words(op.op))}: ${op.flops ? `${f.si(op.flops / op.seconds, "FLOP/s")}, ` : ""}${f.si(op.moved_bytes / op.seconds, "B/s")}`), hoverinfo: "text" },
    ],
    x: { title: "FLOPs per byte moved", type: "log", dtick: 1 },
    y: { title: "FLOP/s", type: "log", dtick: 1, exponentformat: "SI" },
    showlegend: false,
  };
}

export function growthChart({ swept, fit, result }) {
  const most = Math.max(result.batch, (fit.max_batch || 1) * 2);
  const shown = swept.points.filter((point) => point.batch <= most * 1.5);
  const named = shown.filter((_, place) => innerWidth >= 820 || place % 3 === 0);
  const inside = shown.filter((point) => point.batch <= fit.max_batch);
  const outside = shown.filter((point) => point.batch > fit.max_batch);
  const trace = (points, more) => ({ type: "scatter", mode: "lines+markers", x: points.map((point) => point.batch), y: points.map((point) => point.samples_per_s), hovertext: points.map((point) => `batch ${point.batch}: ${f.number(point.samples_per_s)} samples/s, ${f.seconds(point.step_s)} per step`), hoverinfo: "text", ...more });
  return {
    traces: [
      trace([...inside.slice(-1), ...outside], { name: "does not fit", line: { color: colour("grey"), dash: "dot" } }),
      trace(inside, { name: "fits", line: { color: colour("c0"), width: 2.5 } }),
      fit.max_batch > 0 && { type: "scatter", mode: "lines", name: `largest batch, ${fit.max_batch}`, x: [fit.max_batch, fit.max_batch], y: [0, Math.max(...shown.map((point) => point.samples_per_s))], line: { color: colour("muted"), dash: "dash", width: 1.5 }, hoverinfo: "skip" },
      { type: "scatter", mode: "markers", name: "your batch", x: [result.batch], y: [result.samples_per_s], marker: { size: 15, color: "rgba(0,0,0,0)", line: { width: 2, color: colour("ink") } }, hoverinfo: "skip" },
    ].filter(Boolean),
    x: { title: "batch", type: "log", tickvals: named.map((point) => point.batch), ticktext: named.map((point) => String(point.batch)) },
    y: { title: "samples per second", rangemode: "tozero" },
  };
}
