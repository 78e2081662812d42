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
// A build is checked as the recommendation assumed it: with the supply that it needs, and the power limit under which it works.
// Buying is reckoned at the same kind of price, new or used.
const priced = (kind) => ({ price: "", used: kind === "used" ? "1" : "", new: kind === "new" ? "1" : "" });
export function cardChanges(gpu, count = 1, rival = "", limit = "", kind = "") {
  const many = count > 1 ? `${count}x ${gpu}` : gpu;
  return {
    model: { view: "model", gpu, count },
    compare: { view: "compare", cards: `${rival || (get().gpu === gpu ? "RTX 4090" : get().gpu)},${gpu}` },
    rent: { view: "rent", gpu, count, ...priced(kind) },
    build: { view: "build", parts: many, psu: "", standard: "", limit },
  };
}

// A card on which the work does not fit can only be compared: nobody would buy it, rent it or build it in.
export function cardLinks(gpu, count, rival, limit, kind, fits = true) {
  const to = cardChanges(gpu, count, rival, limit, kind);
  const names = { model: "Speed and memory", compare: rival ? `Compare with ${rival}` : "Compare", ...(fits ? { rent: "Buy or rent", build: "Check the build" } : {}) };
  if (limit === null) delete names.build; // rented machines are built by others
  return h("p", { class: "ways" }, Object.entries(names).filter(([view]) => view !== get().view || get().gpu !== gpu).map(([view, text]) => inside(text, to[view])));
}

// The card that the last recommendation chose: a view that is about one card opens with it, unless the user named another.
let picked = null;
let carried = "";
export const pick = (gpu, count, limit = "", kind = "") => (picked = gpu ? { gpu, count: String(count), limit: String(limit), kind } : null);

// GPUs of one kind as machines of the Scale view: eight at most in each, and a power of two.
function machines(gpu, count) {
  const per = 2 ** Math.floor(Math.log2(Math.min(8, Math.max(2, count))));
  return { node: gpu, per: String(per), nodes: String(Math.max(1, 2 ** Math.floor(Math.log2(count / per || 1)))) };
}

export function carry(view, state, defaults) {
  if (view === "scale") {
    const owned = /^(?:(\d+)\s*x\s+)?([^,]+)$/i.exec(state.have);
    if (state.node !== defaults.node) return {};
    if (owned) return machines(owned[2].trim(), Number(owned[1] ?? 1));
    return picked ? machines(picked.gpu, Number(picked.count)) : {};
  }
  const own = state.gpu !== defaults.gpu && state.gpu !== carried;
  return picked && !own && (view === "model" || view === "rent" || view === "build") ? { gpu: picked.gpu, count: picked.count, ...(view === "rent" && !state.price ? priced(picked.kind) : {}), ...(state.parts === defaults.parts ? { parts: picked.count > 1 ? `${picked.count}x ${picked.gpu}` : picked.gpu, limit: picked.limit } : {}) } : {};
}
export const carriedNow = (gpu) => (carried = gpu ?? carried);
