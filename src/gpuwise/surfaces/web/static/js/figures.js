// At which price another card is the better buy, for any view: draw(node, flipSays(entries), () => flipChart(entries)).

import { colour, plain } from "./charts.js";
import * as f from "./format.js";

// `entries`: {name, usd, low_usd, high_usd, flip_usd, picked}. A bar is the range of prices seen, the dot the price used, and the
// diamond the price at which this card and the picked one would cost the same for the same work.
export function flipChart(entries) {
  const known = entries.filter((entry) => entry.usd != null);
  const names = known.map((entry) => plain(entry.name)).reverse();
  const at = (key) => [...known].reverse().map((entry) => entry[key] ?? null);
  const spread = [...known].reverse().flatMap((entry, place) => (entry.low_usd != null && entry.high_usd > entry.low_usd ? [entry.low_usd, entry.high_usd, null].map((usd) => [usd, names[place]]) : []));
  const line = (entry) => (entry.flip_usd == null ? "" : entry.picked ? `<br>another card is the better buy above ${f.usd(entry.flip_usd)}` : `<br>the better buy below ${f.usd(entry.flip_usd)}`);
  const traces = [
    { type: "scatter", mode: "lines", name: "prices seen", x: spread.map(([usd]) => usd), y: spread.map(([, name]) => name), line: { color: colour("grey"), width: 9 }, hoverinfo: "skip" },
    { type: "scatter", mode: "markers", name: "price used", x: at("usd"), y: names, marker: { color: [...known].reverse().map((entry) => colour(entry.picked ? "accent" : "c6")), size: 12 }, hovertext: [...known].reverse().map((entry) => `${plain(entry.name)}: ${f.usd(entry.usd)}${line(entry)}`), hoverinfo: "text" },
    { type: "scatter", mode: "markers", name: "price at which the order changes", x: at("flip_usd"), y: names, marker: { color: colour("c1"), symbol: "diamond", size: 12 }, hovertext: [...known].reverse().map((entry) => `${plain(entry.name)}${line(entry)}`), hoverinfo: "text" },
  ];
  return { traces, hovermode: "closest", height: 130 + 38 * known.length, x: { title: "price, $", rangemode: "tozero", tickprefix: "$", tickformat: ",.0f" }, y: { type: "category" } };
}

export const flipSays = (entries) => entries.filter((entry) => entry.flip_usd != null).map((entry) => `${entry.name} costs ${f.usd(entry.usd)}; the order changes at ${f.usd(entry.flip_usd)}`).join("; ") || "Prices";
