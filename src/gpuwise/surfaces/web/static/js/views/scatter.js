// Time against money: every priced option as a point, the best for their cost joined by a line.

import { clockTicks, colour, logTicks, plain } from "../charts.js";
import * as f from "../format.js";
import { reason } from "./market.js";
import { named } from "./told.js";

const KINDS = [["buy new", "c0", "circle"], ["buy used", "c1", "diamond"], ["rent", "c2", "square"], ["keep", "c3", "star"]];

// Speed is in the unit of the work: for text more is better, for all else less.
export function scatter(answer, best, speed) {
  const height = (entry) => speed.value(entry);
  const shown = new Set(answer.options.map((option) => `${option.source} ${named(option)}`));
  const drawn = answer.looked_at.filter((entry) => entry.total_usd > 0 && entry.short_of !== "memory" && (entry.gpu_count === 1 || entry.front || shown.has(`${entry.source} ${named(entry)}`)));
  const hover = (entry) => [`<b>${plain(named(entry))}</b> (${entry.source})`, `${speed.of(entry)}${speed.rising ? ` (${speed.title})` : ""}`, `${f.usd(entry.total_usd)} in total`, plain(reason(entry, answer))].filter(Boolean).join("<br>");
  const trace = (entries, more) => ({
    type: "scatter", mode: "markers", x: entries.map((entry) => entry.total_usd), y: entries.map(height),
    hovertext: entries.map(hover), hoverinfo: "text", customdata: entries, ...more,
  });
  const front = drawn.filter((entry) => entry.front).sort((one, other) => one.total_usd - other.total_usd);
  const out = drawn.filter((entry) => entry.short_of);
  const traces = [
    trace(out, { name: "out of reach", marker: { color: colour("grey"), size: 7, symbol: "x-thin-open", line: { width: 1.5 } } }),
    { type: "scatter", mode: "lines", name: "best for their cost", x: front.map((entry) => entry.total_usd), y: front.map(height), line: { color: colour("muted"), width: 1.5, dash: "dot" }, hoverinfo: "skip" },
    ...KINDS.map(([kind, shade, symbol]) => {
      const entries = drawn.filter((entry) => entry.source === kind && !entry.short_of);
      return entries.length && trace(entries, { name: kind, marker: { color: colour(shade), size: 10, symbol, line: { width: 1, color: colour("panel") } } });
    }).filter(Boolean),
  ];
  if (best) traces.push({ type: "scatter", mode: "markers", showlegend: false, hoverinfo: "skip", x: [best.total_usd], y: [height(best)], cliponaxis: false, marker: { size: 18, color: "rgba(0,0,0,0)", line: { width: 2, color: colour("ink") } } });
  const label = best && { x: Math.log10(best.total_usd), y: Math.log10(height(best)), text: `<b>${plain(named(best))}</b>`, showarrow: true, arrowhead: 0, arrowwidth: 1.5, arrowcolor: colour("ink"), ax: -64, ay: speed.rising ? 46 : -46, standoff: 9, bgcolor: colour("panel"), borderpad: 3, font: { color: colour("ink"), size: 13 } };
  return { traces, annotations: label ? [label] : [], x: { title: "total cost in US dollars", ...logTicks(drawn.map((entry) => entry.total_usd), (value) => (value >= 1000 ? `$${value / 1000}k` : `$${value}`)) }, y: speed.rising ? { title: speed.title, ...clockTicks(drawn.map(height)) } : { title: "tokens per second", ...logTicks(drawn.map(height), (value) => f.number(value)) } };
}
