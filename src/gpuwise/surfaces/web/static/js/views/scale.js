// Do more GPUs help? Throughput by GPU count and network, and how the work is best divided.

import { ask } from "../api.js";
import { isLanguage, numeric, step, titleOf } from "../case.js";
import { colour, draw, labelled, logTicks, narrow } from "../charts.js";
import { choice, slider, text } from "../controls.js";
import { assume, assumedBy } from "../fields.js";
import * as f from "../format.js";
import { asking, assumptions, brief, card, facts, fill, fold, h, head, num, points, row, table } from "../ui.js";
import { aged } from "../words.js";

export const name = "Scale";
export const title = "Do more GPUs help?";
export const computing = (state) => `Planning ${titleOf(state.model)} on ${f.several(state.nodes * state.per, state.node)}`;

const NETWORKS = [["", "default"], ["10Gbit", "10 Gbit/s"], ["25Gbit", "25 Gbit/s"], ["100Gbit", "100 Gbit/s"], ["200Gbit", "200 Gbit/s"], ["400Gbit", "400 Gbit/s"], ["800Gbit", "800 Gbit/s"]];

const SPLITS = { data: "divide the samples", tensor: "split matrices", pipeline: "split layers", expert: "split experts", sequence: "split the sequence" };
const OTHERS = ["25Gbit", "100Gbit", "400Gbit"];

export function mount(root) {
  const headline = h("h2", { class: "pick" });
  const lead = h("p", { class: "lead" });
  const verdict = h("div", { class: "verdict", role: "status", "aria-live": "polite" }, headline, lead);
  const how = h("p", { class: "how" });
  const [numbers, money, plans, links, rejected, rest] = [1, 2, 3, 4, 5, 6].map(() => h("div", {}));
  const progress = h("p", { class: "note", role: "status" });
  const chart = h("div", { class: "chart tall" });
  const network = choice("Network between machines", "network", NETWORKS);
  network.classList.add("broad");
  const powers = [1, 2, 4, 8, 16, 32, 64, 128];
  root.append(
    asking("", h("div", { class: "controls" },
      text("GPU", "node", { list: "gpus" }),
      slider("GPUs per machine", "per", { values: powers.slice(0, 4), usual: 8, show: String }),
      slider("Machines", "nodes", { values: powers, usual: 2, show: String }),
      network)),
    h("section", { class: "card verdict-card" }, verdict, numbers, how, rest),
    card("Throughput by GPU count", chart, progress),
    card("What more GPUs cost", money),
    card("How to divide the work", plans),
    h("div", { class: "pair" }, card("Faster links", links), card("Rejected plans", rejected)));
  return async (state, signal) => {
    const { model, precision, seq } = step(state);
    const several = numeric(state.nodes, "Machines") > 1;
    const cluster = several ? `${state.nodes}x${state.per}x${state.node}` : `${state.per}x${state.node}`;
    const asked = { model, precision, seq, cluster, network: state.network };
    const measured = (plan) => ({ ...plan, unit: unitOf(plan, state) });
    const answer = measured(await ask("plan", { ...asked, scaling: false }, signal));
    const best = answer.plans[answer.recommended ?? 0];
    const usual = answer.assumptions.find((entry) => entry.code === "network")?.value;
    assume({ ...assumedBy(answer), seq: answer.seq ? `${answer.seq} tokens` : "" });
    network.assume(several ? usual : "");
    headline.textContent = best ? `${f.several(best.gpu_count, state.node)} process ${rate(answer, best)}` : "";
    fill(numbers, best && figures(answer, best));
    lead.textContent = "Comparing with fewer GPUs …";
    fill(money, h("p", { class: "note" }, "Comparing with fewer GPUs …"));
    how.textContent = said(answer);
    fill(rest, assumptions(answer));
    fill(plans, answer.plans.length ? planTable(answer) : h("p", { class: "note" }, "No plan fits."));
    const gains = (answer.faster_links ?? []).filter((entry) => entry.gain >= 1.02);
    fill(links, gains.length ? points(gains.map((entry) => `${entry.name}: ${f.seconds(entry.step_s)} per step, ${f.times(entry.gain)} as fast`)) : h("p", { class: "note" }, answer.faster_links?.length ? "No faster link would make a step more than 2% faster." : "The GPUs do not exchange any data."));
    fill(rejected, answer.rejected.length ? fold(`${answer.rejected.length} ${answer.rejected.length === 1 ? "kind" : "kinds"} of plans`, points(answer.rejected.map((entry) => (typeof entry === "string" ? entry : `${entry.reason}${entry.count ? ` (${entry.count})` : ""}`)))) : h("p", { class: "note" }, "None."));
    if (!answer.plans.length) {
      headline.textContent = "No plan fits on these GPUs";
      lead.textContent = said(answer);
      how.textContent = "";
      fill(money);
      return;
    }
    fewer(asked, best, state.node, several, signal, measured, usual);
  };
  // Plans for fewer GPUs take longer than the plan itself, so they come afterwards.
  async function fewer(asked, best, gpu, several, signal, measured, usual) {
    try {
      const [grown, price] = await Promise.all([ask("plan", asked, signal), ask("cost", { gpu }, signal).catch(() => null)]);
      if (signal.aborted) return;
      const own = measured(withPlan(grown, best));
      const [first, ...more] = helps(own, price);
      headline.textContent = first;
      lead.textContent = more.map(f.capital).join(" ");
      lead.hidden = !more.length;
      fill(numbers, figures(own, best, price));
      fill(money, costTable(own, price));
      await others(asked, measured(grown), several, signal, chart, progress, usual);
    } catch (error) {
      if (!signal.aborted) headline.textContent = f.capital(error.message);
    }
  }
}

// Language models are measured in tokens, everything else in samples.
const unitOf = (answer, state) => (isLanguage(state) && answer.seq ? { name: "token", each: answer.seq } : { name: "sample", each: 1 });
const amount = (answer, point) => f.number(point.samples_per_s * answer.unit.each);
const rate = (answer, point) => `${amount(answer, point)} ${answer.unit.name}s per second`;

// The plan at a glance; when fewer GPUs have been computed too, what the others add and cost.
function figures(answer, best, price) {
  const known = answer.scaling?.filter((point) => point.samples_per_s > 0) ?? [];
  const [first, last] = [known[0], known.at(-1)];
  const hourly = price?.rent_market?.usd_per_gpu_hour;
  return [
    facts([
      [`${answer.unit.name}s per second`, num(amount(answer, best), { title: `${f.capital(answer.unit.name)}s per second`, formula: `${f.number(best.samples_per_s * best.step_s)} samples${answer.unit.each > 1 ? ` of ${f.number(answer.unit.each)} tokens` : ""} on all GPUs ÷ ${f.seconds(best.step_s)} per step`, answer }), `on ${f.plural(best.gpu_count, "GPU")}`],
      ["time per step", num(f.seconds(best.step_s), { title: "Time per step", formula: `${f.seconds(best.exposed_comm_s)} of it is communication that compute does not hide`, rows: [["range", f.between(best.step_low_s, best.step_high_s)]], answer }), f.between(best.step_low_s, best.step_high_s, best.step_s)],
      ["memory of each GPU", num(f.gib(best.memory.total_bytes), { title: "Memory of the fullest GPU", formula: `micro-batch ${best.micro_batch}, ZeRO ${best.zero_stage}`, answer }), `micro-batch ${best.micro_batch}`],
      ["limited by", num(f.bound(best.bound), { title: "Limited by", formula: `${f.seconds(best.exposed_comm_s)} of ${f.seconds(best.step_s)} is exposed communication`, answer }), `${f.percent(best.mfu_fraction)} of the peak is used`],
    ]),
    first && facts([
      last !== first && ["speed-up", num(f.times(last.samples_per_s / first.samples_per_s), { title: "Speed-up", formula: `${rate(answer, last)} ÷ ${rate(answer, first)}`, answer }), `over ${first.gpu_count === 1 ? "one GPU" : `${first.gpu_count} GPUs`}`],
      last !== first && ["of perfect scaling", num(f.percent(last.efficiency_fraction), { title: "Of perfect scaling", formula: `${rate(answer, last)} ÷ ${f.number((last.samples_per_s * answer.unit.each) / last.efficiency_fraction)}`, answer }), `at ${f.plural(last.gpu_count, "GPU")}`],
      price?.price && ["price of the cards", num(f.usd(price.price.usd * best.gpu_count), { title: "Price of the cards", formula: `${best.gpu_count} × ${f.usd(price.price.usd)}`, answer: price }), `${price.price.kind} price, ${aged(price.price.dated)}`],
      hourly && ["rent", num(`${f.usd(hourly * best.gpu_count, 2)}/h`, { title: "Rent per hour", formula: `${best.gpu_count} × ${f.usd(hourly, 2)}`, answer: price }), `${f.usd(hourly, 2)} per GPU-hour`],
    ], "minor"),
  ];
}

// The curve has the fastest plan for every count; at the asked one, the recommended plan counts, which may be a simpler one.
const withPlan = (answer, best) => ({ ...answer, scaling: answer.scaling.map((point) => (point.gpu_count === best.gpu_count ? { ...point, samples_per_s: best.samples_per_s, efficiency_fraction: (point.efficiency_fraction * best.samples_per_s) / point.samples_per_s } : point)) });

// Whether more GPUs help, in plain words, with what they cost: a headline, and then sentences.
function helps(answer, price) {
  const known = answer.scaling.filter((point) => point.samples_per_s > 0);
  const [first, last] = [known[0], known.at(-1)];
  if (!first || (first === last && last.gpu_count === 1)) return ["Choose more GPUs or machines to see whether they help"];
  if (first === last) return [`Fewer than ${last.gpu_count} GPUs cannot hold this model`, `There is no smaller number to compare with. ${last.gpu_count} GPUs process ${rate(answer, last)}.`];
  const { unit } = answer;
  const faster = last.samples_per_s / first.samples_per_s;
  const perfect = last.gpu_count / first.gpu_count;
  const gpus = (count) => (count === 1 ? "one GPU" : `${count} GPUs`);
  const stop = answer.stops_at_gpu_count;
  const atStop = known.find((point) => point.gpu_count === stop);
  const dearer = perfect / faster;
  const cost = dearer < 0.95 ? `A ${unit.name} costs ${f.percent(1 - dearer)} less` : dearer < 1.05 ? `A ${unit.name} costs about the same` : `A ${unit.name} costs ${dearer.toFixed(dearer < 10 ? 1 : 0)} times as much`;
  const rented = price?.rent_market ? ` (${rent(perMillion(answer, last, price))} for a million ${unit.name}s when rented, instead of ${rent(perMillion(answer, first, price))})` : "";
  const each = (point) => point.gpu_count / point.samples_per_s;
  const least = known.reduce((best, point) => (each(point) < each(best) ? point : best));
  const base = first.gpu_count > 1 ? `Fewer than ${first.gpu_count} GPUs cannot hold this model, so the comparison starts there.` : "";
  const whole = `${gpus(last.gpu_count)} are ${faster.toFixed(1)} times as fast as ${gpus(first.gpu_count)}`;
  const ideal = faster > 1.02 * perfect ? `That is better than perfect scaling (${f.number(perfect)} times), because each GPU holds less of the model and has room for larger micro-batches.` : `With perfect scaling, they would be ${f.number(perfect)} times as fast.`;
  const paid = `${cost}${rented}.${least === last ? "" : ` It costs least on ${gpus(least.gpu_count)}.`}${base && ` ${base}`}`;
  if (faster < 1.05) return [`No: ${gpus(last.gpu_count)} are not faster than ${gpus(first.gpu_count)} for this batch`, paid];
  if (stop === first.gpu_count) return [`Not much: ${whole}`, ideal, paid];
  if (atStop) return [`Yes, up to ${stop} GPUs, which are ${(atStop.samples_per_s / first.samples_per_s).toFixed(1)} times as fast as ${gpus(first.gpu_count)}`, "Beyond that, each further GPU adds less than half of its speed.", `${whole}.`, ideal, paid];
  return [`Yes: ${whole}`, ideal, paid];
}

const perMillion = (answer, point, price) => (1e6 * point.gpu_count * price.rent_market.usd_per_gpu_hour) / (3600 * point.samples_per_s * answer.unit.each);

const rent = (usd) => f.usd(usd, usd < 1 ? 3 : 2); // with a digit more than a price, so that a few percent are seen

const wide = (...content) => h("td", { class: "roomy" }, content);

function costTable(answer, price) {
  const known = answer.scaling.filter((point) => point.samples_per_s > 0);
  const [first] = known;
  const market = price?.rent_market;
  const alone = answer.separate_jobs;
  const line = (point) => row([
    String(point.gpu_count),
    num(amount(answer, point), { title: `${f.capital(answer.unit.name)}s per second with ${f.plural(point.gpu_count, "GPU")}`, formula: "the fastest plan for this number of GPUs; at the number that you chose, the recommended plan", answer }),
    num(f.times(point.samples_per_s / first.samples_per_s), { title: `Speed-up with ${f.plural(point.gpu_count, "GPU")}`, formula: `${amount(answer, point)} ÷ ${rate(answer, first)}`, answer }),
    wide(num(f.percent(point.efficiency_fraction), { title: `Of perfect scaling with ${f.plural(point.gpu_count, "GPU")}`, formula: `${amount(answer, point)} ÷ ${f.number((point.samples_per_s * answer.unit.each) / point.efficiency_fraction)} ${answer.unit.name}s per second`, answer })),
    wide(price?.price ? num(f.usd(price.price.usd * point.gpu_count), { title: `Price of ${f.plural(point.gpu_count, "card")}`, formula: `${point.gpu_count} × ${f.usd(price.price.usd)} (${price.price.kind}, ${price.price.dated})`, answer: price }) : "–"),
    market ? num(rent(perMillion(answer, point, price)), { title: `Rent for a million ${answer.unit.name}s`, formula: `1,000,000 × ${f.plural(point.gpu_count, "GPU")} × ${f.usd(market.usd_per_gpu_hour, 2)} per hour ÷ (3,600 × ${rate(answer, point)})`, rows: [["prices from", market.dated]], answer: price }) : "–",
  ], point.gpu_count === answer.stops_at_gpu_count ? { class: "best" } : {});
  return [
    table(["GPUs", `${answer.unit.name}s/s`, "speed-up", ...["of perfect scaling", "price of the cards"].map((title) => h("th", { scope: "col", class: "roomy" }, title)), `rent per million ${answer.unit.name}s`], known.map(line), { caption: "What more GPUs cost" }),
    alone && alone.jobs > 1 && alone.samples_per_s > 1.05 * alone.one_job_samples_per_s && h("p", { class: "note" }, `If you have several models to train, ${alone.jobs} separate runs, each on ${alone.gpus_each === 1 ? "one GPU" : `${alone.gpus_each} GPUs`}, process ${rate(answer, alone)} in total, compared with ${f.number(alone.one_job_samples_per_s * answer.unit.each)} for a single run on all GPUs.`),
    !price && h("p", { class: "note" }, "The price of this GPU is not known."),
  ];
}

// Curves of other networks come one by one, after the user's own.
async function others(asked, own, several, signal, chart, progress, usual = "default network") {
  const netOf = (network) => (network ? NETWORKS.find(([name]) => name === network)?.[1] ?? network : several ? usual : "in one machine");
  const found = [[netOf(asked.network), own.scaling]];
  const label = `${f.capital(own.unit.name)}s per second by GPU count: ${own.scaling.map((point) => `${f.plural(point.gpu_count, "GPU")} ${amount(own, point)}`).join(", ")}`;
  try {
    await draw(chart, label, () => curve(found, own.unit));
    for (const network of several ? OTHERS.filter((name) => name !== asked.network) : []) {
      progress.textContent = `Predicting the speed with a network of ${netOf(network)} …`;
      found.push([netOf(network), (await ask("plan", { ...asked, network }, signal)).scaling]);
      await draw(chart, label, () => curve(found, own.unit));
    }
    progress.textContent = "";
  } catch (error) {
    if (!signal.aborted) progress.textContent = error.message;
  }
}

function said(answer) {
  const best = answer.plans[answer.recommended ?? 0];
  if (!best) return `${titleOf(answer.model)} does not fit on this cluster with any known plan.`;
  const split = ["data", "tensor", "pipeline", "expert", "sequence"].filter((axis) => best[axis] > 1).map((axis) => `${SPLITS[axis]} across ${best[axis]} GPUs`).join(", ") || "run it on one GPU";
  return `To train ${titleOf(answer.model)}, ${split}${["", ", and shard the optimizer state (ZeRO-1)", ", and shard the gradients and optimizer state (ZeRO-2)", ", and shard the weights and all states (FSDP, ZeRO-3)"][best.zero_stage] ?? ""}.`;
}

// Networks that make no difference share a line. The dotted line is perfect scaling: twice the GPUs, twice the speed.
function curve(found, unit) {
  const lines = [];
  for (const [network, points] of found) {
    const same = lines.find((line) => line.points.every((point, place) => Math.abs(point.samples_per_s / points[place]?.samples_per_s - 1) < 0.01));
    if (same) same.names.push(network);
    else lines.push({ names: [network], points });
  }
  const trace = (all, value, more) => { const points = all.filter((point) => point[value] > 0); return { type: "scatter", mode: "lines+markers", x: points.map((point) => point.gpu_count), y: points.map((point) => point[value] * unit.each), hovertext: points.map((point) => `${more.label}: ${f.number(point[value] * unit.each)} ${unit.name}s/s, ${f.percent(point[value.replace("samples_per_s", "efficiency_fraction")])} of perfect`), hoverinfo: "text", ...more }; };
  const named = (names) => names.map((name, place) => (place < names.length - 1 ? name.replace(" Gbit/s", "") : name)).join(", ");
  const traces = lines.map((line, place) => trace(line.points, "samples_per_s", { label: named(line.names), line: { color: colour(`c${place}`), width: place ? 2 : 3 } }));
  const [[, own]] = found;
  const first = own.find((point) => point.samples_per_s > 0);
  if (first) {
    if (first.weak_samples_per_s) traces.push(trace(own, "weak_samples_per_s", { label: "batch grows with GPUs", line: { color: colour("c4"), dash: "dash", width: 2 } }));
    const one = first.samples_per_s / first.efficiency_fraction / first.gpu_count;
    const counts = own.map((point) => point.gpu_count);
    traces.push({ type: "scatter", mode: "lines", label: "perfect scaling", x: counts, y: counts.map((count) => count * one * unit.each), line: { color: colour("muted"), dash: "dot", width: 2 }, hovertext: counts.map((count) => `perfect scaling: ${f.number(count * one * unit.each)} ${unit.name}s/s`), hoverinfo: "text" });
  }
  const counts = own.map((point) => point.gpu_count);
  return labelled({ traces, height: narrow() ? 380 : 440, x: { title: "GPUs", type: "log", tickvals: counts, ticktext: counts.map(String) }, y: { title: `${unit.name}s per second`, ...logTicks(traces.flatMap((one) => one.y).filter((value) => value > 0), (value) => f.number(value)) } });
}

/** The plan that divides samples alone, where it is not among the best: it may not fit, which its label says. */
function plainBeside(answer) {
  const plain = answer.plain_data_parallel;
  return plain && !answer.plans.some((plan) => plan.labels?.includes("plain data parallel")) ? [plain] : [];
}

const AXES = ["data", "tensor", "pipeline", "expert", "sequence"];
const nameOf = (plan) => AXES.filter((axis) => plan[axis] > 1).map((axis) => `${axis} ${plan[axis]}`).join(" × ") || "one GPU";
const FEW = 3;

// The best plans, and plain data parallelism beside them; the others on request.
function planTable(answer) {
  const all = [...answer.plans, ...plainBeside(answer)];
  const recommended = answer.plans[answer.recommended ?? 0];
  const first = all.filter((plan, place) => place < FEW || plan === recommended || plan.labels?.includes("plain data parallel"));
  const rest = all.filter((plan) => !first.includes(plan));
  return [plansOf(answer, first, recommended), rest.length > 0 && fold(`${rest.length} more plans`, plansOf(answer, rest, recommended))];
}

function plansOf(answer, plans, recommended) {
  const roomy = (title) => h("th", { scope: "col", class: "roomy" }, title);
  return table([head("plan"), "time per step", `${answer.unit.name}s/s`, roomy("peak used"), "memory", "exposed communication", roomy("bubble"), head("limited by")],
    plans.map((plan) => row([
      h("span", {}, nameOf(plan), h("small", { class: "note small" }, ` ${[...(plan.labels ?? []), f.plural(plan.gpu_count, "GPU"), `ZeRO ${plan.zero_stage}`, `micro-batch ${plan.micro_batch}`, plan.recompute !== "none" ? `recompute ${plan.recompute}` : ""].filter(Boolean).join(", ")}`)),
      num(f.seconds(plan.step_s), { title: "Time per step", formula: ["compute_s", "recompute_s", "update_s", "exposed_comm_s", "bubble_s", "wait_s"].filter((key) => plan[key] != null).map((key) => `${f.words(key.replace(/_s$/, ""))}: ${f.seconds(plan[key])}`).join("\n"), rows: [["range", `${f.seconds(plan.step_low_s)} to ${f.seconds(plan.step_high_s)}`]], answer }),
      num(amount(answer, plan), { title: `${f.capital(answer.unit.name)}s per second`, formula: `${f.number(plan.samples_per_s * plan.step_s)} samples${answer.unit.each > 1 ? ` of ${f.number(answer.unit.each)} tokens` : ""} on all GPUs ÷ ${f.seconds(plan.step_s)} per step`, answer }),
      wide(num(f.percent(plan.mfu_fraction), { title: "Model FLOPs utilisation", formula: "FLOPs of the model without recomputation ÷ (time per step × GPUs × dense peak of each GPU)", rows: [["step", f.seconds(plan.step_s)], ["GPUs", plan.gpu_count]], answer })),
      num(f.gib(plan.memory.total_bytes), { title: "Memory of the fullest GPU", formula: Object.entries(plan.memory).filter(([key, value]) => /_bytes$/.test(key) && key !== "total_bytes" && value > 0).map(([key, value]) => `${f.words(key.replace(/_bytes$/, ""))}: ${f.gib(value)}`).join("\n"), answer }),
      num(f.seconds(plan.exposed_comm_s), { title: "Exposed communication", formula: `communication that compute does not hide: ${f.seconds(plan.exposed_comm_s)} of ${f.seconds(plan.step_s)}\nhidden behind compute: ${f.seconds(plan.hidden_comm_s)}`, rows: (plan.collectives ?? []).map((entry) => [f.words(entry.purpose ?? entry.kind ?? "message"), Object.entries(entry).filter(([, value]) => typeof value === "number").map(([key, value]) => `${f.words(key)} ${f.number(value)}`).join(", ")]), answer }),
      wide(num(f.percent(plan.bubble_fraction), { title: "Pipeline bubbles", formula: `${f.seconds(plan.bubble_s)} ÷ ${f.seconds(plan.step_s)}`, answer })), brief(f.bound(plan.bound)),
    ], plan === recommended ? { class: "best" } : {})), { caption: "Plans, fastest first", cards: true });
}
