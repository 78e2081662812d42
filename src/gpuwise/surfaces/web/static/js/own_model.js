// The user's own model as the model of the case: drop a config.json, a GGUF file (only its beginning is sent), or a workload file
// that `gpuwise capture` wrote. Nothing in it is run, and the server forgets it when it stops.
//
// How to use it:
//   import { dropZone, known, recall } from "./own_model.js";
//   root.append(dropZone((found) => set({ model: found.model, task: "" })));   // the component; found is the description below
//   await recall(state.model);           // once before the first question: a link may name a handle (`own:…`); false: it is gone
//   known(state.model)                   // the description of a handle, or null: {model, file, kind, title, parameters, mode, notes}
//                                        //   kind "language": asks for text (weights, engine, users …), never for a training step
//                                        //   kind "workload": a step; its precision, optimizer and mode are fixed, sizes says
//                                        //   which of batch and seq may be changed
// The handle is a model like any other in predict, fit, compare, which, cost, sweep and plan. A refusal (status 400) that says the
// server no longer has the model asks to drop the file again.

import { Refused } from "./api.js";
import { fill, h, notice } from "./ui.js";

const SENT_BYTES = 24 * 2 ** 20; // what the server reads; the header of any GGUF file is shorter
const CAPTURE = "gpuwise capture my_model.py:Net -o model.json.gz\ngpuwise capture config.json -o model.json.gz";
const described = new Map();

export const isOwn = (model) => model.startsWith("own:");
export const known = (model) => described.get(model) ?? null;

async function told(response) {
  const found = await response.json().catch(() => ({ error: `the server responded with status ${response.status}` }));
  if (!response.ok) throw new Refused(response.status, found);
  described.set(found.model, found);
  return found;
}

export async function send(file) {
  const query = new URLSearchParams({ name: file.name.slice(-200) });
  return told(await fetch(`/api/own?${query}`, { method: "POST", body: file.slice(0, SENT_BYTES) }));
}

// Whether the model can be asked about; a handle is looked up once.
export async function recall(model) {
  if (!isOwn(model) || described.has(model)) return true;
  return told(await fetch(`/api/own?${new URLSearchParams({ model })}`)).then(() => true, () => false);
}

export function dropZone(onfound) {
  const status = h("div", { role: "status", "aria-live": "polite" });
  const input = h("input", { type: "file", accept: ".json,.gguf,.gz", class: "hidden", id: "own-file", "aria-label": "Model file", tabindex: "-1", onchange: () => input.files.length && take(input.files[0]) });
  const take = async (file) => {
    fill(status, h("p", { class: "note" }, `Reading ${file.name} …`));
    try {
      const found = await send(file);
      fill(status, h("p", { class: "note" }, `Using ${found.title} from ${found.file}.`));
      onfound(found);
    } catch (error) {
      fill(status, notice(error));
      code.open ||= error.hint.includes("gpuwise capture"); // the lines that help are there
    }
    input.value = "";
  };
  const box = h("div", {
    class: "drop", id: "own-drop",
    ondragover: (event) => { event.preventDefault(); box.classList.add("over"); },
    ondragleave: () => box.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); box.classList.remove("over"); if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]); },
  },
    h("p", {}, "Drop your model’s config.json, GGUF file or gpuwise workload file."),
    input, h("button", { type: "button", class: "plain", onclick: () => input.click() }, "Choose a file"),
    h("p", { class: "note" }, "The file stays on this machine and is only read."));
  const code = h("details", { class: "fold" }, h("summary", {}, "My model is Python code, or I want to train it"),
    h("p", { class: "note" }, "Run one of these on a machine with PyTorch, then drop the file that it writes. The page itself never runs your code."),
    h("pre", { class: "formula", tabindex: "0" }, CAPTURE));
  return h("div", { class: "own-model" }, box, status, code);
}
