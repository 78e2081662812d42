// Files may be dropped anywhere on the page: a trace opens Why, a model becomes the model of the case. Nothing is lost to the browser,
// which would open the file in place of the page. The boxes made for files take theirs themselves.

import { isOwn, send } from "./own_model.js";
import { get, set } from "./state.js";
import { take } from "./views/why.js";

const TRACES = /\.(sqlite|nsys-rep|qdrep|pb|rpd|pickle|pkl|et|csv|txt)$/i;
const MODEL = /"(?:model_type|architectures|hidden_size|n_embd|dtypes)"\s*:/;
const TRACE = /"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo|rocprofiler-sdk-tool|pg_config|segments|ph)"\s*:/;
const HEAD_BYTES = 1 << 16;
const OF_MODELS = ["choose", "model", "compare", "scale"];

// The beginning of a file as text, unpacked where it is packed.
async function head(file) {
  const start = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  if (start[0] !== 0x1f || start[1] !== 0x8b) return file.slice(0, HEAD_BYTES).text();
  const reader = file.slice(0, HEAD_BYTES).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  let text = "";
  try {
    for (let part = await reader.read(); !part.done && text.length < HEAD_BYTES; part = await reader.read()) text += new TextDecoder().decode(part.value);
  } catch {} // only the beginning was given, so the end is missing
  return text;
}

// By its name where that is enough, otherwise by how it begins; an ambiguous file is handled as the open view would handle it.
export async function isTrace(file) {
  if (/\.gguf$/i.test(file.name)) return false;
  if (TRACES.test(file.name)) return true;
  const text = await head(file);
  if (TRACE.test(text)) return true;
  return MODEL.test(text) ? false : get().view === "why" || text.trimStart().startsWith("[");
}

const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

async function dropped(files, fail) {
  if (files.length > 1 || (await isTrace(files[0]))) {
    take(files);
    set({ view: "why" });
    return;
  }
  try {
    const found = await send(files[0]);
    if (!isOwn(found.model)) return;
    set({ model: found.model, task: "", mode: "", method: "", precision: "", optimizer: "", batch: "", seq: "", ...(OF_MODELS.includes(get().view) ? {} : { view: "model" }) });
  } catch (error) {
    fail(error);
  }
}

export function catchDrops(fail) {
  const over = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => { if (hasFiles(event)) { event.preventDefault(); over(true); } });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) over(false); });
  addEventListener("drop", (event) => {
    over(false);
    if (event.defaultPrevented || !hasFiles(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files.length) dropped([...event.dataTransfer.files], fail);
  });
}
