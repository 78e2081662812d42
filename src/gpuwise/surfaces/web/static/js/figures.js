// At which price another card is the better buy, for any view: draw(node, flipSays(entries), () => flipChart(entries)).

import { colour, narrow, plain } from "./charts.js";
import * as f from "./format.js";

// `entries`: {name, usd, low_usd, high_usd, flip_usd}. A bar is the range of prices seen, the dot the price used, and the diamond
// the price at which this card and the first one offer the same speed for the money.
export function flipChart(entries) {
  const known = entries.filter((entry) => entry.usd != null);
  const names = known.map((entry) => plain(entry.name)).reverse();
  const at = (key) => [...known].reverse().map((entry) => entry[key] ?? null);
  const spread = [...known].reverse().flatMap((entry, place) => (entry.low_usd != null && entry.high_usd > entry.low_usd ? [entry.low_usd, entry.high_usd, null].map((usd) => [usd, names[place]]) : []));
  const line = (entry) => (entry.flip_usd == null ? "" : `<br>the better buy below ${f.usd(entry.flip_usd)}`);
  const traces = [
    { type: "scatter", mode: "lines", name: "prices seen", x: spread.map(([usd]) => usd), y: spread.map(([, name]) => name), line: { color: colour("grey"), width: 9 }, hoverinfo: "skip" },
    { type: "scatter", mode: "markers", name: "price used", x: at("usd"), y: names, marker: { color: colour("c0"), size: 12 }, hovertext: [...known].reverse().map((entry) => `${plain(entry.name)}: ${f.usd(entry.usd)}${line(entry)}`), hoverinfo: "text" },
    { type: "scatter", mode: "markers", name: "price at which the order changes", x: at("flip_usd"), y: names, marker: { color: colour("c1"), symbol: "diamond", size: 12 }, hovertext: [...known].reverse().map((entry) => `${plain(entry.name)}${line(entry)}`), hoverinfo: "text" },
  ];
  const highest = Math.max(...known.flatMap((entry) => [entry.usd, entry.high_usd ?? 0, entry.flip_usd ?? 0]));
  const room = narrow() ? {} : { mode: "markers+text", text: [...known].reverse().map((entry) => (entry.flip_usd == null ? "" : `better buy below ${f.usd(entry.flip_usd)}`)), textposition: "top center", textfont: { size: 12, color: colour("c1") } };
  Object.assign(traces[2], room);
  return { traces, hovermode: "closest", height: 140 + 48 * known.length, x: { title: "price", range: [0, 1.06 * highest], tickprefix: "$", tickformat: ",.0f" }, y: { type: "category", range: [-0.6, known.length - 0.4] } };
}

export const flipSays = (entries) => entries.filter((entry) => entry.flip_usd != null).map((entry) => `${entry.name} costs ${f.usd(entry.usd)}; the order changes at ${f.usd(entry.flip_usd)}`).join("; ") || "Prices";
