// One step from left to right, with a time axis: it zooms with the buttons, the keys, the wheel (with Ctrl) and a double click, and it
// is dragged sideways. Only what is in sight is drawn.

import * as f from "./format.js";
import { h } from "./ui.js";

const SPACE = "http" + "://www.w3.org/2000/svg"; // the name of a vocabulary, not an address
const [LANE, BAR, AXIS, LEAST_PX, MOST_ZOOM] = [40, 20, 24, 1.2, 2000];

// One colour for one kind, in the bar and in the timeline.
// Work of the GPU has the hues of the charts; the host, and waiting for it, are of one muted family; waiting for data stands out.
const COLOURS = {
  conv: "c0", norm: "c1", matmul: "c2", attention: "c3", elementwise: "c4", communication: "c5", copy: "c6", embedding: "c7", optimizer: "c8",
  input_wait: "warn", loading: "warn", host_launch: "h1", launching: "h1", synchronisation: "h2", waiting: "h2", host_work: "h3", compiling: "h4", allocation: "h5", graph_wait: "h6",
};
export const colourOf = (kind) => (kind in COLOURS ? `var(--${COLOURS[kind]})` : "var(--grey)");
// Kernels are named by what they do: not by their return type, nor by where their code stands.
const short = (name) => name.replace(/^void /, "").replace(/\(anonymous namespace\)::/g, "").replace(/^(?:[a-z_]+::)+(?=\w)/i, "") || name;

function made(name, values, text) {
  const node = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(values)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

const clock = (step) => (step >= 1 ? [1, "s"] : step >= 1e-4 ? [1e3, "ms"] : [1e6, "µs"]);

export function timeline(line) {
  const step = line.step_s;
  let [from, to] = [0, step];
  const high = AXIS + LANE * line.lanes.length;
  const svg = made("svg", { width: "100%", height: high, role: "img", "aria-label": `One step of ${f.seconds(step)}: ${line.lanes.map((lane) => `${lane.name}, ${lane.spans.length} spans`).join("; ")}` });
  const told = h("p", { class: "note small", id: "span-told" }, "Hover over a span to see what it is.");
  const frame = h("div", { class: "timeline", tabindex: "0", role: "group", "aria-label": "Timeline: press plus or minus to zoom, the arrow keys to move, and 0 to show the whole step" }, svg);
  const width = () => frame.clientWidth || 800;
  const draw = () => {
    const [wide, scale] = [width(), width() / (to - from)];
    const nodes = [];
    const [factor, unit] = clock(step);
    const power = 10 ** Math.floor(Math.log10((90 / wide) * (to - from)));
    const gap = power * [1, 2, 5, 10].find((times) => times * power * scale >= 90 || times === 10);
    const digits = Math.max(0, -Math.floor(Math.log10(gap * factor) + 1e-9));
    for (let tick = Math.ceil(from / gap - 1e-9) * gap; tick <= to + 1e-12; tick += gap) {
      const x = (tick - from) * scale;
      nodes.push(made("line", { x1: x, x2: x, y1: AXIS - 6, y2: high, class: "grid" }), made("text", { x: Math.min(x + 3, wide - 44), y: AXIS - 9, class: "tick" }, `${(tick * factor).toFixed(digits)} ${unit}`));
    }
    line.lanes.forEach((lane, place) => {
      const top = AXIS + place * LANE;
      nodes.push(made("text", { x: 2, y: top + 13, class: "lane-name" }, lane.name));
      let drawnTo = -1;
      for (const span of lane.spans) {
        const [left, right] = [(span.start_s - from) * scale, (span.start_s + span.seconds - from) * scale];
        if (right < 0 || left > wide || (right <= drawnTo && right - left < LEAST_PX)) continue;
        drawnTo = Math.max(drawnTo, left + LEAST_PX);
        const shown = [Math.max(left, 0), Math.min(right, wide)];
        const bar = made("rect", { x: shown[0], width: Math.max(LEAST_PX, shown[1] - shown[0]), y: top + 17, height: BAR, rx: 2, class: "span" });
        bar.style.fill = colourOf(span.kind);
        bar.append(made("title", {}, `${span.name} (${f.words(span.kind)}): ${f.seconds(span.seconds)} at ${f.seconds(span.start_s)}`));
        bar.addEventListener("pointerenter", () => { told.textContent = `${lane.name}: ${span.name} (${f.words(span.kind)}), ${f.seconds(span.seconds)}, from ${f.seconds(span.start_s)} to ${f.seconds(span.start_s + span.seconds)}, ${f.percent(span.seconds / step, 1)} of the step`; });
        nodes.push(bar);
        const room = Math.floor((shown[1] - shown[0] - 8) / 6.6);
        const words = lane.name.endsWith("idle") ? f.words(span.kind) : short(span.name);
        if (room >= 4) nodes.push(made("text", { x: shown[0] + 4, y: top + 17 + 14, class: "span-name" }, words.length > room ? `${words.slice(0, room - 1)}…` : words));
      }
    });
    svg.replaceChildren(...nodes);
    range.textContent = `${from ? f.seconds(from) : 0} to ${f.seconds(to)}`;
  };
  const show = (left, length) => {
    const size = Math.min(step, Math.max(step / MOST_ZOOM, length));
    from = Math.min(step - size, Math.max(0, left));
    to = from + size;
    draw();
  };
  const zoom = (factor, at = 0.5) => { const size = (to - from) / factor; show(from + (to - from - Math.min(step, size)) * at, size); };
  const place = (event) => (event.clientX - frame.getBoundingClientRect().left) / width();
  const keys = { "+": () => zoom(2), "=": () => zoom(2), w: () => zoom(2), "-": () => zoom(0.5), s: () => zoom(0.5), 0: () => show(0, step), ArrowLeft: () => show(from - (to - from) / 4, to - from), a: () => show(from - (to - from) / 4, to - from), ArrowRight: () => show(from + (to - from) / 4, to - from), d: () => show(from + (to - from) / 4, to - from) };
  frame.addEventListener("keydown", (event) => { if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); } });
  frame.addEventListener("dblclick", (event) => zoom(2, place(event)));
  frame.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(1.2 ** (-event.deltaY / 50), place(event)); } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); show(from + ((to - from) * event.deltaX) / width(), to - from); } }, { passive: false });
  let grip = null;
  frame.addEventListener("pointerdown", (event) => { grip = [event.clientX, from]; });
  frame.addEventListener("pointermove", (event) => { if (grip && event.buttons) show(grip[1] - ((event.clientX - grip[0]) / width()) * (to - from), to - from); });
  addEventListener("pointerup", () => { grip = null; });
  const range = h("span", { class: "note small" });
  const button = (label, text, act) => h("button", { type: "button", class: "plain", "aria-label": label, onclick: act }, text);
  new ResizeObserver(draw).observe(frame);
  const kinds = new Map();
  for (const lane of line.lanes) for (const span of lane.spans) kinds.set(span.kind, (kinds.get(span.kind) ?? 0) + span.seconds);
  return h("div", { class: "stackable" },
    h("div", { class: "zoom" }, button("Zoom in", "+", keys["+"]), button("Zoom out", "−", keys["-"]), button("Show the whole step", "Whole step", keys[0]), range, h("span", { class: "note small roomy" }, "Zoom with Ctrl and the mouse wheel, or with a double-click; drag to move.")),
    frame, told,
    h("ul", { class: "key" }, [...kinds].filter(([, seconds]) => seconds > step / 100).sort(([, one], [, other]) => other - one).map(([kind, seconds]) => h("li", {}, h("i", { style: { background: colourOf(kind) } }), `${f.words(kind)} ${f.seconds(seconds)}`))),
    h("p", { class: "note" }, `One median step (${f.seconds(step)}). Where the ${line.lanes.some((lane) => lane.name.startsWith("GPU")) ? "GPU" : "CPU"} is idle, the lane below says why.${line.joined ? ` ${line.joined.toLocaleString("en-US")} short spans are drawn together with their neighbours.` : ""}`));
}
