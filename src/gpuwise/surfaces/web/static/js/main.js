// The page: the case on the left, one question's view on the right. A change asks again after a moment; stale answers are dropped.

import { look } from "./api.js";
import { hasSequence, isLanguage, know, saysText } from "./case.js";
import { plotly } from "./charts.js";
import { amount, choice, range, slider, text } from "./controls.js";
import { get, link, set, watch, write } from "./state.js";
import { card, fill, h, notice } from "./ui.js";
import * as accuracy from "./views/accuracy.js";
import * as build from "./views/build.js";
import * as choose from "./views/choose.js";
import * as compare from "./views/compare.js";
import * as model from "./views/model.js";
import * as rent from "./views/rent.js";
import * as scale from "./views/scale.js";
import * as why from "./views/why.js";

const VIEWS = { choose, model, compare, rent, build, scale, why, accuracy };
const WAIT_MS = 60;
const BATCHES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096];
const LENGTHS = [64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768];
const PRECISIONS = ["", "fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16", "fp8"];

const main = document.getElementById("view");
const pace = document.getElementById("pace");
let offered = new Set(Object.keys(VIEWS));
let shown = null;
let refresh = null;
let asking = null;
let extras = {};
let timer = 0;
let changed = performance.now();
let asked = 0;
let settled = 0;

function mount(name) {
  const view = VIEWS[name] ?? VIEWS.choose;
  const fault = h("div", {});
  const body = h("div", { class: "body" });
  fill(main, h("h1", {}, view.title), fault, body);
  document.title = `${view.title} · gpuwise`;
  const update = view.mount(body);
  shown = name;
  document.body.classList.toggle("alone", !view.uses); // nothing of the case matters here
  refresh = async (state, signal) => {
    await update(state, signal);
    fill(fault);
    body.classList.remove("stale");
  };
  refresh.fail = (error) => {
    fill(fault, notice(error));
    body.classList.add("stale"); // what is shown answers another question
  };
  refresh.body = body;
  nav();
}

function nav() {
  fill(document.getElementById("nav"), Object.entries(VIEWS).filter(([name]) => offered.has(name)).map(([name, view]) =>
    h("a", {
      href: link({ view: name }), "aria-current": name === get().view ? "page" : null, id: `nav-${name}`,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        set({ view: name }, { step: true });
        main.focus({ preventScroll: true });
        scrollTo(0, 0);
      },
    }, view.name)));
  const [row, here] = [document.getElementById("nav"), document.querySelector("nav [aria-current]")];
  if (here) row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.clientWidth) / 2;
}

// Only what this view's answer depends on can be changed beside it.
function offer(state) {
  const used = (VIEWS[state.view] ?? VIEWS.choose).uses ?? [];
  for (const [key, field] of Object.entries(extras)) field.hidden = !used.includes(key) || (key === "seq" && !hasSequence(state)) || (key === "mode" && !state.model) || (state.view === "model" && isLanguage(state) && saysText(state)); // a task says itself how its models are run, and text has options of its own
}

async function run() {
  const state = get();
  write();
  if (state.view !== shown) mount(state.view);
  else nav();
  offer(state);
  const mine = (asking = new AbortController());
  const { body, fail } = refresh;
  body.classList.add("waiting");
  body.setAttribute("aria-busy", "true");
  try {
    await refresh(state, mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error.status == null) console.error(error);
    fail(error);
  }
  if (mine !== asking) return;
  body.classList.remove("waiting");
  body.removeAttribute("aria-busy");
  const ms = Math.round(performance.now() - changed);
  pace.textContent = `answered in ${ms} ms`;
  document.body.dataset.ms = ms;
  document.body.dataset.settled = ++settled;
}

// The first change is asked at once; while a slider moves on, the next ones wait for each other.
function soon() {
  const now = performance.now();
  const resting = !timer && now - asked > WAIT_MS;
  if (!timer) changed = now;
  clearTimeout(timer);
  asking?.abort();
  timer = setTimeout(() => {
    timer = 0;
    asked = performance.now();
    run();
  }, resting ? 0 : WAIT_MS);
}

function inputs(choices) {
  const tasks = [["", "any task"], ...choices.tasks.map((task) => [task.name, task.title])];
  const usd = (value) => `$${value.toFixed(2)} / kWh`;
  extras = {
    hours: slider("Hours per week", "hours", { values: range(1, 168, 1), usual: 25, unset: "25 h (default)", show: (value) => `${value} h (${Math.round(value / 1.68)}%)` }),
    kwh: slider("Electricity", "kwh", { values: range(0, 0.8, 0.01), usual: 0.17, unset: "US average", show: usd }),
    years: slider("Period", "years", { values: range(0.5, 8, 0.5), usual: 3, unset: "3 years (default)", show: (value) => `${value} years` }),
    batch: slider("Batch", "batch", { values: BATCHES, usual: 64, unset: "default for the model", show: String }),
    seq: slider("Sequence", "seq", { values: LENGTHS, usual: 512, unset: "default for the model", show: (value) => `${value} tokens` }),
    precision: choice("Precision", "precision", PRECISIONS.map((name) => [name, name || "default"])),
    mode: choice("Mode", "mode", [["", "default"], ["train", "training"], ["infer", "inference"]]),
  };
  fill(document.getElementById("inputs"),
    text("Model", "model", { list: "models", placeholder: "choose a model or a task", change: (value) => (value ? { model: value, task: "" } : { model: "" }) }),
    choice("Task", "task", tasks, { change: (value) => (value ? { task: value, model: "" } : { task: "" }) }),
    amount("Budget, $", "budget", { placeholder: "no limit", step: 50 }),
    text("My current GPU", "have", { list: "gpus", placeholder: "none, or e.g. GTX 1080 Ti" }),
    h("div", { class: "more" }),
    Object.values(extras));
}

async function begin() {
  if (matchMedia("(max-width: 820px)").matches) document.getElementById("case").open = false;
  document.getElementById("inputs").addEventListener("submit", (event) => event.preventDefault());
  plotly(); // large: it loads while the first answer is worked out
  const choices = await look("choices");
  fill(document.getElementById("models"), choices.models.map((entry) => h("option", { value: entry.name }, entry.title)), choices.text.models.map((name) => h("option", { value: name })));
  fill(document.getElementById("gpus"), choices.gpus.map((entry) => h("option", { value: entry.name })));
  know(choices);
  if (!choices.questions.includes("plan")) offered.delete("scale");
  inputs(choices);
  watch(soon);
  run();
  const given = new URLSearchParams(location.search).has("have");
  const machine = await look("machine").catch(() => ({ gpus: [] }));
  const found = machine.gpus.map((entry) => entry.gpu).filter(Boolean);
  if (found.length && !given && !get().have) set({ have: found.length > 1 ? `${found.length}x ${found[0]}` : found[0] });
}

begin().catch((error) => fill(main, card("", notice(error))));
