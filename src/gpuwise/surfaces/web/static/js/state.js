// What the user has chosen. It is stored in the URL, so that a link shows the same view again; defaults are not written.

export const DEFAULTS = {
  view: "choose", model: "", task: "", budget: "", have: "", hours: "", kwh: "", years: "", region: "", batch: "", seq: "", precision: "",
  mode: "", method: "", optimizer: "", checkpoint: "", accumulate: "", samples: "", epochs: "", weights: "", engine: "", users: "", prompt: "", output: "",
  vendor: "", source: "", most: "", prices: "", find: "", memory: "", maker: "", kind: "", segment: "", fits: "", sort: "",
  gpu: "RTX 3090", count: "1", cards: "RTX 3090,RTX 4090", used: "", new: "", price: "", machine: "", resale: "", commit: "",
  parts: "2x RTX 3090", psu: "", standard: "", slots: "", limit: "",
  lanes: "", board: "", cpu: "", cpuwatts: "", ram: "", cooler: "", riser: "", chipset: "", nvme: "", outlet: "", room: "",
  node: "H100 SXM 80GB", nodes: "2", per: "8", network: "",
};

const TOGETHER_MS = 1500; // changes of one control within this time are one step back

let current = read();
let loaded = true; // the state came from the address: writing it adds no step
let last = { keys: "", at: 0, held: false };
const listeners = new Set();

function read() {
  const given = new URLSearchParams(location.search);
  return Object.fromEntries(Object.entries(DEFAULTS).map(([key, usual]) => [key, given.get(key) ?? usual]));
}

function query(state) {
  const said = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) if (value !== DEFAULTS[key]) said.set(key, value);
  const text = said.toString();
  return text ? `?${text}` : location.pathname;
}

export const link = (changes = {}) => query({ ...current, ...changes });
// A new case, without anything that was chosen before.
export const fresh = (changes) => query({ ...DEFAULTS, ...changes });

// Written when an answer is shown, not at every place of a slider: browsers allow few changes of the address a second.
export function write() {
  const address = link();
  if (address !== (location.search || location.pathname)) history[loaded || last.held ? "replaceState" : "pushState"](null, "", address);
  loaded = false;
}

export const get = () => current;
export const watching = () => listeners.size;

export function watch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// `quiet`: nobody did this, so the browser's Back does not stop here. `flow`: a slider or a word on its way, one step in a row.
export function set(changes, { quiet = false, flow = false } = {}) {
  const next = { ...current };
  for (const [key, value] of Object.entries(changes)) next[key] = String(value ?? "");
  const keys = Object.keys(next).filter((key) => next[key] !== current[key]).join();
  if (!keys) return;
  const now = performance.now();
  last = { keys, at: now, held: quiet || (flow && keys === last.keys && now - last.at < TOGETHER_MS) };
  current = next;
  for (const listener of listeners) listener(current);
}

// Everything that is not given returns to its default: for an example, or a pinned case.
export const open = (address) => {
  const given = new URLSearchParams(address.startsWith("?") ? address : "");
  set(Object.fromEntries(Object.entries(DEFAULTS).map(([key, usual]) => [key, given.get(key) ?? usual])));
};

addEventListener("popstate", () => {
  if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur(); // a field in use keeps its own text
  current = read();
  loaded = true;
  last = { keys: "", at: 0, held: false };
  for (const listener of listeners) listener(current);
});
