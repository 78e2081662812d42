// GPUs that belong in a server: modules of server boards, and more cards than a desktop holds. What they draw, hold and cost.

import { ask } from "../api.js";
import * as f from "../format.js";
import { inside } from "../links.js";
import { facts, fill, h, num } from "../ui.js";
import { aged } from "../words.js";

const MOST_IN_DESKTOP = 4;

export const isServer = (parts, answer) => answer.lines.some((line) => line.check === "form" && line.verdict === "fail") || parts.reduce((sum, [, count]) => sum + count, 0) > MOST_IN_DESKTOP;

export async function server(node, parts, signal) {
  const [gpu, count] = parts[0];
  try {
    const [sheet, cost] = await Promise.all([ask("gpus", { names: [gpu] }, signal), ask("cost", { gpu, gpus: count }, signal)]);
    const card = sheet.gpus[0];
    const { own, rent, price } = cost;
    const joined = card.nvlink_bytes_per_s && card.slots == null; // cards need a bridge for it, which nobody has named
    fill(node,
      facts([
        card.tdp_watts && ["GPU power", num(`${f.number((count * card.tdp_watts) / 1000)} kW`, { title: "Power of the GPUs", formula: `${count} × ${f.watts(card.tdp_watts)}; CPUs, fans and the network need additional power`, answer: sheet }), "GPUs alone"],
        ["memory", num(f.gib(count * card.memory_bytes), { title: "Memory", formula: `${count} × ${f.gib(card.memory_bytes)}`, answer: sheet }), "of all GPUs"],
        count > 1 && ["link between GPUs", num(joined ? f.si(card.nvlink_bytes_per_s, "B/s") : "PCIe", { title: "Link", formula: joined ? "NVLink of each GPU" : `PCIe ${card.pcie_generation ?? ""}.0 x${card.pcie_lanes ?? ""}`, answer: sheet }), joined ? "NVLink" : card.nvlink_bytes_per_s ? "without NVLink bridges" : ""],
      ]),
      facts([
        own && ["upfront", num(f.usd(own.upfront_usd), { title: "Upfront", formula: `${f.usd(own.gpu_usd)} for the GPUs + ${f.usd(own.machine_usd)} for the server`, answer: cost }), price ? `${price.kind} price, ${aged(price.dated)}` : ""],
        own && [`${cost.years}-year total`, num(f.usd(own.total_usd), { title: "Owning", formula: `${f.usd(own.upfront_usd)} + ${f.usd(own.electricity_usd)} electricity − ${f.usd(own.resale_usd)} resale`, answer: cost }), `used ${f.percent(cost.utilization_fraction)} of the time`],
        rent[0] && [`${cost.years}-year rent`, num(f.usd(rent[0].total_usd), { title: "Renting", formula: `${f.number(rent[0].paid_s / 3600)} h × ${rent[0].gpu_count} × ${f.usd(rent[0].usd_per_gpu_hour, 2)}`, answer: cost }), `${f.usd(rent[0].usd_per_gpu_hour, 2)} per GPU-hour`],
      ]),
      h("p", { class: "ways" }, inside("Do this many GPUs help?", { view: "scale", node: gpu, per: Math.min(count, 8), nodes: Math.max(1, Math.ceil(count / 8)) }), inside("Buy or rent it", { view: "rent", gpu, count })));
  } catch (error) {
    if (!signal.aborted) fill(node, h("p", { class: "note" }, error.message));
  }
}
