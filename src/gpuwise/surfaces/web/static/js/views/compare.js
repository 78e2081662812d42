// Two to four cards side by side: ratios with their ranges, sheets, prices, and what would reverse the answer.

import { Refused, ask } from "../api.js";
import { list, model, wording, writes } from "../case.js";
import { colour, draw, plain } from "../charts.js";
import { flipChart, flipSays } from "../figures.js";
import { assume, assumedBy, titleOfPrecision } from "../fields.js";
import * as f from "../format.js";
import { inside } from "../links.js";
import { get, set } from "../state.js";
import { openSheet } from "../sheet.js";
import { asking, assumptions, brief, card, facts, fill, fold, h, head, left, num, points, row, table } from "../ui.js";
import { lines, plainly } from "../words.js";

export const name = "Compare";
export const title = "This card or that one?";
export const computing = (state) => `Comparing ${list(state.cards).join(" and ")}`;

const MOST = 4;

export function mount(root) {
  const chips = h("div", { class: "controls" });
  const headline = h("h2", { class: "pick" });
  const advice = h("p", { class: "lead" });
  const verdict = h("p", { class: "verdict hidden", role: "status", "aria-live": "polite" }); // the headline and the figures say the same to the eye
  const because = h("p", { class: "because" });
  const [below, numbers, ways] = [1, 2, 3].map(() => h("div", {}));
  const [mine, usual, sheets, flips] = [1, 2, 3, 4].map(() => h("div", {}));
  const chart = h("div", { class: "chart" });
  const reading = h("p", { class: "note" });
  const prices = h("div", { class: "chart short" });
  const pairs = card("Your model", mine);
  root.append(
    asking("", chips),
    h("section", { class: "card verdict-card" }, headline, advice, numbers, because, verdict, ways, below),
    pairs,
    card("Common workloads", reading, chart, usual),
    card("Side by side", sheets),
    card("What would change this", prices, flips));
  let shown = null;
  return async (state, signal) => {
    const names = list(state.cards);
    if (names.join() !== shown) fill(chips, pickers(names));
    shown = names.join();
    if (names.length < 2) throw new Refused(400, { error: "enter two to four cards" });
    const options = { names, ...(writes(state) ? wording(state) : { precision: state.precision, batch: state.batch, mode: state.mode }) };
    const [own, sheet] = await Promise.all([ask("compare", { ...options, model: [model(state)] }, signal).then(readable), ask("gpus", { names }, signal)]);
    verdict.textContent = lines([...own.pairs.map((pair) => said(pair, names.length === 2)), ...own.notes.slice(0, 1).map(f.sentence)]).join(" ");
    const [first, ...rest] = own.verdict.split(/(?<=\.) (?=[A-Z])/); // which card is faster; then which one to buy
    headline.textContent = first.replace(/, followed by .*/, "").replace(/\.$/, ""); // the others are in the figures
    advice.textContent = rest.join(" ");
    advice.hidden = !rest.length;
    fill(numbers, figures(own));
    assume(assumedBy(own));
    const [only] = own.pairs;
    const turn = own.pairs.length === 1 && both(only) && only.ratio < 1; // of two cards, the faster one is compared with the other one, as in the headline
    const base = turn ? names[1] : names[0];
    reading.textContent = `How many times as fast ${names.length > 2 ? "each card" : f.the(turn ? names[0] : names[1])} is as ${f.the(base)}, which is the dotted line at 1. The lines show likely ranges.`;
    fill(below, own.assumptions.length > 0 && assumptions(own));
    because.textContent = own.pairs.length === 1 && both(only) ? `Why: ${f.sentence(f.capital(only.why).replace(/\.$/, ""))}` : "";
    because.hidden = !because.textContent;
    pairs.hidden = !because.hidden; // one pair needs no table
    fill(mine, pairTable(own, names.length === 2));
    fill(sheets, sheetTable(sheet.gpus, own));
    const misfits = own.pairs.filter((pair) => !pair.fits || !pair.baseline_fits);
    fill(ways, misfits.length > 0 ? remediesFor(misfits, names) : onward(own, state));
    fill(flips, own.flips.length ? points(own.flips) : h("p", { class: "note" }, misfits.length ? "A comparison needs a model that fits on all cards." : "No small change would affect this result."));
    const deals = own.deals.filter((deal) => deal.price_is_current).map((deal) => ({ name: deal.gpu, usd: deal.price_usd, low_usd: deal.price_low_usd, high_usd: deal.price_high_usd, flip_usd: deal.even_usd }));
    prices.hidden = !deals.some((deal) => deal.flip_usd != null);
    if (!prices.hidden) await draw(prices, flipSays(deals), () => flipChart(deals));
    common(names, own, turn, signal, usual, chart);
  };
}

// Common jobs take a moment longer, and do not hold the answer up.
async function common(names, own, turn, signal, usual, chart) {
  if (!usual.hasChildNodes()) fill(usual, h("p", { class: "note", role: "status" }, "Computing nine common workloads …"));
  try {
    const found = withOwn(readable(await ask("compare", { names }, signal)), own);
    const answer = turn ? { ...found, pairs: found.pairs.map((pair) => (both(pair) ? turned(pair) : pair)) } : found;
    fill(usual, fold("As a table", pairTable(answer)));
    await draw(chart, `Speed relative to ${f.the(names[turn ? 1 : 0])} on common workloads`, () => ratios(answer));
  } catch (error) {
    if (!signal.aborted) fill(usual, h("p", { class: "note" }, error.message));
  }
}

// Every job with its batch. One that is the user's own has the user's figures, which may be for another batch.
function withOwn(found, own) {
  const mine = (pair) => get().mode !== "infer" && / training .*\(/.test(pair.workload) && own.pairs.find((one) => pair.workload.endsWith(`(${one.workload})`) && one.precision === pair.precision && one.gpu === pair.gpu);
  const titled = (pair, more = "") => ({ ...pair, workload: `${pair.workload}${/, (?:batch|\d+ user)/.test(pair.workload) ? "" : `, batch ${pair.batch}`}${/^LLM generation/.test(pair.workload) ? " in PyTorch" : ""}${more}` });
  return { ...found, pairs: found.pairs.map((pair) => (mine(pair) ? titled({ ...mine(pair), workload: pair.workload }, " (yours)") : titled(pair))) };
}

// With models and months written as on the rest of the page.
const readable = (answer) => ({
  ...answer, verdict: plainly(answer.verdict),
  pairs: answer.pairs.map((pair) => ({ ...pair, why: plainly(pair.why), workload: plainly(pair.workload).replace(/ \((.*\(.*)\)$/, ", $1") })),
  deals: answer.deals?.map((deal) => ({ ...deal, price_note: deal.price_note && plainly(deal.price_note) })),
});

// Nothing is promised for a card on which the model does not fit.
function said(pair, alone) {
  if (!pair.fits && !pair.baseline_fits) return `${pair.workload} fits on neither ${f.the(pair.gpu)} nor ${f.the(pair.baseline)}.`;
  if (!pair.fits) return `${pair.workload} does not fit on ${f.the(pair.gpu)}; it fits on ${f.the(pair.baseline)}.`;
  if (!pair.baseline_fits) return `${pair.workload} fits on ${f.the(pair.gpu)}, but not on ${f.the(pair.baseline)}.`;
  return ratioSaid(alone && pair.ratio < 1 ? turned(pair) : pair); // of two cards, the faster one is named, as in the headline
}

const turned = (pair) => ({ ...pair, gpu: pair.baseline, baseline: pair.gpu, ratio: 1 / pair.ratio, ratio_low: 1 / pair.ratio_high, ratio_high: 1 / pair.ratio_low });

// If the model does not fit, the page offers a way forward: what would make it fit on a card, and which cards hold it.
function remediesFor(misfits, names) {
  const unfit = names.filter((gpu) => misfits.some((pair) => (pair.gpu === gpu && !pair.fits) || (pair.baseline === gpu && !pair.baseline_fits)));
  return h("p", { class: "ways" }, unfit.map((gpu) => inside(`What would make it fit on ${f.the(gpu)}`, { view: "model", gpu, count: "1" })), inside("Cards that it fits on", { view: "choose", task: "", model: model(get()) }));
}

const both = (pair) => pair.fits && pair.baseline_fits;

// What can be asked next about the card that the headline names.
function onward({ pairs }, state) {
  const rates = [[pairs[0]?.baseline, 1], ...pairs.filter(both).map((pair) => [pair.gpu, pair.ratio])];
  const [gpu] = rates.reduce((most, one) => (one[1] > most[1] ? one : most));
  return h("p", { class: "ways" }, inside(`${gpu}: speed and memory`, { view: "model", gpu, count: "1" }), inside("Buy it or rent it", { view: "rent", gpu, count: "1", price: "" }), inside("Check the build", { view: "build", parts: gpu, psu: "", standard: "", limit: "" }), inside("Find something better", { view: "choose", task: "", model: model(state) }));
}

// What each card costs and how fast it runs the model, side by side.
function figures(answer) {
  const deals = answer.deals ?? [];
  const rates = new Map(answer.pairs.filter(both).map((pair) => [pair.gpu, pair.ratio]));
  const most = Math.max(1, ...rates.values());
  const first = answer.pairs[0]?.baseline;
  const [only] = answer.pairs.length === 1 && both(answer.pairs[0]) ? answer.pairs : [];
  const faster = only && (only.ratio < 1 ? turned(only) : only);
  return facts([...deals.flatMap((deal) => {
    if (only) return [[deal.gpu, priced(deal, answer), deal.price_note ?? ""]];
    const rate = deal.gpu === first ? 1 : rates.get(deal.gpu);
    const relative = rate == null ? "does not fit on both" : rate === most ? "the fastest" : `${f.percent(rate / most)} of the fastest`;
    return [[deal.gpu, priced(deal, answer), `${relative}${deal.price_note ? `; ${deal.price_note}` : ""}`]];
  }), faster && [`speed of ${f.the(faster.gpu)}`, num(f.times(faster.ratio), ratioTold(faster, answer)), `likely ${f.ratio(faster.ratio_low)} to ${f.ratio(faster.ratio_high)} times ${f.the(faster.baseline)}`]]);
}

const priced = (deal, answer) => (deal.price_usd ? num(f.usd(deal.price_usd), { title: `Price of ${f.the(deal.gpu)}`, formula: deal.price_note ?? "", answer }) : num("no price", { title: "Price", formula: "no price is known", answer }));

const ratioTold = (pair, answer) => ({ title: `${pair.gpu} over ${pair.baseline}`, formula: `time per step on ${f.the(pair.baseline)} ÷ time per step on ${f.the(pair.gpu)} = ${f.ratio(pair.ratio)}`, rows: [["range", `${f.ratio(pair.ratio_low)} to ${f.ratio(pair.ratio_high)}`], ["why", pair.why], ["workload", `${pair.workload} in ${pair.precision}`]], answer });

const ratioSaid = (pair) => `${f.the(pair.gpu, true)} is ${f.times(pair.ratio)} as fast as ${f.the(pair.baseline)} on ${pair.workload} (${f.ratio(pair.ratio_low)} to ${f.ratio(pair.ratio_high)}).`;

function pickers(names) {
  const slots = names.length < MOST ? [...names, ""] : names;
  return slots.map((value, place) => {
    const change = () => {
      const next = list(get().cards);
      if (input.value.trim()) next[place] = input.value.trim();
      else next.splice(place, 1);
      set({ cards: next.slice(0, MOST).join(",") });
    };
    const input = h("input", { type: "text", list: "gpus", id: `card-${place}`, placeholder: "add a card", onchange: change });
    input.value = value;
    return h("div", { class: "field" }, h("label", { for: input.id }, place === 0 ? "Card 1 (baseline)" : `Card ${place + 1}`), input);
  });
}

const job = (pair) => `${pair.workload}, ${titleOfPrecision(pair.precision)}`;

// Of two cards, the faster one is named, as in the headline.
function pairTable(answer, alone = false) {
  const shown = answer.pairs.map((pair) => (alone && both(pair) && pair.ratio < 1 ? turned(pair) : pair));
  const same = shown.length > 1 && shown.every((pair) => both(pair) && job(pair) === job(shown[0])); // then one line says it for all
  return [same && h("p", { class: "note" }, `${job(shown[0])}, which fits on all of them, compared with ${f.the(shown[0].baseline)}.`), table(["", !same && head("workload"), "times as fast", "range", !same && head("fits on"), head("why")].filter((title) => title !== false),
    shown.map((pair) => row([
      h("th", { scope: "row", class: "nowrap" }, pair.gpu, !same && h("div", { class: "small" }, `against ${f.the(pair.baseline)}`)),
      !same && left(job(pair)),
      !both(pair) ? "–" : num(f.ratio(pair.ratio), ratioTold(pair, answer)),
      h("td", { class: "nowrap" }, both(pair) ? `${f.ratio(pair.ratio_low)} – ${f.ratio(pair.ratio_high)}` : "–"),
      !same && brief(pair.fits ? (pair.baseline_fits ? "both" : `not ${pair.baseline}`) : pair.baseline_fits ? `not ${pair.gpu}` : "neither"),
      left(f.capital(pair.why)),
    ].filter(Boolean))), { caption: "Speed ratios", cards: true })];
}

// One row for each workload. On a wide screen, the ranges of several cards stand below each other in their row.
function ratios(answer) {
  const cards = [...new Set(answer.pairs.map((pair) => pair.gpu))];
  const short = innerWidth < 820;
  const name = (pair) => plain(short ? pair.workload.replace(/ \(.*/, "") : pair.workload);
  const rows = [...new Set(answer.pairs.map(name))];
  const apart = !short && cards.length > 1;
  const traces = cards.map((gpu, place) => {
    const pairs = answer.pairs.filter((pair) => pair.gpu === gpu && both(pair));
    const at = (pair) => (apart ? rows.indexOf(name(pair)) + 0.24 * (place - (cards.length - 1) / 2) : name(pair));
    return {
      type: "scatter", mode: cards.length > 1 ? "markers" : "markers+text", text: pairs.map((pair) => f.ratio(pair.ratio)), textposition: short ? "bottom center" : "top center", textfont: { size: 12 }, cliponaxis: false, name: plain(gpu), x: pairs.map((pair) => pair.ratio), y: pairs.map(at),
      error_x: { type: "data", symmetric: false, array: pairs.map((pair) => pair.ratio_high - pair.ratio), arrayminus: pairs.map((pair) => pair.ratio - pair.ratio_low), thickness: 2, width: 0, color: colour(`c${place}`) },
      marker: { size: 10, color: colour(`c${place}`), symbol: ["circle", "diamond", "square"][place] },
      hovertext: pairs.map((pair) => `${plain(gpu)}, ${plain(pair.workload)}: ${f.times(pair.ratio)} (${f.ratio(pair.ratio_low)} – ${f.ratio(pair.ratio_high)})<br>${plain(pair.why)}`), hoverinfo: "text",
    };
  });
  const listed = { range: [rows.length - 0.4, -0.6], tickvals: rows.map((_, place) => place), ticktext: rows, zeroline: false };
  return {
    traces, ...(apart ? { height: 90 + (24 + 10 * cards.length) * rows.length, hovermode: "closest" } : {}), showlegend: cards.length > 1,
    x: { title: `times as fast as ${plain(f.the(answer.pairs[0]?.baseline ?? "first card"))}`, rangemode: "tozero" }, y: apart ? listed : { autorange: "reversed" },
    shapes: [{ type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { color: colour("muted"), dash: "dot", width: 1.5 } }],
  };
}

const TERA = 1e12;
const GIGA = 1e9;
const least = Math.min;
const most = Math.max;

// One row for each figure, its unit beside its name; the best card of each row stands out.
function sheetTable(gpus, answer) {
  const deal = (gpu) => (answer.deals ?? []).find((entry) => entry.gpu === gpu.name);
  const matrix = (gpu) => Math.max(gpu.peak_dense_flops_per_s.matrix?.fp16 ?? 0, gpu.peak_dense_flops_per_s.vector?.fp16 ?? 0) || null;
  const over = (value, unit) => value && f.number(value / unit);
  const facts = [ // name, what is shown, its source, what is compared, which of them is best
    ["memory, GiB", (gpu) => over(gpu.memory_bytes, 2 ** 30), "memory_bytes", (gpu) => gpu.memory_bytes, most],
    ["bandwidth, GB/s", (gpu) => over(gpu.memory_bytes_per_s, GIGA), "memory_bytes_per_s", (gpu) => gpu.memory_bytes_per_s, most],
    ["16-bit peak, TFLOP/s", (gpu) => over(matrix(gpu), TERA), "peak_dense_flops_per_s", matrix, most],
    ["fp32 peak, TFLOP/s", (gpu) => over(gpu.peak_dense_flops_per_s.vector?.fp32, TERA), "peak_dense_flops_per_s", (gpu) => gpu.peak_dense_flops_per_s.vector?.fp32, most],
    ["power, W", (gpu) => over(gpu.tdp_watts, 1), "tdp_watts", (gpu) => gpu.tdp_watts, least],
    ["architecture", (gpu) => f.architecture(gpu.architecture), ""],
    ["launched", (gpu) => f.month(gpu.launched_on), ""],
    ["price", (gpu) => deal(gpu)?.price_usd && f.usd(deal(gpu).price_usd), "price", (gpu) => deal(gpu)?.price_usd, least],
    ["speed for the price", (gpu) => deal(gpu)?.value && f.ratio(deal(gpu).value), "value", (gpu) => deal(gpu)?.value, most],
    ["better buy below", (gpu) => deal(gpu)?.even_usd && f.usd(deal(gpu).even_usd), "even"],
  ];
  const told = (gpu, title, kind) => ({
    title: `${gpu.name}: ${title}`, answer, assumptions: [],
    formula: { peak_dense_flops_per_s: peakFormula(gpu, title.startsWith("16") ? matrix(gpu) : gpu.peak_dense_flops_per_s.vector?.fp32), value: `speed ${f.ratio(deal(gpu)?.speed)} ÷ price ${f.usd(deal(gpu)?.price_usd)}, first card = 1`, even: "the price at which both cards offer the same speed for the money" }[kind] ?? "",
    rows: [...(deal(gpu)?.price_note && ["price", "value", "even"].includes(kind) ? [["price", deal(gpu).price_note]] : []), ...(kind === "value" || kind === "even" ? [] : sources(gpu, kind === "price" ? "launch_usd" : kind))],
  });
  const bestOf = (value, pick) => {
    const known = value ? gpus.map(value).filter(Number.isFinite) : [];
    return known.length === gpus.length && new Set(known).size > 1 ? (gpu) => value(gpu) === pick(...known) : () => false;
  };
  const sheet = (gpu) => h("th", { scope: "col" }, h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => openSheet(gpu.name, { answer }) }, gpu.name));
  return h("div", { class: "snug" }, table(["", ...gpus.map(sheet)],
    facts.map(([title, show, kind, value, pick]) => {
      const wins = bestOf(value, pick);
      const cell = (gpu) => (!show(gpu) ? "–" : kind ? num(show(gpu), told(gpu, title, kind)) : show(gpu));
      return row([title, ...gpus.map((gpu) => h("td", { class: wins(gpu) ? "wins" : null }, cell(gpu)))]);
    }),
    { caption: "The cards side by side" }));
}

const peakFormula = (gpu, peak) => `${gpu.sm_count} units × ${f.si(gpu.boost_clock_hz, "Hz")} × ${f.number(peak / gpu.sm_count / gpu.boost_clock_hz, 4)} operations per clock per unit = ${f.si(peak, "FLOP/s")}`;

const sources = (gpu, field) => {
  const known = gpu.sources?.[field] ?? gpu.sources?.default;
  return known ? [["source", `${known.source} (${known.basis})`]] : [];
};
