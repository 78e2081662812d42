// How the figures of a recommendation are computed, for the window that explains a number.

import { titleOf } from "../case.js";
import * as f from "../format.js";

export const named = (option) => option.beside ? `${option.gpu} with your ${option.beside}` : f.several(option.gpu_count, option.gpu) + (option.added_gpus ? ` (${option.added_gpus} more)` : "");

export const runTold = (option, answer) => ({
  title: `Time per run on ${f.several(option.gpu_count, option.gpu)}`,
  value: f.seconds(option.run_s),
  formula: option.jobs.map((job) => `${titleOf(job.model)}: ${f.seconds(job.run_s)} = steps of ${job.batch} samples × ${f.seconds(job.step_s)} each`).join("\n"),
  rows: [["range", `${f.between(option.run_low_s, option.run_high_s, option.run_s)}, based on how far predictions were from measurements`], ["limited by", f.bound(option.bound)], ["precision", option.precision], ["samples", `${f.number(option.samples_per_s)} per second`]],
  answer,
  assumptions: only(answer, ...OF_SPEED),
});

// In the unit of the work: tokens, images or runs.
export const rateTold = (option, answer, speed, state) => ({
  ...runTold(option, answer),
  ...(option.tokens_per_s ? { title: "Tokens per second", value: f.number(option.tokens_per_s), formula: `${state.users || 1} ${Number(state.users) > 1 ? "users" : "user"}, ${f.seconds(option.step_s)} per step, with ${option.weights} weights in ${option.engine}`, rows: [["range", speed.range(option)], ["limited by", f.bound(option.bound)]] } : {}),
});

// A price as a reader would describe it: what was seen, when, and by whom.
function priceRows(price) {
  if (!price) return [];
  if (price.usd_per_hour != null) return [["rents seen", `${f.usd(price.low_usd_per_hour, 2)} to ${f.usd(price.high_usd_per_hour, 2)} an hour`], ["clouds", (price.clouds ?? []).join(", ")], ["date", price.dated]].filter(([, value]) => value);
  const span = price.low_usd != null && price.high_usd > price.low_usd ? `${f.usd(price.low_usd)} to ${f.usd(price.high_usd)}` : f.usd(price.usd);
  return [["price seen", `${span}${price.note ? `, ${price.note}` : ""}`], ["kind", `${price.kind}${price.estimated ? ", estimated" : ""}`], ["date", price.dated], ["source", price.source]].filter(([, value]) => value);
}

// Only the assumptions that count for the number.
const only = (answer, ...codes) => answer.assumptions.filter((entry) => codes.includes(entry.code));
const OF_SPEED = ["run", "batch", "stack", "cpu", "weights", "engine", "prompt", "output", "way"];
const OF_TOTAL = ["hours_per_week", "years", "machine", "machine_watts", "electricity", "resale", "prices", "rents"];

export const cards = (option) => (option.added_gpus || option.gpu_count) * (option.price?.usd ?? 0);

export function priceTold(option, answer) {
  const more = option.upfront_usd - cards(option);
  const rest = more >= 1 ? ` + ${f.usd(more)} for the machine` : "";
  const formula = option.price?.usd != null ? `${option.added_gpus || option.gpu_count} × ${f.usd(option.price.usd)}${rest} = ${f.usd(option.upfront_usd)}` : "nothing to buy";
  return { title: "Upfront", formula, rows: priceRows(option.price), answer, assumptions: only(answer, "machine", "prices", "rents") };
}

export const totalTold = (option, answer) => ({
  title: "Total over the whole period",
  formula: option.source === "rent"
    ? `${f.number(option.total_usd / option.gpu_count / (option.price?.usd_per_hour || 1))} hours of use × ${option.gpu_count} × ${f.usd(option.price?.usd_per_hour, 2)} per hour = ${f.usd(option.total_usd)}`
    : `${f.usd(cards(option))} + ${f.usd(option.machine_usd)} for the rest of the machine + ${f.number(option.energy_kwh)} kWh × ${f.usd(option.usd_per_kwh, 3)} − ${f.usd(option.resale_usd)} resale = ${f.usd(option.total_usd)}`,
  rows: priceRows(option.price),
  answer,
  assumptions: only(answer, ...OF_TOTAL),
});

export const perTold = (option, answer) => (option.usd_per_million_tokens
  ? { title: "Cost per million tokens", formula: `${f.usd(option.total_usd)} in total ÷ ${f.number(option.total_usd / option.usd_per_million_tokens)} million tokens, at ${f.number(option.tokens_per_s)} per second during the hours of use`, answer }
  : { title: "Cost per run", formula: `${f.usd(option.total_usd)} in total ÷ ${f.number(option.total_usd / option.usd_per_run)} runs of ${f.seconds(option.run_s)} during the hours of use`, rows: [["per million samples", f.usd(option.usd_per_million_samples, 2)]], answer });

export const carbonTold = (option, answer) => ({ title: "Carbon over the whole period", formula: `${f.number(option.energy_kwh)} kWh × ${f.number(option.kg_co2e / option.energy_kwh)} kg per kWh of this grid = ${f.number(option.kg_co2e)} kg`, answer });
