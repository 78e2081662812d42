// Pinned answers: named, laid side by side, and taken along as a file.

import { save, toCsv, toMarkdown, toPicture } from "../export.js";
import { whole } from "../links.js";
import { MOST_BESIDE, pins, remove, rename } from "../pins.js";
import { card, fill, h, head, left, row, table } from "../ui.js";

export const name = () => (pins().length ? `Pinned (${pins().length})` : "Pinned");
export const title = "Answers side by side";

const apart = new Set(); // by id: not laid beside the others

export function mount(root) {
  const [list, beside, tools] = [1, 2, 3].map(() => h("div", {}));
  root.append(card("Pinned answers", list), card("Side by side", tools, beside));
  const show = () => {
    const all = pins();
    fill(list, all.length ? all.map((pin) => entry(pin, show)) : h("p", { class: "note" }, "Nothing is pinned yet. Use “Pin this answer” at the top of a view to keep its answer here, in this browser only."));
    const chosen = all.filter((pin) => !apart.has(pin.id)).slice(-MOST_BESIDE);
    fill(tools, chosen.length > 0 && exports(chosen));
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
    h("span", { class: "note" }, [pin.purpose, `pinned ${pin.at ?? ""}`].filter(Boolean).join(" · ")),
    h("span", { class: "pin-tools" }, copied, whole("Open", pin.link), h("button", { type: "button", class: "quiet", "aria-label": `Copy the link of ${pin.name}`, onclick: copy }, "Copy link"),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${pin.name}`, onclick: () => { remove(pin.id); show(); } }, "Remove")));
}

// One column an answer; a row for every figure that any of them has.
export function rowsOf(chosen) {
  const names = [...new Set(chosen.flatMap((pin) => pin.figures.map(([figure]) => figure)))];
  const cell = (pin, figure) => {
    const found = pin.figures.find(([other]) => other === figure);
    return found ? [found[1], found[2]].filter(Boolean).join(" · ") : "–";
  };
  return [["", ...chosen.map((pin) => pin.name)], ["for", ...chosen.map((pin) => (pin.purpose ?? "").replace(/^For /, "") || "–")], ...names.map((figure) => [figure, ...chosen.map((pin) => cell(pin, figure))]), ["verdict", ...chosen.map((pin) => pin.verdict)]];
}

const sideBySide = (chosen) => {
  const [heads, ...rows] = rowsOf(chosen);
  return table(["", ...heads.slice(1).map((text) => head(text))], rows.map(([first, ...cells]) => row([first, ...cells.map((text) => left(text))])), { caption: "Pinned answers side by side" });
};

function exports(chosen) {
  const rows = () => rowsOf(chosen);
  const button = (text, act) => h("button", { type: "button", class: "plain", onclick: act }, text);
  return h("div", { class: "chips" },
    button("CSV", () => save("gpuwise.csv", new Blob([toCsv(rows())], { type: "text/csv" }))),
    button("Markdown", () => save("gpuwise.md", new Blob([toMarkdown(rows())], { type: "text/markdown" }))),
    button("PNG", async () => save("gpuwise.png", await toPicture(rows()))));
}
