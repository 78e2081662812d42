// Every GPU in the catalogue, with its fact sheet.

import { ask, look } from "../api.js";
import { numeric } from "../case.js";
import { narrow } from "../charts.js";
import { search } from "../controls.js";
import * as f from "../format.js";
import { facet, finder, grid } from "../grid.js";
import { SEGMENTS, openSheet } from "../sheet.js";
import { set } from "../state.js";
import { card, fill, h } from "../ui.js";

export const name = "All GPUs";
export const title = "Every GPU in the catalogue";
export const computing = () => "Reading the catalogue";

const KINDS = [["desktop", "desktop"], ["workstation", "workstation"], ["datacenter", "data centre"], ["laptop", "laptop"]];

const peak = (gpu) => Math.max(gpu.peak_dense_flops_per_s.matrix?.fp16 ?? 0, gpu.peak_dense_flops_per_s.vector?.fp16 ?? 0, gpu.peak_dense_flops_per_s.vector?.fp32 ?? 0) || null;

export function mount(root) {
  const [facets, found] = [1, 2].map(() => h("div", {}));
  root.append(card("", h("div", { class: "controls" }, search("Find a GPU", "find", "24 gb, amd, 1080")), facets, found));
  return async (state, signal) => {
    const [answer, choices] = await Promise.all([ask("gpus", {}, signal), look("choices")]);
    const prices = new Map(choices.gpus.map((gpu) => [gpu.name, gpu]));
    const { gpus } = answer;
    const wanted = finder(state.find);
    const least = numeric(state.memory, "Memory") ?? 0;
    const maker = state.maker === "any" ? "" : state.maker;
    const kept = gpus.filter((gpu) => (gpu.memory_bytes ?? 0) >= least * 2 ** 30 * 0.97 && (!maker || gpu.vendor.toLowerCase() === maker) && (!state.segment || gpu.segment === state.segment)
      && wanted(`${gpu.name} ${gpu.vendor} ${gpu.segment} ${gpu.architecture} ${gpu.aliases.join(" ")}`, gpu.memory_bytes ?? 0));
    fill(facets, h("div", { class: "facets" },
      facet("Memory", "memory", [["", "any"], ...["8", "12", "16", "24", "48", "80"].map((size) => [size, `${size}+ GiB`])]),
      facet("Vendor", "maker", [["", "any"], ["nvidia", "NVIDIA"], ["amd", "AMD"], ["intel", "Intel"], ["apple", "Apple"]], maker),
      facet("Kind", "segment", [["", "any"], ...KINDS.filter(([kind]) => gpus.some((gpu) => gpu.segment === kind))])));
    fill(found,
      h("p", { class: "note", role: "status" }, `${f.number(kept.length)} of ${f.number(gpus.length)} GPUs match. ${kept.length ? "Click a name for its fact sheet." : ""}`),
      !kept.length && h("button", { type: "button", class: "plain", id: "clear-filters", onclick: () => set({ find: "", memory: "", maker: "", segment: "" }) }, "Clear filters"),
      kept.length > 0 && grid(columns(answer, prices), kept, { caption: "GPUs", usual: "-launched", first: 50 }));
  };
}

function columns(answer, prices) {
  const cost = (key) => (gpu) => prices.get(gpu.name)?.[key] ?? null;
  const priced = (key, title, digits = 0) => ({ key: title, title, wide: true, value: cost(key), cell: (gpu) => shown(gpu, cost(key)(gpu), (value) => f.usd(value, digits)) });
  const open = (gpu, text) => h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => openSheet(gpu.name, { answer }) }, text);
  const shown = (gpu, value, text) => (value ? open(gpu, text(value)) : "–");
  const usd = (gpu) => cost("used_usd")(gpu) ?? cost("new_usd")(gpu);
  const kind = (gpu) => `${gpu.vendor} ${SEGMENTS[gpu.segment] ?? gpu.segment}`;
  return [
    { key: "name", title: "GPU", left: true, value: (gpu) => gpu.name, cell: (gpu) => [open(gpu, gpu.name), h("small", { class: "slim" }, [kind(gpu), gpu.launched_on && f.month(gpu.launched_on)].filter(Boolean).join(", "))] },
    { key: "vendor", title: "vendor", left: true, wide: true, value: (gpu) => gpu.vendor, cell: kind },
    { key: "memory", title: "memory", falls: true, value: (gpu) => gpu.memory_bytes, cell: (gpu) => shown(gpu, gpu.memory_bytes, f.gib) },
    { key: "bandwidth", title: "bandwidth", falls: true, wide: true, value: (gpu) => gpu.memory_bytes_per_s, cell: (gpu) => shown(gpu, gpu.memory_bytes_per_s, (value) => f.si(value, "B/s")) },
    { key: "peak", title: "16-bit peak", falls: true, wide: true, value: peak, cell: (gpu) => shown(gpu, peak(gpu), (value) => f.si(value, "FLOP/s")) },
    ...(narrow() ? [{ key: "price", title: "price", value: usd, cell: (gpu) => shown(gpu, usd(gpu), f.usd) }] : []), // used where that is known, otherwise new
    priced("new_usd", "new"), priced("used_usd", "used"), priced("rent_usd_per_hour", "rent per hour", 2),
    { key: "power", title: "power", falls: true, wide: true, value: (gpu) => gpu.tdp_watts, cell: (gpu) => shown(gpu, gpu.tdp_watts, f.watts) },
    { key: "launched", title: "launched", falls: true, wide: true, value: (gpu) => gpu.launched_on, cell: (gpu) => shown(gpu, gpu.launched_on, f.month) },
  ];
}
