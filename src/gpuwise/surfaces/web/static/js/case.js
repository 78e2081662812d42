// The user's case in the names of the API's options.

import { Refused } from "./api.js";
import { known } from "./own_model.js";
import { nameModels } from "./words.js";

// A number of the state. Anything else is refused by name, because a link may contain anything.
export function numeric(value, name) {
  if (value === "") return undefined;
  const number = Number(value);
  if (!Number.isFinite(number)) throw new Refused(400, { error: `${name}: '${value}' is not a number`, hint: "set it again, or remove it from the link" });
  return number;
}

// Names between commas. A typed GPU (name=Foo,arch=ada,sm=60) has commas too: a further key belongs to it, one that it has begins another.
export function list(text) {
  const found = [];
  const keys = (entry) => entry.split(",").map((part) => part.split("=")[0].replace(/^\d+\s*x\s+/i, "").trim());
  for (const part of text.split(",").map((entry) => entry.trim()).filter(Boolean)) {
    const last = found.at(-1);
    if (part.includes("=") && last?.includes("=") && !keys(last).includes(keys(part)[0])) found[found.length - 1] = `${last},${part}`;
    else found.push(part);
  }
  return found;
}

let fixed = new Set();
let tasks = [];
let titles = new Map();
let names = new Map();
let drawers = new Set();
let words = { included: [], trained: [], models: [], weights: [], engines: [] };

// Which models have no sequence length, so that none is sent, and which models a task consists of.
export function know(choices) {
  fixed = new Set(choices.models.filter((entry) => !entry.sequence).flatMap((entry) => [entry.name, ...entry.aliases]));
  titles = new Map(choices.models.flatMap((entry) => [entry.name, ...entry.aliases].map((name) => [name, entry.title])));
  nameModels(titles);
  names = new Map(choices.models.map((entry) => [entry.title.toLowerCase(), entry.name]));
  drawers = new Set(choices.models.filter((entry) => entry.family === "diffusion").flatMap((entry) => [entry.name, ...entry.aliases]));
  tasks = choices.tasks;
  words = choices.text;
}

export const textChoices = () => words;
export const titleOf = (model) => titles.get(model) ?? known(model)?.title ?? model;
export const nameOf = (title) => names.get(title.toLowerCase()) ?? title;
export const taskOf = (state) => tasks.find((entry) => entry.name === state.task);

// Options that say how a language model generates text, in the names of the state and of the API.
const TEXT = ["weights", "engine", "users", "prompt", "output"];
export const saysText = (state) => TEXT.some((key) => state[key] !== "");
export const isLanguage = (state) => words.included.includes(state.model) || words.models.includes(state.model) || known(state.model)?.kind === "language";

// Whether the question is about text: an option for it is set, nothing but its sizes is known of the model, or no option is set
// that only a step has and the model is run, or usually generates.
const isPlain = (state) => !state.batch && !state.seq && !state.precision && !state.method;
const generates = (state) => isPlain(state) && (state.mode === "infer" || !words.trained.includes(state.model));
export const writes = (state) => isLanguage(state) && state.mode !== "train" && (saysText(state) || !words.included.includes(state.model) || generates(state));

export const wording = (state) => ({
  mode: state.mode,
  weights: state.weights,
  engine: state.engine,
  users: numeric(state.users, "Users"),
  prompt: numeric(state.prompt, "Prompt"),
  output: numeric(state.output, "Answer"),
});

export const textOf = (state) => ({ model: model(state), ...wording(state) });

export const draws = (state) => drawers.has(state.model) && state.mode !== "train";

// What a workload file was captured with stays as it is; its sizes may be free.
export const isCaptured = (state) => known(state.model)?.kind === "workload";
const free = (state, size) => !isCaptured(state) || known(state.model).sizes?.includes(size);
export const hasBatch = (state) => free(state, "batch");
export const hasSequence = (state) => state.model !== "" && !fixed.has(state.model) && free(state, "seq");

// The model, for questions about one. If none is named, the first model of the task represents it, and the page says so.
export const model = (state) => state.model || standIns(state)[0];
export const standIns = (state) => taskOf(state)?.models ?? ["resnet50", ...new Set(tasks.map((entry) => entry.models[0]))];

// How a model is run; for the questions about one step.
export const step = (state) => ({
  model: model(state),
  batch: state.batch,
  seq: hasSequence(state) ? numeric(state.seq, "Sequence") : undefined,
  precision: state.precision,
  mode: state.mode || (isLanguage(state) ? "train" : ""), // by default, a language model would generate text
});

// How it is trained, beyond what every question asks.
export const training = (state) => ({
  method: state.method,
  optimizer: state.optimizer,
  checkpoint: state.checkpoint === "1" || undefined,
  accumulate: numeric(state.accumulate, "Accumulation"),
});

export const countOf = (state) => numeric(state.count, "Number of GPUs") || 1;

export const money = (state) => ({
  hours_per_week: numeric(state.hours, "Hours per week"),
  years: numeric(state.years, "Period"),
  kwh_price: numeric(state.kwh, "Electricity"),
  region: state.region,
});

function work(state) {
  if (!state.model) return { task: state.task, batch: state.batch, precision: state.precision };
  return { ...(writes(state) ? wording(state) : step(state)), model: [state.model], samples: numeric(state.samples, "Samples") };
}

export const which = (state) => ({
  ...money(state),
  ...work(state),
  budget: numeric(state.budget, "Budget"),
  have: state.have ? list(state.have) : undefined,
  machine: numeric(state.machine, "Rest of the machine"),
  vendor: state.vendor,
  max_gpus: numeric(state.most, "Maximum GPUs"),
  resale: numeric(state.resale, "Resale value"),
  price: state.prices ? state.prices.split(",").map((entry) => entry.trim()).filter(Boolean) : undefined,
  buy: state.source === "buy" || undefined,
  used: state.source === "used" || undefined,
  rent: state.source === "rent" || undefined,
});
