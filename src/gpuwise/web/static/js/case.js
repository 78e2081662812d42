// The user's case in the names of the API's options.

const numeric = (value) => (value === "" ? undefined : Number(value));

export const list = (text) => text.split(",").map((entry) => entry.trim()).filter(Boolean);

let fixed = new Set();

// Which models have no sequence: they are not asked at one.
export const know = (choices) => (fixed = new Set(choices.models.filter((entry) => !entry.sequence).flatMap((entry) => [entry.name, ...entry.aliases])));
export const hasSequence = (state) => !fixed.has(state.model || "resnet50");

// How a model is run; for the questions about one step.
export const step = (state) => ({
  model: state.model || "resnet50",
  batch: state.batch,
  seq: hasSequence(state) ? numeric(state.seq) : undefined,
  precision: state.precision,
  mode: state.mode,
});

export const money = (state) => ({
  hours_per_week: numeric(state.hours),
  years: numeric(state.years),
  kwh_price: numeric(state.kwh),
});

export const which = (state) => ({
  ...money(state),
  ...(state.model ? { ...step(state), model: [state.model] } : { task: state.task, batch: state.batch, precision: state.precision }),
  budget: numeric(state.budget),
  have: state.have ? list(state.have) : undefined,
  vendor: state.vendor,
  buy: state.source === "buy" || undefined,
  used: state.source === "used" || undefined,
  rent: state.source === "rent" || undefined,
});
