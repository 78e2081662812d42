// Inputs that are tied to the state: they show it, change it, and follow it when it changes elsewhere.

import { DEFAULTS, get, set, watch } from "./state.js";
import { h } from "./ui.js";

let count = 0;

function field(label, input, ...more) {
  input.id ||= `input-${++count}`;
  return h("div", { class: "field" }, h("div", { class: "row" }, h("label", { for: input.id }, label), ...more), input);
}

// A field that can say what is assumed where nothing is chosen.
const assumable = (node, say) => Object.assign(node, { assume: say });

// Follows the state until its view is left.
function tied(input, show) {
  let shown = false;
  const stop = watch((state) => {
    shown ||= input.isConnected;
    if (shown && !input.isConnected) stop();
    else show(state);
  });
}

function follow(input, key, show = (value) => value) {
  tied(input, (state) => {
    if (input.value !== show(state[key]) && document.activeElement !== input) input.value = show(state[key]);
  });
}

// `show` is how a value is written in the field.
export function text(label, key, { list, placeholder = "", change = (value) => ({ [key]: value }), show = (value) => value } = {}) {
  const known = () => [...(document.getElementById(list)?.options ?? [])].some((option) => option.value === input.value);
  const input = h("input", {
    type: "text", list, placeholder, name: key, spellcheck: "false",
    oninput: () => list && known() && set(change(input.value)),
    onchange: () => set(change(input.value.trim())),
    onblur: () => (input.value = show(get()[key])), // as everybody writes it
  });
  input.value = show(get()[key]);
  follow(input, key, show);
  return field(label, input);
}

export function amount(label, key, { placeholder = "", min = 0, step = "any" } = {}) {
  const input = h("input", { type: "number", name: key, placeholder, min, step, inputmode: "decimal", oninput: () => input.validity.valid && set({ [key]: input.value }, { flow: true }) });
  input.value = get()[key];
  follow(input, key);
  return assumable(field(label, input), (text) => { input.placeholder = text ? `${text} (assumed)` : placeholder; });
}

export function choice(label, key, options, { change = (value) => ({ [key]: value }) } = {}) {
  const input = h("select", { name: key, onchange: () => set(change(input.value)) }, options.map(([value, title]) => h("option", { value }, title)));
  input.value = get()[key];
  follow(input, key);
  const [unset] = input.options;
  const usual = unset.textContent;
  return assumable(field(label, input), (text) => { if (unset.value === "") unset.textContent = text ? `${text} (assumed)` : usual; });
}

export function search(label, key, placeholder = "") {
  const input = h("input", { type: "search", name: key, placeholder, oninput: () => set({ [key]: input.value }, { flow: true }) });
  input.value = get()[key];
  follow(input, key);
  return field(label, input);
}

// Buttons of which one is pressed, each with the changes that it makes.
export function segments(label, options) {
  const buttons = options.map(([title, changes]) => h("button", { type: "button", "aria-label": `${label}: ${title}`, onclick: () => set(changes) }, title));
  const show = (state) => options.forEach(([, changes], place) => buttons[place].setAttribute("aria-pressed", String(Object.entries(changes).every(([key, value]) => state[key] === value))));
  show(get());
  tied(buttons[0], show);
  return h("div", { class: "facet", role: "group", "aria-label": label }, h("span", { class: "label" }, label), buttons);
}

// A slider over `values`; while nothing is chosen it rests at `usual` and says what that means.
export function slider(label, key, { values, usual, show, unset = "default" }) {
  const output = h("output", {});
  const reason = h("small", { class: "note" });
  let assumed = "";
  let why = "";
  const reset = h("button", { type: "button", class: "reset", onclick: () => set({ [key]: DEFAULTS[key] }) }, "reset");
  reset.setAttribute("aria-label", `reset ${label}`);
  const input = h("input", {
    type: "range", name: key, min: 0, max: values.length - 1, step: 1,
    oninput: () => set({ [key]: values[Number(input.value)] }, { flow: true }),
  });
  input.values = values;
  const follow = (state) => {
    const chosen = state[key] !== "";
    const value = chosen ? Number(state[key]) : amountOf(assumed, values) ?? usual;
    const known = Number.isFinite(value); // a link may hold anything
    const place = values.findIndex((entry) => entry >= (known ? value : usual) - 1e-9);
    input.value = place < 0 ? values.length - 1 : place;
    output.textContent = !known ? "?" : chosen ? show(value) : assumed || unset;
    input.setAttribute("aria-valuetext", output.textContent);
    reset.hidden = state[key] === DEFAULTS[key];
    reason.textContent = chosen ? "" : why;
    reason.hidden = !reason.textContent;
  };
  follow(get());
  tied(input, follow);
  const made = field(label, input, h("span", {}, reset, output));
  made.append(reason);
  return assumable(made, (text, because = "") => { assumed = text ? `${text} (assumed)` : ""; why = text ? because : ""; follow(get()); });
}

// The amount in a text ("59 h", "$0.168 / kWh", "39%"), where the slider has a place for it.
function amountOf(text, values) {
  const [, digits, share] = /([\d,]*\.?\d+)\s*(%)?/.exec(text) ?? [];
  const value = digits && Number(digits.replaceAll(",", "")) / (share ? 100 : 1);
  return digits && value <= values.at(-1) ? value : null;
}

export const range = (low, high, step) => Array.from({ length: Math.round((high - low) / step) + 1 }, (_, place) => Number((low + place * step).toFixed(4)));
