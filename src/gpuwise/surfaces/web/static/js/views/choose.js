// What to buy, rent or keep: three questions, the recommendation, its rivals, time against money, and every card on the market.

import { ask, look } from "../api.js";
import { taskOf, titleOf, which, writes } from "../case.js";
import { search } from "../controls.js";
import { draw, narrow } from "../charts.js";
import { assume, assumedBy } from "../fields.js";
import * as f from "../format.js";
import { openSheet } from "../sheet.js";
import { speedOf } from "../speed.js";
import { assumptions, card, fill, h, mark, num, open, row, table } from "../ui.js";
import { lines } from "../words.js";
import { hero, useOf } from "./hero.js";
import { cardTable, entryTold, wider } from "./market.js";
import { pickOf, powerLimit } from "./picked.js";
import { reached, scatter, unreached } from "./scatter.js";
import { start } from "./start.js";
import { carbonTold, named, perTold, priceTold, rateTold, totalTold } from "./told.js";

export const name = "Choose";
export const title = "Which GPU should I get?";

let seen = 0; // cards in the last answer

export const computing = (state) => `Comparing ${seen ? `${seen} cards` : "all cards with a price"} for ${forWhat(state)}`;

export function mount(root) {
  const asked = start();
  const [answered, options, below, ranking] = [1, 2, 3, 4].map(() => h("div", {}));
  const chart = h("div", { class: "chart tall" });
  const better = h("p", { class: "note" });
  root.append(
    asked.stories,
    h("div", { class: "asks" }, asked.node),
    h("section", { class: "card hero" }, answered, below),
    card("The options", options),
    card("Speed and cost", chart, better),
    card("All cards with a price", h("div", { class: "controls" }, search("Find a card", "find", "24 gb, amd, 1080")), ranking));
  return async (state, signal) => {
    asked.show();
    const question = which(state);
    const answer = await ask("which", question, signal);
    seen = new Set(answer.looked_at.map((entry) => entry.gpu)).size;
    assume({ ...assumedBy(answer), precision: pickOf(answer)?.precision });
    fill(answered, hero(answer, state));
    fill(below, assumptions(answer));
    fill(options, answer.options.length ? optionTable(answer, state) : h("p", { class: "note" }, "No option meets these limits."));
    const speed = speedOf(answer, state);
    better.textContent = `${speed.rising ? "Lower" : "Higher"} and further left is better. ${reached(answer) ? "The line connects the options that no other option beats in both speed and cost. " : ""}${unreached(answer) ? "Grey options are out of reach. " : ""}The cost is that of ${useOf(answer, state)}, in which faster options do more work. Click a point for its fact sheet.`;
    await draw(chart, `Speed against cost. ${answer.verdict}`, () => scatter(answer, pickOf(answer), speed, useOf(answer, state)), (entry) => openSheet(entry.gpu, { count: entry.gpu_count, ...entryTold(entry, answer, speed) }));
    const market = wider(state) ? await ask("which", { ...question, vendor: "any", buy: undefined, used: undefined, rent: undefined }, signal) : answer;
    fill(ranking, cardTable(market, answer, state, (await look("choices")).gpus));
  };
}

const forWhat = (state) => (state.model ? titleOf(state.model) : `“${taskOf(state.task ? state : { task: "kaggle" })?.title ?? "your work"}”`);

const worst = (checks) => ["fail", "tight", "pass"].find((verdict) => checks.some((line) => line.verdict === verdict));

const notes = (option) => lines(option.reasons.filter((reason) => reason !== "the verdict"));
const remarks = (option) => notes(option).join("; ");
// What is true of every option, or of every set of cards, is said once, under the table.
const common = (options) => (options.length > 1 ? notes(options[0]).filter((note) => options.every((option) => notes(option).includes(note))) : []);
const sets = (options) => options.filter((option) => option.gpu_count > 1);

// What several of them share is said there too, with their names, instead of in every row.
const SEVERAL = 3;
function repeated(options, shared) {
  const all = new Set(options.flatMap(notes).filter((note) => !shared.includes(note)));
  return [...all].map((note) => [note, options.filter((option) => notes(option).includes(note))]).filter(([, which]) => which.length >= SEVERAL);
}

function remark(option, shared) {
  const said = notes(option).filter((note) => !shared.includes(note)).join("; ");
  return said && h("div", { class: "small remark" }, said);
}

function optionTable(answer, state) {
  const speed = speedOf(answer, state);
  const written = writes(state);
  const best = pickOf(answer);
  const shared = common(answer.options);
  const together = common(sets(answer.options)).filter((note) => !shared.includes(note));
  const often = repeated(answer.options, [...shared, ...together]);
  const ordered = best ? [best, ...answer.options.filter((option) => option !== best)] : answer.options;
  const rival = (option) => (best && option.gpu !== best.gpu ? best.gpu : "");
  const sheet = (option) => h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => openSheet(option.gpu, { count: option.gpu_count, rival: rival(option), limit: powerLimit(option) ?? "", answer, said: [[speed.title, speed.of(option)], ["upfront", f.usd(option.upfront_usd)], [`${state.years || 3}-year total`, f.usd(option.total_usd)], ["source", option.source], ...(remarks(option) ? [["note", remarks(option)]] : [])] }) }, named(option));
  const built = (option) => (option.build.length ? powerLimit(option) ? `, ${powerLimit(option)} W limit` : worst(option.build) === "pass" ? "" : `, build ${worst(option.build)}` : "");
  const each = (option) => (written ? `${f.usd(option.usd_per_million_tokens ?? option.usd_per_million_samples, 2)} per million tokens` : `${f.cents(option.usd_per_run)} per run`);
  const roomy = (...content) => h("td", { class: "roomy" }, content);
  const wide = (title) => h("th", { scope: "col", class: "roomy" }, title);
  const made = table(
    [h("th", { scope: "col" }, "card"), h("th", { scope: "col", class: "roomy left" }, "source"), speed.title, "price", wide(`${state.years || 3}-year total`), wide(written ? "per million tokens" : "cost per run"), wide("CO₂e"), wide("build")],
    ordered.map((option) =>
      row([
        h("th", { scope: "row" }, sheet(option), h("small", { class: "slim" }, option.source, built(option), `, ${each(option)}`), remark(option, [...shared, ...(option.gpu_count > 1 ? together : []), ...often.map(([note]) => note)])),
        h("td", { class: "roomy left nowrap" }, option.source),
        h("td", { class: "nowrap" }, num(speed.of(option), rateTold(option, answer, speed, state)), h("div", { class: "small" }, speed.range(option))),
        option.source === "rent" ? num(`${f.usd(option.gpu_count * (option.price?.usd_per_hour ?? 0), 2)}/h`, priceTold(option, answer)) : num(f.usd(option.upfront_usd), priceTold(option, answer)),
        roomy(num(f.usd(option.total_usd), totalTold(option, answer))),
        roomy(written ? num(f.usd(option.usd_per_million_tokens ?? option.usd_per_million_samples, 2), perTold(option, answer)) : num(f.cents(option.usd_per_run), perTold(option, answer))),
        roomy(num(`${f.number(option.kg_co2e)} kg`, carbonTold(option, answer))),
        roomy(option.build.length ? openBuild(option, answer) : "–"),
      ], option === best ? { class: "best" } : {})),
    { caption: "Options, the recommended one first", cards: !narrow() }); // a phone shows it as the table of all cards
  return [h("div", { class: "options" }, made), shared.length > 0 && h("p", { class: "note" }, `For every option: ${shared.join("; ")}.`), together.length > 0 && h("p", { class: "note" }, `For every set of cards: ${together.join("; ")}.`), often.map(([note, which]) => h("p", { class: "note" }, `For ${which.map(named).join(", ").replace(/, ([^,]*)$/, " and $1")}: ${note}.`))];
}

function openBuild(option, answer) {
  const verdict = worst(option.build) ?? "unknown";
  const told = { title: `${f.several(option.gpu_count, option.gpu)} in a typical machine`, rows: option.build.map((line) => [`${line.check}: ${line.verdict}`, lines([line.text, line.remedy].filter(Boolean)).join(". ")]), answer, assumptions: [] };
  return h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => open(verdict, told) }, powerLimit(option) ? h("span", { class: "mark tight" }, `${powerLimit(option)} W limit`) : mark(verdict));
}
