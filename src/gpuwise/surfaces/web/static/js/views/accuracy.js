// How wrong are the predictions? Each measured step beside its prediction by a fit that had not seen that GPU.

import { look } from "../api.js";
import { colour, draw, logTicks, narrow, plain } from "../charts.js";
import * as f from "../format.js";
import { bar, card, facts, fill, fold, h, head, left, num, row, table } from "../ui.js";

export const name = "Accuracy";
export const title = "How much can I trust this?";
export const computing = () => "Predicting every published measurement without its GPU, which takes about ten seconds the first time";

const RULES = { flops_ratio: "ratio of peak FLOP/s", bandwidth_ratio: "ratio of bandwidths", sqrt_of_both: "square root of both ratios", roofline: "roofline with one efficiency" };

const HOW = {
  "ratio of peak FLOP/s": "a measured step on another GPU × its peak ÷ this GPU's peak",
  "ratio of bandwidths": "a measured step on another GPU × its bandwidth ÷ this GPU's bandwidth",
  "square root of both ratios": "a measured step on another GPU × the square root of both ratios",
  "roofline with one efficiency": "the longer of FLOPs ÷ peak and bytes ÷ bandwidth, op by op, with the same efficiency for all GPUs",
};

const MANY = 20;

export function mount(root) {
  const verdict = h("p", { class: "verdict lead", role: "status", "aria-live": "polite" });
  const headline = h("h2", { class: "pick" });
  const [numbers, gpus, rules, noise] = [1, 2, 3, 4].map(() => h("div", {}));
  const chart = h("div", { class: "chart tall" });
  root.append(
    h("section", { class: "card verdict-card" }, headline, verdict, numbers),
    card("Predicted against measured", chart),
    card("Error by GPU", gpus),
    h("div", { class: "pair" }, card("Compared with simple rules", rules), card("Unpredictable differences", noise)));
  return async (state, signal) => {
    const [answer, choices] = await Promise.all([look("accuracy", signal), look("choices", signal)]);
    verdict.textContent = `The chart shows ${f.number(answer.predicted)} published steps. Each was predicted by a fit that excludes its GPU, as if nobody had measured that GPU yet.`;
    headline.textContent = `Half of all predictions are within ${f.percent(answer.median_ape)}, nine in ten within ${f.percent(answer.p90_ape)}`;
    fill(numbers, figures(answer));
    fill(gpus, byGpu(answer));
    fill(rules, table(["", "median error", "90% within"], [["gpuwise", answer], ...Object.entries(answer.baselines).map(([rule, value]) => [RULES[rule] ?? rule, value])].map(([rule, value], place) => row([rule, ...[["median error", f.percent(value.median_ape, 1)], ["90% within", f.percent(value.p90_ape)]].map(([title, text]) => num(text, { title: `${rule}: ${title}`, formula: HOW[rule] ?? "|predicted − measured| ÷ measured, over the same rows", answer }))], place === 0 ? { class: "best" } : {})), { caption: "Compared with simple rules" }));
    fill(noise, table([head("what changes"), head("how much the step time differs")], answer.noise_floor.map((entry) => row([entry.changed.replace("->", "to"), left(entry.effect)])), { caption: "Unpredictable differences" }));
    await draw(chart, verdict.textContent, () => scatter(answer, choices));
  };
}

const figures = (answer) => facts([
  ["median error", num(f.percent(answer.median_ape, 1), { title: "Median error", formula: `median of |predicted − measured| ÷ measured over ${answer.predicted} rows`, answer }), `of ${f.number(answer.predicted)} published steps`],
  ["90% within", num(f.percent(answer.p90_ape), { title: "90% within", formula: "the 90th percentile of |predicted − measured| ÷ measured", answer }), "nine steps in ten"],
  ["bias", num(f.signed(answer.bias, 1), { title: "Bias", formula: "median of (predicted − measured) ÷ measured", answer }), answer.bias < 0 ? "predictions are slightly too fast" : "predictions are slightly too slow"],
  ["ranking of GPUs", num(f.number(answer.kendall_tau), { title: "Ranking of GPUs", formula: "Kendall's tau between the rankings of GPUs by predicted and by measured time; 1 means the same order", answer }), "1 is the right order, 0 is chance"],
  ["inside the range", num(f.percent(answer.coverage_fraction), { title: "Inside the range", formula: "share of measured steps within the predicted range; the target is 80%", answer }), "of the printed ranges; 80% is the target"],
  answer.leave_one_family_out && ["new model families", num(f.percent(answer.leave_one_family_out.median_ape, 1), { title: "New model families", formula: "median error when the fit excludes the model's family", answer }), "median error for models unlike any in the fit"],
]);

function byGpu(answer) {
  const entries = Object.entries(answer.by.gpu).sort(([, one], [, other]) => one.median_ape - other.median_ape);
  const worst = Math.max(...entries.map(([, value]) => value.median_ape));
  const made = (some) => table(["", h("th", { scope: "col", class: "roomy" }, "rows"), "median error", h("th", { scope: "col", class: "roomy" }, h("span", { class: "hidden" }, "as a bar")), "90% within", "bias", "inside the range"],
    some.map(([gpu, value]) => row([gpu, h("td", { class: "roomy" }, String(value.rows)), num(f.percent(value.median_ape, 1), { title: `${gpu}: median error`, formula: `over ${value.rows} rows, with a fit that excludes the ${gpu}`, answer }), h("td", { class: "roomy" }, bar(value.median_ape / worst)), ...[["90% within", f.percent(value.p90_ape), "the 90th percentile of |predicted − measured| ÷ measured"], ["bias", f.signed(value.bias, 1), "median of (predicted − measured) ÷ measured"], ["inside the range", f.percent(value.coverage_fraction), "share of measured steps within the predicted range; the target is 80%"]].map(([title, text, formula]) => num(text, { title: `${gpu}: ${title}`, formula: `${formula}, over ${value.rows} rows, with a fit that excludes the ${gpu}`, answer }))])),
    { caption: "Error by GPU" });
  const often = entries.filter(([, value]) => value.rows >= MANY); // where many rows were measured, the figures say most
  const others = entries.filter(([, value]) => value.rows < MANY);
  return [made(often), others.length > 0 && fold(`${f.plural(others.length, "GPU")} with fewer than ${MANY} rows`, made(others))];
}

// One colour for one class of GPU; the lines show equality and the range that holds nine steps in ten.
function scatter(answer, choices) {
  const kinds = new Map(choices.gpus.map((gpu) => [gpu.name, f.words(gpu.segment || "other").replace("datacenter", "data centre")]));
  const kindOf = (entry) => kinds.get(entry.gpu) ?? "other";
  const classes = [...new Set(answer.residuals.map(kindOf))].sort();
  const traces = classes.map((kind, place) => {
    const mine = answer.residuals.filter((entry) => kindOf(entry) === kind);
    return { type: "scatter", mode: "markers", name: plain(kind), x: mine.map((entry) => entry.measured), y: mine.map((entry) => entry.predicted), marker: { color: colour(`c${place % 8}`), size: 7, opacity: 0.7 }, hovertext: mine.map((entry) => `${plain(entry.gpu)}, ${plain(entry.family)}<br>measured ${f.seconds(entry.measured)}, predicted ${f.seconds(entry.predicted)} (${f.percent(entry.predicted / entry.measured - 1)})`), hoverinfo: "text" };
  });
  const all = answer.residuals.flatMap((entry) => [entry.measured, entry.predicted]);
  const ends = [Math.min(...all) / 1.3, Math.max(...all) * 1.3];
  const line = (factor, more) => ({ type: "scatter", mode: "lines", x: ends, y: ends.map((value) => value * factor), hoverinfo: "skip", ...more });
  const beside = { line: { color: colour("grey"), width: 1.5, dash: "dash" } };
  traces.unshift(line(1, { name: "equal", line: { color: colour("muted"), width: 1.5 } }), line(1 + answer.p90_ape, { name: `90% within ${f.percent(answer.p90_ape)}`, ...beside }), line(1 - answer.p90_ape, { showlegend: false, ...beside }));
  const range = ends.map(Math.log10);
  return { traces, hovermode: "closest", x: { title: "measured time per step", ...clock(ends), range }, y: { title: "predicted time per step", ...clock(ends), range }, height: narrow() ? 400 : 540 };
}

const clock = (ends) => logTicks(ends, (value) => f.seconds(value));
