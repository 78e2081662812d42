// The page: the case on the left, one question's view on the right. A change asks again after a moment; stale answers are dropped.

import { look } from "./api.js";
import { know, model, standIns, taskOf, titleOf } from "./case.js";
import { plotly } from "./charts.js";
import { form, inShort, offer, usesCase } from "./fields.js";
import { carriedNow, carry } from "./links.js";
import { catchDrops } from "./drops.js";
import { forgive, mistake } from "./mistakes.js";
import { pinBar } from "./pins.js";
import { recall } from "./own_model.js";
import { DEFAULTS, get, link, set, watch, write } from "./state.js";
import { card, fill, h, notice } from "./ui.js";
import * as accuracy from "./views/accuracy.js";
import * as build from "./views/build.js";
import * as choose from "./views/choose.js";
import * as compare from "./views/compare.js";
import * as gpus from "./views/gpus.js";
import * as model_ from "./views/model.js";
import * as pinned from "./views/pinned.js";
import * as rent from "./views/rent.js";
import * as scale from "./views/scale.js";
import * as why from "./views/why.js";

const VIEWS = { choose, model: model_, compare, rent, build, scale, why, gpus, accuracy, pinned };
const OF_ONE_MODEL = ["model", "compare", "scale"];
const UNPINNED = ["gpus", "accuracy", "pinned"];
const WAIT_MS = 60;
const LATE_MS = 400; // progress is announced for an answer that takes longer than this
const QUICK_MS = 1000; // only an answer that was quicker says so

const main = document.getElementById("view");
const aside = document.querySelector("aside");
const columns = aside.parentElement;
const phone = matchMedia("(max-width: 820px)");
const menu = document.getElementById("menu");
const pace = document.getElementById("pace");
const offered = new Set(Object.keys(VIEWS));
let shown = null;
let refresh = null;
let asking = null;
let timer = 0;
let changed = performance.now();
let asked = 0;
let settled = 0;
let patience = 0;

function mount(name) {
  const view = VIEWS[name] ?? VIEWS.choose;
  const fault = h("div", {});
  const told = h("div", {}); // about a file that was dropped: an answer on its way must not remove it
  const stand = h("div", {});
  const body = h("div", { class: "body fresh" });
  fill(main, h("div", { class: "title" }, h("h1", {}, view.title), UNPINNED.includes(name) ? "" : pinBar()), told, fault, stand, body);
  document.title = `${view.title} · gpuwise`;
  const update = view.mount(body);
  settle(body);
  shown = name;
  document.body.classList.toggle("alone", !usesCase(name in VIEWS ? name : "choose")); // nothing of the case matters here
  refresh = async (state, signal) => {
    await update(state, signal);
    fill(fault);
    forgive();
    body.classList.remove("stale", "fresh");
  };
  refresh.fail = (error) => {
    fill(fault, mistake(error));
    fill(stand); // it speaks of results
    body.classList.remove("fresh");
    body.classList.add("stale"); // what is shown answers another question
  };
  refresh.tell = (error) => fill(told, mistake(error)); // the answer below stays true
  refresh.hush = () => fill(told);
  refresh.body = body;
  refresh.stand = stand;
}

// On a phone the settings stand under the answer that they change, not above the question. Beside an answer, they follow the first questions.
function settle(body) {
  const start = body.querySelector(".start");
  if (phone.matches) (body.querySelector(".hero, .verdict-card") ?? body.firstElementChild)?.after(aside);
  else if (start) start.after(aside);
  else columns.prepend(aside);
  body.classList.toggle("split", Boolean(body.querySelector(":scope > .asks"))); // a class costs far less at every change than a selector that looks for children
  document.body.classList.toggle("single", Boolean(start));
  if (start) sizes.observe(start.parentElement);
}

const sizes = new ResizeObserver(stick);

// The settings stay in sight without a scrollbar of their own: where they are taller than the window, they stop at their end.
function stick() {
  const asks = aside.closest(".asks");
  for (const node of [aside, asks].filter(Boolean)) node.style.top = node === aside && aside.parentElement !== columns ? "" : `${Math.min(72, innerHeight - node.offsetHeight - 16)}px`;
}

// On a phone the nav opens as a whole.
function unfold(on) {
  document.getElementById("nav").classList.toggle("open", on);
  menu.setAttribute("aria-expanded", String(on));
}

function nav() {
  const state = get();
  const row = document.getElementById("nav");
  fill(row, Object.entries(VIEWS).filter(([name]) => offered.has(name)).map(([name, view]) => {
    const to = { view: name, ...carry(name, state, DEFAULTS) };
    return h("a", {
      href: link(to), "aria-current": name === state.view ? "page" : null, id: `nav-${name}`,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        unfold(false);
        carriedNow(to.gpu);
        set(to);
        main.focus({ preventScroll: true });
        scrollTo(0, 0);
      },
    }, typeof view.name === "function" ? view.name() : view.name);
  }));
  const here = row.querySelector("[aria-current]");
  if (here) row.scrollLeft = here.offsetLeft - row.offsetLeft - (row.clientWidth - here.clientWidth) / 2;
  edges();
}

// The nav fades where more of it can be scrolled to.
function edges() {
  const row = document.getElementById("nav");
  row.classList.toggle("more-left", row.scrollLeft > 4);
  row.classList.toggle("more-right", row.scrollLeft + row.clientWidth < row.scrollWidth - 4);
}

// A view about one model names the one it answers for, where the user has named none.
function standIn(state) {
  if (state.model || !OF_ONE_MODEL.includes(state.view)) return "";
  const others = standIns(state).filter((name) => name !== model(state));
  const task = taskOf(state);
  return h("div", { class: "stand-in" },
    h("p", {}, `These results are for ${titleOf(model(state))}${task ? `, one of the models for “${task.title}”` : ", because no model is named yet"}. Other models:`),
    h("div", { class: "chips" }, others.map((name) => h("button", { type: "button", class: "chip-button", onclick: () => set({ model: name, task: "" }) }, titleOf(name)))));
}

async function run() {
  const said = get();
  const state = OF_ONE_MODEL.includes(said.view) ? { ...said, model: model(said) } : said;
  write();
  if (state.view !== shown) mount(state.view);
  refresh.hush();
  nav();
  await recall(state.model);
  if (said !== get()) return; // another change came meanwhile, and is asked for itself
  offer(state);
  document.getElementById("in-short").textContent = inShort(state);
  fill(refresh.stand, standIn(said));
  const mine = (asking = new AbortController());
  const { body, fail } = refresh;
  body.classList.add("waiting");
  body.setAttribute("aria-busy", "true");
  announce(body, state);
  try {
    await refresh(state, mine.signal);
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error.status == null) console.error(error);
    fail(error);
  }
  if (mine !== asking) return;
  arrived();
  body.classList.remove("waiting");
  body.removeAttribute("aria-busy");
  nav();
  const ms = Math.round(performance.now() - changed);
  pace.textContent = ms < QUICK_MS ? `answered in ${ms} ms` : "";
  document.body.dataset.ms = ms;
  document.body.dataset.settled = ++settled;
}

// After a moment the old answer gives way to its outline, with a word on what is computed; the questions stay as they are.
function announce(body, state) {
  clearInterval(patience);
  const begun = performance.now();
  patience = setInterval(() => {
    const seconds = Math.round((performance.now() - begun) / 1000);
    const said = document.getElementById("computing") ?? h("p", { id: "computing", class: "computing", role: "status" });
    const text = VIEWS[state.view]?.computing?.(state) ?? "Computing";
    if (!said.isConnected) {
      const place = body.querySelector(".hero, .verdict-card") ?? body.querySelector(".card");
      place?.prepend(said);
      body.classList.add("late");
      said.textContent = `${text} …`;
    }
    said.dataset.seconds = seconds > 2 ? `${seconds} s` : "";
  }, LATE_MS);
}

function arrived() {
  clearInterval(patience);
  document.getElementById("computing")?.remove();
  refresh.body.classList.remove("late");
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

async function begin() {
  if (phone.matches) document.getElementById("case").open = false;
  phone.addEventListener("change", () => {
    document.getElementById("case").open = !phone.matches; // a wide window has no handle for it
    if (refresh) settle(refresh.body);
  });
  sizes.observe(aside);
  addEventListener("resize", stick);
  menu.addEventListener("click", () => unfold(menu.getAttribute("aria-expanded") !== "true"));
  document.getElementById("inputs").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("nav").addEventListener("scroll", edges, { passive: true });
  plotly(); // large: it loads while the first answer is worked out
  const choices = await look("choices");
  fill(document.getElementById("models"), choices.models.map((entry) => h("option", { value: entry.title }, entry.name)), choices.text.models.filter((name) => !choices.models.some((entry) => entry.name === name)).map((name) => h("option", { value: name })));
  fill(document.getElementById("gpus"), choices.gpus.map((entry) => h("option", { value: entry.name })));
  know(choices);
  if (!choices.questions.includes("plan")) offered.delete("scale");
  fill(document.getElementById("inputs"), form());
  watch(soon);
  addEventListener("pinned", nav);
  catchDrops((error) => refresh.tell(error));
  run();
  const given = new URLSearchParams(location.search).has("have");
  const machine = await look("machine").catch(() => ({ gpus: [] }));
  const found = machine.gpus.map((entry) => entry.gpu).filter(Boolean);
  if (found.length && !given && !get().have) set({ have: found.length > 1 ? `${found.length}x ${found[0]}` : found[0] }, { quiet: true });
}

begin().catch((error) => fill(main, card("", notice(error))));
