// Do more GPUs help? Throughput by GPU count and network, and how the work is best divided.

import { ask } from "../api.js";
import { numeric, step } from "../case.js";
import { colour, draw, logTicks } from "../charts.js";
import { choice, slider, text } from "../controls.js";
import * as f from "../format.js";
import { assumptions, brief, card, fill, h, head, num, points, row, table } from "../ui.js";

export const name = "Scale";
export const title = "Do more GPUs help?";
export const uses = ["seq", "precision"];

const NETWORKS = [["", "default"], ["10Gbit", "10 Gbit/s"], ["25Gbit", "25 Gbit/s"], ["100Gbit", "100 Gbit/s"], ["200Gbit", "200 Gbit/s"], ["400Gbit", "400 Gbit/s"], ["800Gbit", "800 Gbit/s"]];

const SPLITS = { data: "divide the samples", tensor: "split matrices", pipeline: "split layers", expert: "split experts", sequence: "split the sequence" };
const OTHERS = ["25Gbit", "100Gbit", "400Gbit"];

export function mount(root) {
  const verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const [plans, links, rejected, rest] = [1, 2, 3, 4].map(() => h("div", {}));
  const progress = h("p", { class: "note", role: "status" });
  const chart = h("div", { class: "chart tall" });
  const powers = [1, 2, 4, 8, 16, 32, 64, 128];
  root.append(
    h("section", { class: "card verdict-card" },
      h("div", { class: "controls" },
        text("GPU", "node", { list: "gpus" }),
        slider("GPUs per machine", "per", { values: powers.slice(0, 4), usual: 8, show: String }),
        slider("Machines", "nodes", { values: powers, usual: 2, show: String }),
        choice("Network between machines", "network", NETWORKS)),
      verdict, rest),
    card("Throughput by GPU count and network", chart, progress),
    card("How to divide the work", plans),
    h("div", { class: "pair" }, card("Faster links", links), card("Rejected plans", rejected)));
  return async (state, signal) => {
    const { model, precision, seq } = step(state);
    const several = numeric(state.nodes, "Machines") > 1;
    const cluster = several ? `${state.nodes}x${state.per}x${state.node}` : `${state.per}x${state.node}`;
    const asked = { model, precision, seq, cluster, network: state.network };
    const answer = await ask("plan", { ...asked, scaling: false }, signal);
    verdict.textContent = said(answer);
    fill(rest, assumptions(answer));
    fill(plans, answer.plans.length ? planTable(answer) : h("p", { class: "note" }, "No plan fits."));
    fill(links, (answer.faster_links ?? []).length ? points(answer.faster_links.map((entry) => `${entry.name}: ${f.seconds(entry.step_s)} per step, ${f.times(entry.gain)} as fast`)) : h("p", { class: "note" }, "The GPUs do not exchange any data."));
    fill(rejected, answer.rejected.length ? points(answer.rejected.map((entry) => (typeof entry === "string" ? entry : `${entry.reason}${entry.count ? ` (${entry.count})` : ""}`))) : h("p", { class: "note" }, "None."));
    curves(asked, several, signal, chart, progress);
  };
}

// Curves take longer than the plan itself: they come one by one, the user's own network first.
async function curves(asked, several, signal, chart, progress) {
  const networks = several ? [asked.network, ...OTHERS.filter((name) => name !== asked.network)] : [asked.network];
  const found = [];
  try {
    for (const network of networks) {
      progress.textContent = `Computing the ${NETWORKS.find(([name]) => name === network)?.[1] ?? network} network …`;
      found.push([network, (await ask("plan", { ...asked, network }, signal)).scaling]);
      await draw(chart, `Samples per second by GPU count: ${found[0][1].map((point) => `${point.gpu_count} GPUs ${f.number(point.samples_per_s)}`).join(", ")}`, () => curve(found));
    }
    progress.textContent = "";
  } catch (error) {
    if (!signal.aborted) progress.textContent = error.message;
  }
}

function said(answer) {
  const best = answer.plans[answer.recommended ?? 0];
  if (!best) return `${answer.model} does not fit on this cluster with any known plan.`;
  const split = ["data", "tensor", "pipeline", "expert", "sequence"].filter((axis) => best[axis] > 1).map((axis) => `${SPLITS[axis]} across ${best[axis]} GPUs`).join(", ") || "run it on one GPU";
  return `To train ${answer.model}, ${split}${["", ", and shard the optimizer state (ZeRO-1)", ", and shard the gradients and optimizer state (ZeRO-2)", ", and shard the weights and all states (FSDP, ZeRO-3)"][best.zero_stage] ?? ""}. A step takes ${f.seconds(best.step_s)} (${f.number(best.samples_per_s)} samples per second), limited by ${best.bound}.`;
}

function curve(found) {
  const trace = (points, value, more) => ({ type: "scatter", mode: "lines+markers", x: points.map((point) => point.gpu_count), y: points.map((point) => point[value]), hovertext: points.map((point) => `${point.gpu_count} GPUs: ${f.number(point[value])} samples/s, ${f.percent(point[value.replace("samples_per_s", "efficiency_fraction")])} of ideal scaling`), hoverinfo: "text", ...more });
  const title = (network) => (network ? NETWORKS.find(([name]) => name === network)?.[1] ?? network : "default network");
  const traces = found.map(([network, points], place) => trace(points, "samples_per_s", { name: `${title(network)}, fixed batch`, line: { color: colour(`c${place}`), width: place ? 1.5 : 3 } }));
  const [first] = found;
  if (first?.[1][0]) {
    if (first[1][0].weak_samples_per_s) traces.push(trace(first[1], "weak_samples_per_s", { name: "batch scaled with GPU count", line: { color: colour("c0"), dash: "dash", width: 2 } }));
    const one = first[1][0].samples_per_s / first[1][0].efficiency_fraction / first[1][0].gpu_count;
    const counts = first[1].map((point) => point.gpu_count);
    traces.push({ type: "scatter", mode: "lines", name: "ideal", x: counts, y: counts.map((count) => count * one), line: { color: colour("muted"), dash: "dot" }, hoverinfo: "skip" });
  }
  const counts = found[0][1].map((point) => point.gpu_count);
  return { traces, x: { title: "GPUs", type: "log", tickvals: counts, ticktext: counts.map(String) }, y: { title: "samples per second", ...logTicks(traces.flatMap((trace) => trace.y).filter((value) => value > 0), (value) => f.number(value)) } };
}

/** The plan that divides samples alone, where it is not among the best: it may not fit, which its label says. */
function plainBeside(answer) {
  const plain = answer.plain_data_parallel;
  return plain && !answer.plans.some((plan) => plan.labels?.includes("plain data parallel")) ? [plain] : [];
}

function planTable(answer) {
  return table([head("data × tensor × pipeline × expert × sequence"), "GPUs", "ZeRO", "micro-batch", head("recompute"), "time per step", "samples/s", "MFU", "memory", "exposed communication", "bubble", head("limited by")],
    [...answer.plans, ...plainBeside(answer)].map((plan, place) => row([
      [plan.data, plan.tensor, plan.pipeline, plan.expert, plan.sequence].join(" × ") + (plan.labels?.length ? ` (${plan.labels.join(", ")})` : ""),
      String(plan.gpu_count ?? "–"), String(plan.zero_stage), String(plan.micro_batch), brief(String(plan.recompute)),
      num(f.seconds(plan.step_s), { title: "Time per step", formula: ["compute_s", "recompute_s", "update_s", "exposed_comm_s", "bubble_s", "wait_s"].filter((key) => plan[key] != null).map((key) => `${f.words(key.replace(/_s$/, ""))}: ${f.seconds(plan[key])}`).join("\n"), rows: [["range", `${f.seconds(plan.step_low_s)} to ${f.seconds(plan.step_high_s)}`]], answer }),
      num(f.number(plan.samples_per_s), { title: "Samples per second", formula: `${f.number(plan.samples_per_s * plan.step_s)} samples on all GPUs ÷ ${f.seconds(plan.step_s)} per step = ${f.number(plan.samples_per_s)}`, answer }),
      num(f.percent(plan.mfu_fraction), { title: "Model FLOPs utilisation", formula: "FLOPs of the model without recomputation ÷ (time per step × GPUs × dense peak of each GPU)", rows: [["step", f.seconds(plan.step_s)], ["GPUs", plan.gpu_count]], answer }),
      num(f.gib(plan.memory.total_bytes), { title: "Memory of the fullest GPU", formula: Object.entries(plan.memory).filter(([key, value]) => /_bytes$/.test(key) && key !== "total_bytes" && value > 0).map(([key, value]) => `${f.words(key.replace(/_bytes$/, ""))}: ${f.gib(value)}`).join("\n"), answer }),
      num(f.seconds(plan.exposed_comm_s), { title: "Exposed communication", formula: `communication that compute does not hide: ${f.seconds(plan.exposed_comm_s)} of ${f.seconds(plan.step_s)}\nhidden behind compute: ${f.seconds(plan.hidden_comm_s)}`, rows: (plan.collectives ?? []).map((entry) => [f.words(entry.purpose ?? entry.kind ?? "message"), Object.entries(entry).filter(([, value]) => typeof value === "number").map(([key, value]) => `${f.words(key)} ${f.number(value)}`).join(", ")]), answer }),
      num(f.percent(plan.bubble_fraction), { title: "Pipeline bubbles", formula: `${f.seconds(plan.bubble_s)} ÷ ${f.seconds(plan.step_s)}`, answer }), brief(plan.bound),
    ], place === 0 ? { class: "best" } : {})), { caption: "Plans, fastest first", cards: true });
}
