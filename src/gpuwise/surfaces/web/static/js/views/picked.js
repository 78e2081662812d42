// The option that a recommendation names, and how it is named.

import * as f from "../format.js";
import { one } from "../words.js";

// The option that the verdict names.
export const pickOf = (answer) => answer.options.find((option) => option.recommended) ?? null;

const VERBS = { "buy new": "Buy", "buy used": "Buy", rent: "Rent", keep: "Keep your" };

export function headline(option, answer) {
  const name = f.several(option.gpu_count, option.gpu);
  if (option.source === "keep") return `Keep your ${name}`;
  if (option.beside) return `Buy ${option.source === "buy used" ? `a used ${option.gpu}` : one(option.gpu, 1)} to use with your ${option.beside}`;
  const used = option.source !== "buy used" ? one(option.gpu, option.gpu_count) : option.gpu_count > 1 ? `${name}, used` : `a used ${name}`;
  const more = option.added_gpus ? ` (${option.added_gpus} more)` : "";
  return answer.general ? `Best value: ${used}` : `${VERBS[option.source]} ${used}${more}`;
}

// The power limit, in watts, that fixes everything that fails in a typical machine; null where something else fails, or nothing does.
export function powerLimit(option) {
  const failed = option.build.filter((line) => line.verdict === "fail");
  return failed.length && failed.every((line) => line.power_limit_watts) ? Math.min(...failed.map((line) => line.power_limit_watts)) : null;
}
