// The case, field by field, and which fields act in which view: only those are shown.

import { draws, hasBatch, hasSequence, isCaptured, isLanguage, nameOf, textChoices, titleOf, writes } from "./case.js";
import { amount, choice, range, slider, text } from "./controls.js";
import * as f from "./format.js";
import { dropZone } from "./own_model.js";
import { get, set } from "./state.js";
import { fold, h } from "./ui.js";

const BATCHES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096];
const LENGTHS = [64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 32768];
const PRECISIONS = ["", "fp32", "tf32", "fp16", "bf16", "amp", "amp-bf16", "fp8"];
const OPTIMIZERS = ["", "sgd", "momentum", "adam", "adamw", "adafactor", "lion", "adam8bit"];
const REGIONS = ["US", "global", "EU", "DE", "FR", "GB", "IT", "ES", "DK", "IE", "BE", "CZ", "NL", "PL", "SE", "NO", "IN", "CN", "JP", "KR", "SG", "BR", "CA", "MX", "AU", "NZ", "ZA", "TR", "ID", "AE"];

const STEP = ["mode", "batch", "seq", "precision"];
const TEXT = ["weights", "engine", "users", "prompt", "output"];
const HORIZON = ["hours", "years", "kwh", "region"];
const USED = {
  choose: [...STEP, ...TEXT, "samples", ...HORIZON, "machine", "resale", "prices", "source", "vendor", "most"],
  model: ["model", "gpu", "count", ...STEP, "method", "optimizer", ...TEXT, "samples"],
  compare: ["model", "mode", "batch", "precision", ...TEXT],
  rent: ["gpu", "count", ...HORIZON, "price", "machine", "resale", "commit"],
  scale: ["model", "seq", "precision"],
};
const GROUPS = [
  ["The work", ["model", "gpu", "count", ...STEP, "method", "optimizer", ...TEXT, "samples"]],
  ["Money and time", [...HORIZON, "price", "machine", "resale", "commit", "prices"]],
  ["What to consider", ["source", "vendor", "most"]],
];

const usd = (value) => `$${value.toFixed(2)} / kWh`;
const share = (value) => `${Math.round(100 * value)}%`;
const PRECISION = { amp: "mixed precision", "amp-bf16": "mixed, bf16" };
export const titleOfPrecision = (name) => PRECISION[name] ?? name;
const names = (list, usual = "default") => list.map((name) => [name, name || usual]);

function made() {
  const { weights, engines } = textChoices();
  return {
    model: text("Model", "model", { list: "models", placeholder: "e.g. ResNet-50, Llama-3-8B", show: titleOf, change: (value) => (value ? { model: nameOf(value), task: "" } : { model: "" }) }),
    gpu: text("GPU", "gpu", { list: "gpus" }),
    count: slider("Number of GPUs", "count", { values: range(1, 16, 1), usual: 1, show: String }),
    mode: choice("Mode", "mode", [["", "usual for the model"], ["train", "training"], ["infer", "inference"]]),
    batch: slider("Batch", "batch", { values: BATCHES, usual: 64, unset: "default for the model", show: String }),
    seq: slider("Sequence", "seq", { values: LENGTHS, usual: 512, unset: "default for the model", show: (value) => `${value} tokens` }),
    precision: choice("Precision", "precision", PRECISIONS.map((name) => [name, titleOfPrecision(name) || "default"])),
    method: choice("Method", "method", [["", "train all weights"], ["lora", "LoRA adapters"], ["qlora", "QLoRA: adapters on 4-bit weights"]]),
    optimizer: choice("Optimizer", "optimizer", names(OPTIMIZERS)),
    weights: choice("Weights", "weights", names(["", ...weights])),
    engine: choice("Engine", "engine", [["", "default"], ...engines.map((entry) => [entry.name, entry.title])]),
    users: amount("Concurrent users", "users", { placeholder: "1", min: 1, step: 1 }),
    prompt: amount("Prompt tokens", "prompt", { placeholder: "512", min: 1, step: 1 }),
    output: amount("Output tokens", "output", { placeholder: "256", min: 1, step: 1 }),
    samples: amount("Samples per epoch", "samples", { placeholder: "not given", min: 1 }),
    hours: slider("Hours per week", "hours", { values: range(1, 168, 1), usual: 25, unset: "default", show: (value) => `${value} h (${Math.round(value / 1.68)}%)` }),
    years: slider("Period", "years", { values: range(0.5, 8, 0.5), usual: 3, unset: "3 years (default)", show: (value) => f.plural(value, "year") }),
    kwh: slider("Electricity", "kwh", { values: range(0, 0.8, 0.01), usual: 0.17, unset: "regional average", show: usd }),
    region: choice("Region", "region", names(["", ...REGIONS.slice(1)], "US (default)")),
    price: amount("Price of one GPU, $", "price", { placeholder: "from the price tables" }),
    machine: amount("Rest of the machine, $", "machine", { placeholder: "default" }),
    resale: slider("Resale value", "resale", { values: range(0, 0.9, 0.05), usual: 0.4, unset: "by age (default)", show: share }),
    commit: slider("Discount for a commitment", "commit", { values: range(0, 0.7, 0.05), usual: 0, unset: "none", show: share }),
    prices: text("Your own prices", "prices", { placeholder: "RTX 5090=2900, RTX 3090=700" }),
    source: choice("Buy or rent", "source", [["", "new, used or rented"], ["buy", "new only"], ["used", "used only"], ["rent", "rented only"]]),
    vendor: choice("Vendor", "vendor", [["", "NVIDIA"], ["any", "any"], ["amd", "AMD"], ["intel", "Intel"]]),
    most: choice("Maximum GPUs in one machine", "most", [["", "default"], ...[1, 2, 4, 8].map((count) => [String(count), String(count)])]),
  };
}

// One place to drop a model file: it stands beside whichever field names the model.
let zone = null;
export const ownModel = () => (zone ??= fold("Use a file of my own model", dropZone((found) => set({ model: found.model, task: "", mode: "", method: "", precision: "", optimizer: "", batch: "", seq: "" }))));

let fields = {};
let groups = [];
let folded = null; // the view for which groups were folded: further folding is the user's

// The form beside every view, made once.
export function form() {
  fields = made();
  groups = GROUPS.map(([title, keys]) => [fold(title, h("fieldset", { "aria-label": title }, keys.map((key) => fields[key]))), keys, h("span", { class: "in-brief" })]);
  for (const [node, , told] of groups) node.querySelector("summary").append(told);
  return groups.map(([node]) => node);
}

export const usesCase = (view) => view in USED;

// Whether a field changes this view's answer.
function acts(key, state) {
  const language = isLanguage(state);
  if (TEXT.includes(key)) return language && state.mode !== "train" && !state.method;
  if (key === "seq") return hasSequence(state) && !writes(state);
  if (isCaptured(state) && ["mode", "precision", "optimizer", "method"].includes(key)) return false;
  if (key === "mode") return state.model !== "";
  if (key === "method") return language && state.mode !== "infer" && !writes(state);
  if (key === "optimizer") return state.mode !== "infer" && !writes(state);
  if (key === "batch" && !hasBatch(state)) return false;
  if (key === "batch" || key === "precision") return !writes(state);
  if (key === "samples") return state.model !== "" && !writes(state) && state.mode !== "infer" && !draws(state);
  return true;
}

export function offer(state) {
  const used = USED[state.view] ?? [];
  for (const [key, field] of Object.entries(fields)) field.hidden = !used.includes(key) || !acts(key, state);
  if (used.includes("model") && zone?.parentElement !== fields.model) fields.model.append(ownModel());
  for (const [node, keys] of groups) node.hidden = keys.every((key) => fields[key].hidden);
  if (state.view !== folded) for (const [node] of groups) node.open = state.view !== "choose"; // there it says in short what it holds
  folded = state.view;
}

// What each group says or leaves to be assumed, beside its title while it is folded.
function brief(state, said) {
  const value = (key, show) => { const given = state[key] || said[key]; return given && !fields[key].hidden ? show(given) : ""; };
  const plain = (text) => String(text).replace(/ h$/, "");
  const kinds = [
    ["batch", (text) => `batch ${text}`], ["precision", titleOfPrecision], ["weights", String], ["engine", titleOfEngine], ["users", (count) => f.plural(count, "user")],
    ["hours", (text) => `${plain(text)} h a week`], ["years", (text) => f.plural(parseFloat(text), "year")], ["kwh", (text) => (Number(text) ? usd(Number(text)) : text)],
    ["source", (text) => ({ buy: "new only", used: "used only", rent: "rented only" })[text] ?? text], ["vendor", (text) => ({ any: "any vendor", amd: "AMD", intel: "Intel" })[text] ?? text],
  ];
  for (const [, keys, told] of groups) told.textContent = kinds.filter(([key]) => keys.includes(key)).map(([key, show]) => value(key, show)).filter(Boolean).join(" · ");
}

export const titleOfEngine = (name) => textChoices().engines.find((entry) => entry.name === name)?.title ?? name;

// What an answer assumed for the fields that were left open, so that they show it in place of "default".
export function assume(said) {
  for (const [key, field] of Object.entries(fields)) {
    const [text, why] = [said[key]].flat(); // what, and why
    field.assume?.((key === "engine" ? titleOfEngine(text) : key === "precision" ? titleOfPrecision(text) : text) ?? "", why);
  }
  brief(get(), { source: "new, used or rented", vendor: "NVIDIA", ...Object.fromEntries(Object.entries(said).map(([key, given]) => [key, [given].flat()[0]])) });
}

// The same from the list of assumptions that every answer has.
export function assumedBy({ assumptions }) {
  const value = (...codes) => assumptions.find((entry) => codes.includes(entry.code))?.value;
  const hours = assumptions.find((entry) => entry.code === "hours_per_week");
  const years = parseFloat(value("years", "horizon"));
  const plain = (text) => (text && !/[,;]/.test(text) ? text : "");
  const optimizer = value("optimizer");
  return { optimizer: optimizer ? plain(optimizer) : "", precision: plain(value("precision")), seq: value("seq") ? `${plain(value("seq"))} tokens` : "", hours: hours ? [`${hours.value} h`, hours.effect.split(";")[0]] : "", years: years ? f.plural(years, "year") : "", kwh: value("electricity")?.replace(" per kWh", " / kWh"), weights: value("weights"), engine: value("engine"), batch: plain(value("batch")), resale: value("resale") };
}

// The case in one line, for a phone, where the form is folded.
const SHORT = {
  mode: (value) => ({ train: "training", infer: "inference" })[value] ?? value, seq: (value) => `${value} tokens`, precision: titleOfPrecision, method: String, weights: (value) => `${value} weights`, engine: (value) => titleOfEngine(value),
  users: (value) => f.plural(value, "user"), hours: (value) => `${value} h a week`, years: (value) => f.plural(value, "year"), kwh: (value) => usd(Number(value)), region: String, source: (value) => ({ buy: "new only", used: "used only", rent: "rented only" })[value] ?? value, vendor: String,
};
export function inShort(state) {
  const used = USED[state.view] ?? [];
  const many = state.count !== "1" ? `${state.count}x ` : "";
  const said = [
    used.includes("model") && titleOf(state.model), used.includes("gpu") && `${many}${state.gpu}`,
    ...[...STEP, "method", ...TEXT, ...HORIZON, "source", "vendor"].filter((key) => used.includes(key) && state[key] && acts(key, state)).map((key) => (SHORT[key] ?? ((value) => `${key} ${value}`))(state[key])),
  ].filter(Boolean);
  return said.join(", ");
}
