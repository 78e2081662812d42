// What the user has said. It lives in the URL, so that a link shows the same view again; what is not said is not written.

export const DEFAULTS = {
  view: "choose", model: "resnet50", task: "", budget: "", have: "", hours: "", kwh: "", years: "", batch: "", seq: "", precision: "",
  mode: "", weights: "", engine: "", users: "", prompt: "", output: "", vendor: "", source: "", find: "", memory: "", fits: "", sort: "speed",
  gpu: "RTX 3090", cards: "RTX 3090,RTX 4090", used: "", new: "", price: "", prices: "", machine: "",
  parts: "2x RTX 3090", psu: "1000", standard: "", slots: "", limit: "",
  lanes: "", board: "", cpu: "", cpuwatts: "", ram: "", cooler: "", riser: "", chipset: "", nvme: "", outlet: "", room: "",
  node: "H100 SXM 80GB", nodes: "2", per: "8", network: "",
};

let current = read();
const listeners = new Set();

function read() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(Object.entries(DEFAULTS).map(([key, usual]) => [key, given.get(key) ?? usual]));
}

export function link(changes = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...current, ...changes })) if (value !== DEFAULTS[key]) query.set(key, value);
  const text = query.toString();
  return text ? `?${text}` : location.pathname;
}

// Written when an answer is shown, not at every place of a slider: browsers allow few changes of the address a second.
export const write = () => history.replaceState(null, "", link());

export const get = () => current;
export const watching = () => listeners.size;

export function watch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function set(changes, { step = false } = {}) {
  const next = { ...current };
  for (const [key, value] of Object.entries(changes)) next[key] = String(value ?? "");
  if (Object.keys(next).every((key) => next[key] === current[key])) return;
  current = next;
  if (step) history.pushState(null, "", link());
  for (const listener of listeners) listener(current);
}

addEventListener("popstate", () => {
  current = read();
  for (const listener of listeners) listener(current);
});
