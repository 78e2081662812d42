// Pinned answers: named, compared side by side, and exported to a file.

import { save, toCsv, toMarkdown, toPicture } from "../export.js";
import * as f from "../format.js";
import { inside, whole } from "../links.js";
import { MOST_BESIDE, pins, remove, rename } from "../pins.js";
import { card, fill, fold, h, head, left, row, table } from "../ui.js";

export const name = () => (pins().length ? `Pinned (${pins().length})` : "Pinned");
export const title = "Answers side by side";

const apart = new Set(); // by id: not shown next to the others

export function mount(root) {
  const [list, beside, tools] = [1, 2, 3].map(() => h("div", {}));
  const laid = card("Side by side", tools, beside);
  laid.classList.add("beside");
  const none = h("section", { class: "card empty" }, h("h2", {}, "Nothing is pinned yet"), h("p", { class: "note" }, "Pin an answer to keep it in this browser and compare it with others."), h("p", { class: "ways" }, inside("Find a GPU", { view: "choose" }), inside("Compare two cards", { view: "compare" })));
  const kept = card("Pinned answers", list);
  root.append(none, kept, laid);
  const show = () => {
    const all = pins();
    fill(list, all.map((pin) => entry(pin, show)));
    none.hidden = all.length > 0;
    kept.hidden = !all.length;
    const chosen = all.filter((pin) => !apart.has(pin.id)).slice(-MOST_BESIDE);
    fill(tools, chosen.length > 0 && exports(chosen));
    laid.hidden = !all.length;
    fill(beside, chosen.length > 1 ? sideBySide(chosen) : h("p", { class: "note" }, "Pin two to six answers to see them side by side."));
    dispatchEvent(new Event("pinned"));
  };
  return async () => show();
}

function entry(pin, show) {
  const field = h("input", { type: "text", "aria-label": `Name of ${pin.name}`, maxlength: 120, onchange: () => { rename(pin.id, field.value.trim() || pin.name); show(); } });
  field.value = pin.name;
  const tick = h("input", { type: "checkbox", onchange: () => { if (tick.checked) apart.delete(pin.id); else apart.add(pin.id); show(); } });
  tick.checked = !apart.has(pin.id);
  const link = new URL(pin.link, location.href).href;
  const copied = h("span", { class: "note", role: "status" });
  const copy = () => navigator.clipboard.writeText(link).then(() => (copied.textContent = "Copied."), () => (copied.textContent = link));
  return h("div", { class: "pin" },
    h("label", { class: "check" }, tick, h("span", { class: "hidden" }, `Show ${pin.name} side by side`)), field,
    h("span", { class: "note" }, [pin.purpose, pin.at && `pinned ${f.day(pin.at)}`].filter(Boolean).join(" · ")),
    h("span", { class: "pin-tools" }, copied, whole("Open", pin.link), h("button", { type: "button", class: "quiet", "aria-label": `Copy the link of ${pin.name}`, onclick: copy }, "Copy link"),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${pin.name}`, onclick: () => { remove(pin.id); show(); } }, "Remove")));
}

const figureOf = (pin, figure) => pin.figures.find(([name]) => name === figure);
const count = (chosen, figure) => chosen.filter((pin) => figureOf(pin, figure)).length;
// The names of all figures, those that most of the answers have first.
const figuresOf = (chosen) => [...new Set(chosen.flatMap((pin) => pin.figures.map(([figure]) => figure)))].sort((one, other) => count(chosen, other) - count(chosen, one));
const purposeOf = (pin) => (pin.purpose ?? "").replace(/^For /, "") || "–";

// What an answer is about: a view, and the work of its case. Budgets, cards and hours are what answers are compared by.
const askedBy = (pin) => { const said = new URLSearchParams(pin.link); return [pin.view, said.get("model") ?? "", said.get("task") ?? ""].join("|"); };
const isMixed = (chosen) => new Set(chosen.map(askedBy)).size > 1;

// As texts, for a file: one column per answer, and a row for every figure that any of them has.
export function rowsOf(chosen) {
  const cell = (pin, figure) => figureOf(pin, figure)?.slice(1).filter(Boolean).join(" · ") || "–";
  return [["", ...chosen.map((pin) => pin.name)], ["for", ...chosen.map(purposeOf)], ...figuresOf(chosen).map((figure) => [figure, ...chosen.map((pin) => cell(pin, figure))]), ["verdict", ...chosen.map((pin) => pin.verdict)]];
}

// Which of the answers cost least, if all of them have a price; the upfront cost does not mean the same in every view.
function least(chosen, figure) {
  if (figure === "upfront" && new Set(chosen.map((pin) => pin.view)).size > 1) return [];
  const prices = chosen.map((pin) => /^\$([\d,.]+)$/.exec(figureOf(pin, figure)?.[1] ?? "")?.[1].replaceAll(",", "")).map(Number);
  return prices.every(Number.isFinite) && new Set(prices).size > 1 ? chosen.filter((_, place) => prices[place] === Math.min(...prices)) : [];
}

// What the answers have in common, side by side; what appears in only one of them is folded below.
function sideBySide(chosen) {
  const figures = figuresOf(chosen);
  const shared = figures.filter((figure) => count(chosen, figure) > 1);
  const single = figures.filter((figure) => count(chosen, figure) === 1);
  const line = (figure) => {
    const best = least(chosen, figure);
    return row([figure, ...chosen.map((pin) => { const [, value, more] = figureOf(pin, figure) ?? [figure, "–", ""]; return left(h("strong", { class: best.includes(pin) ? "yes" : null }, value), more && h("div", { class: "small" }, more)); })]);
  };
  const mixed = isMixed(chosen);
  return [
    mixed && h("p", { class: "note", id: "mixed" }, "These answers are for different questions. Compare their figures with care."),
    table(["", ...chosen.map((pin) => head(pin.name))], [row(["for", ...chosen.map((pin) => left(mixed && pin.question && h("div", {}, pin.question), h("div", { class: "small" }, purposeOf(pin))))]), ...shared.map(line), row(["verdict", ...chosen.map((pin) => left(h("div", { class: "small" }, pin.verdict)))])], { caption: "Pinned answers side by side" }),
    single.length > 0 && fold("Figures that appear in only one answer", h("dl", { class: "lone" }, chosen.map((pin) => pin.figures.filter(([figure]) => single.includes(figure)).map(([figure, value, more]) => [h("dt", {}, `${pin.name}: ${figure}`), h("dd", {}, [value, more].filter(Boolean).join(" · "))])))),
  ];
}

function exports(chosen) {
  const rows = () => rowsOf(chosen);
  const button = (text, act) => h("button", { type: "button", class: "plain", "aria-label": `Export as ${text}`, onclick: act }, text);
  return h("div", { class: "chips exports" }, h("span", { class: "label" }, "Export"),
    button("CSV", () => save("gpuwise.csv", new Blob([toCsv(rows())], { type: "text/csv" }))),
    button("Markdown", () => save("gpuwise.md", new Blob([toMarkdown(rows())], { type: "text/markdown" }))),
    button("PNG", async () => save("gpuwise.png", await toPicture(rows()))));
}
