// The recommendation at a glance: what to get, for which work, at what price, whether the work fits, how sure it is, and what renting costs.

import { isLanguage, taskOf, titleOf, writes } from "../case.js";
import * as f from "../format.js";
import { cardLinks, pick } from "../links.js";
import { speedOf } from "../speed.js";
import { set } from "../state.js";
import { facts, h, num, points } from "../ui.js";
import { aged, lines, part, sentences } from "../words.js";
import { headline, pickOf, powerLimit } from "./picked.js";
import { cards, priceTold, rateTold, totalTold } from "./told.js";
import { quantized } from "./weights.js";

const hoursOf = (answer, state) => state.hours || answer.assumptions.find((entry) => entry.code === "hours_per_week")?.value;

// The use that a total is for: cards that are faster do more work in it.
export const useOf = (answer, state) => `${f.plural(hoursOf(answer, state) ?? 25, "hour")} a week for ${f.plural(state.years || 3, "year")}`;

// What the recommendation is for, in words: the model or the task (a wide screen names its models), and the limits that were given.
export function purpose(answer, state) {
  const task = taskOf(state) ?? (state.model ? null : taskOf({ task: "kaggle" }));
  const training = !writes(state) && (state.mode === "train" || (isLanguage(state) && state.mode !== "infer"));
  const work = state.model ? `${titleOf(state.model)}${writes(state) ? `, text for ${state.users || 1} ${Number(state.users) > 1 ? "users" : "user"}` : training ? ", training" : state.mode === "infer" ? ", inference" : ""}` : task.title;
  const models = !state.model && h("span", { class: "roomy" }, ` (${task.models.map(titleOf).join(", ")})`);
  const hours = hoursOf(answer, state);
  const chosen = state.model || state.task || state.budget || state.have;
  return [[chosen ? `For ${work}` : `Example: ${work.replace(": ", ", ")}`, models], state.budget && `up to ${f.usd(Number(state.budget))}`, hours && `${f.plural(hours, "hour")} a week for ${f.plural(state.years || 3, "year")}${chosen ? "" : ". Answer the questions for your own case."}`].filter(Boolean);
}

// A figure in the colour of what it means.
function tinted(kind, text, told) {
  const made = num(text, told);
  made.classList.add(kind);
  return made;
}

const seen = (answer, option) => answer.looked_at.find((entry) => entry.gpu === option.gpu && entry.gpu_count === option.gpu_count && entry.beside === option.beside);

function fits(option, answer) {
  const entry = seen(answer, option);
  const needed = option.memory_bytes ?? entry?.needed_bytes;
  const has = option.usable_memory_bytes ?? entry?.memory_bytes;
  const text = option.fits ? "Fits" : "Does not fit";
  if (!needed) return [h("span", { class: option.fits ? "yes" : "no" }, text)];
  return [tinted(option.fits ? "yes" : "no", text, { title: "Memory", value: text, formula: `${f.gib(needed)} needed on each GPU, ${f.gib(has)} available`, answer }), `${f.gib(needed)} of ${f.gib(has)}${option.gpu_count > 1 ? " each" : ""}`, needed / has];
}

const NEAR = 1.1; // an option that takes a tenth longer still counts as equally fast

// How fast another set is, beside the one that is recommended.
function pace(other, option) {
  const ratio = option.run_s / other.run_s;
  if (ratio > 1 / NEAR && ratio < NEAR) return "about as fast";
  return ratio > 1 ? `${f.number(ratio, 2)} times as fast` : `takes ${f.number(1 / ratio, 2)} times as long`;
}

// What renting costs for the work that the recommended one does in its hours.
const forSameWork = (entry, option) => (entry.usd_per_run && option.usd_per_run ? (option.total_usd * entry.usd_per_run) / option.usd_per_run : entry.total_usd);

// The cheapest rent, for the same work, of cards that are at least as fast; where clouds have none, of the fastest ones.
function rental(answer, option) {
  if (!option || option.source === "rent") return null;
  const all = answer.looked_at.filter((entry) => entry.source === "rent" && entry.total_usd > 0 && entry.short_of !== "memory");
  const equal = all.filter((entry) => entry.run_s <= NEAR * option.run_s).sort((a, b) => forSameWork(a, option) - forSameWork(b, option));
  return equal[0] ?? [...all].sort((a, b) => a.run_s - b.run_s)[0] ?? null;
}

function renting(answer, option, state) {
  const found = rental(answer, option);
  if (!found) return null;
  const cost = forSameWork(found, option);
  const saves = option.total_usd - cost;
  const [name, period] = [f.several(found.gpu_count, found.gpu), `over ${f.plural(state.years || 3, "year")}`];
  const budget = Number(state.budget);
  const over = budget && cost > budget && "more than your budget, which has to cover all of the rent";
  const whole = budget && !over && found.total_usd > budget && `for as many hours, ${f.usd(found.total_usd)}, which is more than your budget`;
  return [`${state.years || 3}-year rent`, num(f.usd(cost), { title: "Renting", formula: `${name} ${period}, for the same work: ${f.usd(cost)}, ${pace(found, option)}\n${f.seconds(found.run_s)} per run, against ${f.seconds(option.run_s)}\nrented for just as many hours: ${f.usd(found.total_usd)}`, answer }), [over, !over && saves > 0 && `${f.usd(saves)} less`, `same work on ${f.the(name)}, ${pace(found, option)}`, whole].filter(Boolean).join("; ")];
}

// Whether a typical machine takes the cards, and what to look at where it does not.
function building(option, answer) {
  if (!option.build.length) return null;
  const worst = ["fail", "tight", "pass"].find((verdict) => option.build.some((line) => line.verdict === verdict)) ?? "pass";
  const checks = option.build.filter((line) => line.verdict === worst);
  const limit = powerLimit(option);
  const text = limit ? `${limit} W limit` : f.capital(worst);
  return ["build", tinted(limit || worst === "tight" ? "warned" : worst === "pass" ? "yes" : "no", text, { title: "Build", value: text, formula: lines(checks.map((line) => [`${line.check}: ${line.text}`, line.remedy].filter(Boolean).join("; "))).join("\n"), answer }), limit ? `for each card on a usual ${checks[0].check === "outlet" ? "outlet" : "power supply"}` : `in a typical machine${worst === "pass" ? "" : `: ${checks.map((line) => line.check).join(", ")}`}`];
}

// What a card needs around it and the price does not include: the rest of a desktop. A server is part of the price.
const around = (option) => (option.source.startsWith("buy") ? Math.max(0, Math.round(option.machine_usd - (option.upfront_usd - cards(option)))) : 0);

// What the price is for: the cards alone, or with what they need around them.
function priceOf(option) {
  const more = Math.round(option.upfront_usd - cards(option));
  const price = `${option.price?.kind ?? ""} price, ${aged(option.price?.dated)}`;
  return more > 0 ? `${price}, with ${f.usd(more)} for ${option.build.length ? "a larger machine" : "a server"}` : `${option.gpu_count > 1 ? "cards" : "card"} only; ${price}`;
}

// What a run is: a number of models, or a number of samples.
function runOf(answer, state) {
  const run = answer.assumptions.find((entry) => entry.code === "run")?.value ?? "";
  if (state.model) return run && `a run is ${run}`;
  const jobs = (taskOf(state) ?? taskOf({ task: "kaggle" })).models.length;
  return `a run is ${jobs === 1 ? "one job" : `all ${jobs} jobs once`}`;
}

// What it costs, how fast it is and whether it fits; more quietly, whether it can be built and what renting costs.
function figures(option, answer, state) {
  const speed = speedOf(answer, state);
  const price = option.price;
  const cost = option.source === "rent"
    ? ["price per hour", num(f.usd(price?.usd_per_hour * option.gpu_count, 2), { title: "Price per hour", formula: `${option.gpu_count} × ${f.usd(price?.usd_per_hour, 2)}`, answer }), aged(price?.dated) || "median of the clouds"]
    : ["upfront", num(f.usd(option.upfront_usd), priceTold(option, answer)), option.source === "keep" ? "nothing to buy" : priceOf(option)];
  const spelt = option.total_usd < option.upfront_usd && `${f.usd(option.upfront_usd)}${around(option) ? ` + ${f.usd(around(option))} machine` : ""} + ${f.usd(option.energy_kwh * option.usd_per_kwh)} electricity − ${f.usd(option.resale_usd)} resale`;
  const machine = around(option) ? `a ${f.usd(around(option))} machine and ` : "";
  return [
    facts([
      cost,
      [`${state.years || 3}-year total`, num(f.usd(option.total_usd), totalTold(option, answer)), option.source === "rent" ? "rent for all hours of use" : spelt || `with ${machine}electricity, less resale`],
      [speed.title, num(speed.of(option), rateTold(option, answer, speed, state)), [speed.said(option), speed.range(option) && `likely ${speed.range(option)}`, speed.title === "time per run" && runOf(answer, state)].filter(Boolean).join("; ")],
      ["memory", ...fits(option, answer)],
    ]),
    facts([building(option, answer), renting(answer, option, state)], "minor"),
  ];
}

// A user without a machine pays more than the price of the cards. The page says so if the total exceeds the budget.
function budgeted(option, state) {
  const [machine, budget] = [around(option), Number(state.budget)];
  if (!machine || !budget || state.machine !== "" || option.upfront_usd + machine <= budget) return null;
  return h("div", { class: "offer" },
    h("p", {}, `You also need a desktop. If you do not have one, the rest of the machine costs about ${f.usd(machine)}. The total is then ${f.usd(option.upfront_usd + machine)}, which is ${f.usd(option.upfront_usd + machine - budget)} over your budget.`),
    h("button", { type: "button", class: "plain", onclick: () => set({ machine: "0" }) }, "I have a desktop"),
    h("button", { type: "button", class: "plain", onclick: () => set({ machine: String(machine) }) }, "Include it in my budget"));
}

// Sets of cards within the same limits that are faster than the one that is recommended: the table below shows them, so they are mentioned.
function faster(answer, option, state) {
  if (!option || option.source === "rent" || answer.general) return [];
  const within = (other) => other.source !== "rent" && other.fits && other.gpu_count > option.gpu_count && (!state.budget || other.upfront_usd <= Number(state.budget));
  const [best] = answer.options.filter((other) => within(other) && other.run_s < 0.97 * option.run_s).sort((a, b) => a.run_s - b.run_s);
  const name = best && f.several(best.gpu_count, best.gpu);
  if (!best || answer.verdict.includes(name)) return [];
  return [`${name} (${f.usd(best.upfront_usd)} upfront) would be ${f.number(option.run_s / best.run_s)} times as fast, if your code uses ${best.gpu_count} GPUs`];
}

// Sets that are no slower than the recommended card and cost less upfront: the table shows them, so it says why they are not recommended.
function passed(answer, option, state) {
  if (!option?.source.startsWith("buy") || option.gpu_count > 1 || answer.general) return null;
  const sets = answer.options.filter((other) => other.source.startsWith("buy") && other.fits && !other.beside && other.gpu_count > 1 && other.run_s <= option.run_s && other.upfront_usd <= option.upfront_usd);
  if (!sets.length) return null;
  const has = (one) => seen(answer, one)?.memory_bytes;
  const [least] = sets.map(has).filter((bytes) => bytes < has(option)).sort((one, other) => one - other);
  const small = least && !writes(state) && `${sets.length > 1 ? "some" : "each"} of their cards ${sets.length > 1 ? "have" : "has"} only ${f.gib(least)}`;
  const against = [small, !writes(state) && "your code has to use every card", "several cards need more power, cooling, slots and connectors than one"].filter(Boolean);
  const names = sets.map((other) => f.several(other.gpu_count, other.gpu)).join(" and ");
  return h("p", { class: "verdict against" }, `${names} would be no slower and cost less upfront, but ${against.slice(0, -1).map((one) => `${one}, `).join("")}${against.length > 1 ? "and " : ""}${against.at(-1)}.`);
}

// Where nothing is within the limits, one click asks for what comes nearest.
function nearest(answer, state) {
  const price = (option) => (option.source === "rent" ? option.total_usd : option.upfront_usd);
  const [least] = answer.options.filter((option) => option.fits && price(option) > Number(state.budget)).sort((one, other) => price(one) - price(other));
  if (!least || !state.budget) return null;
  const enough = Math.ceil(price(least));
  return h("div", { class: "offer" },
    h("p", {}, `${f.several(least.gpu_count, least.gpu)} would be enough, but ${least.gpu_count > 1 ? "cost" : "costs"} ${f.usd(enough - Number(state.budget))} more than your budget.`),
    h("button", { type: "button", class: "plain primary", id: "raise-budget", onclick: () => set({ budget: String(enough) }) }, `Raise the budget to ${f.usd(enough)}`));
}

const FEW = 3; // conditions that are shown at once

// The recommendation and its reason; then its figures; then what else is worth knowing. The rest is folded.
export function hero(answer, state) {
  const option = pickOf(answer);
  const limit = (option && powerLimit(option)) ?? "";
  const kind = option?.source.startsWith("buy") ? option.price?.kind : "";
  pick(option?.gpu, option?.gpu_count, limit, kind);
  const changes = [...faster(answer, option, state), ...answer.remedied.map((entry) => `With remedies, ${entry.text}`), ...answer.changes_if];
  const rival = answer.options.find((other) => option && other.gpu !== option.gpu && other.source !== "keep");
  const rents = part(answer, option ? "rent" : "hire");
  const also = answer.said.filter(({ about }) => !["pick", "why", "rent", option ? "" : "hire"].includes(about)).map(({ text }) => text);
  const others = [...changes.slice(FEW), ...also.flatMap(sentences)];
  return [
    h("p", { class: "purpose" }, purpose(answer, state).map((piece, place) => [place ? " · " : "", h("span", {}, piece)])),
    h("h2", { class: "pick" }, option ? headline(option, answer) : "Nothing within these limits"),
    h("p", { class: "verdict lead", role: "status", "aria-live": "polite" }, part(answer, option ? "why" : "pick")),
    option && figures(option, answer, state),
    rents && h("p", { class: "verdict renting" }, rents),
    passed(answer, option, state),
    !option && nearest(answer, state),
    option && budgeted(option, state),
    quantized(option, answer, state),
    option && cardLinks(option.gpu, option.gpu_count, rival?.gpu ?? "", option.source === "rent" ? null : limit, kind),
    changes.length > 0 && h("div", { class: "turns" }, h("h3", {}, "What would change it"), points(changes.slice(0, FEW))),
    lines(others).length > 0 && h("details", { class: "fold rest" }, h("summary", {}, "Other options and conditions"), points(others)),
  ];
}
