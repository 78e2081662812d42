// Why is my training slow? Drop the profiler's files; they go to this machine's server only. Names in them are shown as text.

import { send } from "../api.js";
import * as f from "../format.js";
import { assumptions, card, facts, fill, fold, h, head, key, left, notice, num, points, row, stack, table } from "../ui.js";

export const name = "Why";
export const title = "Why is my training slow?";
export const uses = null;

const ENDINGS = ".json,.gz,.pb,.sqlite,.rpd,.pickle,.pkl,.et,.csv,.txt";
const NO_GPU = "the trace contains no GPU"; // how the answer's note begins
let last = null;
let sent = null;

export function mount(root) {
  const result = h("div", { class: "body" });
  const input = h("input", { type: "file", multiple: true, accept: ENDINGS, id: "files", class: "hidden", "aria-label": "Trace files", tabindex: "-1", onchange: () => input.files.length && diagnose([...input.files]) });
  const box = h("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); box.classList.add("over"); },
    ondragleave: () => box.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); box.classList.remove("over"); if (event.dataTransfer.files.length) diagnose([...event.dataTransfer.files]); },
  },
    h("p", {}, "Drop a trace from torch.profiler, TensorFlow, JAX or Nsight Systems (sqlite) here."),
    input, h("button", { type: "button", class: "plain", onclick: () => input.click() }, "Choose files"),
    h("p", { class: "note" }, "Several files are treated as the ranks of one run. They do not leave this machine."));
  const gpu = h("input", { type: "text", list: "gpus", id: "traced", placeholder: "as recorded in the trace", onchange: () => sent && diagnose(sent) });
  const status = h("p", { class: "note", role: "status", "aria-live": "polite" });
  root.append(h("section", { class: "card" }, box, h("div", { class: "controls" }, h("div", { class: "field" }, h("label", { for: gpu.id }, "GPU used for the recording"), gpu)), status), result);
  let asking = null;
  async function diagnose(files) {
    asking?.abort();
    sent = files;
    const mine = (asking = new AbortController());
    status.textContent = `Reading ${files.map((file) => file.name).join(", ")} …`;
    try {
      const answer = await send(files, gpu.value.trim(), mine.signal);
      last = answer;
      status.textContent = `Read ${answer.files.join(", ")}.`;
      fill(result, shown(answer));
    } catch (error) {
      if (mine.signal.aborted) return;
      status.textContent = "";
      fill(result, notice(error));
    }
  }
  return async () => {
    if (last && !result.hasChildNodes()) fill(result, shown(last));
  };
}

function shown(answer) {
  if (!answer.steps) return timeless(answer);
  return [
    h("section", { class: "card verdict-card" },
      h("p", { class: "verdict", role: "status" }, answer.verdict),
      facts([
        ["GPU", ...(answer.gpu ? [answer.gpu] : answer.notes.some((note) => note.startsWith(NO_GPU)) ? ["none (the work ran on the CPU)"] : ["unknown", "name it above"])],
        ["time per step", num(f.seconds(answer.mean_step_s), { title: "Time per step", formula: `mean of ${answer.steps.steady_count} steady steps (the median is ${f.seconds(answer.step_s)}) of ${answer.steps.each_s.slice(0, 8).map(f.seconds).join(", ")}${answer.steps.each_s.length > 8 ? ", …" : ""}`, rows: [["steps recognised by", answer.steps.by]], answer })],
        ["GPU busy", num(f.percent(answer.busy_fraction), { title: "GPU busy", formula: "time during which anything runs on the GPU ÷ step time (overlaps count once)", answer })],
      ]),
      answer.notes.length > 0 && points(answer.notes),
      answer.assumptions.length > 0 && assumptions(answer)),
    card("Where the step time goes", stepBar(answer)),
    answer.timeline && card("Timeline of one step", timeline(answer.timeline)),
    card(answer.findings.length ? "Causes, largest gain first" : "No cause was found", answer.findings.map((found, place) => finding(found, place, answer))),
    answer.ranks.length > 1 && card("Ranks", rankTable(answer)),
    answer.abstained.length > 0 && card("Checks that these files do not support", fold(`${answer.abstained.length} checks`, table(["", head("reason"), head("what to record")], answer.abstained.map((entry) => row([f.words(entry.code), left(entry.reason), left(entry.record_next)])), { caption: "Checks that could not run" }))),
  ];
}

// A memory snapshot, dumps of collectives or a table of readings: no steps, and no time that a finding takes.
function timeless(answer) {
  return [
    h("section", { class: "card verdict-card" }, h("p", { class: "verdict", role: "status" }, answer.verdict), answer.notes.length > 0 && points(answer.notes)),
    answer.findings.length > 0 && card("What was found", answer.findings.map((found, place) => h("article", { class: "finding" },
      h("h3", {}, `${place + 1}. ${found.title}`), points(found.evidence), h("p", {}, h("strong", {}, "Fix: "), found.remedy), h("p", { class: "note" }, `Check: ${found.verify}`)))),
  ];
}

// One colour for one kind, in the bar and in the timeline.
const COLOURS = {
  conv: 0, norm: 1, matmul: 2, attention: 3, elementwise: 4, input_wait: 5, loading: 5, copy: 6, communication: 7, host_launch: 8, launching: 8,
  synchronisation: 9, waiting: 9, host_work: 3, compiling: 1, allocation: 6,
};
const colourOf = (kind) => (kind in COLOURS ? `var(--c${COLOURS[kind]})` : "var(--grey)");

function stepBar(answer) {
  const whole = answer.parts.step_s;
  const pieces = Object.entries(answer.parts.seconds).filter(([, value]) => value > 0).sort(([, one], [, other]) => other - one)
    .map(([part, value]) => ({ name: f.words(part), value, text: `${f.seconds(value)}, ${f.percent(value / whole)}`, colour: colourOf(part) }));
  for (const piece of pieces) piece.shown = num(f.percent(piece.value / whole), { title: `Share of the step: ${piece.name}`, formula: `${f.seconds(piece.value)} ÷ ${f.seconds(whole)}, the mean steady step`, answer });
  return [stack(pieces, whole, { label: pieces.map((piece) => `${piece.name} ${piece.text}`).join("; ") }), key(pieces.filter((piece) => piece.value > whole / 500))];
}

function finding(found, place, answer) {
  return h("article", { class: "finding" },
    h("h3", {}, `${place + 1}. ${found.title}`),
    h("p", {}, num(f.seconds(found.seconds_per_step), { title: found.title, formula: `${f.seconds(found.seconds_per_step)} ÷ ${f.seconds(answer.mean_step_s)}, the mean steady step = ${f.percent(found.share_fraction)}`, rows: [["evidence", found.evidence.join("; ")], ["confidence", found.confidence]], answer }), ` per step (${f.percent(found.share_fraction)}). Fixing it would make training ${f.times(found.gain_low)} to ${f.times(found.gain_high)} as fast. Confidence: ${found.confidence}.`),
    points(found.evidence),
    h("p", {}, h("strong", {}, "Fix: "), found.remedy),
    h("p", { class: "note" }, `Check: ${found.verify}`));
}

function rankTable(answer) {
  const slowest = Math.max(...answer.ranks.map((rank) => rank.step_s));
  return table(["", head("file"), "time per step", "busy", "communication", "exposed communication", "data loader"],
    answer.ranks.map((rank) => row([`rank ${rank.rank ?? "?"}`, left(rank.file), ...[["time per step", f.seconds(rank.step_s), "median of its steps"], ["busy", f.percent(rank.busy_fraction), "time during which anything runs on the device ÷ step time"], ["communication", f.seconds(rank.communication_s), "time in collectives per step (overlaps count once)"], ["exposed communication", f.percent(rank.communication_exposed_fraction), "time in collectives during which nothing computes ÷ step time"], ["data loader", f.percent(rank.loader_fraction), "time that the main thread spends in the data loader ÷ step time"]].map(([title, text, formula]) => num(text, { title: `rank ${rank.rank ?? "?"}: ${title}`, formula, rows: [["file", rank.file]], answer }))], rank.step_s === slowest ? { class: "best" } : {})), { caption: "Ranks" });
}

function timeline(line) {
  const names = [...new Set(line.lanes.flatMap((lane) => lane.spans.map((span) => span.kind)))];
  return [
    line.lanes.map((lane) => h("div", {}, h("p", { class: "small" }, lane.name),
      h("div", { class: "lane", role: "img", "aria-label": `${lane.name}: ${lane.spans.length} spans in ${f.seconds(line.step_s)}` },
        lane.spans.map((span) => h("span", { title: `${span.name} (${f.words(span.kind)}): ${f.seconds(span.seconds)}`, style: { left: `${(100 * span.start_s) / line.step_s}%`, width: `${(100 * span.seconds) / line.step_s}%`, background: colourOf(span.kind) } }))))),
    h("ul", { class: "key" }, names.map((kind) => h("li", {}, h("i", { style: { background: colourOf(kind) } }), f.words(kind)))),
    h("p", { class: "note" }, `A step of median length (${f.seconds(line.step_s)}), from left to right. ${line.joined ? `${line.joined} short spans are merged with their neighbours.` : ""}`),
  ];
}
