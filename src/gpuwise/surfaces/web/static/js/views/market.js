// Every card with a price, in the order the reader wants. Its filters narrow this table only; the recommendation above stays.

import { numeric } from "../case.js";
import * as f from "../format.js";
import { facet, finder, grid } from "../grid.js";
import { inside } from "../links.js";
import { openSheet } from "../sheet.js";
import { speedOf } from "../speed.js";
import { beside, h, left } from "../ui.js";

const SHORT = { memory: "does not fit", budget: "over budget", deadline: "too slow", price: "no known price" };

export function reason(entry, answer) {
  if (!entry.short_of) return "";
  if (entry.short_of === "memory") return `does not fit: it needs ${f.gib(entry.needed_bytes)} but has ${f.gib(entry.memory_bytes)}`;
  return answer.rejected.find((other) => other.gpu === f.several(entry.gpu_count, entry.gpu))?.reason ?? SHORT[entry.short_of];
}

export const cardFacets = (state) => h("div", { class: "facets" },
  facet("Memory", "memory", [["", "any"], ...["8", "12", "16", "24", "48", "80"].map((size) => [size, `${size}+ GiB`])]),
  facet("Vendor", "maker", [["", state.vendor === "any" ? "any" : "as above"], ["nvidia", "NVIDIA"], ["amd", "AMD"], ["intel", "Intel"]]),
  facet("Source", "kind", [["", "any"], ["buy new", "new"], ["buy used", "used"], ["rent", "rent"]]),
  facet("Price", "fits", [["", "any"], ["1", "within reach"]]));

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

// Cards that the search means and that nobody sells at a known price: at least their fact sheets.
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
  const able = single.filter((entry) => entry.short_of !== "memory");
  const fastest = Math.min(...able.map((entry) => entry.run_s));
  const cheapest = Math.min(...able.filter((entry) => entry.usd_per_run > 0).map((entry) => entry.usd_per_run));
  const kept = single
    .filter((entry) => wanted(`${entry.gpu} ${entry.source} ${entry.vendor} ${entry.segment}`, entry.memory_bytes))
    .filter((entry) => entry.memory_bytes >= least * 2 ** 30 * 0.97)
    .filter((entry) => !state.maker || entry.vendor.toLowerCase() === state.maker)
    .filter((entry) => !state.kind || entry.source === state.kind)
    .filter((entry) => state.fits !== "1" || !entry.short_of);
  const holds = (entry) => entry.short_of !== "memory"; // nothing is promised where the work does not fit
  const sheet = (entry) => entryTold(entry, market, speed);
  const opener = (entry, text) => h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => openSheet(entry.gpu, sheet(entry)) }, text);
  const remark = (entry) => reason(entry, market) || (considered.has(key(entry)) ? "" : "not considered above");
  const columns = [
    { key: "name", title: "card", left: true, value: (entry) => entry.gpu, cell: (entry) => opener(entry, entry.gpu) },
    { key: "source", title: "source", left: true, value: (entry) => entry.source, cell: (entry) => entry.source, wide: true },
    { key: "memory", title: "memory", falls: true, value: (entry) => entry.memory_bytes, cell: (entry) => opener(entry, f.gib(entry.memory_bytes)), wide: true },
    { key: "speed", title: speed.title, left: true, falls: !speed.rising, value: (entry) => (holds(entry) ? speed.value(entry) : null), cell: (entry) => h("td", {}, holds(entry) ? beside(fastest / entry.run_s, opener(entry, speed.of(entry))) : "–") },
    { key: "upfront", title: "upfront", value: (entry) => (entry.source === "rent" ? null : entry.upfront_usd), cell: (entry) => (entry.source === "rent" ? "rent" : opener(entry, f.usd(entry.upfront_usd))) },
    { key: "cost", title: "cost per run", left: true, wide: true, value: (entry) => (holds(entry) ? entry.usd_per_run : null), cell: (entry) => h("td", { class: "roomy" }, holds(entry) && entry.usd_per_run ? beside(cheapest / entry.usd_per_run, opener(entry, f.cents(entry.usd_per_run))) : "–") },
    { key: "remark", title: "", left: true, wide: true, cell: (entry) => { const cell = left(remark(entry)); cell.classList.add("roomy"); return cell; } },
  ];
  return [
    h("p", { class: "note", role: "status" }, `${kept.length} of ${single.length} single-card entries match. Longer bars are better. Cards without a known price are in `, inside("the whole catalogue", { view: "gpus" }), "."),
    unpriced(gpus, wanted, market, state),
    kept.length > 0 && grid(columns, kept, { caption: "All cards", usual: speed.rising ? "speed" : "-speed", style: (entry) => ({ class: entry.short_of ? "off" : "" }) }),
  ];
}
