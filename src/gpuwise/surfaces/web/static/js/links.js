// Ways from one view to another that carry the case along.

import { get, link, open, set } from "./state.js";
import { h } from "./ui.js";

// A real link: it opens in a new tab too, and its address can be copied.
function anchor(text, href, act, props = {}) {
  return h("a", {
    href, ...props,
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      document.getElementById("opened").close();
      act();
      document.getElementById("view").focus({ preventScroll: true });
      scrollTo(0, 0);
    },
  }, text);
}

export const inside = (text, changes, props) => anchor(text, link(changes), () => set(changes), props);
export const whole = (text, address, props) => anchor(text, address, () => open(address), props);

// What a card can be asked next; `rival` is what it is compared with.
export function cardChanges(gpu, count = 1, rival = "") {
  const many = count > 1 ? `${count}x ${gpu}` : gpu;
  return {
    model: { view: "model", gpu, count },
    compare: { view: "compare", cards: `${rival || (get().gpu === gpu ? "RTX 4090" : get().gpu)},${gpu}` },
    rent: { view: "rent", gpu, count, price: "", used: "", new: "" },
    build: { view: "build", parts: many },
  };
}

export function cardLinks(gpu, count, rival) {
  const to = cardChanges(gpu, count, rival);
  const names = { model: "Speed and memory", compare: rival ? `Compare with ${rival}` : "Compare", rent: "Buy or rent", build: "Check the build" };
  return h("p", { class: "ways" }, Object.entries(names).filter(([view]) => view !== get().view || get().gpu !== gpu).map(([view, text]) => inside(text, to[view])));
}

// The card that the last recommendation chose: a view that is about one card opens with it, unless the user named another.
let picked = null;
let carried = "";
export const pick = (gpu, count) => (picked = gpu ? { gpu, count: String(count) } : null);

export function carry(view, state, defaults) {
  const own = state.gpu !== defaults.gpu && state.gpu !== carried;
  return picked && !own && (view === "model" || view === "rent" || view === "build") ? { gpu: picked.gpu, count: picked.count, ...(state.parts === defaults.parts ? { parts: picked.count > 1 ? `${picked.count}x ${picked.gpu}` : picked.gpu } : {}) } : {};
}
export const carriedNow = (gpu) => (carried = gpu ?? carried);
