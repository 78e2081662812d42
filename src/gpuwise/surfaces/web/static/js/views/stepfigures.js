// One step in words and figures: images per second or seconds per image, samples, epochs; nothing about speed if it does not fit.

import { titleOf } from "../case.js";
import { titleOfPrecision } from "../fields.js";
import * as f from "../format.js";
import { facts, num } from "../ui.js";
import { peakOf } from "./stepcharts.js";

const held = (result, gpu) => `${f.gib(result.memory.total_bytes)} of ${f.gib(gpu.usable_memory_bytes)}${result.gpu_count > 1 ? " on each GPU" : ""}`;

export function said({ result, fit, gpu, answer, samples }) {
  const name = f.several(result.gpu_count, result.gpu);
  const does = result.mode === "train" ? (result.gpu_count > 1 ? "train" : "trains") : result.gpu_count > 1 ? "run" : "runs";
  const largest = fit.max_batch ? `; the largest batch that fits is ${fit.max_batch}` : "";
  if (!result.fits) return `${titleOf(answer.model)} does not fit on ${f.the(name)}: it needs ${f.gib(result.memory.total_bytes)}${result.gpu_count > 1 ? " on each GPU" : ""}, but the GPU has ${f.gib(gpu.usable_memory_bytes)}${largest}.`;
  const images = result.image_generation;
  if (images) return `${f.the(name, true)} takes ${f.number(images.seconds_per_image)} s per image with ${titleOf(answer.model)} (${images.steps} steps), limited by ${f.bound(result.bound)}. The model fits: ${held(result, gpu)}.`;
  const epoch = samples ? `, or ${f.seconds(samples / result.samples_per_s)} per epoch of ${f.number(samples)} samples` : "";
  return `${f.the(name, true)} ${does} ${titleOf(answer.model)} at ${f.number(result.samples_per_s)} samples per second${epoch}, limited by ${f.bound(result.bound)}. The model fits: ${held(result, gpu)}${largest}.`;
}

const WORTH = 1.1; // times as fast, from which another batch is worth a remark

// Which step this is, and whether another batch would be worth more.
export function stepLead({ result, fit, swept, unit }) {
  const doing = `${result.mode === "train" ? "Training" : "Running"} with batch ${result.batch}${result.gpu_count > 1 ? " on each GPU" : ""}.`;
  const able = swept.points.filter((point) => point.batch <= (fit.safe_batch ?? fit.max_batch ?? 0));
  const best = able.find((point) => WORTH * point.samples_per_s > Math.max(...able.map((other) => other.samples_per_s))); // the smallest that is about as fast as any
  const gain = best ? best.samples_per_s / result.samples_per_s : 0;
  if (result.image_generation || gain < WORTH) return doing;
  return `${doing} Batch ${best.batch} fits too, and processes ${f.number(gain, 2)} times as many ${unit.name}s per second.`;
}

// Language models are measured in tokens, and models of pictures in images: a sample is one sequence or one image.
export function unitOf({ rate_unit: unit, seq }, language) {
  if (language && seq && unit === "tokens/s") return { name: "token", each: seq };
  return { name: unit === "images/s" ? "image" : "sample", each: 1 };
}

const measured = (result) => (result.range_basis === "assumed" ? " (assumed, because no similar device was measured)" : ", which contains 80% of measurements on GPUs that were not used in the fit");

function speed({ answer, result, samples, unit }, own) {
  const rate = result.samples_per_s * unit.each;
  const lanes = Object.entries(result.lanes_s).map(([name, value]) => [`${name} lane`, f.seconds(value)]);
  const images = result.image_generation;
  return [
    ["time per step", num(f.seconds(result.step_s), { title: "Time per step", formula: "the longest lane determines the step time:\n" + lanes.map(([name, value]) => `${name}: ${value}`).join("\n"), rows: [["range", `${f.between(result.step_low_s, result.step_high_s)}${measured(result)}`], ["known ops", f.percent(result.coverage_fraction)]], answer: own }), f.between(result.step_low_s, result.step_high_s)],
    images && ["per image", num(`${f.number(images.seconds_per_image)} s`, { title: "Time per image", formula: `text ${f.seconds(images.text_s)} + ${images.steps} steps ${f.seconds(images.denoising_s)} + decoding ${f.seconds(images.decoding_s)} + the program itself ${f.seconds(images.program_s)}`, rows: [["range", f.between(images.seconds_per_image_low, images.seconds_per_image_high)]], answer: own }), `${images.steps} steps, ${f.number(images.images_per_minute)} images per minute`],
    !images && [`${unit.name}s per second`, num(f.number(rate), { title: `${f.capital(unit.name)}s per second`, formula: `batch ${result.batch}${unit.each > 1 ? ` × ${f.number(unit.each)} tokens` : ""} × ${f.plural(result.gpu_count, "GPU")} ÷ ${f.seconds(result.step_s)} = ${f.number(rate)}`, answer: own }), `batch ${result.batch}, ${titleOfPrecision(result.precision)}`],
    samples && result.mode === "train" && ["time per epoch", num(f.seconds(samples / result.samples_per_s), { title: "Time per epoch", formula: `${f.number(samples)} samples ÷ ${f.number(result.samples_per_s)} per second`, answer: own }), `${f.number(samples)} samples`],
  ];
}

export function figures(one) {
  const { answer, result, fit, gpu } = one;
  const own = { ...answer, assumptions: result.assumptions };
  const needs = ["memory", num(f.gib(result.memory.total_bytes), { title: "Memory at the peak", formula: `${f.gib(result.memory.total_bytes)} needed, ${f.gib(gpu.usable_memory_bytes)} usable`, rows: [["range", `${f.gib(result.memory.low_bytes)} to ${f.gib(result.memory.high_bytes)}`]], answer: own }), `${result.fits ? "fits in" : "does not fit in"} ${f.gib(gpu.usable_memory_bytes)}`, result.memory.total_bytes / gpu.usable_memory_bytes];
  const batch = ["largest batch", num(fit.max_batch || "none", { title: "Largest batch", formula: `the largest batch whose step stays within ${f.gib(fit.usable_memory_bytes)}; batch ${result.batch} takes ${f.gib(result.memory.total_bytes)}`, rows: [["safe batch", fit.safe_batch || "–"], ["usable memory", f.gib(fit.usable_memory_bytes)]], answer: fit }), fit.safe_batch ? `${fit.safe_batch} is safe` : ""];
  const short = result.memory.total_bytes - gpu.usable_memory_bytes;
  if (!result.fits) return facts([needs, ["too large by", num(f.gib(short), { title: "Too large by", formula: `${f.gib(result.memory.total_bytes)} needed − ${f.gib(gpu.usable_memory_bytes)} usable`, answer: own }), `${f.number(result.memory.total_bytes / gpu.usable_memory_bytes, 2)} times the memory of ${f.the(gpu.name)}`], batch]);
  return [facts([...speed(one, own), needs, batch]), facts([
    ["limited by", num(f.bound(result.bound), { title: "Limited by", formula: Object.entries(result.bound_fractions).map(([name, share]) => `${f.bound(name)}: ${f.percent(share, 1)}`).join("\n"), rows: [["meaning", "how strongly the step time responds if this resource becomes slightly faster"]], answer: own }), `10% faster, it would save ${f.percent(result.bound_fractions[result.bound] / 11)} of the step`],
    result.utilisation_fraction != null && ["compute in use", num(f.percent(result.utilisation_fraction), { title: "Compute in use", formula: `${f.si(result.utilisation_fraction * result.step_s * peakOf(gpu, result), "FLOP")} per step ÷ ${f.seconds(result.step_s)} ÷ ${f.si(peakOf(gpu, result), "FLOP/s")}, the dense peak of ${f.the(gpu.name)} in ${result.computes_in}`, answer: own }), `of the peak of ${f.the(gpu.name)}`],
  ], "minor")];
}
