// Why is my training slow? Drop the profiler's files; they go to this machine's server only. Names in them are shown as text.

import { send } from "../api.js";
import * as f from "../format.js";
import { recording } from "../recording.js";
import { colourOf, timeline } from "../timeline.js";
import { asking, assumptions, card, facts, fill, fold, h, head, key, left, notice, num, points, row, stack, table } from "../ui.js";

export const name = "Why";
export const title = "Why is my training slow?";

const ENDINGS = ".json,.gz,.pb,.sqlite,.db,.rpd,.pickle,.pkl,.et,.csv,.txt";
const ACCEPTED = "Accepted files: Chrome traces from torch.profiler (.json, .json.gz), xplane.pb from TensorFlow or JAX, SQLite exports from Nsight Systems, rocprofv3 traces, PyTorch memory snapshots, NCCL flight recorder dumps, and tables of GPU readings (.csv). The sample trace above shows what to expect.";
const NO_GPU = "the trace contains no GPU"; // how the answer's note begins
const KEPT = "gpuwise-why";
let last = kept();
let sent = null;
let given = null; // files dropped on another view
let open = null;

// Traces that were dropped anywhere: diagnosed at once, or as soon as this view is shown.
export function take(files) {
  given = files;
  if (open?.root.isConnected) open.look();
}

// The answer survives a reload in this tab. The trace itself is not kept anywhere.
function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

function keep(answer) {
  last = answer;
  try {
    if (answer) sessionStorage.setItem(KEPT, JSON.stringify(answer));
    else sessionStorage.removeItem(KEPT);
  } catch {} // no room, or not allowed: a reload then loses it
}

const sample = async (name) => new File([await (await fetch(`samples/${name}`)).blob()], name);

// A button for the user's files, which may also be dropped on `box`.
function chooser(id, label, text, take, multiple = true) {
  const input = h("input", { type: "file", multiple, accept: ENDINGS, id, class: "hidden", "aria-label": label, tabindex: "-1", onchange: () => { if (input.files.length) take([...input.files]); input.value = ""; } });
  return [input, h("button", { type: "button", class: `plain ${id === "files" ? "primary" : ""}`, onclick: () => input.click() }, text)];
}

export function mount(root) {
  const result = h("div", { class: "body" });
  const status = h("p", { class: "note", role: "status", "aria-live": "polite" });
  const gpu = h("input", { type: "text", list: "gpus", id: "traced", placeholder: "as recorded in the trace", onchange: () => (sent ? diagnose(...sent) : last && (status.textContent = "Drop the file again to use another GPU.")) });
  const box = h("div", {
    class: "drop",
    ondragover: (event) => { event.preventDefault(); box.classList.add("over"); },
    ondragleave: () => box.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); box.classList.remove("over"); if (event.dataTransfer.files.length) diagnose([...event.dataTransfer.files]); },
  },
    h("p", {}, "Drop a trace from torch.profiler, TensorFlow, JAX or Nsight Systems (sqlite) here."),
    h("div", { class: "actions" }, chooser("files", "Trace files", "Choose files", diagnose),
      h("button", { type: "button", class: "plain", id: "sample", onclick: async () => diagnose([await sample("slow_loader.json.gz")]) }, "Try a sample trace"),
      h("button", { type: "button", class: "plain", id: "sample-pair", onclick: async () => diagnose([await sample("slow_loader.json.gz"), await sample("fast_loader.json.gz")], true) }, "Compare two samples")),
    h("p", { class: "note" }, "The result shows what slows the steps down, how to fix it and what you would gain, and where the time of a step goes, with a timeline. Several files are treated as the ranks of one run. No file leaves this machine."));
  const guide = recording();
  const sending = asking("", box, guide, h("div", { class: "controls" }, h("div", { class: "field" }, h("label", { for: gpu.id }, "GPU used for the recording"), gpu)), status);
  root.append(sending, result);
  let running = null;
  const show = (answer) => {
    fill(result, answer && shown(answer));
    box.classList.toggle("compact", Boolean(answer));
    const held = sending.contains(document.activeElement) ? document.activeElement : null;
    result[answer ? "after" : "before"](sending); // the answer comes first
    held?.focus({ preventScroll: true });
    guide.open = !answer && innerWidth > 820;
    document.getElementById("pin").hidden = !answer;
    result.querySelector(".verdict-card")?.append(actions(answer));
  };
  const actions = (answer) => h("div", { class: "actions" },
    answer.steps && chooser("second", "Second run", "Compare with another run", (files) => (sent ? diagnose([...(sent[1] ? sent[0].slice(0, -1) : sent[0]), files[0]], true) : (status.textContent = "To compare it with another run, drop the first trace again.")), false),
    h("button", { type: "button", class: "plain", id: "save-json", onclick: () => save(`${stem(answer)}.json`, JSON.stringify(answer, null, 1), "application/json") }, "Save as JSON"),
    h("button", { type: "button", class: "plain", id: "save-markdown", onclick: () => save(`${stem(answer)}.md`, markdown(answer), "text/markdown") }, "Save as Markdown"),
    h("button", { type: "button", class: "plain", id: "forget", onclick: () => { keep(null); sent = null; show(null); status.textContent = ""; } }, "Clear"),
    h("span", { class: "note" }, "The result stays in this tab when you reload the page."));
  async function diagnose(files, compare = false) {
    running?.abort();
    sent = [files, compare];
    const mine = (running = new AbortController());
    status.textContent = `Reading ${files.map((file) => file.name).join(", ")} …`;
    result.classList.add("waiting");
    try {
      const answer = await send(files, gpu.value.trim(), mine.signal, compare);
      keep(answer);
      status.textContent = `Read ${files.map((file) => file.name).join(", ")}.`;
      show(answer);
    } catch (error) {
      if (mine.signal.aborted) return;
      status.textContent = "";
      const box = notice(error);
      box.append(h("p", { class: "hint" }, ACCEPTED));
      fill(result, box);
    }
    result.classList.remove("waiting");
  }
  const look = () => {
    const files = given;
    given = null;
    if (files) diagnose(files);
  };
  open = { root, look };
  return async () => {
    if (given) look();
    else if (!result.hasChildNodes()) show(last);
  };
}

// The cause as a headline, and what a fix would gain below it; then the fix itself.
function headed(verdict) {
  const [first, ...rest] = verdict.split("; ");
  return h("div", { class: "verdict", role: "status" }, h("h2", { class: "pick" }, f.capital(first.replace(/\.$/, ""))),
    rest.length > 0 && h("p", { class: "lead" }, f.sentence(f.capital(rest.join("; ")))));
}

const fixed = ([first]) => first && h("p", { class: "fix", id: "fix" }, h("strong", {}, "Fix: "), f.sentence(first.remedy.replace(/\.$/, "")));

// ---------------------------------------------------------------- a file of the result

const stem = (answer) => `why-${(answer.files[0] ?? "trace").replace(/[^\w.-]+/g, "-").replace(/\.(json|gz|pb|sqlite)+$/g, "").slice(0, 60)}`;

function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const escaped = (text) => String(text).replaceAll("\\", "\\\\").replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll("\n", " ");

function markdown(answer) {
  const lines = [`# Why is this training slow?`, "", escaped(answer.verdict), "", `- files: ${answer.files.map(escaped).join(", ")}`];
  if (answer.steps) {
    lines.push(`- time per step: ${f.seconds(answer.mean_step_s)}`, `- ${deviceOf(answer)} busy: ${f.percent(answer.busy_fraction)}`, "", "| part of the step | time | share |", "|---|---|---|");
    for (const [part, value] of pieces(answer.parts.seconds)) lines.push(`| ${f.words(part)} | ${f.seconds(value)} | ${f.percent(value / answer.parts.step_s)} |`);
  }
  answer.findings.forEach((found, place) => {
    lines.push("", `## ${place + 1}. ${escaped(found.title)}`, "");
    if (answer.steps) lines.push(`${f.seconds(found.seconds_per_step)} per step (${f.percent(found.share_fraction)}); a fix would make training ${f.ratio(found.gain_low)} to ${f.times(found.gain_high)} as fast.`, "");
    lines.push(...found.evidence.map((entry) => `- ${escaped(entry)}`), "", `Fix: ${escaped(found.remedy)}`, "", `Check: ${escaped(found.verify)}`);
  });
  if (answer.compare) {
    lines.push("", `## Compared with ${escaped(answer.compare.file)}`, "", escaped(answer.compare.verdict), "", "| part of the step | first run | second run |", "|---|---|---|");
    for (const entry of answer.compare.parts) lines.push(`| ${f.words(entry.part)} | ${f.seconds(entry.before_s)} | ${f.seconds(entry.after_s)} |`);
  }
  return `${lines.join("\n")}\n`;
}

const pieces = (seconds) => Object.entries(seconds).filter(([, value]) => value > 0).sort(([, one], [, other]) => other - one);

// ---------------------------------------------------------------- two runs side by side

function compared(answer) {
  const two = answer.compare;
  const whole = Math.max(two.before_mean_s, two.after_mean_s);
  const bar = (side) => stack(two.parts.map((entry) => ({ name: f.words(entry.part), value: entry[side], text: f.seconds(entry[side]), colour: colourOf(entry.part) })), whole, { label: two.parts.map((entry) => `${f.words(entry.part)} ${f.seconds(entry[side])}`).join("; ") });
  const changes = [...two.parts].sort((one, other) => Math.abs(other.after_s - other.before_s) - Math.abs(one.after_s - one.before_s));
  const shift = (entry) => `${entry.after_s >= entry.before_s ? "+" : "−"}${f.seconds(Math.abs(entry.after_s - entry.before_s))}`;
  return card("First run and second run",
    h("p", { class: "verdict", id: "compared" }, f.sentence(two.verdict.replace(/\.$/, ""))),
    h("div", { class: "runs" }, [["first run", "before_s", two.before_mean_s], ["second run", "after_s", two.after_mean_s]].map(([label, side, mean]) => h("div", {}, h("p", { class: "small" }, `${label}: ${f.seconds(mean)} per step`), bar(side)))),
    table(["", "first run", "second run", "difference"], changes.map((entry) => row([
      h("span", {}, h("i", { class: "dot", style: { background: colourOf(entry.part) } }), f.words(entry.part), entry.why && h("small", { class: "note small why" }, entry.why)), f.seconds(entry.before_s), f.seconds(entry.after_s), shift(entry),
    ])), { caption: "Parts of the step in both runs" }),
    two.unlike.length > 0 && points(two.unlike.map((text) => `The runs differ: ${text}`)),
    two.unknown.length > 0 && fold("What the traces do not show", points(two.unknown)));
}

const deviceOf = (answer) => (answer.notes.some((note) => note.startsWith(NO_GPU)) ? "CPU" : "GPU");

function shown(answer) {
  if (!answer.steps) return timeless(answer);
  const device = deviceOf(answer);
  return [
    h("section", { class: "card verdict-card" },
      headed(answer.verdict),
      fixed(answer.findings),
      facts([
        ["GPU", ...(answer.gpu ? [answer.gpu] : device === "CPU" ? ["none", "the work ran on the CPU"] : ["unknown", "name it above"])],
        ["time per step", num(f.seconds(answer.mean_step_s), { title: "Time per step", formula: `mean of ${answer.steps.steady_count} steady steps (the median is ${f.seconds(answer.step_s)}) of ${answer.steps.each_s.slice(0, 8).map(f.seconds).join(", ")}${answer.steps.each_s.length > 8 ? ", …" : ""}`, rows: [["steps recognised by", answer.steps.by]], answer })],
        [`${device} busy`, num(f.percent(answer.busy_fraction), { title: `${device} busy`, formula: `time during which anything runs on the ${device} ÷ step time (overlaps count once)`, answer })],
      ]),
      answer.notes.length > 0 && fold(`Notes (${answer.notes.length})`, points(answer.notes)),
      answer.assumptions.length > 0 && assumptions(answer)),
    answer.compare && compared(answer),
    card(answer.findings.length ? "Causes, largest minimum gain first" : "No cause was found", answer.findings.length > 1 && h("p", { class: "note" }, "Causes can overlap, so neither their times nor their gains add up."), answer.findings.map((found, place) => finding(found, place, answer))),
    card("Where the step time goes", stepBar(answer)),
    answer.timeline && card("Timeline of one step", timeline(answer.timeline)),
    answer.ranks.length > 1 && card("Ranks", rankTable(answer)),
    answer.abstained.length > 0 && card("Checks that these files do not support", fold(`${answer.abstained.length} checks`, table(["", head("reason"), head("what to record")], answer.abstained.map((entry) => row([f.words(entry.code), left(entry.reason), left(entry.record_next)])), { caption: "Checks that could not run" }))),
  ];
}

const capital = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

// A memory snapshot, dumps of collectives or a table of readings: no steps, and no time that a finding takes.
function timeless(answer) {
  return [
    h("section", { class: "card verdict-card" }, headed(answer.verdict), fixed(answer.findings), answer.notes.length > 0 && points(answer.notes)),
    answer.findings.length > 0 && card("What was found", answer.findings.map((found, place) => h("article", { class: "finding" },
      h("h3", {}, `${place + 1}. ${capital(found.title)}`), points(found.evidence), h("p", {}, h("strong", {}, "Fix: "), found.remedy), h("p", { class: "note" }, `Check: ${found.verify}`)))),
  ];
}

function stepBar(answer) {
  const whole = answer.parts.step_s;
  const found = pieces(answer.parts.seconds).map(([part, value]) => ({ name: f.words(part), value, text: `${f.seconds(value)}, ${f.percent(value / whole)}`, colour: colourOf(part) }));
  for (const piece of found) piece.shown = num(f.percent(piece.value / whole), { title: `Share of the step: ${piece.name}`, formula: `${f.seconds(piece.value)} ÷ ${f.seconds(whole)}, the mean steady step`, answer });
  return [h("p", { class: "note" }, `Mean of all ${answer.steps.steady_count} steady steps (${f.seconds(whole)}).`), stack(found, whole, { label: found.map((piece) => `${piece.name} ${piece.text}`).join("; ") }), key(found.filter((piece) => piece.value > whole / 500))];
}

function finding(found, place, answer) {
  return h("article", { class: "finding" },
    h("h3", {}, `${place + 1}. ${capital(found.title)}`),
    h("p", {}, num(f.seconds(found.seconds_per_step), { title: found.title, formula: `${f.seconds(found.seconds_per_step)} ÷ ${f.seconds(answer.mean_step_s)}, the mean steady step = ${f.percent(found.share_fraction)}`, rows: [["evidence", found.evidence.join("; ")], ["confidence", found.confidence]], answer }), ` per step (${f.percent(found.share_fraction)}). A fix ${found.gain_low < 1.005 ? "could make training up to" : "would make training"} ${found.gain_low < 1.005 ? "" : `${f.ratio(found.gain_low)} to `}${f.times(found.gain_high)} as fast. Confidence: ${found.confidence}.`),
    h("p", {}, h("strong", {}, "Fix: "), f.sentence(found.remedy.replace(/\.$/, ""))),
    fold("Evidence, and how to check the fix", points(found.evidence), h("p", { class: "note" }, `Check: ${found.verify}`)));
}

function rankTable(answer) {
  const slowest = Math.max(...answer.ranks.map((rank) => rank.step_s));
  return table(["", head("file"), "time per step", "busy", "communication", "exposed communication", "data loader"],
    answer.ranks.map((rank) => row([`rank ${rank.rank ?? "?"}`, left(rank.file), ...[["time per step", f.seconds(rank.step_s), "median of its steps"], ["busy", f.percent(rank.busy_fraction), "time during which anything runs on the device ÷ step time"], ["communication", f.seconds(rank.communication_s), "time in collectives per step (overlaps count once)"], ["exposed communication", f.percent(rank.communication_exposed_fraction), "time in collectives during which nothing computes ÷ step time"], ["data loader", f.percent(rank.loader_fraction), "time that the main thread spends in the data loader ÷ step time"]].map(([title, text, formula]) => num(text, { title: `rank ${rank.rank ?? "?"}: ${title}`, formula, rows: [["file", rank.file]], answer }))], rank.step_s === slowest ? { class: "best" } : {})), { caption: "Ranks" });
}
