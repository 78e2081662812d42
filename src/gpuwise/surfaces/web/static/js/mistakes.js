// A way out of every refusal: names similar to the unknown one, and a button that clears what could not be used.

import { nameOf, titleOf } from "./case.js";
import { DEFAULTS, get, set } from "./state.js";
import { h, notice } from "./ui.js";

const ID = "mistake";

const FEW = 4;
const GPUS = ["RTX 4090", "RTX 5090", "RTX 3090"];
const MODELS = ["resnet50", "bert-base", "llama-3-8b"];

const pairs = (text) => {
  const plain = text.toLowerCase().replace(/[^a-z0-9]/g, "");
  return new Set(Array.from({ length: Math.max(0, plain.length - 1) }, (_, place) => plain.slice(place, place + 2)));
};

function likeness(one, other) {
  const [a, b] = [pairs(one), pairs(other)];
  return (2 * [...a].filter((pair) => b.has(pair)).length) / (a.size + b.size || 1);
}

const names = (list) => [...(document.getElementById(list)?.options ?? [])].map((option) => option.value);

// The names that the server proposes; else those of the list that are spelled alike; else some that many people look for.
function near(error, value, list, usual) {
  const meant = /did you mean (.*?)\?/i.exec(error.hint)?.[1];
  if (meant) return meant.split(/, | or /).map((name) => name.replaceAll("`", "").trim()).filter(Boolean).slice(0, FEW);
  const alike = names(list).map((name) => [likeness(value, name), name]).filter(([score]) => score > 0.6).sort(([one], [other]) => other - one);
  return alike.length ? alike.slice(0, FEW).map(([, name]) => name) : usual;
}

// Which inputs hold the value that was refused: whole, or as one of several.
const holding = (value) => Object.keys(DEFAULTS).filter((key) => key !== "view" && get()[key] !== "" && (get()[key] === value || get()[key].split(",").some((part) => part.trim().replace(/^\d+\s*x\s+/i, "") === value)));
const without = (key, value) => (get()[key] === value ? DEFAULTS[key] === value ? "" : DEFAULTS[key] : get()[key].split(",").filter((part) => part.trim().replace(/^\d+\s*x\s+/i, "") !== value).join(",") || DEFAULTS[key]);

// The fields that hold the value are marked, and unfolded where they are folded, so that it can be corrected in place.
function blame(keys, value) {
  const inputs = [...document.querySelectorAll("main input, main select, aside input, aside select")];
  for (const input of inputs.filter((one) => keys.includes(one.name) || (one.value === value && one.value !== "")).filter((one) => !one.closest("[hidden]"))) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", ID);
    for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  }
}

export function forgive() {
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
}

export function mistake(error) {
  forgive();
  const node = notice(error);
  node.id = ID;
  const value = /'([^']+)'/.exec(error.message)?.[1];
  const keys = value ? holding(value) : [];
  if (!keys.length) return node;
  blame(keys, value);
  const to = (change) => () => set(Object.fromEntries(keys.map((key) => [key, change(key)])));
  const kind = /^unknown (GPU|model)/i.exec(error.message)?.[1].toLowerCase();
  const found = kind === "gpu" ? near(error, value, "gpus", GPUS) : kind === "model" ? near(error, value, "models", MODELS) : [];
  const list = found.length > 0 && [
    h("span", { class: "label" }, found === GPUS || found === MODELS ? "For example" : "Did you mean"),
    found.map((name) => h("button", { type: "button", class: "chip-button", onclick: to((key) => get()[key].replace(value, kind === "model" ? nameOf(name) : name)) }, kind === "model" ? titleOf(name) : name)),
  ];
  node.querySelectorAll(".hint").forEach((hint) => { if (list && /did you mean|command line/i.test(hint.textContent)) hint.remove(); });
  node.append(h("div", { class: "chips" }, list, h("button", { type: "button", class: "plain", id: "clear-mistake", onclick: to((key) => without(key, value)) }, `Clear “${value.slice(0, 40)}”`)));
  return node;
}
