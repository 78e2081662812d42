// What to buy, rent or keep: the verdict, time against money, and every card on the market.

import { ask } from "../api.js";
import { numeric, which } from "../case.js";
import { clockTicks, colour, draw, logTicks, plain } from "../charts.js";
import { choice, search, text, tick } from "../controls.js";
import * as f from "../format.js";
import { assumptions, beside, brief, card, fill, h, head, left, mark, num, open, points, row, table } from "../ui.js";

export const name = "Choose";
export const title = "Which GPU should I get?";
export const uses = ["hours", "kwh", "years", "batch", "seq", "precision", "mode"];

const KINDS = [["buy new", "c0", "circle"], ["buy used", "c1", "diamond"], ["rent", "c2", "square"], ["keep", "c3", "star"]];
const FIRST = 25;
let all = false;
const SHORT = { memory: "does not fit", budget: "over budget", deadline: "too slow", price: "no known price" };

export function mount(root) {
  const verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const below = h("div", {});
  const options = h("div", {});
  const chart = h("div", { class: "chart tall" });
  const changes = h("div", {});
  const ranking = h("div", {});
  root.append(
    h("section", { class: "card verdict-card" }, verdict, below),
    card("Options",
      h("div", { class: "controls" }, text("Your own prices", "prices", { placeholder: "RTX 5090=2900, RTX 3090=700" })),
      options),
    card("Time and cost", chart, h("p", { class: "note" }, "Lower and further left is better. The line connects the options that no other option beats in both time and cost. Grey options are out of reach; hover over one to see why.")),
    card("What would change this", changes),
    card("All cards",
      h("div", { class: "controls" },
        search("Find a card", "find"),
        choice("Sort by", "sort", [["speed", "speed"], ["value", "cost per run"]]),
        choice("Memory", "memory", [["", "any"], ["8", "8 GiB or more"], ["12", "12 GiB or more"], ["16", "16 GiB or more"], ["24", "24 GiB or more"], ["48", "48 GiB or more"], ["80", "80 GiB or more"]]),
        choice("Source", "source", [["", "new, used or rented"], ["buy", "buy only"], ["used", "used only"], ["rent", "rent only"]]),
        choice("Vendor", "vendor", [["", "NVIDIA"], ["any", "all"], ["amd", "AMD"], ["intel", "Intel"]]),
        tick("within reach only", "fits")),
      ranking));
  return async (state, signal) => {
    const answer = await ask("which", which(state), signal);
    verdict.textContent = answer.verdict;
    fill(below, assumptions(answer));
    fill(options, optionTable(answer, state));
    const other = [...answer.remedied.map((one) => `With remedies, ${one.text}`), ...answer.changes_if];
    fill(changes, other.length ? points(other) : h("p", { class: "note" }, "No small change would affect this result."));
    fill(ranking, rankingTable(answer, state));
    await draw(chart, `Time per run against cost. ${answer.verdict}`, () => scatter(answer), (entry) => openEntry(entry, answer));
  };
}

const worst = (lines) => ["fail", "tight", "pass"].find((verdict) => lines.some((line) => line.verdict === verdict));

function remark(option) {
  const said = option.reasons.filter((reason) => reason !== "the verdict").join("; ");
  return said && h("div", { class: "small remark" }, said);
}

const named = (option) => f.several(option.gpu_count, option.gpu) + (option.added_gpus ? ` (${option.added_gpus} more)` : "");

function optionTable(answer, state) {
  return table(
    ["", head("source"), "time per run", "upfront", `${state.years || 3}-year total`, "per million samples", "CO₂e", "build"],
    answer.options.map((option, place) =>
      row([
        h("th", { scope: "row" }, h("span", {}, named(option)), remark(option)),
        brief(option.source),
        h("td", { class: "nowrap" }, num(f.seconds(option.run_s), runTold(option, answer)), h("div", { class: "small" }, `${f.seconds(option.run_low_s)} – ${f.seconds(option.run_high_s)}`)),
        num(f.usd(option.upfront_usd), priceTold(option, answer)),
        num(f.usd(option.total_usd), totalTold(option, answer)),
        num(f.usd(option.usd_per_million_samples, 2), perSampleTold(option, answer)),
        num(`${f.number(option.kg_co2e)} kg`, { title: "Carbon over the whole period", formula: `${f.number(option.energy_kwh)} kWh × ${f.number(option.kg_co2e / option.energy_kwh)} kg per kWh of this grid = ${f.number(option.kg_co2e)} kg`, answer }),
        option.build.length ? openBuild(option, answer) : "–",
      ], place === 0 && option.reasons.includes("the verdict") ? { class: "best" } : {})),
    { caption: "Options, best first", cards: true });
}

function openBuild(option, answer) {
  const verdict = worst(option.build) ?? "unknown";
  const told = { title: `${f.several(option.gpu_count, option.gpu)} in a typical machine`, rows: option.build.map((line) => [`${line.check}: ${line.verdict}`, [line.text, line.remedy].filter(Boolean).join(". ")]), answer, assumptions: [] };
  return h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => open(verdict, told) }, mark(verdict));
}

const runTold = (option, answer) => ({
  title: `Time per run on ${f.several(option.gpu_count, option.gpu)}`,
  formula: option.jobs.map((job) => `${job.model}: ${f.seconds(job.run_s)} = steps of ${job.batch} samples × ${f.seconds(job.step_s)} each`).join("\n"),
  rows: [["range", `${f.seconds(option.run_low_s)} to ${f.seconds(option.run_high_s)}, based on how far predictions were from measurements`], ["limited by", option.bound], ["precision", option.precision], ["samples", `${f.number(option.samples_per_s)} per second`]],
  answer,
});

const priceRows = (price) => price ? Object.entries(price).filter(([, value]) => value !== "" && value != null).map(([key, value]) => [f.words(key), Array.isArray(value) ? value.join(", ") : value]) : [];

const cards = (option) => (option.added_gpus || option.gpu_count) * (option.price?.usd ?? 0);

function priceTold(option, answer) {
  const more = option.upfront_usd - cards(option);
  const rest = more >= 1 ? ` + ${f.usd(more)} for the machine` : "";
  const formula = option.price?.usd != null ? `${option.added_gpus || option.gpu_count} × ${f.usd(option.price.usd)}${rest} = ${f.usd(option.upfront_usd)}` : "nothing to buy";
  return { title: "Upfront", formula, rows: priceRows(option.price), answer };
}

const totalTold = (option, answer) => ({
  title: "Total over the whole period",
  formula: option.source === "rent"
    ? `${f.number(option.total_usd / option.gpu_count / (option.price?.usd_per_hour || 1))} hours of work × ${option.gpu_count} × ${f.usd(option.price?.usd_per_hour, 2)} per hour = ${f.usd(option.total_usd)}`
    : `${f.usd(cards(option))} + ${f.usd(option.machine_usd)} for the rest of the machine + ${f.number(option.energy_kwh)} kWh × ${f.usd(option.usd_per_kwh, 3)} − ${f.usd(option.resale_usd)} resale = ${f.usd(option.total_usd)}`,
  rows: priceRows(option.price),
  answer,
});

const perSampleTold = (option, answer) => ({ title: "Cost per million samples", formula: `${f.usd(option.total_usd)} in total ÷ ${f.number(option.total_usd / option.usd_per_million_samples)} million samples, at ${f.number(option.samples_per_s)} per second during the hours of use`, answer });

// ---------------------------------------------------------------- the chart

const label = (entry) => named(entry);

function reason(entry, answer) {
  if (!entry.short_of) return "";
  if (entry.short_of === "memory") return `does not fit: it needs ${f.gib(entry.needed_bytes)} but has ${f.gib(entry.memory_bytes)}`;
  return answer.rejected.find((other) => other.gpu === label(entry))?.reason ?? SHORT[entry.short_of];
}

function scatter(answer) {
  const shown = new Set(answer.options.map((option) => `${option.source} ${label(option)}`));
  const best = answer.options[0]?.reasons.includes("the verdict") ? answer.options[0] : null;
  const drawn = answer.looked_at.filter((entry) => entry.total_usd > 0 && (entry.gpu_count === 1 || entry.front || shown.has(`${entry.source} ${label(entry)}`)));
  const hover = (entry) => [`<b>${plain(label(entry))}</b> (${entry.source})`, `${f.seconds(entry.run_s)} per run`, `${f.usd(entry.total_usd)} in total`, plain(reason(entry, answer))].filter(Boolean).join("<br>");
  const trace = (entries, more) => ({
    type: "scatter", mode: "markers", x: entries.map((entry) => entry.total_usd), y: entries.map((entry) => entry.run_s),
    hovertext: entries.map(hover), hoverinfo: "text", customdata: entries, ...more,
  });
  const front = drawn.filter((entry) => entry.front).sort((one, other) => one.total_usd - other.total_usd);
  const out = drawn.filter((entry) => entry.short_of);
  const traces = [
    trace(out, { name: "out of reach", marker: { color: colour("grey"), size: 7, symbol: "x-thin-open", line: { width: 1.5 } } }),
    { type: "scatter", mode: "lines", name: "best for their cost", x: front.map((entry) => entry.total_usd), y: front.map((entry) => entry.run_s), line: { color: colour("muted"), width: 1.5, dash: "dot" }, hoverinfo: "skip" },
    ...KINDS.map(([kind, shade, symbol]) => {
      const entries = drawn.filter((entry) => entry.source === kind && !entry.short_of);
      return entries.length && trace(entries, { name: kind, marker: { color: colour(shade), size: 10, symbol, line: { width: 1, color: colour("panel") } } });
    }).filter(Boolean),
  ];
  if (best) {
    traces.push({ type: "scatter", mode: "markers+text", showlegend: false, hoverinfo: "skip", x: [best.total_usd], y: [best.run_s], text: [`<b>${plain(label(best))}</b>`], textposition: "top center", cliponaxis: false, marker: { size: 18, color: "rgba(0,0,0,0)", line: { width: 2, color: colour("ink") } } });
  }
  return { traces, x: { title: "total cost in US dollars", ...logTicks(drawn.map((entry) => entry.total_usd), (value) => (value >= 1000 ? `$${value / 1000}k` : `$${value}`)) }, y: { title: "time per run", ...clockTicks(drawn.map((entry) => entry.run_s)) } };
}

// ---------------------------------------------------------------- all cards

function rankingTable(answer, state) {
  const least = numeric(state.memory, "Memory") ?? 0;
  const wanted = state.find.toLowerCase().split(/\s+/).filter(Boolean);
  const single = answer.looked_at.filter((entry) => entry.gpu_count === 1);
  const fastest = Math.min(...single.map((entry) => entry.run_s));
  const cheapest = Math.min(...single.filter((entry) => entry.usd_per_run > 0).map((entry) => entry.usd_per_run));
  const kept = single
    .filter((entry) => wanted.every((word) => `${entry.gpu} ${entry.source} ${entry.vendor} ${entry.segment}`.toLowerCase().includes(word)))
    .filter((entry) => entry.memory_bytes >= least * 2 ** 30 * 0.97)
    .filter((entry) => state.fits !== "1" || !entry.short_of)
    .sort((one, other) => (state.sort === "value" ? (one.usd_per_run ?? Infinity) - (other.usd_per_run ?? Infinity) || one.run_s - other.run_s : one.run_s - other.run_s));
  const rows = (all ? kept : kept.slice(0, FIRST)).map((entry) =>
    row([
      num(entry.gpu, told(entry, answer)),
      brief(entry.source),
      num(f.gib(entry.memory_bytes), told(entry, answer)),
      h("td", {}, beside(fastest / entry.run_s, num(f.seconds(entry.run_s), told(entry, answer)))),
      h("td", {}, entry.usd_per_run ? beside(cheapest / entry.usd_per_run, num(`${f.usd(entry.usd_per_run, 2)}`, told(entry, answer))) : "–"),
      left(reason(entry, answer)),
    ], { class: entry.short_of ? "off" : "" }));
  return [
    h("p", { class: "note", role: "status" }, `${kept.length} of ${single.length} single-card entries match. Longer bars are better.`),
    kept.length > 0 && table(["", head("source"), "memory", head("time per run"), head("cost per run"), head("")], rows, { caption: "All cards", cards: true }),
    !all && kept.length > FIRST && h("button", { type: "button", class: "plain", onclick: (event) => { all = true; event.target.parentElement.replaceChildren(...rankingTable(answer, state).filter(Boolean)); } }, `Show all ${kept.length}`),
  ];
}

const told = (entry, answer) => ({
  title: f.several(entry.gpu_count, entry.gpu), value: entry.source,
  formula: entry.usd_per_run ? `${f.usd(entry.total_usd)} in total ÷ ${f.number(entry.total_usd / entry.usd_per_run)} runs of ${f.seconds(entry.run_s)} = ${f.usd(entry.usd_per_run, 2)} per run` : "",
  rows: [["time per run", f.seconds(entry.run_s)], ["samples", `${f.number(entry.samples_per_s)} per second`], ["memory", `${f.gib(entry.needed_bytes)} of ${f.gib(entry.memory_bytes)}`], ["upfront", f.usd(entry.upfront_usd)], ...(entry.short_of ? [["out of reach", reason(entry, answer)]] : [])],
  answer,
});

const openEntry = (entry, answer) => open(entry.source, told(entry, answer));
