// Answers that were pinned. They are kept in this browser only; what is stored may be damaged or full, and then nothing is lost but pins.

import { inShort } from "./fields.js";
import { get, link } from "./state.js";
import { h } from "./ui.js";

const KEY = "gpuwise.pinned";
const MOST = 60;
export const MOST_BESIDE = 6;

const isText = (value) => typeof value === "string";
const whole = (pin) => pin && isText(pin.id) && isText(pin.name) && isText(pin.link) && pin.link.startsWith("?") && isText(pin.verdict) && Array.isArray(pin.figures)
  && pin.figures.every((figure) => Array.isArray(figure) && figure.length === 3 && figure.every(isText));

export function pins() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter(whole).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

function keep(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list.slice(0, MOST)));
    return true;
  } catch {
    return false; // full, or not allowed
  }
}

export const remove = (id) => keep(pins().filter((pin) => pin.id !== id));
export const rename = (id, name) => keep(pins().map((pin) => (pin.id === id ? { ...pin, name: name.slice(0, 120) } : pin)));

// The sentences of a verdict, whether in one paragraph or in several.
const sentences = (nodes) => [...nodes].map((node) => [...node.querySelectorAll("h2, p, li")].map((part) => part.textContent).filter(Boolean).join(" ") || node.textContent).join(" ");

// What the view shows is what is pinned: its verdict, and the figures under it.
function seen() {
  const view = document.getElementById("view");
  const figures = [...view.querySelectorAll(".facts > div")].map((entry) => {
    const small = entry.querySelector("small");
    const value = entry.querySelector("dd").cloneNode(true);
    value.querySelector("small")?.remove();
    return [entry.querySelector("dt").textContent, value.textContent.trim(), small?.textContent ?? ""];
  });
  const about = view.querySelector(".purpose")?.cloneNode(true);
  about?.querySelectorAll(".roomy").forEach((part) => part.remove()); // the names of a task's models would hide what tells answers apart
  const verdict = sentences(view.querySelectorAll(".verdict"));
  const headline = view.querySelector(".pick")?.textContent ?? verdict.split(/(?<=\.) /)[0];
  return { headline, verdict, question: document.querySelector("h1").textContent, purpose: about?.textContent ?? inShort(get()), figures };
}

function add() {
  const { headline, ...shown } = seen();
  if (!shown.verdict && !shown.figures.length) return "There is no answer to pin yet.";
  const address = link() === location.pathname ? "?" : link();
  const name = headline.slice(0, 80) || get().view;
  const pin = { id: `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}`, name, view: get().view, link: address, ...shown, at: new Date().toISOString().slice(0, 10) };
  const others = pins().filter((other) => other.link !== address);
  return keep([...others, pin]) ? "Pinned." : "This browser does not let the page store anything.";
}

// The two things that can be done with any answer.
export function pinBar() {
  const told = h("span", { class: "note", role: "status" });
  const say = (text) => {
    told.textContent = text;
    setTimeout(() => (told.textContent = ""), 4000);
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say("Link copied.");
    } catch {
      say("Copy the address of this page, which contains the whole case.");
    }
  };
  const pin = () => {
    say(add());
    dispatchEvent(new Event("pinned"));
  };
  return h("div", { class: "pin-bar" }, told,
    h("button", { type: "button", class: "plain", id: "copy-link", onclick: copy }, "Copy", h("span", { class: "roomy" }, " link")),
    h("button", { type: "button", class: "plain", id: "pin", onclick: pin }, "Pin", h("span", { class: "roomy" }, " this answer")));
}
