// Tables of many rows: sorted by any column, narrowed by facets and words. Order and facets are part of the address.

import { get, set } from "./state.js";
import { fill, h, row, table } from "./ui.js";

const NEAR = 0.03; // "24 gb" finds 23.99 GiB

// Words of a search: "24 gb" and "24gb" are an amount of memory, everything else is part of a name.
export function finder(find) {
  const sizes = [];
  const rest = find.toLowerCase().replace(/(\d+(?:\.\d+)?)\s*gi?b\b/g, (_, size) => (sizes.push(Number(size)), " "));
  const words = rest.split(/\s+/).filter(Boolean);
  return (text, memoryBytes) => words.every((word) => text.toLowerCase().includes(word)) && sizes.every((size) => Math.abs(memoryBytes / 2 ** 30 / size - 1) < NEAR);
}

// Buttons of which one is pressed.
export function facet(label, key, options, now = get()[key]) {
  return h("div", { class: "facet", role: "group", "aria-label": label }, h("span", { class: "label" }, label),
    options.map(([value, title]) => h("button", { type: "button", "aria-pressed": String(now === value), "aria-label": `${label}: ${title}`, onclick: () => set({ [key]: value }) }, title)));
}

const order = (columns, usual) => {
  const said = get().sort || usual;
  const key = said.replace(/^-/, "");
  return columns.some((column) => column.key === key) ? [key, said.startsWith("-")] : [usual.replace(/^-/, ""), usual.startsWith("-")];
};

function sorted(columns, entries, usual) {
  const [key, falling] = order(columns, usual);
  const { value } = columns.find((column) => column.key === key);
  const unknown = (given) => given == null || Number.isNaN(given);
  return [...entries].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (unknown(a) || unknown(b)) return unknown(a) - unknown(b); // what is unknown comes last, whichever way
    return (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b) * (falling ? -1 : 1);
  });
}

function header(column, columns, usual) {
  const [key, falling] = order(columns, usual);
  const here = key === column.key;
  const next = here ? (falling ? column.key : `-${column.key}`) : column.falls ? `-${column.key}` : column.key;
  return h("th", { scope: "col", class: [column.left && "left", column.wide && "roomy"].filter(Boolean).join(" ") || null, "aria-sort": here ? (falling ? "descending" : "ascending") : null },
    h("button", { type: "button", class: "sorter", onclick: () => set({ sort: next }) }, column.title, h("i", { "aria-hidden": "true" }, here ? (falling ? "↓" : "↑") : "")));
}

// `columns`: key, title, value (for the order), cell; `left`, `falls` (largest first), `wide` (left out on a phone).
export function grid(columns, entries, { caption, usual, first = 15, style = () => ({}) }) {
  const found = sorted(columns, entries, usual);
  const box = h("div", { class: "grid" });
  const show = (count) => {
    const rows = found.slice(0, count).map((entry) => row(columns.map((column, place) =>
      h(place ? "td" : "th", { scope: place ? null : "row", class: [column.left && "left", column.wide && "roomy"].filter(Boolean).join(" ") || null }, column.cell(entry))), style(entry)));
    fill(box, table(columns.map((column) => header(column, columns, usual)), rows, { caption }),
      found.length > count && h("button", { type: "button", class: "plain", onclick: () => show(found.length) }, `Show all ${found.length.toLocaleString("en-US")}`));
  };
  show(first);
  return box;
}
