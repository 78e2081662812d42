// Three plain questions that lead to a recommendation, and whole examples for those who would rather look first.

import { nameOf, titleOf } from "../case.js";
import { narrow } from "../charts.js";
import { amount, text } from "../controls.js";
import { ownModel } from "../fields.js";
import { whole } from "../links.js";
import { fresh, get, set } from "../state.js";
import { fill, h } from "../ui.js";

const AIMS = [
  ["Learn deep learning", { task: "learning" }], ["Compete on Kaggle", { task: "kaggle" }], ["Train vision models", { task: "vision" }], ["Generate images", { model: "sdxl" }],
  ["Fine-tune a language model", { task: "llm-finetune" }], ["Run a language model", { model: "llama-3-8b" }], ["A bit of everything", { task: "research" }],
];
const BUDGETS = ["300", "800", "2000", "10000", "50000"];
const OWNED = ["GTX 1080 Ti", "RTX 3060 12GB", "RTX 4090"];

const STORIES = [
  ["A student with $800", { task: "learning", budget: "800" }],
  ["RTX 4090 or RTX A6000 for BERT?", { view: "compare", model: "bert-large-uncased", cards: "RTX 4090,RTX A6000" }],
  ["Buy or rent an H100?", { view: "rent", gpu: "H100 PCIe 80GB" }],
  ["A lab with $50,000 for 8 GPUs", { task: "llm-finetune", budget: "50000", most: "8" }],
  ["Why is my training slow?", { view: "why" }],
  ["Ten users of a 70B model", { model: "llama-3-70b", users: "10", weights: "q4_k_m" }],
];

const CLEARED = { model: "", task: "", mode: "", method: "", weights: "", engine: "", users: "", prompt: "", output: "", batch: "", seq: "", precision: "", samples: "" };

// A chip is pressed where it was chosen, and has a dashed outline where it is what the answer assumes.
const chip = (title, pressed, act, assumed = false) => h("button", { type: "button", class: assumed ? "chip-button assumed" : "chip-button", "aria-pressed": String(pressed), title: assumed ? "Assumed, because nothing is chosen" : null, onclick: act }, title);
const dollars = (value) => `$${Number(value).toLocaleString("en-US")}`;

// If nothing is chosen, the answer is for this one; its chip shows that.
const USUAL = { model: "", task: "kaggle" };
const DESKTOP = [["I have a desktop", "0"], ["no desktop yet", "700"]];

const holds = (changes, state) => Object.entries({ model: "", task: "", ...changes }).every(([key, value]) => state[key] === value);
const assumedIn = (changes, state) => !state.model && !state.task && holds(changes, USUAL);
const answered = (state) => Boolean(state.model || state.task || state.budget || state.have);

// On a phone the questions are folded, so that the answer comes first.
export function start() {
  const [aims, budgets, owned, desktop] = [1, 2, 3, 4].map(() => h("div", { class: "chips" }));
  const named = text("Or name a model", "model", { list: "models", placeholder: "e.g. ResNet-50, Llama-3-70B", show: titleOf, change: (value) => ({ ...CLEARED, model: nameOf(value) }) });
  const money = amount("Or another amount, $", "budget", { placeholder: "no limit" });
  const have = text("Or name your GPUs", "have", { list: "gpus", placeholder: "e.g. 2x T4" });
  const question = (number, title, chips, ...fields) => h("fieldset", { class: "question" }, h("legend", {}, h("b", {}, number), title), chips, h("div", { class: "beside-chips" }, fields));
  const summary = h("summary", {});
  const node = h("details", { class: "card start", open: !narrow() }, summary,
    h("div", { class: "questions" },
      question("1", "What do you want to do?", aims, named, ownModel()),
      question("2", "What can you spend?", budgets, money),
      question("3", "What do you own?", owned, have, desktop)));
  const stories = h("p", { class: "stories" }, h("span", { class: "label" }, "Examples"), STORIES.map(([title, state]) => whole(title, fresh(state))));
  const show = () => {
    const state = get();
    stories.hidden = narrow() && answered(state); // there the answer comes first
    fill(summary, h("b", {}, answered(state) ? "Your question" : "Answer three questions"), h("span", {}, [AIMS.find(([, changes]) => holds(changes, state) || assumedIn(changes, state))?.[0] ?? titleOf(state.model), state.budget && `up to ${dollars(state.budget)}`, state.have ? `has ${state.have}` : ""].filter(Boolean).join(" · ")));
    desktop.hidden = state.machine === ""; // if it matters, the answer asks for it first
    fill(desktop, DESKTOP.map(([title, value]) => chip(title, state.machine === value, () => set({ machine: state.machine === value ? "" : value }))));
    fill(aims, AIMS.map(([title, changes]) => chip(title, holds(changes, state), () => set({ ...CLEARED, ...changes }), assumedIn(changes, state))));
    fill(budgets, BUDGETS.map((value) => chip(dollars(value), state.budget === value, () => set({ budget: value }))), chip("no limit", false, () => set({ budget: "" }), state.budget === ""));
    fill(owned, chip("nothing", false, () => set({ have: "" }), state.have === ""), OWNED.map((value) => chip(value, state.have === value, () => set({ have: value }))));
  };
  return { node, stories, show };
}
