// Will these cards work in that machine? Cards and supplies are dragged or added; each check says pass, tight or fail.

import { Refused, ask, look } from "../api.js";
import { list, numeric } from "../case.js";
import { amount, choice, search, text } from "../controls.js";
import * as f from "../format.js";
import { get, set } from "../state.js";
import { isServer, server } from "./servers.js";
import { assumptions, bar, brief, card, facts, fill, fold, h, head, left, mark, num, row, stack, table } from "../ui.js";

export const name = "Build";
export const title = "Will it work in my machine?";

const SUPPLIES = [550, 650, 750, 850, 1000, 1200, 1600];
const VERDICTS = { pass: "This build works.", tight: "This build works, but some margins are tight.", fail: "This build does not work." };
const MOST_SHOWN = 12;
const BOUNDED = new Set(["psu", "transients", "connectors", "slots", "outlet"]); // where the value must stay below the limit

const parse = (text) => list(text).map((entry) => {
  const found = /^(\d+)\s*x\s+(.*)$/i.exec(entry);
  return found ? [found[2], Number(found[1])] : [entry, 1];
});
const write = (parts) => parts.filter(([, count]) => count > 0).map(([gpu, count]) => f.several(count, gpu)).join(",");

export function add(gpu, change = 1) {
  const parts = parse(get().parts);
  const found = parts.find(([name]) => name === gpu);
  if (found) found[1] = Math.min(16, found[1] + change);
  else parts.push([gpu, 1]);
  set({ parts: write(parts) });
}

export function mount(root) {
  const inside = h("ul", { class: "chips", "aria-label": "In the machine" });
  const palette = h("div", { class: "chips", role: "group", "aria-label": "Cards to add" });
  const box = h("div", { class: "drop", ondragover: over, ondragleave: () => box.classList.remove("over"), ondrop: dropped },
    h("p", { class: "note" }, "Drag cards and a power supply here, or click them."), inside);
  const machine = h("div", { class: "asked" });
  const verdict = h("p", { class: "verdict", role: "status", "aria-live": "polite" });
  const headline = h("h2", { class: "pick" });
  const [watts, checks, limits, rest, servers, numbers] = [1, 2, 3, 4, 5, 6].map(() => h("div", {}));
  const rack = card("As a server", servers);
  function over(event) {
    event.preventDefault();
    box.classList.add("over");
  }
  function dropped(event) {
    event.preventDefault();
    box.classList.remove("over");
    const [kind, value] = event.dataTransfer.getData("text/plain").split("|");
    if (kind === "gpu") add(value);
    if (kind === "psu") set({ psu: value });
  }
  root.append(
    h("section", { class: "card verdict-card" }, headline, verdict, numbers, box,
      search("Cards to add", "find"), palette,
      h("div", { class: "chips", role: "group", "aria-label": "Power supplies" }, SUPPLIES.map((size) => piece(`${size} W`, `psu|${size}`, () => set({ psu: size })))),
      h("div", { class: "controls" },
        amount("Power supply, W", "psu", { step: 50 }),
        choice("ATX standard", "standard", [["", "unknown"], ["2", "ATX 2"], ["3", "ATX 3"]]),
        amount("Power limit per GPU, W", "limit", { placeholder: "none", step: 5 })),
      rest),
    rack,
    card("The machine", machine),
    card("Watts", watts),
    card("Checks", checks),
    card("Power limits", limits));
  return async (state, signal) => {
    const parts = parse(state.parts);
    const choices = await look("choices");
    if (!machine.hasChildNodes()) fill(machine, machineFields(choices.box));
    fill(inside, parts.map(chip), state.psu && h("li", { class: "chip" }, `power supply ${state.psu} W`, remove("the power supply", () => set({ psu: "" }))));
    fill(palette, offered(choices.gpus, state.find).map((gpu) => piece(gpu.name, `gpu|${gpu.name}`, () => add(gpu.name))));
    if (!parts.length) throw new Refused(400, { error: "the machine has no card", hint: "drag a card into the machine, or click one" });
    const answer = await ask("build", {
      gpu: parts.map(([gpu, count]) => f.several(count, gpu)), psu: state.psu, psu_standard: numeric(state.standard, "ATX standard"),
      power_limit: state.limit, ...machineAsked(state),
    }, signal);
    const worst = answer.lines.filter((line) => line.verdict === answer.verdict && answer.verdict !== "pass");
    const desktop = isServer(parts, answer) ? "This does not work as a desktop machine. The section below plans it as a server." : VERDICTS[answer.verdict] ?? answer.verdict;
    verdict.textContent = [desktop, worst.length && `Check: ${worst.map((line) => line.check).join(", ")}.`].filter(Boolean).join(" ");
    headline.textContent = parts.map(([gpu, count]) => f.several(count, gpu)).join(" and ");
    rack.hidden = !isServer(parts, answer);
    if (!rack.hidden) server(servers, parts, signal);
    fill(numbers, figures(answer));
    fill(rest, answer.assumptions.length > 0 && assumptions(answer));
    fill(watts, wattsBar(answer));
    fill(checks, checkTable(answer));
    fill(limits, limitTable(answer));
  };
}

const of = (answer, check) => answer.lines.find((line) => line.check === check);

// The build at a glance: what it draws, what is wrong with it.
function figures(answer) {
  const psu = of(answer, "psu");
  const heat = of(answer, "heat");
  const count = (verdict) => answer.lines.filter((line) => line.verdict === verdict);
  const told = (verdict) => ({ title: `Checks: ${verdict}`, formula: count(verdict).map((line) => `${line.check}: ${line.text}`).join("\n") || "none", answer });
  return facts([
    psu?.value != null && ["sustained load", num(`${f.number(psu.value, 4)} W`, { title: "Sustained load", formula: psu.text, answer }), psu.limit ? `supply ${f.number(psu.limit, 4)} W` : "no supply given"],
    heat?.value != null && ["heat", num(`${f.number(heat.value, 4)} ${heat.unit}`, { title: "Heat", formula: heat.text, answer }), "under load"],
    ["passed", num(String(count("pass").length), told("pass")), `of ${answer.lines.length} checks`],
    ["tight", num(String(count("tight").length), told("tight")), count("tight").map((line) => line.check).join(", ")],
    ["failed", num(String(count("fail").length), told("fail")), count("fail").map((line) => line.check).join(", ")],
  ]);
}

// Board, CPU, case and room; what is left empty is assumed, and said under the verdict.
function machineFields(box) {
  const named = (id, names) => h("datalist", { id }, names.map(([value, told]) => h("option", { value }, told)));
  const any = (names, title = (name) => name) => [["", "default"], ...names.map((name) => [name, title(name)])];
  const lanes = new Map(box.platforms.map((entry) => [entry.name, `${entry.name}: ${entry.slot_lanes} lanes of PCIe ${entry.generation}.0 (${entry.example})`]));
  const boards = new Map(box.boards.map((entry) => [entry.name, `${entry.name}: ${entry.slots} slots, ${entry.x16} long`]));
  return [
    named("cpus", box.cpus.map((name) => [name, ""])),
    named("sockets", [...lanes]),
    named("boards", [...boards]),
    h("div", { class: "controls" },
      text("Platform, or CPU lanes", "lanes", { list: "sockets", placeholder: "default, or AM5 or 44" }),
      text("Board", "board", { list: "boards", placeholder: "default, or ATX" }),
      amount("Case slots", "slots", { placeholder: "default", step: 1, min: 1 }),
      text("CPU", "cpu", { list: "cpus", placeholder: "default" }),
      amount("CPU, W", "cpuwatts", { placeholder: "rated", min: 1 }),
      amount("RAM, GB", "ram", { placeholder: "recommended", min: 1 })),
    fold("More: cooling, risers, drives, outlet, room",
      h("div", { class: "controls" },
        choice("Card coolers", "cooler", any(box.coolers)),
        choice("Cards on risers", "riser", [["", "no"], ["yes", "yes"], ["PCIe 3.0 x16", "PCIe 3.0 x16"], ["PCIe 4.0 x16", "PCIe 4.0 x16"]]),
        text("Chipset link", "chipset", { placeholder: "default, or PCIe 3.0 x4" }),
        amount("NVMe drives", "nvme", { placeholder: "1", step: 1 }),
        choice("Wall outlet", "outlet", any(box.outlets)),
        amount("Room, square metres", "room", { placeholder: "unknown", min: 1 }))),
  ];
}

const machineAsked = (state) => ({
  lanes: state.lanes, board: state.board, case_slots: numeric(state.slots, "Case slots"), cpu: state.cpu, cpu_watts: numeric(state.cpuwatts, "CPU, W"), ram: state.ram,
  cooler: state.cooler, riser: state.riser, chipset_link: state.chipset, nvme: numeric(state.nvme, "NVMe drives"), outlet: state.outlet, room: state.room,
});

const offered = (gpus, find) => {
  const wanted = find.toLowerCase().split(/\s+/).filter(Boolean);
  const newest = (one, other) => (other.launched_on ?? "").localeCompare(one.launched_on ?? "");
  return gpus.filter((gpu) => (find ? gpu.segment !== "cpu" : gpu.segment === "desktop" && gpu.vendor === "NVIDIA") && wanted.every((word) => gpu.name.toLowerCase().includes(word))).sort(newest).slice(0, MOST_SHOWN);
};

const piece = (label, data, act) => h("button", { type: "button", class: "plain", draggable: "true", onclick: act, ondragstart: (event) => event.dataTransfer.setData("text/plain", data) }, label);
const remove = (label, act) => h("button", { type: "button", "aria-label": `Remove ${label}`, onclick: act }, "×");

const chip = ([gpu, count]) => h("li", { class: "chip" }, f.several(count, gpu),
  h("button", { type: "button", "aria-label": `One fewer ${gpu}`, onclick: () => add(gpu, -1) }, "−"),
  h("button", { type: "button", "aria-label": `One more ${gpu}`, onclick: () => add(gpu) }, "+"));

const shownValue = (value, unit) => (unit === "bytes" ? f.gib(value) : `${f.number(value, 4)} ${unit}`);

function wattsBar(answer) {
  const psu = answer.lines.find((line) => line.check === "psu");
  if (!psu) return h("p", { class: "note" }, "No power check applies to these GPUs.");
  const cards = answer.gpus.map((gpu, place) => ({ name: f.several(gpu.count, gpu.gpu), value: gpu.count * (gpu.card_watts ?? 0), colour: `var(--c${place})` }));
  const drawn = cards.reduce((total, gpu) => total + gpu.value, 0);
  const pieces = [...cards, { name: "CPU and other parts", value: Math.max(0, psu.value - drawn), colour: "var(--c6)" }].map((entry) => ({ ...entry, text: `${f.number(entry.value)} W` }));
  const whole = Math.max(psu.value, psu.limit ?? 0) * 1.05;
  return [
    stack(pieces, whole, { limit: psu.limit, label: psu.text }),
    h("p", { class: "note" }, f.sentence(psu.text), psu.limit ? " The dashed line marks the power supply rating." : ""),
    h("ul", { class: "key" }, pieces.map((entry) => h("li", {}, h("i", { style: { background: entry.colour } }), `${entry.name} `, num(entry.text, { title: entry.name, formula: psu.text, answer })))),
  ];
}

function checkTable(answer) {
  return table(["", head("verdict"), "needed and available", head("result"), head("fix")],
    answer.lines.map((line) => row([
      line.check,
      brief(mark(line.verdict)),
      h("td", { class: line.verdict }, line.value == null ? "–" : [num(shownValue(line.value, line.unit), { title: line.check, formula: line.text, rows: [["limit", line.limit == null ? "none" : shownValue(line.limit, line.unit)], ["fix", line.remedy || "none needed"]], answer }),
        line.limit > 0 && BOUNDED.has(line.check) && [bar(line.value / line.limit), h("span", { class: "small nowrap" }, `of ${shownValue(line.limit, line.unit)}`)]]),
      left(line.text),
      left(line.remedy),
    ])), { caption: "Machine checks", cards: true });
}

function limitTable(answer) {
  const kinds = Object.keys(answer.power_limits[0]?.relative_speed ?? {});
  if (!kinds.length) return h("p", { class: "note" }, "The power draw of this card is unknown.");
  return table(["", "limit", ...kinds.map(f.words)],
    answer.power_limits.map((point) => row([point.gpu, num(`${f.number(point.watts)} W`, { title: `${point.gpu}: power limit`, formula: `${f.percent(point.watts / answer.power_limits.filter((other) => other.gpu === point.gpu)[0].watts)} of the highest limit shown`, answer }), ...kinds.map((kind) => num(f.percent(point.relative_speed[kind]), { title: `Speed at ${f.number(point.watts)} W`, formula: "speed at this limit ÷ speed at the default limit", answer }))])),
    { caption: "Speed at power limits" });
}
