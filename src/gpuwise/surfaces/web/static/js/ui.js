// Small pieces of the page. Text is always set as text, never as markup: names come from files and people.

import { capital } from "./format.js";
import { lines, plainly, said } from "./words.js";

export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, entry] of Object.entries(value)) node.style.setProperty(key, entry);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  return node;
}

// The keyboard focus moves to the new child with the same name, or else to the one in the same place.
export const fill = (node, ...children) => {
  const all = () => [...node.querySelectorAll("a, button, input, select")];
  const held = node.contains(document.activeElement) ? document.activeElement : null;
  const place = all().indexOf(held);
  node.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false && child !== ""));
  if (place >= 0) (all().find((other) => called(other) === called(held)) ?? all()[Math.min(place, all().length - 1)])?.focus({ preventScroll: true });
  return node;
};

const called = (node) => node.id || node.name || node.ariaLabel || node.textContent;

export const card = (title, ...children) => h("section", { class: "card" }, title && h("h2", {}, title), ...children);
// A card of inputs, which stays when its answer is awaited or refused.
export const asking = (title, ...children) => h("section", { class: "card ask" }, title && h("h2", {}, title), ...children);

// ---------------------------------------------------------------- a number that can be opened

export function num(text, told) {
  return h("button", { type: "button", class: "num", "aria-haspopup": "dialog", onclick: () => open(told.value ?? text, told) }, text);
}

// Addresses in a text as links; everything else stays text.
const linked = (text) => text.split(/(https:\/\/[^\s;,)]+)/).map((part, place) => (place % 2 ? h("a", { href: part, target: "_blank", rel: "noreferrer" }, part.slice("https".length + 3)) : part));

export function open(value, { title, formula, rows = [], answer = {}, assumptions }) {
  const dialog = document.getElementById("opened");
  const list = (pairs) => h("dl", {}, pairs.map(([name, entry]) => [h("dt", {}, name), h("dd", {}, linked(String(entry)))]));
  const assumed = assumptions ?? answer.assumptions ?? [];
  fill(
    dialog,
    h("header", {},
      h("h2", { id: "opened-title" }, `${title}: ${value}`),
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close")),
    formula && h("p", { class: "formula" }, formula),
    rows.length > 0 && list(rows),
    assumed.length > 0 && [
      h("h3", {}, "Assumptions"),
      list(assumed.map((entry) => [entry.name.replaceAll("_", " "), `${plainly(entry.value)} (${entry.basis}${said(entry.effect) ? `: ${said(entry.effect)}` : ""})`])),
    ],
    answer.data_date && h("p", { class: "note" }, `Data from ${answer.data_date}.`),
  );
  dialog.showModal();
}

// A share is drawn as a bar under its figure. `kind` "minor": small, for what is worth knowing and does not decide.
export const facts = (entries, kind = "") =>
  entries.some(Boolean) && h("dl", { class: `facts ${kind}` }, entries.filter(Boolean).map(([name, value, small, share]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value, share > 0 && bar(share), small && [" ", h("small", {}, small)]))));

// ---------------------------------------------------------------- tables and bars

// With `cards`, rows become small cards on a phone, each cell under the name of its column.
export function table(heads, rows, { caption, cards = false } = {}) {
  const cells = heads.map((head) => (typeof head === "string" ? h("th", { scope: "col" }, head || unsaid("name")) : head));
  const made = h("table", { class: cards ? "cards" : null },
    caption && h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, cells)),
    h("tbody", {}, rows));
  if (cards) withRoles(made, cells.map((cell) => (cell.querySelector(".hidden") ? "" : cell.textContent)));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption ?? "Table" }, made);
}

// Laid out as cards, a table would lose its roles, so they are set explicitly.
function withRoles(made, names) {
  made.setAttribute("role", "table");
  for (const group of made.tBodies) group.setAttribute("role", "rowgroup");
  made.tHead.setAttribute("role", "rowgroup");
  for (const line of made.rows) {
    line.setAttribute("role", "row");
    [...line.cells].forEach((cell, place) => {
      cell.setAttribute("role", cell.scope === "col" ? "columnheader" : cell.scope === "row" ? "rowheader" : "cell");
      if (names[place] && cell.scope !== "col") cell.dataset.label = names[place];
    });
  }
}

export const row = (cells, props) =>
  h("tr", props, cells.map((cell, place) => {
    if (cell instanceof HTMLTableCellElement) return cell;
    return place === 0 ? h("th", { scope: "row" }, cell) : h("td", {}, cell);
  }));

export const left = (...content) => h("td", { class: "wide-text" }, content);
export const brief = (...content) => h("td", { class: "left nowrap" }, content);
export const head = (text) => h("th", { scope: "col", class: "left" }, text || unsaid("remarks"));
// A column without a visible title still has one for screen readers.
const unsaid = (text) => h("span", { class: "hidden" }, text);

export const bar = (fraction) =>
  h("div", { class: fraction > 1 ? "bar over" : "bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * Math.min(1, Math.max(0, fraction))}%` } }));

export function stack(pieces, whole, { limit, label }) {
  const shown = pieces.filter((piece) => piece.value > 0);
  const beyond = shown.reduce((sum, piece) => sum + piece.value, 0) - limit;
  return h("div", { class: "stack", role: "img", "aria-label": label },
    shown.map((piece) => h("span", { title: `${piece.name}: ${piece.text}`, style: { width: `${(100 * piece.value) / whole}%`, background: piece.colour } })),
    limit != null && beyond > 0 && h("div", { class: "beyond", style: { left: `${(100 * limit) / whole}%`, width: `${(100 * beyond) / whole}%` } }),
    limit != null && h("div", { class: "limit", style: { left: `${Math.min(100, (100 * limit) / whole)}%` } }));
}

export const key = (pieces) =>
  h("ul", { class: "key" }, pieces.filter((piece) => piece.value > 0).map((piece) =>
    h("li", {}, h("i", { style: { background: piece.colour } }), `${piece.name} `, piece.shown ?? piece.text)));

export const mark = (verdict) => h("span", { class: `mark ${["pass", "tight", "fail"].includes(verdict) ? verdict : "unknown"}` }, verdict);

export const points = (texts) => h("ul", { class: "points" }, lines(texts).map((line) => h("li", {}, line)));

export const notice = (error) =>
  h("div", { class: "notice", role: "alert" },
    h("p", {}, capital(said(error.message) || error.message)),
    error.looked && h("p", { class: "hint" }, `Looked in ${error.looked}.`),
    said(error.hint) && h("p", { class: "hint" }, capital(said(error.hint))));

export const fold = (title, ...children) => h("details", { class: "fold" }, h("summary", {}, title), ...children);

export const assumptions = (answer) =>
  fold(`Assumptions (${answer.assumptions.length})`,
    table(["", head("value"), head("basis"), head("effect")],
      answer.assumptions.map((entry) => row([entry.name.replaceAll("_", " "), left(plainly(entry.value)), left(entry.basis), left(said(entry.effect))])),
      { caption: "Assumptions" }),
    h("p", { class: "note" }, `Data from ${answer.data_date}.`));
