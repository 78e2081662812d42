// The unit in which a recommendation gives speed: tokens per second for text, seconds per image, otherwise time per run or epoch.

import { draws, writes } from "./case.js";
import * as f from "./format.js";
import { pickOf } from "./views/picked.js";

// How many images a run makes, as the answer assumes it.
function imagesOf(answer) {
  const run = answer.assumptions.find((entry) => entry.code === "run")?.value ?? "";
  const found = /^([\d,]+) images/.exec(run);
  return found ? Number(found[1].replaceAll(",", "")) : null;
}

// What each of several users gets; nothing for one.
const each = (rate, users) => (users > 1 ? `for all ${users} users, ${f.number(rate / users)} each` : "");

// `value` is for sorting, with less first where `rising`; `of` shows an option or an entry, `range` its bounds.
export function speedOf(answer, state) {
  if (writes(state)) {
    const rate = (entry) => entry.tokens_per_s ?? entry.samples_per_s;
    return { title: "speed", rising: false, value: rate, said: (entry) => each(rate(entry), Number(state.users)), of: (entry) => `${f.number(rate(entry))} tokens/s`, range: (entry) => entry.tokens_per_s_low && `${f.number(entry.tokens_per_s_low)} – ${f.number(entry.tokens_per_s_high)}` };
  }
  const images = draws(state) ? imagesOf(answer) : null;
  const scale = images ?? 1;
  const like = (pickOf(answer) ?? answer.options[0] ?? answer.looked_at[0])?.run_s / scale || undefined; // all in the unit of the recommended one
  return {
    title: images ? "time per image" : state.samples ? "time per epoch" : "time per run", rising: true, value: (entry) => entry.run_s / scale,
    of: (entry) => f.seconds(entry.run_s / scale, like),
    said: () => "",
    range: (entry) => entry.run_low_s && f.between(entry.run_low_s / scale, entry.run_high_s / scale, like),
  };
}
