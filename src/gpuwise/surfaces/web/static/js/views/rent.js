// Own or rent: the total of each over the years, and when owning has paid for itself.

import { ask } from "../api.js";
import { countOf, money, numeric, which } from "../case.js";
import { colour, draw, labelled, narrow } from "../charts.js";
import { segments } from "../controls.js";
import { assume, assumedBy } from "../fields.js";
import * as f from "../format.js";
import { cardLinks } from "../links.js";
import { assumptions, card, facts, fill, h, num, points, row, table } from "../ui.js";
import { aged, part } from "../words.js";

export const name = "Buy or rent";
export const title = "Should I buy it or rent it?";
export const computing = (state) => `Adding up the costs of ${f.the(f.several(state.count, state.gpu))}`;
const HOURS_PER_YEAR = 8760;
const CONDITIONS = [["latest known", { new: "", used: "" }], ["new", { new: "1", used: "" }], ["used", { new: "", used: "1" }]];

export function mount(root) {
  const headline = h("h2", { class: "pick" });
  const purpose = h("p", { class: "purpose" });
  const gain = h("p", { class: "lead" });
  const verdict = h("div", { class: "verdict", role: "status", "aria-live": "polite" });
  const [numbers, ways, rest, uses] = [1, 2, 3, 4].map(() => h("div", {}));
  const condition = segments("Price of the card", CONDITIONS);
  const chart = h("div", { class: "chart tall" });
  root.append(
    h("section", { class: "card verdict-card" }, purpose, headline, gain, numbers, verdict, ways, condition, rest),
    card("Cost over time", chart),
    card("By hours of use", uses));
  return async (state, signal) => {
    const count = countOf(state);
    const asked = {
      gpu: state.gpu, gpus: count > 1 ? count : undefined, ...money(state), machine: numeric(state.machine, "Rest of the machine"), price: state.price,
      commit: numeric(state.commit, "Discount") || undefined, used: state.used === "1" || undefined, new: state.new === "1" || undefined,
    };
    const { answer, instead } = await compared(await resold(asked, state, signal), state, signal);
    const { own } = answer;
    assume({ ...assumedBy(answer), machine: own && f.number(own.machine_usd), price: own && f.number(own.gpu_usd / answer.gpu_count), hours: [`${f.number(168 * answer.utilization_fraction, 2)} h`, usual(answer)], resale: own?.resale_usd ? f.percent(own.resale_usd / own.gpu_usd) : "" });
    headline.textContent = better(answer);
    gain.textContent = lead(answer);
    gain.hidden = !gain.textContent;
    purpose.textContent = terms(answer);
    const compares = instead && `No cloud offers ${f.the(answer.gpu)}, so it is compared with renting ${f.the(instead)}, the cheapest card that is about as fast.`;
    fill(verdict, [[compares, turns(answer)].filter(Boolean).join(" "), said(answer), spot(answer)].filter(Boolean).map((text) => h("p", {}, text)));
    fill(numbers, figures(answer));
    fill(ways, cardLinks(answer.gpu, answer.gpu_count));
    fill(rest, answer.warnings.length > 0 && points(answer.warnings), assumptions(answer));
    fill(uses, useTable(answer));
    await draw(chart, verdict.textContent, () => lines(answer));
  };
}

// The case has the resale value as a share of the price, and the question asks for an amount.
async function resold(asked, state, signal) {
  const share = numeric(state.resale, "Resale value");
  const own = share == null ? null : (await ask("cost", asked, signal)).own;
  return own ? { ...asked, resale: share * own.gpu_usd } : asked;
}

// The costs of both; where no cloud offers the card, beside the cheapest rent of one that is at least as fast at the work of the case.
async function compared(asked, state, signal) {
  const answer = await ask("cost", asked, signal);
  if (!answer.own || answer.rent.length) return { answer };
  const market = await ask("which", { ...which({ ...state, budget: "", have: "", source: "", most: "" }), vendor: "any" }, signal).catch(() => null);
  const alone = (market?.looked_at ?? []).filter((entry) => entry.gpu_count === 1 && entry.short_of !== "memory");
  const mine = alone.find((entry) => entry.gpu === answer.gpu);
  const [equal] = mine ? alone.filter((entry) => entry.source === "rent" && entry.run_s <= 1.1 * mine.run_s).sort((one, other) => one.total_usd - other.total_usd) : [];
  if (!equal) return { answer };
  const beside = await ask("cost", { ...asked, cloud_gpu: equal.gpu }, signal).catch(() => null);
  return beside?.rent.length ? { answer: beside, instead: equal.gpu } : { answer };
}

const usual = ({ utilization_fraction: used, utilization_usual_for: whose }) => (whose ? `${f.percent(used)} of the time, usual for ${whose}` : "");

// The terms on which both are computed, in the words of the recommendation.
function terms({ utilization_fraction: used, years, price, own }) {
  const machine = own && (own.machine_usd ? `with ${f.usd(own.machine_usd)} for the rest of the machine` : "in a machine that you have");
  return [`For ${f.plural(f.number(168 * used, 2), "hour")} a week for ${f.plural(years, "year")}`, price ? `${price.kind} price, ${aged(price.dated)}` : own && "your own price", machine].filter(Boolean).join(" · ");
}

const here = (answer) => answer.break_even.find((entry) => Math.abs(entry.utilization_fraction - answer.utilization_fraction) < 1e-9);

// The verdict in a few words: buy or rent, or that the difference is too small to decide.
function better({ own, rent, gpu, gpu_count: count, better: choice, undecided }) {
  const name = f.the(f.several(count, gpu));
  if (choice === "own") return `Buy ${name}`;
  if (choice === "rent") return `Rent ${name}`;
  if (choice !== "either") return f.several(count, gpu);
  if (undecided === "close") return `Buying and renting ${name} cost about the same`;
  return own.total_usd > rent[0].total_usd ? `Renting ${name} saves too little to be worth it` : `Owning ${name} saves little`;
}

// By how much, and what to go by where that is too little.
function lead({ own, rent, years, better: choice, undecided }) {
  const saves = own && rent[0] ? Math.abs(own.total_usd - rent[0].total_usd) : 0;
  if (choice === "own") return `Over ${f.plural(years, "year")}, owning costs ${f.usd(saves)} less than renting.`;
  if (choice === "either") {
    const cheaper = own.total_usd > rent[0].total_usd ? "renting" : "owning";
    const advice = undecided === "close" ? "Rent if you are not sure how much you will use it: nothing is paid upfront." : "Renting takes effort: you upload your data and wait for a machine.";
    return `Over ${f.plural(years, "year")}, ${cheaper} costs only ${f.usd(saves)} less. ${advice}`;
  }
  return choice === "rent" ? `Over ${f.plural(years, "year")}, renting costs ${f.usd(saves)} less than owning.` : "";
}

// At how many hours and at which rent the other one becomes cheaper.
function turns(answer) {
  const { own, rent, rent_market: market, gpu_count: count, break_even_utilization_fraction: fraction } = answer;
  const first = rent[0];
  if (!own || !first?.total_usd) return "";
  const hours = fraction == null ? "" : `${f.plural(f.number(168 * fraction, 2), "hour")} a week (${f.percent(fraction)} of the time)`;
  const usd = f.usd((first.usd_per_gpu_hour * own.total_usd) / first.total_usd, 2);
  const asked = `${usd} an hour${count > 1 ? " for each GPU" : ""}${market && !part(answer, "worth").includes("clouds charge") ? ` (clouds charge ${f.usd(market.low_usd_per_gpu_hour, 2)} to ${f.usd(market.high_usd_per_gpu_hour, 2)})` : ""}`;
  if (first.total_usd < own.total_usd) return `Owning becomes cheaper ${hours ? `above ${hours}, or ` : ""}if renting costs more than ${asked}.`;
  return `Renting becomes cheaper ${hours ? `below ${hours}, or ` : ""}if it costs less than ${asked}.`;
}

// What the server says beyond the headline and the line on when it turns.
function said(answer) {
  const { own, rent } = answer;
  const name = f.several(answer.gpu_count, answer.gpu);
  if (!own) return `No price is known for ${f.the(name)}. Enter one in your case.`;
  if (!rent.length) return `Owning ${f.the(name)} costs ${f.usd(own.total_usd)} over ${f.plural(answer.years, "year")}. No cloud provider in the price tables offers it.`;
  return [part(answer, "worth"), part(answer, "resale"), part(answer, "unpaid")].filter(Boolean).join(" ");
}

// Machines that can be taken away at any time may change the answer, so they are mentioned if they do.
function spot({ own, rent, better: choice }) {
  const found = choice === "rent" || !own ? null : rent.find((other) => other.way === "spot" && other.total_usd < own.total_usd);
  return found ? `If your work can be interrupted, spot machines cost ${f.usd(own.total_usd - found.total_usd)} less than owning.` : "";
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

// Without a price or a rent, the time is unknown; `never` would claim too much.
const pays = (answer, days, like) => (answer.own && answer.rent.length ? f.days(days, like) : "–");

function figures(answer) {
  const { own, rent, rent_market: market } = answer;
  const first = rent[0];
  return [
    facts([
      own && [`${answer.years}-year total`, num(f.usd(own.total_usd), { title: "Owning", formula: `${f.usd(own.gpu_usd)} GPU + ${f.usd(own.machine_usd)} machine + ${f.usd(own.electricity_usd)} electricity − ${f.usd(own.resale_usd)} resale = ${f.usd(own.total_usd)}\nelectricity: ${f.watts(own.power_watts)} × ${f.number(own.working_s / 3600)} h = ${f.number(own.energy_kwh)} kWh`, rows: answer.price ? [["price", `${answer.price.kind}, ${aged(answer.price.dated)}`], ["source", answer.price.source]] : [], answer }), `owning, ${f.usd(own.usd_per_hour, 2)} per hour of use`],
      first && [`${answer.years}-year rent`, num(f.usd(first.total_usd), { title: "Renting", formula: `${f.number(first.paid_s / 3600)} h × ${first.gpu_count} × ${f.usd(first.usd_per_gpu_hour, 3)} = ${f.usd(first.total_usd)}`, rows: market ? [["clouds", market.clouds.join(", ")], ["range", `${f.usd(market.low_usd_per_gpu_hour, 2)} to ${f.usd(market.high_usd_per_gpu_hour, 2)} per hour`], ["dated", market.dated]] : [], answer }), `${first.way}, ${f.usd(first.usd_per_gpu_hour, 2)} per GPU-hour`],
      ["break-even after", num(pays(answer, here(answer)?.days_with_resale), { title: "Break-even", formula: evenAt(answer, here(answer)), rows: [["without resale", pays(answer, here(answer)?.days)], ["without resale and electricity", pays(answer, here(answer)?.days_without_electricity)], ["owning is cheaper above this utilisation", f.percent(answer.break_even_utilization_fraction)]], answer })],
      own && ["upfront", num(f.usd(own.upfront_usd), { title: "Upfront", formula: `${f.usd(own.gpu_usd)} for ${f.several(answer.gpu_count, answer.gpu)} + ${f.usd(own.machine_usd)} for the rest of the machine`, answer }), `${f.usd(own.gpu_usd)} ${answer.gpu_count > 1 ? "cards" : "card"}${own.machine_usd ? ` + ${f.usd(own.machine_usd)} machine` : ""}`],
    ]),
    facts([
      ...rent.slice(1).map((other) => [`${answer.years}-year rent, ${other.way}`, num(f.usd(other.total_usd), { title: `Renting, ${other.way}`, formula: `${f.number(other.paid_s / 3600)} h × ${other.gpu_count} × ${f.usd(other.usd_per_gpu_hour, 3)} = ${f.usd(other.total_usd)}`, rows: other.way === "commitment" ? [["billed", "around the clock"]] : [], answer }), `${f.usd(other.usd_per_gpu_hour, 2)} per GPU-hour${other.way === "commitment" ? ", billed around the clock" : ""}`]),
      own && ["resale", num(f.usd(own.resale_usd), { title: "Resale", formula: `what the cards can be sold for after ${f.plural(answer.years, "year")}`, answer }), `after ${f.plural(answer.years, "year")}`],
      ["CO₂e", num(`${f.number(answer.co2e_kg)} kg`, { title: "CO₂e of the electricity", formula: own ? `${f.number(own.energy_kwh)} kWh × ${f.number(answer.grid_kg_per_kwh)} kg/kWh` : "", rows: [["grid", answer.region]], answer }), answer.region],
    ], "minor"),
  ];
}

// The resale value is taken off from the start, so that the lines cross where the figures say that owning breaks even.
function lines(answer) {
  const { own, rent } = answer;
  const paid = here(answer)?.days_with_resale;
  const end = Math.max(answer.years, paid != null && paid / 365.25 < 3 * answer.years ? (1.15 * paid) / 365.25 : 0);
  const traces = [];
  const years = [0, end];
  const spent = (year) => own.upfront_usd - own.resale_usd + year * own.electricity_usd_per_year;
  if (own) traces.push({ type: "scatter", mode: "lines", name: own.resale_usd ? "own, less resale" : "own", x: years, y: years.map(spent), line: { color: colour("c0"), width: 3 } });
  if (own?.resale_usd) traces.push({ type: "scatter", mode: "lines", name: "own, before resale", x: years, y: years.map((year) => spent(year) + own.resale_usd), line: { color: colour("c0"), width: 1.5, dash: "dot" } });
  rent.forEach((other, place) => traces.push({ type: "scatter", mode: "lines", name: `rent, ${other.way}`, x: years, y: years.map((year) => (year * other.total_usd) / answer.years), line: { color: colour(`c${place + 1}`), width: 3 } }));
  if (own && paid != null && paid / 365.25 <= end) {
    const year = paid / 365.25;
    traces.push({ type: "scatter", mode: "markers+text", name: "break-even", x: [year], y: [spent(year)], text: [`<b>${f.days(paid)}</b>`], textposition: "top left", marker: { size: 13, color: colour("ink") } });
  }
  for (const trace of traces) Object.assign(trace, { hovertemplate: "%{y:$,.0f} after %{x:.1f} years<extra>%{fullData.name}</extra>", label: trace.mode === "lines" ? trace.name : "" });
  const most = Math.max(...traces.flatMap((trace) => trace.y));
  return labelled({
    traces, height: narrow() ? 380 : 460, margin: { l: 76 }, x: { title: "years", range: [0, end] }, y: { title: "cost so far in US dollars", tickprefix: "$", tickformat: ",.0f", range: [0, 1.06 * most] },
    shapes: [{ type: "line", x0: answer.years, x1: answer.years, yref: "paper", y0: 0, y1: 1, line: { color: colour("muted"), dash: "dot", width: 1 } }],
  });
}

// The user's own use, and usual ones: none of these twice.
const distinct = (answer) => answer.break_even.filter((entry) => entry === here(answer) || f.percent(entry.utilization_fraction) !== f.percent(here(answer)?.utilization_fraction));

function useTable(answer) {
  return table(["hours a week", "own", "rent", "break-even after"],
    distinct(answer).map((entry) => row([
      `${Math.round(168 * entry.utilization_fraction)} (${f.percent(entry.utilization_fraction)})`,
      num(f.usd(entry.own_usd), { title: "Owning", formula: answer.own ? `${f.usd(answer.own.upfront_usd)} upfront + ${f.usd(entry.own_usd - answer.own.upfront_usd)} electricity over ${f.plural(answer.years, "year")}` : "", answer }),
      num(f.usd(entry.rent_usd), { title: "Renting", formula: answer.rent[0] ? `${f.number(entry.utilization_fraction * HOURS_PER_YEAR * answer.years)} h × ${answer.rent[0].gpu_count} × ${f.usd(answer.rent[0].usd_per_gpu_hour, 3)}` : "", answer }),
      num(pays(answer, entry.days_with_resale, here(answer)?.days_with_resale ?? undefined), { title: "Break-even", formula: evenAt(answer, entry), rows: [["without resale", pays(answer, entry.days)], ["without resale and electricity", pays(answer, entry.days_without_electricity)]], answer }),
    ], entry === here(answer) ? { class: "best" } : {})), { caption: "Owning and renting by utilisation" });
}
