// Charts, drawn by Plotly in the page's own colours. Its script comes from this server; without it the tables still say all.

import { seconds } from "./format.js";

let loading;
const drawn = new Map();

export function plotly() {
  loading ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = "/plotly.js";
    script.onload = () => resolve(globalThis.Plotly ?? null);
    script.onerror = () => resolve(null);
    document.head.append(script);
  });
  return loading;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const palette = (place) => `var(--c${place % 8})`;
// Plotly reads a little markup in its texts; names are data.
export const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// Labels of a log axis that can be read alone: 0.2, 0.5, 1, 2 and so on; only powers of ten where there are many.
export function logTicks(values, show) {
  const [low, high] = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const powers = Array.from({ length: 40 }, (_, place) => place - 20);
  const inside = (digits) => powers.flatMap((power) => digits.map((digit) => digit * 10 ** power)).filter((value) => value >= low && value <= high);
  const places = inside([1, 2, 5]).length > 9 ? inside([1]) : inside([1, 2, 5]);
  return { type: "log", tickvals: places, ticktext: places.map(show) };
}

// The same for seconds, round on a clock.
const CLOCK = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 43200, ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => 86400 * days)];
export function clockTicks(values) {
  const [low, high] = [Math.min(...values) / 1.3, Math.max(...values) * 1.3];
  const inside = CLOCK.filter((value) => value >= low && value <= high);
  const places = inside.length > 9 ? inside.filter((_, place) => place % 2 === 0) : inside;
  return { type: "log", tickvals: places, ticktext: places.map((value) => seconds(value)) };
}

const axis = (given) => ({
  gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true,
  ...given, title: { text: given?.title ?? "", font: { size: 13 }, standoff: 8 },
});

// `build` gives {traces, x, y, ...layout} with the colours of the moment, so that dark and light can be changed while it is shown.
export async function draw(node, label, build, onclick) {
  const library = await plotly();
  if (!library) {
    node.textContent = "Charts need the plotly package on the server; the table shows the same values.";
    return;
  }
  const { traces, x, y, ...more } = build();
  const layout = {
    margin: { l: 56, r: 12, t: 12, b: 48 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
    font: { family: "system-ui, sans-serif", size: 13, color: colour("ink") }, hoverlabel: { align: "left" }, dragmode: false,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: innerWidth < 820 ? 11 : 13 } }, ...more, xaxis: axis(x), yaxis: axis(y),
  };
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", label);
  await library.react(node, traces, layout, { displayModeBar: false, responsive: true });
  if (onclick) {
    node.removeAllListeners?.("plotly_click");
    node.on("plotly_click", (event) => event.points[0]?.customdata && onclick(event.points[0].customdata));
  }
  drawn.set(node, [label, build, onclick]);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [node, [label, build, onclick]] of drawn) if (node.isConnected) draw(node, label, build, onclick);
});
