// The option that a recommendation names, and how it is named.

import * as f from "../format.js";
import { one } from "../words.js";

// The option that the verdict names. Where it names one for each of several budgets, the one with the least cost per run.
export function pickOf(answer) {
  const chosen = answer.options.find((option) => option.reasons.includes("the verdict"));
  if (chosen) return chosen;
  const cheapest = [...answer.options].sort((a, b) => a.usd_per_run - b.usd_per_run)[0];
  return cheapest && answer.verdict.startsWith(`The best value is ${one(cheapest.gpu, cheapest.gpu_count)}`) ? cheapest : null;
}

const VERBS = { "buy new": "Buy", "buy used": "Buy", rent: "Rent", keep: "Keep your" };

export function headline(option, answer) {
  const name = f.several(option.gpu_count, option.gpu);
  if (option.source === "keep") return `Keep your ${name}`;
  if (option.beside) return `Buy ${option.source === "buy used" ? `a used ${option.gpu}` : one(option.gpu, 1)} to use with your ${option.beside}`;
  const used = option.source === "buy used" ? `${option.gpu_count > 1 ? "" : "a "}used ${name}` : one(option.gpu, option.gpu_count);
  const more = option.added_gpus ? ` (${option.added_gpus} more)` : "";
  return answer.verdict.startsWith("The best value") ? `Best value: ${used}` : `${VERBS[option.source]} ${used}${more}`;
}

// The power limit, in watts, that fixes everything that fails in a typical machine; null where something else fails, or nothing does.
export function powerLimit(option) {
  const failed = option.build.filter((line) => line.verdict === "fail").map((line) => /limit (?:each|the) GPU to ([\d,]+) W/.exec(line.remedy ?? ""));
  return failed.length && failed.every(Boolean) ? Math.min(...failed.map((found) => Number(found[1].replaceAll(",", "")))) : null;
}
