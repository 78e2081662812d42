// One step from left to right, with a time axis: it zooms with the buttons, the keys, the wheel (with Ctrl) and a double click, and it
// is dragged sideways. Only what is in sight is drawn. Above it, the whole step shows which part of it that is.

import * as f from "./format.js";
import { h } from "./ui.js";

const SPACE = "http" + "://www.w3.org/2000/svg"; // the name of a vocabulary, not an address
const [BAR, AXIS, LEAST_PX, MOST_ZOOM] = [20, 24, 1.2, 2000];
const [GUTTER, WIDE, MINI] = [150, 640, 6]; // a wide timeline names its lanes at their left, and a narrow one above them

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
  const frameWidth = () => frame.clientWidth || 800;
  const gutter = () => (frameWidth() >= WIDE ? GUTTER : 0);
  const svg = made("svg", { width: "100%", role: "img", "aria-label": `One step of ${f.seconds(step)}: ${line.lanes.map((lane) => `${lane.name}, ${lane.spans.length} spans`).join("; ")}` });
  const told = h("p", { class: "note small", id: "span-told" }, `${matchMedia("(hover: none)").matches ? "Tap" : "Hover over"} a span to see what it is.`);
  const frame = h("div", { class: "timeline", tabindex: "0", role: "group", "aria-label": "Timeline: press plus or minus to zoom, the arrow keys to move, and 0 to show the whole step" }, svg);
  const width = () => frameWidth() - gutter();
  const whole = overview(line, gutter, width, (middle) => show(middle * step - (to - from) / 2, to - from));
  const draw = () => {
    const [wide, scale, edge] = [width(), width() / (to - from), gutter()];
    const [lane_, head] = edge ? [BAR + 8, 4] : [BAR + 20, 17];
    const high = AXIS + lane_ * line.lanes.length + 4;
    svg.setAttribute("height", high);
    const nodes = [];
    const [factor, unit] = clock(step);
    const power = 10 ** Math.floor(Math.log10((90 / wide) * (to - from)));
    const gap = power * [1, 2, 5, 10].find((times) => times * power * scale >= 90 || times === 10);
    const digits = Math.max(0, -Math.floor(Math.log10(gap * factor) + 1e-9));
    for (let tick = Math.ceil(from / gap - 1e-9) * gap; tick <= to + 1e-12; tick += gap) {
      const x = (tick - from) * scale;
      nodes.push(made("line", { x1: edge + x, x2: edge + x, y1: AXIS - 6, y2: high, class: "grid" }), made("text", { x: edge + Math.min(x + 3, wide - 44), y: AXIS - 9, class: "tick" }, `${(tick * factor).toFixed(digits)} ${unit}`));
    }
    line.lanes.forEach((lane, place) => {
      const top = AXIS + place * lane_;
      nodes.push(made("text", { x: edge ? 8 : 2, y: top + (edge ? head + 14 : 13), class: "lane-name" }, lane.name));
      let drawnTo = -1;
      for (const span of lane.spans) {
        const [left, right] = [(span.start_s - from) * scale, (span.start_s + span.seconds - from) * scale];
        if (right < 0 || left > wide || (right <= drawnTo && right - left < LEAST_PX)) continue;
        drawnTo = Math.max(drawnTo, left + LEAST_PX);
        const shown = [Math.max(left, 0), Math.min(right, wide)];
        const bar = made("rect", { x: edge + shown[0], width: Math.max(LEAST_PX, shown[1] - shown[0]), y: top + head, height: BAR, rx: 2, class: "span" });
        bar.style.fill = colourOf(span.kind);
        bar.append(made("title", {}, `${span.name} (${f.words(span.kind)}): ${f.seconds(span.seconds)} at ${f.seconds(span.start_s)}`));
        bar.addEventListener("pointerenter", () => { told.textContent = `${lane.name}: ${span.name} (${f.words(span.kind)}), ${f.seconds(span.seconds)}, from ${f.seconds(span.start_s)} to ${f.seconds(span.start_s + span.seconds)}, ${f.percent(span.seconds / step, 1)} of the step`; });
        nodes.push(bar);
        const room = Math.floor((shown[1] - shown[0] - 8) / 6.6);
        const words = lane.name.endsWith("idle") ? f.words(span.kind) : short(span.name);
        if (room >= 4) nodes.push(made("text", { x: edge + shown[0] + 4, y: top + head + 14, class: "span-name" }, words.length > room ? `${words.slice(0, room - 1)}…` : words));
      }
    });
    svg.replaceChildren(...nodes);
    whole.draw(from / step, to / step);
    range.textContent = `${from ? f.seconds(from) : 0} to ${f.seconds(to)}`;
  };
  const show = (left, length) => {
    const size = Math.min(step, Math.max(step / MOST_ZOOM, length));
    from = Math.min(step - size, Math.max(0, left));
    to = from + size;
    draw();
  };
  const zoom = (factor, at = 0.5) => { const size = (to - from) / factor; show(from + (to - from - Math.min(step, size)) * at, size); };
  const place = (event) => (event.clientX - frame.getBoundingClientRect().left - gutter()) / width();
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
    h("div", { class: "zoom" }, button("Zoom in", "+", keys["+"]), button("Zoom out", "−", keys["-"]), button("Show the whole step", "Whole step", keys[0]), range, h("span", { class: "note small roomy hint" }, "Zoom with Ctrl and the mouse wheel, or with a double-click; drag to move.")),
    h("div", {}, whole.node, frame), told,
    h("ul", { class: "key" }, [...kinds].filter(([, seconds]) => seconds > step / 100).sort(([, one], [, other]) => other - one).map(([kind, seconds]) => h("li", {}, h("i", { style: { background: colourOf(kind) } }), `${f.words(kind)} ${f.seconds(seconds)}`))),
    h("p", { class: "note" }, `One median step (${f.seconds(step)}). Where the ${line.lanes.some((lane) => lane.name.startsWith("GPU")) ? "GPU" : "CPU"} is idle, the lane below says why.${line.joined ? ` ${line.joined.toLocaleString("en-US")} short spans are drawn together with their neighbours.` : ""}`));
}

// All lanes of the whole step as thin stripes; what the timeline shows of it is framed, and a click or a drag moves the frame there.
function overview(line, gutter, width, move) {
  const high = MINI * line.lanes.length + 6;
  const svg = made("svg", { width: "100%", height: high });
  const node = h("div", { class: "overview", "aria-hidden": "true" }, svg);
  const at = (event) => move((event.clientX - node.getBoundingClientRect().left - gutter()) / width());
  node.addEventListener("pointerdown", at);
  node.addEventListener("pointermove", (event) => event.buttons && at(event));
  const draw = (from, to) => {
    const [edge, wide] = [gutter(), width()];
    const stripes = line.lanes.flatMap((lane, place) => {
      let drawnTo = -1;
      return lane.spans.flatMap((span) => {
        const [left, right] = [span.start_s, span.start_s + span.seconds].map((seconds) => (seconds / line.step_s) * wide);
        if (right <= drawnTo) return [];
        drawnTo = Math.max(right, left + 1);
        const bar = made("rect", { x: edge + left, width: Math.max(1, right - left), y: 3 + MINI * place, height: MINI - 1 });
        bar.style.fill = colourOf(span.kind);
        return [bar];
      });
    });
    const shade = (left, right) => made("rect", { x: edge + left * wide, width: Math.max(0, (right - left) * wide), y: 0, height: high, class: "unseen" });
    svg.replaceChildren(...stripes, shade(0, from), shade(to, 1), made("rect", { x: edge + from * wide + 1, width: Math.max(4, (to - from) * wide - 2), y: 1, height: high - 2, rx: 3, class: "seen" }));
  };
  return { node, draw };
}
