// Every card with a price, in the order the reader wants. Its filters narrow this table only; the recommendation above stays.

import { numeric, writes } from "../case.js";
import * as f from "../format.js";
import { facet, finder, grid } from "../grid.js";
import { inside } from "../links.js";
import { openSheet } from "../sheet.js";
import { speedOf } from "../speed.js";
import { get, set } from "../state.js";
import { h } from "../ui.js";
import { pickOf } from "./picked.js";

const SHORT = { memory: "does not fit", budget: "over budget", deadline: "too slow", price: "no known price" };

export function reason(entry, answer) {
  if (!entry.short_of) return "";
  if (entry.short_of === "memory") return `does not fit: it needs ${f.gib(entry.needed_bytes)} but has ${f.gib(entry.memory_bytes)}`;
  if (entry.short_of === "budget" && entry.source === "rent") return `rented for ${f.plural(get().years || 3, "year")} at ${f.usd(entry.total_usd)}, it is ${f.usd(entry.total_usd - Number(get().budget))} over the budget`;
  return answer.rejected.find((other) => other.gpu === f.several(entry.gpu_count, entry.gpu))?.reason ?? SHORT[entry.short_of];
}

const VENDORS = [["nvidia", "NVIDIA"], ["amd", "AMD"], ["intel", "Intel"], ["any", "any"]];
// The vendor that the recommendation looked at comes first: it is what the table shows until another one is chosen.
function vendors(state) {
  const usual = state.vendor || "nvidia";
  const named = (value) => (value === usual ? "" : value);
  return facet("Vendor", "maker", [...VENDORS].sort(([one], [other]) => (other === usual) - (one === usual)).map(([value, title]) => [named(value), title]), named(state.maker));
}

const cardFacets = (state, within) => h("div", { class: "facets" },
  facet("Memory", "memory", [["", "any"], ...["8", "12", "16", "24", "48", "80"].map((size) => [size, `${size}+ GiB`])]),
  vendors(state),
  facet("Source", "kind", [["", "any"], ["buy new", "new"], ["buy used", "used"], ["rent", "rent"]]),
  facet("Show", "fits", [["1", "within reach"], ["0", "all"]], within ? "1" : "0"));

// Once a limit is set, only what it allows is shown at first; a search looks at everything.
const reaches = (state) => (state.fits ? state.fits === "1" : Boolean((state.budget || state.model) && !state.find));

// Whether the table looks at more than the recommendation did.
export const wider = (state) => (state.maker !== "" || state.find !== "" || (state.kind !== "" && state.source !== "")) && (state.vendor !== "any" || state.source !== "");

const key = (entry) => `${entry.source} ${entry.gpu_count} ${entry.gpu}`;

export const entryTold = (entry, answer, speed) => ({
  answer,
  formula: entry.usd_per_run && entry.short_of !== "memory" ? `${f.usd(entry.total_usd)} in total ÷ ${f.number(entry.total_usd / entry.usd_per_run)} runs of ${f.seconds(entry.run_s)} = ${f.cents(entry.usd_per_run)} per run` : "",
  said: [
    ["source", entry.source],
    ...(entry.short_of === "memory" ? [] : [[speed.title, speed.of(entry)]]),
    ["memory", `${f.gib(entry.needed_bytes)} of ${f.gib(entry.memory_bytes)}`], ["upfront", f.usd(entry.upfront_usd)], ["total", f.usd(entry.total_usd)],
    ...(entry.short_of ? [["out of reach", reason(entry, answer)]] : []),
  ],
});

// Cards that match the search but have no known price: at least their fact sheets are offered.
function unpriced(gpus, wanted, market, state) {
  const priced = new Set(market.looked_at.map((entry) => entry.gpu));
  const found = state.find ? gpus.filter((gpu) => gpu.segment !== "cpu" && !priced.has(gpu.name) && wanted(`${gpu.name} ${gpu.vendor} ${gpu.segment}`, gpu.memory_bytes)) : [];
  return found.length > 0 && h("div", { class: "chips" }, h("span", { class: "label" }, "Without a known price:"), found.slice(0, 12).map((gpu) => h("button", { type: "button", class: "chip-button", "aria-haspopup": "dialog", onclick: () => openSheet(gpu.name, { answer: market }) }, gpu.name)));
}

export function cardTable(market, answer, state, gpus) {
  const least = numeric(state.memory, "Memory") ?? 0;
  const wanted = finder(state.find);
  const considered = new Set(answer.looked_at.map(key));
  const speed = speedOf(answer, state);
  const single = market.looked_at.filter((entry) => entry.gpu_count === 1);
  const found = single
    .filter((entry) => wanted(`${entry.gpu} ${entry.source} ${entry.vendor} ${entry.segment}`, entry.memory_bytes))
    .filter((entry) => entry.memory_bytes >= least * 2 ** 30 * 0.97)
    .filter((entry) => !state.maker || state.maker === "any" || entry.vendor.toLowerCase() === state.maker)
    .filter((entry) => !state.kind || entry.source === state.kind);
  const near = found.filter((entry) => !entry.short_of);
  const none = reaches(state) && !near.length && !state.fits; // the others are then shown, and the page says so
  const within = reaches(state) && !none;
  const kept = within ? near : found;
  const perRun = writes(state) && !state.samples ? "per million tokens" : "cost per run";
  const holds = (entry) => entry.short_of !== "memory"; // nothing is promised where the work does not fit
  const sheet = (entry) => entryTold(entry, market, speed);
  const opener = (entry, text) => h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => openSheet(entry.gpu, sheet(entry)) }, text);
  const remark = (entry) => reason(entry, market) || (considered.has(key(entry)) ? "" : "not considered above");
  const rents = new Map(gpus.map((gpu) => [gpu.name, gpu.rent_usd_per_hour]));
  const hourly = (entry) => (rents.get(entry.gpu) ? `${f.usd(rents.get(entry.gpu), 2)}/h` : "rent");
  const best = pickOf(answer);
  const chosen = best && !best.beside && key(best);
  const columns = [
    { key: "name", title: "card", left: true, value: (entry) => entry.gpu, cell: (entry) => [opener(entry, [entry.gpu, h("small", { class: "slim" }, [entry.source, f.gib(entry.memory_bytes), SHORT[entry.short_of]].filter(Boolean).join(", "))]), remark(entry) && h("div", { class: "small remark roomy" }, remark(entry))] },
    { key: "source", title: "source", left: true, value: (entry) => entry.source, cell: (entry) => entry.source, wide: true },
    { key: "memory", title: "memory", falls: true, value: (entry) => entry.memory_bytes, cell: (entry) => opener(entry, f.gib(entry.memory_bytes)), wide: true },
    { key: "speed", title: speed.title, falls: !speed.rising, value: (entry) => (holds(entry) ? speed.value(entry) : null), cell: (entry) => (holds(entry) ? opener(entry, speed.of(entry)) : "–") },
    { key: "upfront", title: "price", value: (entry) => (entry.source === "rent" ? null : entry.upfront_usd), cell: (entry) => opener(entry, entry.source === "rent" ? hourly(entry) : f.usd(entry.upfront_usd)) },
    { key: "cost", title: perRun, wide: true, value: (entry) => (holds(entry) ? entry.usd_per_run : null), cell: (entry) => (holds(entry) && entry.usd_per_run ? opener(entry, f.cents(entry.usd_per_run)) : "–") },
  ];
  return [
    cardFacets(state, within),
    h("p", { class: "note", role: "status" }, none ? `No card is within reach, so all ${kept.length} are shown. ` : `${kept.length} of ${single.length} single-card entries match. `, kept.length < found.length && [h("button", { type: "button", class: "quiet", id: "show-out-of-reach", onclick: () => set({ fits: "0" }) }, `${found.length - kept.length} more are out of reach`), ". "], "Cards without a known price are in ", inside("the whole catalogue", { view: "gpus" }), "."),
    unpriced(gpus, wanted, market, state),
    kept.length > 0 && grid(columns, kept, { caption: "All cards", usual: speed.rising ? "speed" : "-speed", style: (entry) => ({ class: key(entry) === chosen ? "best" : entry.short_of ? "off" : "" }) }),
  ];
}
