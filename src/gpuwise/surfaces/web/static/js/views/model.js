// My model on one GPU: what a step is made of, what bounds it, what fills the memory, and how throughput grows with the batch.

import { ask } from "../api.js";
import { isLanguage, saysText, step, textChoices, textOf, writes } from "../case.js";
import { colour, draw, palette, plain } from "../charts.js";
import { amount, choice, text } from "../controls.js";
import * as f from "../format.js";
import { assumptions, brief, card, facts, fill, fold, h, head, key, num, points, row, stack, table } from "../ui.js";
import { curveChart, textFigures, textSaid, withCacheApart } from "./text.js";

export const name = "My model";
export const title = "How fast is my model, and will it fit?";
export const uses = ["batch", "seq", "precision", "mode"];

const MEMORY = ["weight", "gradient", "optimizer", "activation", "workspace", "framework", "input", "kv_cache", "communication"];
const SWEPT = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

export function mount(root) {
  const verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const numbers = h("div", {});
  const rest = h("div", {});
  const memory = h("div", {});
  const [waterfall, roofline, growth] = ["chart", "chart", "chart"].map((kind) => h("div", { class: kind }));
  const ops = h("div", {});
  const wording = wordingFold();
  const growthTitle = h("h2", {});
  root.append(
    h("section", { class: "card verdict-card" },
      h("div", { class: "controls" }, text("On this GPU", "gpu", { list: "gpus" })),
      wording,
      verdict, numbers, rest),
    card("Memory", memory),
    h("div", { class: "pair" },
      card("Time per step by op", waterfall, h("p", { class: "note" }, "Teal ops are limited by compute, and ochre ops by memory.")),
      card("Roofline", roofline, h("p", { class: "note" }, "Each dot is a class of ops. Ops without multiplications are at the left edge, where their height shows the bandwidth they reach."))),
    h("section", { class: "card" }, growthTitle, growth),
    card("All classes of ops", ops));
  const shown = async (one, grown, label) => {
    const { answer, result, gpu } = one;
    fill(rest, answer.notes.length > 0 && points(answer.notes), assumptions({ ...answer, assumptions: result.assumptions }));
    fill(memory, memoryBar(one));
    fill(ops, opTable(one));
    await Promise.all([
      draw(waterfall, `Time per step by class of ops: ${result.by_op.map((op) => `${op.op} ${f.seconds(op.seconds)}`).join(", ")}`, () => waterfallChart(one)),
      draw(roofline, `Roofline of ${f.the(gpu.name)} with each class of ops`, () => rooflineChart(one)),
      draw(growth, label, () => grown(one)),
    ]);
  };
  return async (state, signal) => {
    wording.hidden = !isLanguage(state);
    wording.open ||= saysText(state);
    const written = writes(state);
    growthTitle.textContent = written ? "Throughput and time per token" : "Throughput by batch size";
    if (written) {
      const asked = { ...textOf(state), gpu: [state.gpu] };
      const [answer, curve, sheet] = await Promise.all([ask("predict", asked, signal), ask("predict", { ...asked, users: "1..256" }, signal), ask("gpus", { names: [state.gpu] }, signal)]);
      const one = { answer, result: withCacheApart(answer.results[0]), fit: answer, gpu: sheet.gpus[0], curve };
      verdict.textContent = textSaid(one);
      fill(numbers, textFigures(one));
      await shown(one, curveChart, "Total tokens per second against time per token, for 1 to 256 users");
      return;
    }
    const asked = { ...step(state), gpu: [state.gpu] };
    const any = { ...asked, batch: "" }; // the largest batch and the curve are the same at every batch
    const [answer, fit, sheet, swept] = await Promise.all([
      ask("predict", asked, signal),
      ask("fit", { ...any, remedies: false }, signal),
      ask("gpus", { names: [state.gpu] }, signal),
      ask("sweep", { ...any, batches: SWEPT }, signal),
    ]);
    const one = { answer, result: answer.results[0], fit, gpu: sheet.gpus[0], swept };
    verdict.textContent = said(one);
    fill(numbers, figures(one));
    await shown(one, growthChart, `Samples per second by batch size; the largest that fits is ${fit.max_batch}`);
  };
}

// How a language model generates text; its presence in the state asks for text instead of a step.
function wordingFold() {
  const { weights, engines } = textChoices();
  return fold("Generate text",
    h("div", { class: "controls" },
      choice("Weights", "weights", [["", "default"], ...weights.map((entry) => [entry, entry])]),
      choice("Engine", "engine", [["", "default"], ...engines.map((entry) => [entry.name, entry.title])]),
      amount("Concurrent users", "users", { placeholder: "1", min: 1, step: 1 }),
      amount("Prompt tokens", "prompt", { placeholder: "512", min: 1, step: 1 }),
      amount("Output tokens", "output", { placeholder: "256", min: 1, step: 1 })));
}

function said({ result, fit, gpu, answer }) {
  const does = result.mode === "train" ? "trains" : "runs";
  const holds = result.fits ? `It fits: ${f.gib(result.memory.total_bytes)} of ${f.gib(gpu.usable_memory_bytes)}` : `It does not fit: it needs ${f.gib(result.memory.total_bytes)}, but the GPU has ${f.gib(gpu.usable_memory_bytes)}`;
  const largest = fit.max_batch ? `; the largest batch that fits is ${fit.max_batch}` : "";
  return `${f.the(result.gpu, true)} ${does} ${answer.model} at ${f.number(result.samples_per_s)} samples per second, limited by ${result.bound}. ${holds}${largest}.`;
}

function figures({ answer, result, fit, gpu }) {
  const own = { ...answer, assumptions: result.assumptions };
  const lanes = Object.entries(result.lanes_s).map(([name, value]) => [`${name} lane`, f.seconds(value)]);
  return facts([
    ["time per step", num(f.seconds(result.step_s), { title: "Time per step", formula: "the longest lane determines the step time:\n" + lanes.map(([name, value]) => `${name}: ${value}`).join("\n"), rows: [["range", `${f.seconds(result.step_low_s)} to ${f.seconds(result.step_high_s)}${result.range_basis === "assumed" ? " (assumed, because no similar device was measured)" : ", which contains 80% of measurements on GPUs that were not used in the fit"}`], ["known ops", f.percent(result.coverage_fraction)]], answer: own }), `${f.seconds(result.step_low_s)} – ${f.seconds(result.step_high_s)}`],
    ["samples per second", num(f.number(result.samples_per_s), { title: "Samples per second", formula: `batch ${result.batch} × ${result.gpu_count} GPU ÷ ${f.seconds(result.step_s)} = ${f.number(result.samples_per_s)}`, answer: own }), `batch ${result.batch}, ${result.precision}`],
    ["limited by", num(result.bound, { title: "Limited by", formula: Object.entries(result.bound_fractions).map(([name, share]) => `${name}: ${f.percent(share, 1)}`).join("\n"), rows: [["meaning", "how strongly the step time responds if this resource becomes slightly faster"]], answer: own }), f.percent(result.bound_fractions[result.bound])],
    result.utilisation_fraction != null && ["of the peak", num(f.percent(result.utilisation_fraction), { title: "Of the peak", formula: `${f.si(result.utilisation_fraction * result.step_s * peakOf(gpu, result), "FLOP")} per step ÷ ${f.seconds(result.step_s)} ÷ ${f.si(peakOf(gpu, result), "FLOP/s")}, the dense peak of ${f.the(gpu.name)} in ${result.computes_in}`, answer: own })],
    ["largest batch", num(fit.max_batch ?? "none", { title: "Largest batch", formula: `the largest batch whose step stays within ${f.gib(fit.usable_memory_bytes)}; batch ${result.batch} takes ${f.gib(result.memory.total_bytes)}`, rows: [["safe batch", fit.safe_batch ?? "–"], ["usable memory", f.gib(fit.usable_memory_bytes)]], answer: fit }), fit.safe_batch ? `${fit.safe_batch} is safe` : ""],
  ]);
}

function memoryBar({ result, gpu, fit }) {
  const have = gpu.usable_memory_bytes;
  const used = result.memory.total_bytes;
  const colours = MEMORY.map((_, place) => palette(place));
  const known = MEMORY.map((name, place) => ({ name: f.words(name), value: result.memory[`${name}_bytes`] ?? 0, colour: colours[place] }));
  const sum = known.reduce((total, piece) => total + piece.value, 0);
  const pieces = [...known, { name: "rounding and temporary buffers", value: Math.max(0, used - sum), colour: "var(--grey)" }].map((piece) => ({
    ...piece, text: f.gib(piece.value),
    shown: num(f.gib(piece.value), { title: `Memory: ${piece.name}`, formula: `${f.number(piece.value)} bytes, ${f.percent(piece.value / used, 1)} of the peak`, rows: [["location of the peak", `${result.memory.peak?.op ?? "–"} (${result.memory.peak?.phase ?? ""}) in ${result.memory.peak?.module || "the model"}`], ["range of the total", `${f.gib(result.memory.low_bytes)} to ${f.gib(result.memory.high_bytes)}`]], answer: fit }),
  }));
  const whole = Math.max(have, used) * 1.02;
  const spare = have - used;
  return [
    stack(pieces, whole, { limit: have, label: `${f.gib(used)} of ${f.gib(have)} usable` }),
    h("p", { class: "note" }, `${f.gib(used)} of ${f.gib(have)}. The dashed line marks the memory of ${f.the(gpu.name)}. `, spare >= 0 ? `${f.gib(spare)} is free.` : `The model exceeds it by ${f.gib(-spare)}.`),
    key(pieces.filter((piece) => piece.value > used / 1000)),
  ];
}

function waterfallChart({ result }) {
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

const peakOf = (gpu, { precision, peak_flops_per_s: peak }) => {
  if (peak) return peak;
  const type = { fp32: "fp32", tf32: "tf32", bf16: "bf16", "amp-bf16": "bf16", fp8: "fp8" }[precision] ?? "fp16";
  const peaks = gpu.peak_dense_flops_per_s;
  return Math.max(peaks.matrix?.[type] ?? 0, peaks.vector?.[type] ?? 0, peaks.vector?.fp32 ?? 0);
};

function rooflineChart({ result, gpu }) {
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

function growthChart({ swept, fit, result }) {
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

function opTable({ result, gpu, answer }) {
  const peak = peakOf(gpu, result);
  return table(["", "calls", "time", "share", head("limited by"), "of the peak", "of the bandwidth"],
    result.by_op.map((op) => row([
      f.words(op.op),
      f.number(op.count, 6),
      num(f.seconds(op.seconds), { title: f.words(op.op), formula: `${op.count} calls, ${f.si(op.flops, "FLOP")}, ${f.si(op.moved_bytes, "B")} moved`, rows: [["rates achieved", `${f.si(op.flops / op.seconds, "FLOP/s")} and ${f.si(op.moved_bytes / op.seconds, "B/s")}`], ["of", `${f.si(peak, "FLOP/s")} and ${f.si(gpu.memory_bytes_per_s, "B/s")}`]], answer: { ...answer, assumptions: result.assumptions } }),
      num(f.percent(op.seconds / result.step_s, 1), { title: `${f.words(op.op)}: share of the step`, formula: `${f.seconds(op.seconds)} ÷ ${f.seconds(result.step_s)}`, answer }),
      brief(op.bound),
      op.flops ? num(f.percent(op.flops / op.seconds / peak), { title: `${f.words(op.op)}: of the peak`, formula: `${f.si(op.flops, "FLOP")} ÷ ${f.seconds(op.seconds)} ÷ ${f.si(peak, "FLOP/s")}`, answer }) : "–",
      num(f.percent(op.moved_bytes / op.seconds / gpu.memory_bytes_per_s), { title: `${f.words(op.op)}: of the bandwidth`, formula: `${f.si(op.moved_bytes, "B")} ÷ ${f.seconds(op.seconds)} ÷ ${f.si(gpu.memory_bytes_per_s, "B/s")}`, answer }),
    ])), { caption: "Time by class of ops" });
}
