// The recommendation at a glance: what to get, for which work, at what price, whether the work fits, how sure it is, and what renting costs.

import { isLanguage, taskOf, titleOf, writes } from "../case.js";
import { narrow } from "../charts.js";
import * as f from "../format.js";
import { cardLinks, pick } from "../links.js";
import { speedOf } from "../speed.js";
import { facts, h, num, points } from "../ui.js";
import { aged, lines, one, said } from "../words.js";
import { priceTold, rateTold, runTold, totalTold } from "./told.js";

// The option that the verdict names. Where it names one for each of several budgets, the one with the least cost per run.
export function pickOf(answer) {
  const chosen = answer.options.find((option) => option.reasons.includes("the verdict"));
  if (chosen) return chosen;
  const cheapest = [...answer.options].sort((a, b) => a.usd_per_run - b.usd_per_run)[0];
  return cheapest && answer.verdict.startsWith(`The best value is ${one(cheapest.gpu, cheapest.gpu_count)}`) ? cheapest : null;
}

const VERBS = { "buy new": "Buy", "buy used": "Buy", rent: "Rent", keep: "Keep your" };

function headline(option, answer) {
  const name = f.several(option.gpu_count, option.gpu);
  if (option.source === "keep") return `Keep your ${name}`;
  const used = option.source === "buy used" ? `${option.gpu_count > 1 ? "" : "a "}used ${name}` : one(option.gpu, option.gpu_count);
  const more = option.added_gpus ? ` (${option.added_gpus} more)` : "";
  return answer.verdict.startsWith("The best value") ? `Best value: ${used}` : `${VERBS[option.source]} ${used}${more}`;
}

// What the recommendation is for, in words: the model or the models of the task, and the limits that were given.
export function purpose(answer, state) {
  const task = taskOf(state) ?? (state.model ? null : taskOf({ task: "kaggle" }));
  const training = !writes(state) && (state.mode === "train" || (isLanguage(state) && state.mode !== "infer"));
  const work = state.model ? `${titleOf(state.model)}${writes(state) ? `, text for ${state.users || 1} ${Number(state.users) > 1 ? "users" : "user"}` : training ? ", training" : state.mode === "infer" ? ", inference" : ""}` : `${f.capital(task.title)}: ${task.models.map(titleOf).join(", ")}`;
  const hours = state.hours || answer.assumptions.find((entry) => entry.code === "hours_per_week")?.value;
  return [work, state.budget && `up to ${f.usd(Number(state.budget))}`, hours && `${hours} hours a week for ${state.years || 3} years`].filter(Boolean);
}

const rents = (answer) => answer.options.filter((option) => option.source === "rent").sort((a, b) => a.total_usd - b.total_usd);
const seen = (answer, option) => answer.looked_at.find((entry) => entry.gpu === option.gpu && entry.gpu_count === option.gpu_count);

function fits(option, answer) {
  const entry = seen(answer, option);
  const needed = option.memory_bytes ?? entry?.needed_bytes;
  const has = option.usable_memory_bytes ?? entry?.memory_bytes;
  const text = option.fits ? "Fits" : "Does not fit";
  if (!needed) return [h("span", { class: option.fits ? "yes" : "no" }, text)];
  return [num(text, { title: "Memory", value: text, formula: `${f.gib(needed)} needed on each GPU, ${f.gib(has)} available`, answer }), `${f.gib(needed)} of ${f.gib(has)}${option.gpu_count > 1 ? " each" : ""}`];
}

function renting(answer, option, state) {
  if (option.source === "rent") return null;
  const [cheapest] = rents(answer);
  const period = `over ${state.years || 3} years`;
  if (cheapest) return ["renting instead", num(f.usd(cheapest.total_usd), totalTold(cheapest, answer)), `${f.several(cheapest.gpu_count, cheapest.gpu)} at ${f.usd(cheapest.price?.usd_per_hour, 2)}/h ${period}`];
  const others = answer.looked_at.filter((entry) => entry.source === "rent" && entry.total_usd > 0 && entry.short_of !== "memory").sort((a, b) => a.total_usd - b.total_usd);
  return others.length ? ["renting instead", num(f.usd(others[0].total_usd), { title: "Renting", formula: `${f.several(others[0].gpu_count, others[0].gpu)}, ${f.usd(others[0].total_usd)} in total ${period}`, answer }), `${f.several(others[0].gpu_count, others[0].gpu)} ${period}`] : null;
}

// The power limit, in watts, that fixes everything that fails in a typical machine; null where something else fails, or nothing does.
export function powerLimit(option) {
  const failed = option.build.filter((line) => line.verdict === "fail").map((line) => /limit (?:each|the) GPU to ([\d,]+) W/.exec(line.remedy ?? ""));
  return failed.length && failed.every(Boolean) ? Math.min(...failed.map((found) => Number(found[1].replaceAll(",", "")))) : null;
}

// Whether a typical machine takes the cards, and what to look at where it does not.
function building(option, answer) {
  if (!option.build.length) return null;
  const worst = ["fail", "tight", "pass"].find((verdict) => option.build.some((line) => line.verdict === verdict)) ?? "pass";
  const checks = option.build.filter((line) => line.verdict === worst);
  const limit = powerLimit(option);
  const text = limit ? `${limit} W limit` : f.capital(worst);
  return ["build", num(text, { title: "Build", value: text, formula: lines(checks.map((line) => [`${line.check}: ${line.text}`, line.remedy].filter(Boolean).join("; "))).join("\n"), answer }), limit ? `for each card on a usual ${checks[0].check === "outlet" ? "outlet" : "power supply"}` : `in a typical machine${worst === "pass" ? "" : `: ${checks.map((line) => line.check).join(", ")}`}`];
}

function figures(option, answer, state) {
  const speed = speedOf(answer, state);
  const price = option.price;
  const cost = option.source === "rent"
    ? ["price per hour", num(f.usd(price?.usd_per_hour * option.gpu_count, 2), { title: "Price per hour", formula: `${option.gpu_count} × ${f.usd(price?.usd_per_hour, 2)}`, answer }), aged(price?.dated) || "median of the clouds"]
    : ["upfront", num(f.usd(option.upfront_usd), priceTold(option, answer)), option.source === "keep" ? "nothing to buy" : `${price?.kind ?? ""} price, ${aged(price?.dated)}`];
  return facts([
    cost,
    [`${state.years || 3}-year total`, num(f.usd(option.total_usd), totalTold(option, answer)), option.source === "rent" ? "rent for all hours of use" : "with electricity, less resale"],
    [speed.title, num(speed.of(option), rateTold(option, answer, speed, state)), ""],
    ["memory", ...fits(option, answer)],
    ["confidence", num(speed.range(option) || "–", runTold(option, answer)), "likely range of the speed"],
    building(option, answer),
    renting(answer, option, state),
  ]);
}

// Sets of cards within the same limits that are faster than the one that is recommended: the table below shows them, so they are said.
function faster(answer, option, state) {
  if (!option || option.source === "rent" || answer.verdict.startsWith("The best value")) return [];
  const within = (other) => other.source !== "rent" && other.fits && other.gpu_count > option.gpu_count && (!state.budget || other.upfront_usd <= Number(state.budget));
  const [best] = answer.options.filter((other) => within(other) && other.run_s < 0.97 * option.run_s).sort((a, b) => a.run_s - b.run_s);
  const name = best && f.several(best.gpu_count, best.gpu);
  if (!best || answer.verdict.includes(name)) return [];
  return [`${name} (${f.usd(best.upfront_usd)} upfront) would be ${f.number(option.run_s / best.run_s)} times as fast, if your code uses ${best.gpu_count} GPUs`];
}

// The recommendation with its reason, then, more quietly, what else there is: on a phone, only for those who ask.
function told(verdict) {
  const end = verdict.search(/(?<=\.) (?=[A-Z])/);
  const more = end < 0 ? "" : h("details", { class: "rest", open: !narrow() }, h("summary", {}, "Other options and conditions"), h("p", {}, verdict.slice(end).trim()));
  return h("div", { class: "verdict" }, h("p", { role: "status", "aria-live": "polite" }, end < 0 ? verdict : verdict.slice(0, end)), more);
}

export function hero(answer, state) {
  const option = pickOf(answer);
  pick(option?.gpu, option?.gpu_count);
  const changes = [...faster(answer, option, state), ...answer.remedied.map((entry) => `With remedies, ${entry.text}`), ...answer.changes_if];
  const rival = answer.options.find((other) => option && other.gpu !== option.gpu && other.source !== "keep");
  return [
    h("p", { class: "purpose" }, "For ", purpose(answer, state).map((part, place) => [place ? " · " : "", h("span", {}, part)])),
    h("h2", { class: "pick" }, option ? headline(option, answer) : "Nothing within these limits"),
    option && figures(option, answer, state),
    h("div", { class: "reasons" },
      h("div", {}, told(said(answer.verdict)), option && cardLinks(option.gpu, option.gpu_count, rival?.gpu ?? "")),
      changes.length > 0 && h("div", { class: "turns" }, h("h3", {}, "What would change it"), points(changes))),
  ];
}
