// Do more GPUs help? Throughput by GPU count and network, and how the work is best divided.

import { ask } from "../api.js";
import { step } from "../case.js";
import { colour, draw } from "../charts.js";
import { choice, slider, text } from "../controls.js";
import * as f from "../format.js";
import { assumptions, brief, card, fill, h, head, num, points, row, table } from "../ui.js";

export const name = "Scale";
export const title = "Do more GPUs help?";

const NETWORKS = [["", "usual"], ["10Gbit", "10 Gbit/s"], ["25Gbit", "25 Gbit/s"], ["100Gbit", "100 Gbit/s"], ["200Gbit", "200 Gbit/s"], ["400Gbit", "400 Gbit/s"], ["800Gbit", "800 Gbit/s"]];

export function mount(root) {
  const verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const [plans, rejected, rest] = [1, 2, 3].map(() => h("div", {}));
  const chart = h("div", { class: "chart tall" });
  const powers = [1, 2, 4, 8, 16, 32, 64, 128];
  root.append(
    h("section", { class: "card verdict-card" },
      h("div", { class: "controls" },
        text("GPU", "node", { list: "gpus" }),
        slider("GPUs in a machine", "per", { values: powers.slice(0, 4), usual: 8, show: String }),
        slider("Machines", "nodes", { values: powers, usual: 2, show: String }),
        choice("Network between machines", "network", NETWORKS)),
      verdict, rest),
    card("Speed-up by GPU count", chart),
    card("How to divide the work", plans),
    card("What was ruled out", rejected));
  return async (state, signal) => {
    const { model, precision, seq } = step(state);
    const cluster = Number(state.nodes) > 1 ? `${state.nodes}x${state.per}x${state.node}` : `${state.per}x${state.node}`;
    let answer;
    try {
      answer = await ask("plan", { model, precision, seq, cluster, network: state.network }, signal);
    } catch (error) {
      if (error.status !== 404 && error.status !== 405) throw error;
      verdict.textContent = "This version of gpuwise does not plan for several machines yet.";
      return;
    }
    verdict.textContent = said(answer);
    fill(rest, assumptions(answer));
    fill(plans, answer.plans.length ? planTable(answer) : h("p", { class: "note" }, "Nothing fits."));
    fill(rejected, points(answer.rejected.map((entry) => (typeof entry === "string" ? entry : `${entry.reason}${entry.count ? ` (${entry.count})` : ""}`))));
    await draw(chart, verdict.textContent, () => curve(answer));
  };
}

function said(answer) {
  const best = answer.plans[0];
  if (!best) return `${answer.model} does not fit on this cluster in any way we know.`;
  const last = answer.scaling.at(-1);
  const split = ["data", "tensor", "pipeline", "expert", "sequence"].filter((axis) => best[axis] > 1).map((axis) => `${axis} ${best[axis]}`).join(" × ") || "one GPU";
  return `Divide it ${split}: ${f.seconds(best.step_s)} a step, ${f.number(best.samples_per_s)} samples a second, bound by ${best.bound}.` + (last ? ` ${last.gpu_count} GPUs give ${f.percent(last.efficiency_fraction)} of perfect speed-up.` : "");
}

function curve(answer) {
  const kinds = [...new Set(answer.scaling.map((point) => point.kind ?? point.batch_kind ?? "throughput"))];
  const traces = kinds.map((kind, place) => {
    const mine = answer.scaling.filter((point) => (point.kind ?? point.batch_kind ?? "throughput") === kind);
    return { type: "scatter", mode: "lines+markers", name: kind, x: mine.map((point) => point.gpu_count), y: mine.map((point) => point.samples_per_s), hovertext: mine.map((point) => `${point.gpu_count} GPUs: ${f.number(point.samples_per_s)} samples/s, ${f.percent(point.efficiency_fraction)} of perfect`), hoverinfo: "text", line: { color: colour(`c${place}`), width: 2.5 } };
  });
  const first = answer.scaling[0];
  if (first) {
    const one = first.samples_per_s / first.efficiency_fraction / first.gpu_count;
    const counts = answer.scaling.map((point) => point.gpu_count);
    traces.push({ type: "scatter", mode: "lines", name: "perfect", x: counts, y: counts.map((count) => count * one), line: { color: colour("muted"), dash: "dot" }, hoverinfo: "skip" });
  }
  return { traces, x: { title: "GPUs", type: "log", dtick: Math.log10(2) }, y: { title: "samples a second", type: "log", dtick: "D2" } };
}

function planTable(answer) {
  return table([head("data × tensor × pipeline × expert × sequence"), "ZeRO", "micro-batch", head("recompute"), "a step", "samples/s", "MFU", "memory", "waits for others", "bubble", head("bound by")],
    answer.plans.map((plan, place) => row([
      [plan.data, plan.tensor, plan.pipeline, plan.expert, plan.sequence].join(" × ") + (plan.labels?.length ? ` (${plan.labels.join(", ")})` : ""),
      String(plan.zero_stage), String(plan.micro_batch), brief(String(plan.recompute)),
      num(f.seconds(plan.step_s), { title: "A step", formula: ["compute_s", "recompute_s", "update_s", "exposed_comm_s", "bubble_s", "wait_s"].filter((key) => plan[key] != null).map((key) => `${f.words(key.replace(/_s$/, ""))}: ${f.seconds(plan[key])}`).join("\n"), rows: [["range", `${f.seconds(plan.step_low_s)} to ${f.seconds(plan.step_high_s)}`]], answer }),
      f.number(plan.samples_per_s), f.percent(plan.mfu_fraction), f.gib(plan.memory.total_bytes), f.seconds(plan.exposed_comm_s), f.percent(plan.bubble_fraction), brief(plan.bound),
    ], place === 0 ? { class: "best" } : {})), { caption: "Plans, fastest first", cards: true });
}
