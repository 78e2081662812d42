// Own or rent: what both come to over the years, and when owning has paid for itself.

import { ask } from "../api.js";
import { countOf, money, numeric } from "../case.js";
import { colour, draw } from "../charts.js";
import { tick } from "../controls.js";
import * as f from "../format.js";
import { cardLinks } from "../links.js";
import { assumptions, card, facts, fill, h, num, points, row, table } from "../ui.js";
import { aged, said as plainly } from "../words.js";

export const name = "Buy or rent";
export const title = "Should I buy it or rent it?";
const HOURS_PER_YEAR = 8760;

export function mount(root) {
  const headline = h("h2", { class: "pick" });
  const verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const [numbers, ways, rest, uses] = [1, 2, 3, 4].map(() => h("div", {}));
  const chart = h("div", { class: "chart tall" });
  root.append(
    h("section", { class: "card verdict-card" }, headline, numbers, verdict, ways, h("div", { class: "controls" }, tick("buy it new", "new"), tick("buy it used", "used")), rest),
    card("Cost over time", chart),
    card("By utilisation", uses));
  return async (state, signal) => {
    const count = countOf(state);
    const answer = await ask("cost", {
      gpu: state.gpu, gpus: count > 1 ? count : undefined, ...money(state), machine: numeric(state.machine, "Rest of the machine"), price: state.price,
      resale: numeric(state.resale, "Resale value"), commit: numeric(state.commit, "Discount") || undefined, used: state.used === "1" || undefined, new: state.new === "1" || undefined,
    }, signal);
    headline.textContent = better(answer);
    verdict.textContent = plainly(said(answer));
    fill(numbers, figures(answer));
    fill(ways, cardLinks(answer.gpu, answer.gpu_count));
    fill(rest, answer.warnings.length > 0 && points(answer.warnings), assumptions(answer));
    fill(uses, useTable(answer));
    await draw(chart, verdict.textContent, () => lines(answer));
  };
}

const here = (answer) => answer.break_even.find((entry) => Math.abs(entry.utilization_fraction - answer.utilization_fraction) < 1e-9);

// The verdict in a few words, and never more decided than it is.
function better({ own, rent, gpu, gpu_count: count, verdict }) {
  const name = f.several(count, gpu);
  if (!own || !rent.length) return name;
  if (verdict.startsWith("Owning")) return `Buy ${f.the(name)}`;
  return verdict.startsWith("Renting") ? `Rent ${f.the(name)}` : `${f.the(name, true)}: about the same to buy or to rent`;
}

function said(answer) {
  const { own, rent } = answer;
  const name = f.several(answer.gpu_count, answer.gpu);
  if (!own) return `No price is known for ${f.the(name)}. Enter one in your case.`;
  if (!rent.length) return `Owning ${f.the(name)} costs ${f.usd(own.total_usd)} over ${answer.years} years. No cloud provider in the price tables offers it.`;
  return `${answer.verdict} This assumes use ${f.percent(answer.utilization_fraction)} of the time.`;
}

// Paid upfront less the resale value, over what owning saves a day at this use.
function evenAt(answer, entry) {
  const [own, first] = [answer.own, answer.rent[0]];
  if (!own || !first || !entry) return "";
  const rented = 24 * entry.utilization_fraction * first.usd_per_gpu_hour * first.gpu_count;
  const drawn = ((own.electricity_usd_per_year / 365.25) * entry.utilization_fraction) / answer.utilization_fraction;
  const paid = own.resale_usd ? `(${f.usd(own.upfront_usd)} upfront − ${f.usd(own.resale_usd)} resale)` : `${f.usd(own.upfront_usd)} upfront`;
  return `${paid} ÷ (${f.usd(rented, 2)} rent − ${f.usd(drawn, 2)} electricity per day at ${f.percent(entry.utilization_fraction)}) = ${f.days(entry.days_with_resale)}`;
}

// Without a price or a rent nobody knows when; `never` would say more than that.
const pays = (answer, days) => (answer.own && answer.rent.length ? f.days(days) : "–");

function figures(answer) {
  const { own, rent, rent_market: market } = answer;
  const first = rent[0];
  return facts([
    own && [`owning for ${f.number(answer.years)} years`, num(f.usd(own.total_usd), { title: "Owning", formula: `${f.usd(own.gpu_usd)} GPU + ${f.usd(own.machine_usd)} machine + ${f.usd(own.electricity_usd)} electricity − ${f.usd(own.resale_usd)} resale = ${f.usd(own.total_usd)}\nelectricity: ${f.number(own.power_watts)} W × ${f.number(own.working_s / 3600)} h = ${f.number(own.energy_kwh)} kWh`, rows: answer.price ? [["price", `${answer.price.kind}, ${aged(answer.price.dated)}`], ["source", answer.price.source]] : [], answer }), `${f.usd(own.usd_per_hour, 2)} per hour of use`],
    own && ["upfront", num(f.usd(own.upfront_usd), { title: "Upfront", formula: `${f.usd(own.gpu_usd)} for ${f.several(answer.gpu_count, answer.gpu)} + ${f.usd(own.machine_usd)} for the rest of the machine`, answer }), answer.price ? `${answer.price.kind} price, ${aged(answer.price.dated)}` : "your price"],
    own && ["resale", num(f.usd(own.resale_usd), { title: "Resale", formula: `what the cards can be sold for after ${answer.years} years`, answer }), `after ${answer.years} years`],
    first && [`renting for ${f.number(answer.years)} years`, num(f.usd(first.total_usd), { title: "Renting", formula: `${f.number(first.paid_s / 3600)} h × ${first.gpu_count} × ${f.usd(first.usd_per_gpu_hour, 3)} = ${f.usd(first.total_usd)}`, rows: market ? [["clouds", market.clouds.join(", ")], ["range", `${f.usd(market.low_usd_per_gpu_hour, 2)} to ${f.usd(market.high_usd_per_gpu_hour, 2)} per hour`], ["dated", market.dated]] : [], answer }), `${f.usd(first.usd_per_gpu_hour, 2)} per GPU-hour, ${first.way}`],
    ...rent.slice(1).map((other) => [`renting, ${other.way}`, num(f.usd(other.total_usd), { title: `Renting, ${other.way}`, formula: `${f.number(other.paid_s / 3600)} h × ${other.gpu_count} × ${f.usd(other.usd_per_gpu_hour, 3)} = ${f.usd(other.total_usd)}`, rows: other.way === "commitment" ? [["billed", "around the clock"]] : [], answer }), `${f.usd(other.usd_per_gpu_hour, 2)} per GPU-hour${other.way === "commitment" ? ", billed around the clock" : ""}`]),
    ["break-even after", num(pays(answer, here(answer)?.days_with_resale), { title: "Break-even", formula: evenAt(answer, here(answer)), rows: [["without resale", pays(answer, here(answer)?.days)], ["without resale and electricity", pays(answer, here(answer)?.days_without_electricity)], ["owning is cheaper above this utilisation", f.percent(answer.break_even_utilization_fraction)]], answer })],
    ["carbon", num(`${f.number(answer.co2e_kg)} kg`, { title: "CO₂e of the electricity", formula: own ? `${f.number(own.energy_kwh)} kWh × ${f.number(answer.grid_kg_per_kwh)} kg/kWh` : "", rows: [["grid", answer.region]], answer }), answer.region],
  ]);
}

function lines(answer) {
  const { own, rent } = answer;
  const paid = here(answer)?.days;
  const end = Math.max(answer.years, paid != null && paid / 365.25 < 3 * answer.years ? (1.15 * paid) / 365.25 : 0);
  const traces = [];
  const years = [0, end];
  if (own) traces.push({ type: "scatter", mode: "lines", name: "own", x: years, y: years.map((year) => own.upfront_usd + year * own.electricity_usd_per_year), line: { color: colour("c0"), width: 3 } });
  rent.forEach((other, place) => traces.push({ type: "scatter", mode: "lines", name: `rent, ${other.way}`, x: years, y: years.map((year) => (year * other.total_usd) / answer.years), line: { color: colour(`c${place + 1}`), width: 3 } }));
  if (own && paid != null && paid / 365.25 <= end) {
    const year = paid / 365.25;
    traces.push({ type: "scatter", mode: "markers+text", name: "break-even without resale", x: [year], y: [own.upfront_usd + year * own.electricity_usd_per_year], text: [`<b>${f.days(paid)}</b>`], textposition: "top left", marker: { size: 13, color: colour("ink") } });
  }
  if (own?.resale_usd && end === answer.years) traces.push({ type: "scatter", mode: "lines+markers+text", name: "own, after resale", x: [end, end], y: [own.upfront_usd + end * own.electricity_usd_per_year, own.total_usd], text: ["", `<b>${f.usd(own.total_usd)}</b> after resale`], textposition: "middle left", line: { color: colour("c0"), width: 2, dash: "dot" }, marker: { size: [0, 11], color: colour("c0") }, showlegend: false });
  for (const trace of traces) trace.hovertemplate = "%{y:$,.0f} after %{x:.1f} years<extra>%{fullData.name}</extra>";
  return { traces, x: { title: "years", rangemode: "tozero" }, y: { title: "US dollars paid so far", tickprefix: "$", tickformat: ",.0f", rangemode: "tozero" }, shapes: [{ type: "line", x0: answer.years, x1: answer.years, yref: "paper", y0: 0, y1: 1, line: { color: colour("muted"), dash: "dot", width: 1 } }] };
}

function useTable(answer) {
  return table(["of all hours", "own", "rent", "break-even after"],
    answer.break_even.map((entry) => row([
      f.percent(entry.utilization_fraction),
      num(f.usd(entry.own_usd), { title: "Owning", formula: answer.own ? `${f.usd(answer.own.upfront_usd)} upfront + ${f.usd(entry.own_usd - answer.own.upfront_usd)} electricity over ${answer.years} years` : "", answer }),
      num(f.usd(entry.rent_usd), { title: "Renting", formula: answer.rent[0] ? `${f.number(entry.utilization_fraction * HOURS_PER_YEAR * answer.years)} h × ${answer.rent[0].gpu_count} × ${f.usd(answer.rent[0].usd_per_gpu_hour, 3)}` : "", answer }),
      num(pays(answer, entry.days_with_resale), { title: "Break-even", formula: evenAt(answer, entry), rows: [["without resale", pays(answer, entry.days)], ["without resale and electricity", pays(answer, entry.days_without_electricity)]], answer }),
    ], entry === here(answer) ? { class: "best" } : {})), { caption: "Owning and renting by utilisation" });
}
