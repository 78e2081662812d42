// Which weights a language model is run with where none were chosen, and what to get with 4-bit weights: one click applies them.

import { ask } from "../api.js";
import { which, writes } from "../case.js";
import * as f from "../format.js";
import { set } from "../state.js";
import { fill, h } from "../ui.js";
import { headline, pickOf } from "./picked.js";

const FOUR_BIT = "q4_k_m";
const PUBLISHED = ["fp16", "bf16"];
const MORE_BITS = [...PUBLISHED, "fp32", "int8", "fp8", "q8_0"];

// The other answer comes a moment later; it does not hold the first one up.
export function quantized(option, answer, state) {
  if (!writes(state) || state.weights || !MORE_BITS.includes(option?.weights)) return null;
  const told = h("span", {}, "With 4-bit weights, it needs far less memory.");
  const usual = PUBLISHED.includes(option.weights) ? ", the format in which most models are published" : "";
  const node = h("div", { class: "offer" },
    h("p", {}, `This is for ${option.weights} weights${usual}. `, told),
    h("button", { type: "button", class: "plain", id: "four-bit", onclick: () => set({ weights: FOUR_BIT }) }, "Use 4-bit weights"));
  ask("which", which({ ...state, weights: FOUR_BIT })).then((other) => {
    const best = pickOf(other);
    const price = best && (best.source === "rent" ? `${f.usd(best.gpu_count * best.price.usd_per_hour, 2)} an hour` : best.source === "keep" ? "" : `${f.usd(best.upfront_usd)} upfront`);
    if (best) fill(told, "With 4-bit weights: ", h("b", {}, headline(best, other)), [price && ` (${price})`, best.tokens_per_s && `, ${f.number(best.tokens_per_s)} tokens/s`].filter(Boolean).join(""), ".");
  }, () => {});
  return node;
}
