// How to record a trace, for each profiler whose files can be dropped.

import { fill, h } from "./ui.js";

const WAYS = [
  ["PyTorch", "Skip the first steps, which include start-up work, and record the next few. Drop trace.json.gz.",
    `from torch.profiler import profile, schedule

with profile(schedule=schedule(wait=5, warmup=2, active=6), record_shapes=True,
             on_trace_ready=lambda p: p.export_chrome_trace("trace.json.gz")) as prof:
    for step, batch in enumerate(loader):
        train_step(batch)      # your own step
        prof.step()
        if step == 14:
            break`],
  ["Keras", "With the TensorFlow or JAX backend, TensorBoard’s callback records the batches you name. Drop the .xplane.pb file in logs/plugins/profile/.",
    `trace = keras.callbacks.TensorBoard("logs", profile_batch=(10, 15))
model.fit(data, epochs=1, callbacks=[trace])`],
  ["JAX", "Wait for the result before you stop the trace. Drop the .xplane.pb file in logs/plugins/profile/.",
    `import jax

for step in range(20):
    if step == 10:
        jax.profiler.start_trace("logs")
    with jax.profiler.StepTraceAnnotation("train", step_num=step):
        state = train_step(state, next(batches))
jax.block_until_ready(state)
jax.profiler.stop_trace()`],
  ["Nsight Systems", "For any framework. Drop run.sqlite.",
    `nsys profile --trace=cuda,nvtx,osrt --delay=30 --duration=10 -o run python train.py
nsys export --type=sqlite run.nsys-rep`],
  ["Several GPUs", "Let every process write its own file, and drop all the files at once.",
    `rank = torch.distributed.get_rank()
on_trace_ready=lambda p: p.export_chrome_trace(f"trace-{rank}.json.gz")`],
];

export function recording() {
  const shown = h("div", { class: "record" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Profilers" });
  const open = ([name, note, code]) => {
    fill(tabs, WAYS.map((way) => h("button", { type: "button", class: "plain", "aria-pressed": String(way[0] === name), onclick: () => open(way) }, way[0])));
    const copy = h("button", { type: "button", class: "plain", onclick: () => navigator.clipboard?.writeText(code).then(() => { copy.textContent = "Copied"; }, () => {}) }, "Copy");
    fill(shown, h("p", { class: "note" }, note), h("pre", { tabindex: "0", "aria-label": `How to record with ${name}` }, code), h("div", { class: "actions" }, copy));
  };
  open(WAYS[0]);
  return h("details", { class: "fold" }, h("summary", {}, "How to record a trace"), h("div", { class: "record" }, tabs, shown));
}
