// Inputs that are tied to the state: they show it, change it, and follow it when it changes elsewhere.

import { DEFAULTS, get, set, watch } from "./state.js";
import { h } from "./ui.js";

let count = 0;

function field(label, input, ...more) {
  input.id ||= `input-${++count}`;
  return h("div", { class: "field" }, h("div", { class: "row" }, h("label", { for: input.id }, label), ...more), input);
}

// Follows the state until its view is left.
function tied(input, show) {
  let shown = false;
  const stop = watch((state) => {
    shown ||= input.isConnected;
    if (shown && !input.isConnected) stop();
    else show(state);
  });
}

function follow(input, key) {
  tied(input, (state) => {
    if (input.value !== state[key] && document.activeElement !== input) input.value = state[key];
  });
}

export function text(label, key, { list, placeholder = "", change = (value) => ({ [key]: value }) } = {}) {
  const known = () => [...(document.getElementById(list)?.options ?? [])].some((option) => option.value === input.value);
  const input = h("input", {
    type: "text", list, placeholder, name: key, spellcheck: "false",
    oninput: () => list && known() && set(change(input.value)),
    onchange: () => set(change(input.value.trim())),
  });
  input.value = get()[key];
  follow(input, key);
  return field(label, input);
}

export function amount(label, key, { placeholder = "", min = 0, step = "any" } = {}) {
  const input = h("input", { type: "number", name: key, placeholder, min, step, inputmode: "decimal", oninput: () => input.validity.valid && set({ [key]: input.value }, { flow: true }) });
  input.value = get()[key];
  follow(input, key);
  return field(label, input);
}

export function choice(label, key, options, { change = (value) => ({ [key]: value }) } = {}) {
  const input = h("select", { name: key, onchange: () => set(change(input.value)) }, options.map(([value, title]) => h("option", { value }, title)));
  input.value = get()[key];
  follow(input, key);
  return field(label, input);
}

export function search(label, key, placeholder = "") {
  const input = h("input", { type: "search", name: key, placeholder, oninput: () => set({ [key]: input.value }, { flow: true }) });
  input.value = get()[key];
  follow(input, key);
  return field(label, input);
}

export function tick(label, key) {
  const input = h("input", { type: "checkbox", name: key, onchange: () => set({ [key]: input.checked ? "1" : "" }) });
  const show = (state) => (input.checked = state[key] === "1");
  show(get());
  tied(input, show);
  return h("label", { class: "check" }, input, label);
}

// A slider over `values`; while nothing is chosen it rests at `usual` and says what that means.
export function slider(label, key, { values, usual, show, unset = "default" }) {
  const output = h("output", {});
  const reset = h("button", { type: "button", class: "reset", onclick: () => set({ [key]: DEFAULTS[key] }) }, "reset");
  reset.setAttribute("aria-label", `reset ${label}`);
  const input = h("input", {
    type: "range", name: key, min: 0, max: values.length - 1, step: 1,
    oninput: () => set({ [key]: values[Number(input.value)] }, { flow: true }),
  });
  input.values = values;
  const follow = (state) => {
    const chosen = state[key] !== "";
    const value = chosen ? Number(state[key]) : usual;
    const known = Number.isFinite(value); // a link may hold anything
    const place = values.findIndex((entry) => entry >= (known ? value : usual) - 1e-9);
    input.value = place < 0 ? values.length - 1 : place;
    output.textContent = !known ? "?" : chosen ? show(value) : unset;
    input.setAttribute("aria-valuetext", output.textContent);
    reset.hidden = state[key] === DEFAULTS[key];
  };
  follow(get());
  tied(input, follow);
  return field(label, input, h("span", {}, reset, output));
}

export const range = (low, high, step) => Array.from({ length: Math.round((high - low) / step) + 1 }, (_, place) => Number((low + place * step).toFixed(4)));
