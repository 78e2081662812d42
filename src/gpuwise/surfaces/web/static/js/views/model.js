// My model on one GPU or several: whether it fits, how fast it is, what bounds it, what fills the memory, and what would make it fit.

import { ask } from "../api.js";
import { countOf, isLanguage, numeric, step, textOf, titleOf, training, writes } from "../case.js";
import { draw, palette } from "../charts.js";
import { assume, assumedBy } from "../fields.js";
import * as f from "../format.js";
import { cardLinks, inside } from "../links.js";
import { assumptions, card, fill, fold, h, key, num, points, row, stack, table } from "../ui.js";
import { remedies } from "./remedies.js";
import { growthChart, peakOf, rooflineChart, waterfallChart } from "./stepcharts.js";
import { figures, said, stepLead, unitOf } from "./stepfigures.js";
import { curveChart, textFigures, textLead, textSaid, withCacheApart } from "./language.js";

export const name = "My model";
export const title = "How fast is my model, and will it fit?";
export const computing = (state) => `Predicting ${titleOf(state.model)} on ${f.the(f.several(state.count, state.gpu))}`;

const MEMORY = ["weight", "gradient", "optimizer", "activation", "workspace", "framework", "input", "kv_cache", "communication"];
const CALLED = { weight: "weights", gradient: "gradients", activation: "activations", kv_cache: "KV cache", input: "inputs" };
const SWEPT = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

export function mount(root) {
  const headline = h("h2", { class: "pick" });
  const lead = h("p", { class: "lead" });
  const verdict = h("p", { class: "verdict hidden", role: "status", "aria-live": "polite" }); // the figures say the same to the eye
  const [numbers, ways, rest, memory, cures, ops] = [1, 2, 3, 4, 5, 6].map(() => h("div", {}));
  const [waterfall, roofline, growth] = ["waterfall", "roofline", "growth"].map((kind) => h("div", { class: `chart ${kind}` }));
  const growthTitle = h("h2", {});
  const details = fold("Every kind of operation, and how close it comes to what the GPU allows",
    roofline, h("p", { class: "note" }, "Each dot is one kind of operation. Those without multiplications are at the left edge, where their height shows the bandwidth they reach."), ops);
  let drawRoof = () => {};
  details.addEventListener("toggle", () => details.open && drawRoof()); // a chart needs its width
  const cure = card("What would make it fit", cures);
  const speed = h("div", { class: "body" },
    h("div", { class: "pair" },
      card("Where the time of a step goes", waterfall, key([["limited by compute", "c0"], ["limited by memory bandwidth", "c1"]].map(([name, shade]) => ({ name, value: 1, text: "", colour: `var(--${shade})` })))),
      h("section", { class: "card" }, growthTitle, growth)),
    h("section", { class: "card" }, details));
  cure.hidden = true;
  const answered = h("section", { class: "card verdict-card" }, headline, lead, numbers, verdict, ways, rest);
  root.append(answered, cure, card("Memory", memory), speed);
  // Where the model does not fit, nothing is said about its speed: remedies take the place of the charts.
  const shown = async (one, grown, label, asked, signal) => {
    const { answer, result, gpu, fits } = one;
    const told = result.generation;
    assume({ ...assumedBy(result), mode: { train: "training", infer: "inference" }[result.mode], batch: told ? "" : String(result.batch), precision: told ? "" : result.precision, weights: told?.weights, engine: told?.engine });
    headline.textContent = `${titleOf(answer.model)} ${fits ? "fits on" : "does not fit on"} ${f.the(f.several(result.gpu_count, result.gpu))}`;
    lead.textContent = fits ? (told ? textLead : stepLead)(one) : "";
    lead.hidden = !lead.textContent;
    const links = cardLinks(result.gpu, result.gpu_count, "", "", "", fits);
    if (!fits) links.prepend(inside("Find a GPU that it fits on", { view: "choose", task: "", model: answer.model }));
    fill(ways, links);
    fill(rest, fits && answer.notes.length > 0 && fold(`Notes (${answer.notes.length})`, points(answer.notes)), assumptions({ ...answer, assumptions: result.assumptions }));
    fill(memory, memoryBar(one));
    answered.dataset.result = fits ? "pass" : "fail";
    cure.hidden = fits;
    speed.hidden = !fits;
    if (!fits) {
      remedies(cures, asked, signal);
      return;
    }
    fill(ops, opTable(one));
    drawRoof = () => draw(roofline, `Roofline of ${f.the(gpu.name)} with each class of ops`, () => rooflineChart(one));
    if (details.open) drawRoof();
    await Promise.all([
      draw(waterfall, `Time per step by class of ops: ${result.by_op.map((op) => `${op.op} ${f.seconds(op.seconds)}`).join(", ")}`, () => waterfallChart(one)),
      draw(growth, label, () => grown(one)),
    ]);
  };
  return async (state, signal) => {
    const written = writes(state);
    const count = countOf(state);
    const many = { gpu: [state.gpu], gpus: count > 1 ? count : undefined };
    growthTitle.textContent = written ? "Throughput and time per token" : "Throughput by batch size";
    if (written) {
      const asked = { ...textOf(state), ...many };
      const [answer, curve, sheet] = await Promise.all([ask("predict", asked, signal), ask("predict", { ...asked, users: "1..256" }, signal), ask("gpus", { names: [state.gpu] }, signal)]);
      const result = withCacheApart(answer.results[0]);
      const one = { answer, result, fit: answer, gpu: { ...sheet.gpus[0], usable_memory_bytes: result.generation.usable_memory_bytes }, curve, fits: result.fits || result.generation.offloaded_fraction > 0 };
      verdict.textContent = textSaid(one);
      fill(numbers, textFigures(one));
      await shown(one, curveChart, "Total tokens per second against time per token, for 1 to 256 users", asked, signal);
      return;
    }
    const asked = { ...step(state), ...many, ...(state.mode === "infer" ? {} : training(state)) };
    const any = { ...asked, batch: "" }; // the largest batch and the curve are the same at every batch
    const [answer, fit, sheet, swept] = await Promise.all([
      ask("predict", asked, signal),
      ask("fit", { ...any, remedies: false }, signal),
      ask("gpus", { names: [state.gpu] }, signal),
      ask("sweep", { ...any, batches: SWEPT }, signal),
    ]);
    const result = answer.results[0];
    const one = { answer, result, fit, gpu: sheet.gpus[0], swept, fits: result.fits, samples: numeric(state.samples, "Samples per epoch"), unit: unitOf(result, isLanguage(state)) };
    verdict.textContent = said(one);
    fill(numbers, figures(one));
    await shown(one, growthChart, `Samples per second by batch size; the largest that fits is ${fit.max_batch}`, asked, signal);
  };
}

function memoryBar({ result, gpu, fit }) {
  const have = gpu.usable_memory_bytes;
  const used = result.memory.total_bytes;
  const colours = MEMORY.map((_, place) => palette(place));
  const known = MEMORY.map((name, place) => ({ name: CALLED[name] ?? f.words(name), value: result.memory[`${name}_bytes`] ?? 0, colour: colours[place] }));
  const sum = known.reduce((total, piece) => total + piece.value, 0);
  const pieces = [...known, { name: "rounding and temporary buffers", value: Math.max(0, used - sum), colour: "var(--grey)" }].map((piece) => ({
    ...piece, text: f.gib(piece.value),
    shown: num(f.gib(piece.value), { title: `Memory: ${piece.name}`, formula: `${f.number(piece.value)} bytes, ${f.percent(piece.value / used, 1)} of the peak`, rows: [["location of the peak", `${result.memory.peak?.op ?? "–"} (${result.memory.peak?.phase ?? ""}) in ${result.memory.peak?.module || "the model"}`], ["range of the total", `${f.gib(result.memory.low_bytes)} to ${f.gib(result.memory.high_bytes)}`]], answer: fit }),
  }));
  const whole = Math.max(have, used) * 1.02;
  const spare = have - used;
  return [
    stack(pieces, whole, { limit: have, label: `${f.gib(used)} of ${f.gib(have)} usable` }),
    h("p", { class: "note" }, `${f.gib(used)} of ${f.gib(have)} usable${spare >= 0 ? ` (${f.percent(used / have)})` : ""}. `, spare >= 0 ? `${f.gib(spare)} is free.` : `The dashed line marks what is usable on ${f.the(gpu.name)}; the model exceeds it by ${f.gib(-spare)}.`),
    key(pieces.filter((piece) => piece.value > used / 1000)),
  ];
}

// A column that a phone has no room for.
const roomy = (title, side = "") => h("th", { scope: "col", class: `roomy ${side}` }, title);

function opTable({ result, gpu, answer }) {
  const peak = peakOf(gpu, result);
  return table(["", roomy("calls"), "time", "share", roomy("limited by", "left"), "of the peak", "of the bandwidth"],
    result.by_op.map((op) => row([
      f.words(op.op),
      h("td", { class: "roomy" }, f.number(op.count, 6)),
      num(f.seconds(op.seconds), { title: f.words(op.op), formula: `${op.count} calls, ${f.si(op.flops, "FLOP")}, ${f.si(op.moved_bytes, "B")} moved`, rows: [["rates achieved", `${f.si(op.flops / op.seconds, "FLOP/s")} and ${f.si(op.moved_bytes / op.seconds, "B/s")}`], ["of", `${f.si(peak, "FLOP/s")} and ${f.si(gpu.memory_bytes_per_s, "B/s")}`]], answer: { ...answer, assumptions: result.assumptions } }),
      num(op.seconds < 5e-4 * result.step_s ? "< 0.1%" : f.percent(op.seconds / result.step_s, 1), { title: `${f.words(op.op)}: share of the step`, formula: `${f.seconds(op.seconds)} ÷ ${f.seconds(result.step_s)}`, answer }),
      h("td", { class: "roomy left nowrap" }, f.bound(op.bound)),
      op.flops ? num(f.percent(op.flops / op.seconds / peak), { title: `${f.words(op.op)}: of the peak`, formula: `${f.si(op.flops, "FLOP")} ÷ ${f.seconds(op.seconds)} ÷ ${f.si(peak, "FLOP/s")}`, answer }) : "–",
      num(f.percent(op.moved_bytes / op.seconds / gpu.memory_bytes_per_s), { title: `${f.words(op.op)}: of the bandwidth`, formula: `${f.si(op.moved_bytes, "B")} ÷ ${f.seconds(op.seconds)} ÷ ${f.si(gpu.memory_bytes_per_s, "B/s")}`, answer }),
    ])), { caption: "Time by class of ops" });
}
