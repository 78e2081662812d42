// The fact sheet of one GPU: what it is, where each figure comes from, and what can be asked about it.

import { ask, look } from "./api.js";
import * as f from "./format.js";
import { cardLinks } from "./links.js";
import { fill, h, notice } from "./ui.js";

const peak = (gpu, type) => Math.max(gpu.peak_dense_flops_per_s.matrix?.[type] ?? 0, gpu.peak_dense_flops_per_s.vector?.[type] ?? 0) || null;
const rate = (gpu, type) => (peak(gpu, type) ? f.si(peak(gpu, type), "FLOP/s") : null);

export const SEGMENTS = { soc: "system on a chip", datacenter: "data centre", cpu: "CPU", tpu: "TPU" };

const FACTS = [
  ["memory", (gpu) => `${f.gib(gpu.memory_bytes)}${gpu.memory_type ? ` ${gpu.memory_type}` : ""}`, "memory_bytes"],
  ["usable memory", (gpu) => gpu.usable_memory_bytes && f.gib(gpu.usable_memory_bytes), "usable_memory_bytes"],
  ["bandwidth", (gpu) => gpu.memory_bytes_per_s && f.si(gpu.memory_bytes_per_s, "B/s"), "memory_bytes_per_s"],
  ["16-bit peak, dense", (gpu) => rate(gpu, "fp16"), "peak_dense_flops_per_s"],
  ["fp32 peak", (gpu) => rate(gpu, "fp32"), "peak_dense_flops_per_s"],
  ["fp8 peak, dense", (gpu) => rate(gpu, "fp8"), "peak_dense_flops_per_s"],
  ["units and clock", (gpu) => gpu.sm_count && gpu.boost_clock_hz && `${gpu.sm_count} × ${f.si(gpu.boost_clock_hz, "Hz")}`, "boost_clock_hz"],
  ["power", (gpu) => gpu.tdp_watts && f.watts(gpu.tdp_watts), "tdp_watts"],
  ["slots", (gpu) => gpu.slots, "slots"],
  ["power connectors", (gpu) => gpu.power_connectors, "power_connectors"],
  ["PCIe", (gpu) => gpu.pcie_generation && `${gpu.pcie_generation}.0 x${gpu.pcie_lanes}`, "pcie_generation"],
  ["NVLink", (gpu) => gpu.nvlink_bytes_per_s && f.si(gpu.nvlink_bytes_per_s, "B/s"), "nvlink_bytes_per_s"],
  ["architecture", (gpu) => [f.architecture(gpu.architecture), !f.architecture(gpu.architecture).includes(gpu.chip) && gpu.chip].filter(Boolean).join(", "), ""],
  ["launched", (gpu) => gpu.launched_on && [f.month(gpu.launched_on), gpu.launch_usd && `at ${f.usd(gpu.launch_usd)}`].filter(Boolean).join(" "), "launch_usd"],
  ["kind", (gpu) => `${gpu.vendor} ${SEGMENTS[gpu.segment] ?? gpu.segment}`, ""],
  ["note", (gpu) => gpu.note, ""],
];

function source(gpu, field, sources) {
  const known = gpu.sources?.[field] ?? gpu.sources?.default;
  return known ? `${sources?.[known.source]?.title ?? known.source} (${known.basis})` : "";
}

// `said` are rows about the card in the user's own case: its time and money.
export async function openSheet(name, { count = 1, said = [], rival = "", limit = "", formula = "", answer: mine } = {}) {
  const dialog = document.getElementById("opened");
  const facts = h("div", {}, h("p", { class: "note" }, "Reading the catalogue …"));
  const rows = (pairs) => h("dl", {}, pairs.map(([title, value, note]) => [h("dt", {}, title), h("dd", {}, String(value), note && h("small", {}, note))]));
  fill(dialog,
    h("header", {}, h("h2", { id: "opened-title" }, f.several(count, name)), h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close")),
    cardLinks(name, count, rival, limit),
    said.length > 0 && [h("h3", {}, "In your case"), formula && h("p", { class: "formula" }, formula), rows(said)],
    h("h3", {}, "Fact sheet"), facts, mine && h("p", { class: "note" }, `Data from ${mine.data_date}.`));
  if (!dialog.open) dialog.showModal();
  try {
    const [answer, choices] = await Promise.all([ask("gpus", { names: [name] }), look("choices")]);
    const [gpu] = answer.gpus;
    const cost = choices.gpus.find((other) => other.name === gpu.name) ?? {};
    const price = [cost.new_usd && `${f.usd(cost.new_usd)} new`, cost.used_usd && `${f.usd(cost.used_usd)} used`, cost.rent_usd_per_hour && `${f.usd(cost.rent_usd_per_hour, 2)} an hour to rent`].filter(Boolean).join(", ");
    const usual = source(gpu, "", answer.sources);
    const sourced = (field) => (field && source(gpu, field, answer.sources) !== usual ? source(gpu, field, answer.sources) : "");
    fill(facts, rows([["price", price, ""], ...FACTS.map(([title, show, field]) => [title, show(gpu), sourced(field)])].filter(([, value]) => value)), usual && h("p", { class: "note" }, `Source: ${usual}, unless noted.`), !mine && h("p", { class: "note" }, `Data from ${answer.data_date}.`));
  } catch (error) {
    fill(facts, notice(error));
  }
}
