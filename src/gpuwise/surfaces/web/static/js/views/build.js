// Will these cards work in that machine? Cards and supplies are dragged or added; each check says pass, tight or fail.

import { Refused, ask, look } from "../api.js";
import { list, numeric } from "../case.js";
import { amount, choice, search, text } from "../controls.js";
import * as f from "../format.js";
import { DEFAULTS, get, set } from "../state.js";
import { isServer, server } from "./servers.js";
import { asking, assumptions, bar, brief, card, facts, fill, fold, h, head, left, mark, num, row, stack, table } from "../ui.js";
import { said } from "../words.js";

export const name = "Build";
export const title = "Will it work in my machine?";
export const computing = () => "Checking the machine";

const SUPPLIES = [550, 650, 750, 850, 1000, 1200, 1600];
// What a failed check means, as a headline.
const FAULTS = {
  psu: "the power supply is too small", transients: "power spikes exceed the power supply", connectors: "the power supply has too few plugs", slots: "the cards do not fit in the slots",
  cooling: "the cards get too hot", lanes: "there are too few PCIe lanes", ram: "there is too little RAM", cpu: "the CPU has too few threads", outlet: "the wall outlet delivers too little power", heat: "the room gets too hot",
};
const CHECKS = { psu: "power supply", transients: "power spikes", connectors: "power plugs", lanes: "PCIe lanes", ram: "RAM", cpu: "CPU", outlet: "wall outlet", loader: "data loading", form: "form factor" };
const KINDS = { cnn_training: "CNN training", transformer_training: "transformer training", llm_decode: "text generation" };
const called = (line) => CHECKS[line.check] ?? line.check;
const POPULAR = ["RTX 3090", "RTX 4090", "RTX 5090", "RTX 3060 12GB", "RTX 4060 Ti 16GB", "RTX 5070 Ti", "RTX 4070 Ti Super", "RTX A6000", "RTX 6000 Ada", "RTX A4000"]; // offered while nothing is searched for
const OF_SUPPLY = ["psu", "transients", "connectors"];
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
    h("p", { class: "note" }, "Drag cards and a power supply here, or click them below."), inside);
  const machine = h("div", {});
  const verdict = h("div", { class: "verdict", role: "status", "aria-live": "polite" });
  const headline = h("h2", { class: "pick" });
  const example = h("p", { class: "purpose" });
  const [watts, checks, limits, rest, servers, numbers, fixes] = [1, 2, 3, 4, 5, 6, 7].map(() => h("div", {}));
  const desktop = [["Watts", watts], ["Checks", checks], ["Power limits", limits]].map(([name, node]) => card(name, node));
  const shown = h("section", { class: "card verdict-card" });
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
  shown.append(example, headline, verdict, fixes, numbers, servers, rest);
  const supplies = SUPPLIES.map((size) => piece(f.watts(size), `psu|${size}`, () => set({ psu: size })));
  const group = (label, ...pieces) => h("div", { class: "named" }, h("span", { class: "label", "aria-hidden": "true" }, label), ...pieces);
  root.append(shown, h("div", { class: "asks" }, asking("The machine", box,
      h("div", { class: "controls" }, search("Cards to add", "find", "e.g. 4090, A6000")), palette,
      group("Power supply", h("div", { class: "chips", role: "group", "aria-label": "Power supplies" }, supplies),
        h("div", { class: "controls" }, amount("Or another power supply, W", "psu", { placeholder: "large enough" }))),
      h("div", { class: "controls" },
        choice("ATX standard", "standard", [["", "unknown"], ["2", "ATX 2"], ["3", "ATX 3"]]),
        amount("Limit per GPU, W", "limit", { placeholder: "none", step: 5 })),
      machine)), ...desktop);
  return async (state, signal) => {
    const parts = parse(state.parts);
    const choices = await look("choices");
    if (!machine.hasChildNodes()) fill(machine, machineFields(choices.box));
    fill(inside, parts.map(chip), state.psu && h("li", { class: "chip" }, `power supply ${Number(state.psu) ? f.watts(Number(state.psu)) : state.psu}`, remove("the power supply", () => set({ psu: "" }))));
    fill(palette, offered(choices.gpus, state.find).map((gpu) => piece(gpu.name, `gpu|${gpu.name}`, () => add(gpu.name))));
    if (!parts.length) throw new Refused(400, { error: "the machine has no card", hint: "drag a card into the machine, or click one" });
    const names = parts.map(([gpu, count]) => f.several(count, gpu)).join(" and ");
    const answer = await ask("build", {
      gpu: parts.map(([gpu, count]) => f.several(count, gpu)), psu: state.psu, psu_standard: numeric(state.standard, "ATX standard"),
      power_limit: state.limit, region: state.region, ...machineAsked(state),
    }, signal);
    example.textContent = state.parts === DEFAULTS.parts ? `Example: ${names}. Choose the cards of your machine.` : "";
    example.hidden = !example.textContent;
    const inServer = isServer(parts, answer);
    const first = answer.lines.find((line) => line.verdict === "fail");
    headline.textContent = inServer ? `${names}: build a server` : first ? `${names}: ${FAULTS[first.check] ?? first.check}` : `${names}: ${answer.verdict === "tight" ? "works, with tight margins" : "works"}`;
    fill(verdict, (inServer ? [`${names} ${/^\d/.test(names) ? "belong" : "belongs"} in a server with forced airflow and its own power supplies: a desktop has too little power, space or airflow.`] : told(answer)).map((text, place) => h("p", { class: place ? null : "lead" }, text)));
    shown.dataset.result = inServer ? "tight" : answer.verdict;
    fill(fixes, !inServer && first && mends(answer, state));
    servers.hidden = !inServer;
    for (const one of desktop) one.hidden = inServer;
    if (inServer) await server(servers, parts, signal);
    fill(numbers, !inServer && figures(answer, parts, choices.gpus));
    fill(rest, !inServer && answer.assumptions.length > 0 && assumptions(answer));
    for (const [place, button] of supplies.entries()) button.setAttribute("aria-pressed", String(Number(state.psu) === SUPPLIES[place]));
    fill(watts, wattsBar(answer));
    fill(checks, checkTable(answer));
    fill(limits, limitTable(answer));
  };
}

// The first thing that fails and how to fix it; else what is tight.
function told(answer) {
  const failed = answer.lines.filter((line) => line.verdict === "fail");
  const tight = answer.lines.filter((line) => line.verdict === "tight");
  if (!failed.length) return [tight.length ? `No check fails. ${tight.length > 1 ? `These ${tight.length} have little margin` : "This one has little margin"}: ${tight.map(called).join(", ")}.` : "Every check passes."];
  const [first, ...others] = failed;
  return [f.sentence(first.text), first.remedy && `Fix: ${f.sentence(first.remedy)}`, others.length && `Also failed: ${others.map(called).join(", ")}.`].filter(Boolean);
}

// Fixes that only change the inputs, each with a button.
function mends(answer, state) {
  const failed = answer.lines.filter((line) => line.verdict === "fail");
  const limit = Math.min(...failed.map((line) => line.power_limit_watts ?? Infinity));
  const supply = state.psu !== "" && failed.some((line) => OF_SUPPLY.includes(line.check));
  const apply = (text, changes) => h("button", { type: "button", class: "plain", onclick: () => set(changes) }, text);
  return h("div", { class: "actions" },
    supply && apply("Apply: use a large enough power supply", { psu: "", standard: "" }),
    Number.isFinite(limit) && apply(`Apply: limit each GPU to ${f.watts(limit)}`, { limit: String(limit) }));
}

const of = (answer, check) => answer.lines.find((line) => line.check === check);

// The build at a glance: what it draws, what is wrong with it.
function figures(answer, parts, gpus) {
  const psu = of(answer, "psu");
  const heat = of(answer, "heat");
  const count = (verdict) => answer.lines.filter((line) => line.verdict === verdict);
  const told = (verdict) => ({ title: `Checks: ${verdict}`, formula: count(verdict).map((line) => `${called(line)}: ${line.text}`).join("\n") || "none", answer });
  return facts([
    psu?.value != null && ["sustained load", num(f.watts(psu.value), { title: "Sustained load", formula: psu.text, answer }), psu.limit ? `supply ${f.watts(psu.limit)}` : "no supply given"],
    heat?.value != null && ["heat", num(shownValue(heat.value, heat.unit), { title: "Heat", formula: heat.text, answer }), "at the outlet, under load"],
    ["checks passed", num(`${count("pass").length} of ${answer.lines.length}`, told("pass")), [["fail", "failed"], ["tight", "tight"]].map(([verdict, word]) => count(verdict).length && `${count(verdict).length} ${word}`).filter(Boolean).join(", ")],
    priceOf(parts, gpus, answer),
  ]);
}

// What the cards cost: used where such a price is known, and otherwise new.
function priceOf(parts, gpus, answer) {
  const known = parts.map(([name, count]) => {
    const gpu = gpus.find((entry) => entry.name === name);
    return { name, count, usd: gpu?.used_usd ?? gpu?.new_usd, kind: gpu?.used_usd ? "used" : "new" };
  });
  if (known.some((entry) => !entry.usd)) return null;
  const kinds = [...new Set(known.map((entry) => entry.kind))].join(" and ");
  const formula = known.map((entry) => `${entry.count} × ${entry.name}, ${entry.kind}: ${entry.count} × ${f.usd(entry.usd)}`).join("\n");
  return [known.length === 1 && known[0].count === 1 ? "price of the card" : "price of the cards", num(f.usd(known.reduce((sum, entry) => sum + entry.count * entry.usd, 0)), { title: "Price of the cards", formula, answer, assumptions: [] }), `${kinds}, without the machine`];
}

// Board, CPU, case and room; what is left empty is assumed, and listed under the verdict.
function machineFields(box) {
  const named = (id, names) => h("datalist", { id }, names.map(([value, told]) => h("option", { value }, told)));
  const any = (names, title = (name) => name) => [["", "default"], ...names.map((name) => [name, title(name)])];
  const lanes = new Map(box.platforms.map((entry) => [entry.name, `${entry.name}: ${entry.slot_lanes} lanes of PCIe ${entry.generation}.0 (${entry.example})`]));
  const boards = new Map(box.boards.map((entry) => [entry.name, `${entry.name}: ${entry.slots} slots, ${entry.x16} long`]));
  return [
    named("cpus", box.cpus.map((name) => [name, ""])),
    named("sockets", [...lanes]),
    named("boards", [...boards]),
    fold("Board, CPU and RAM", h("div", { class: "controls" },
      text("Platform, or CPU lanes", "lanes", { list: "sockets", placeholder: "default, or AM5 or 44" }),
      text("Board", "board", { list: "boards", placeholder: "default, or ATX" }),
      amount("Case slots", "slots", { placeholder: "default", step: 1, min: 1 }),
      text("CPU", "cpu", { list: "cpus", placeholder: "default" }),
      amount("CPU, W", "cpuwatts", { placeholder: "rated", min: 1 }),
      amount("RAM, GB", "ram", { placeholder: "recommended", min: 1 }))),
    fold("Cooling, risers, drives, outlet, room",
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
  if (!find) return POPULAR.map((name) => gpus.find((gpu) => gpu.name === name)).filter(Boolean);
  return gpus.filter((gpu) => gpu.segment !== "cpu" && wanted.every((word) => gpu.name.toLowerCase().includes(word))).sort(newest).slice(0, MOST_SHOWN);
};

const piece = (label, data, act) => h("button", { type: "button", class: "plain", draggable: "true", onclick: act, ondragstart: (event) => event.dataTransfer.setData("text/plain", data) }, label);
const remove = (label, act) => h("button", { type: "button", "aria-label": `Remove ${label}`, onclick: act }, "×");

const chip = ([gpu, count]) => h("li", { class: "chip" }, f.several(count, gpu),
  h("button", { type: "button", "aria-label": `One fewer ${gpu}`, onclick: () => add(gpu, -1) }, "−"),
  h("button", { type: "button", "aria-label": `One more ${gpu}`, onclick: () => add(gpu) }, "+"));

const shownValue = (value, unit) => (unit === "bytes" ? f.gib(value) : unit === "W" ? f.watts(value) : `${f.number(value, 4)} ${unit === "8-pin" ? "eight-pin plugs" : unit}`);
const bounded = (line) => line.limit > 0 && BOUNDED.has(line.check);

function wattsBar(answer) {
  const psu = answer.lines.find((line) => line.check === "psu");
  if (!psu) return h("p", { class: "note" }, "No power check applies to these GPUs.");
  const cards = answer.gpus.map((gpu, place) => ({ name: f.several(gpu.count, gpu.gpu), value: gpu.count * (gpu.card_watts ?? 0), colour: `var(--c${place})` }));
  const drawn = cards.reduce((total, gpu) => total + gpu.value, 0);
  const pieces = [...cards, { name: "CPU and other parts", value: Math.max(0, psu.value - drawn), colour: "var(--c6)" }].map((entry) => ({ ...entry, text: f.watts(entry.value) }));
  const whole = Math.max(psu.value, psu.limit ?? 0) * 1.05;
  return [
    stack(pieces, whole, { limit: psu.limit, label: psu.text }),
    psu.limit && h("p", { class: "note" }, `The dashed line marks the ${f.watts(psu.limit)} of the power supply.`),
    h("ul", { class: "key" }, pieces.map((entry) => h("li", {}, h("i", { style: { background: entry.colour } }), `${entry.name} `, num(entry.text, { title: entry.name, formula: psu.text, answer })))),
  ];
}

const ORDER = ["fail", "tight", "unknown", "pass"];
const place = (line) => (ORDER.includes(line.verdict) ? ORDER.indexOf(line.verdict) : ORDER.indexOf("unknown"));

// What fails comes first; what passes is folded.
function checkTable(answer) {
  const sorted = [...answer.lines].sort((one, other) => place(one) - place(other));
  const passed = sorted.filter((line) => line.verdict === "pass");
  if (!passed.length) return linesOf(sorted, answer);
  const others = sorted.filter((line) => line.verdict !== "pass");
  return [others.length > 0 && linesOf(others, answer), fold(`${f.plural(passed.length, "check")} passed`, linesOf(passed, answer))];
}

function linesOf(lines, answer) {
  return h("div", { class: "checks" }, table(["", head("verdict"), head("needed and available"), head("result and fix")],
    lines.map((line) => row([
      called(line),
      brief(mark(line.verdict)),
      h("td", { class: `left ${line.verdict}` }, line.value == null ? "–" : [num(bounded(line) ? f.number(line.value, 4) : shownValue(line.value, line.unit), { title: called(line), value: shownValue(line.value, line.unit), formula: line.text, rows: [["limit", line.limit == null ? "none" : shownValue(line.limit, line.unit)], ["fix", line.remedy || "none needed"]], answer }),
        bounded(line) && [`${line.value > line.limit ? " needed, only" : " of"} ${shownValue(line.limit, line.unit)}`, bar(line.value / line.limit)]]),
      left(f.capital(said(line.text)), said(line.remedy) && h("div", { class: "mend" }, h("b", {}, "Fix: "), f.capital(said(line.remedy)))),
    ])), { caption: "Machine checks", cards: true }));
}

// A lower limit is shown where it costs speed, with the lowest that does not; the card is named where there are several kinds.
function limitTable(answer) {
  const kinds = Object.keys(answer.power_limits[0]?.relative_speed ?? {});
  if (!kinds.length) return h("p", { class: "note" }, "The power draw of this card is unknown.");
  const free = (point) => kinds.every((kind) => point.relative_speed[kind] > 0.995);
  const of = (gpu) => answer.power_limits.filter((point) => point.gpu === gpu);
  const shown = [...new Set(answer.power_limits.map((point) => point.gpu))].flatMap((gpu) => of(gpu).filter((point, place) => !place || !free(point) || !free(of(gpu)[place + 1] ?? point) || place === of(gpu).length - 1));
  const several = new Set(shown.map((point) => point.gpu)).size > 1;
  const measured = shown.some((point) => point.measured_speed);
  const kept = ([low, high]) => (f.percent(low) === f.percent(high) ? f.percent(high) : `${f.percent(low).slice(0, -1)} – ${f.percent(high)}`);
  const seen = ({ watts, measured_speed: speed }) => (speed ? num(kept(speed), { title: `Speed measured at ${f.watts(watts)}`, value: kept(speed), formula: "speed of GeForce cards at this share of their usual power ÷ speed at the usual power, over all kinds of work that were measured", answer }) : "–");
  const watts = (point) => num(`${several ? `${point.gpu}: ` : ""}${f.watts(point.watts)}`, { title: `${point.gpu}: power limit`, formula: `${f.percent(point.watts / of(point.gpu)[0].watts)} of the highest limit shown`, answer });
  const predicted = h("div", { class: "snug" }, table(["limit", ...kinds.map((kind) => KINDS[kind] ?? f.words(kind))],
    shown.map((point) => row([watts(point), ...kinds.map((kind) => num(f.percent(point.relative_speed[kind]), { title: `Speed at ${f.watts(point.watts)}`, formula: "speed at this limit ÷ speed at the default limit", answer }))])), { caption: "Predicted speed at power limits" }));
  if (!measured) return [h("p", { class: "note" }, "Speed that remains, by kind of work, as predicted. No card of this kind was measured."), predicted];
  return [
    h("p", { class: "note" }, "Speed that remains, as measured on GeForce cards, over all kinds of work."),
    h("div", { class: "snug" }, table(["limit", "speed that remains", h("th", { scope: "col" }, h("span", { class: "hidden" }, "as a bar"))],
      shown.map((point) => row([watts(point), seen(point), point.measured_speed && band(point.measured_speed)])), { caption: "Speed at power limits" })),
    fold("What physics alone predicts, by kind of work", h("p", { class: "note" }, "These are upper bounds: at low limits, cards were measured to be slower."), predicted),
  ];
}

// A range of shares as a bar: full up to its low end, lighter up to its high end.
const band = ([low, high]) => h("div", { class: "bar band", "aria-hidden": "true" }, h("span", { style: { width: `${100 * high}%` } }), h("span", { style: { width: `${100 * low}%` } }));
