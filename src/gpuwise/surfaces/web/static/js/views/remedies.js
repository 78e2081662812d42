// What would make a model fit, each with its cost in time; a remedy that is part of the case can be applied with a click.

import { ask } from "../api.js";
import * as f from "../format.js";
import { set } from "../state.js";
import { fill, h, head, left, row, table } from "../ui.js";
import { said } from "../words.js";

const EFFECTS = { same: "same result", numerics: "rounding differs slightly", quality: "quality may drop", method: "another training method", task: "another task", hardware: "other hardware" };

// What a remedy changes in the case; none where the page cannot ask for it.
function changes(remedy) {
  const number = (pattern) => pattern.exec(remedy.title)?.[1];
  const found = {
    amp: { precision: "amp" }, bf16: { precision: "bf16" }, sgd: { optimizer: "sgd" }, adafactor: { optimizer: "adafactor" }, "8-bit-optimizer": { optimizer: "adam8bit" },
    lora: { method: "lora", mode: "train" }, qlora: { method: "qlora", mode: "train" }, checkpoint: { checkpoint: "1" },
    accumulate: { accumulate: number(/over (\d+) micro/) }, "shorter-sequence": { seq: number(/of (\d+) tokens/) },
    "bigger-gpu": { gpu: remedy.gpu, count: remedy.gpu_count }, "cpu-layers": { engine: "llama.cpp", weights: "q4_k_m" },
  }[remedy.name] ?? (/^\S+ weights$/.test(remedy.title) ? { weights: remedy.name } : /^split-matrices-/.test(remedy.name) ? { count: remedy.gpu_count } : null);
  return found && Object.values(found).every((value) => value != null) ? found : null;
}

// Checkpointing of some blocks only, which the case cannot ask for.
const partly = (step) => { const [, some, all] = /(\d+) of (?:the )?(\d+) blocks/.exec(step.title) ?? []; return some !== all; };

const together = (steps) => steps.map(changes).reduce((all, one) => (all && one ? { ...all, ...one } : null), {});

const apply = (to, title, kind = "plain") => h("button", { type: "button", class: kind, "aria-label": `Apply: ${title}`, onclick: () => set(to) }, "Apply");

// The combination that fits, if no remedy is enough on its own, then each remedy that is enough on its own.
export async function remedies(node, asked, signal) {
  if (!node.hasChildNodes()) fill(node, h("p", { class: "note", role: "status" }, "Looking for ways to make it fit …"));
  try {
    const answer = await ask("fit", asked, signal);
    const gentle = (remedy) => Object.keys(EFFECTS).indexOf(remedy.effect);
    const enough = answer.remedies.filter((remedy) => remedy.fits).sort((one, other) => gentle(one) - gentle(other) || one.step_s - other.step_s);
    const ladder = answer.ladder ?? [];
    const alone = ladder.some((step) => enough.some((remedy) => remedy.name === step.name)); // then nothing needs to be combined
    const all = ladder.length > 0 && ladder.at(-1).fits ? together(ladder) : null;
    const solid = all && !alone ? null : enough.find(changes); // one button is what to do first
    fill(node,
      ladder.length > 0 && ladder.at(-1).fits && !alone && h("div", { class: "remedy" },
        h("p", {}, h("b", {}, ladder.length > 1 ? "These remedies together make it fit: " : "This fits: "), ladder.map((step) => step.title).join(", then "), ` (${f.gib(ladder.at(-1).memory_bytes)}).`),
        all && apply(all, "the combination", "plain primary"),
        all && ladder.some(partly) && h("p", { class: "note" }, "The page checkpoints every block, which needs less memory and takes somewhat longer than this.")),
      enough.length > 0 && table([head("remedy"), "memory", "time per step", head("effect"), head("")], enough.map((remedy) => row([
        remedy.title, f.gib(remedy.memory_bytes), f.seconds(remedy.step_s, enough[0].step_s), left(EFFECTS[remedy.effect] ?? remedy.effect), left(changes(remedy) ? apply(changes(remedy), remedy.title, remedy === solid ? "plain primary" : "plain") : said(remedy.how)),
      ])), { caption: "Remedies that are enough on their own", cards: true }),
      !enough.length && !(ladder.length && ladder.at(-1).fits) && h("p", { class: "note" }, "None of the known remedies makes it fit on this GPU. It would fit on a GPU with more memory or on several GPUs."));
  } catch (error) {
    if (!signal.aborted) fill(node, h("p", { class: "note" }, error.message));
  }
}
