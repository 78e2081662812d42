// Time and money: every option with a price as a point, with a line through the best for their cost.

import { clockTicks, colour, logTicks, narrow, plain, uncrowded } from "../charts.js";
import * as f from "../format.js";
import { reason } from "./market.js";
import { named } from "./told.js";

const KINDS = [["buy new", "c0", "circle"], ["buy used", "c1", "diamond"], ["rent", "c2", "square"], ["keep", "c3", "star"]];

const shownIn = (answer) => new Set(answer.options.map((option) => `${option.source} ${named(option)}`));

const BEYOND = 1.5; // times the most expensive option within reach: what costs more would press the others into a corner

// The entries that are drawn: what can be had, and on a wide screen also what is just out of reach.
function drawnIn(answer) {
  const shown = shownIn(answer);
  const within = answer.looked_at.filter((entry) => !entry.short_of && entry.total_usd > 0).map((entry) => entry.total_usd);
  const most = within.length ? Math.max(...within) * (narrow() ? 0 : BEYOND) : Infinity;
  return answer.looked_at.filter((entry) => !(entry.short_of && entry.total_usd > most) && entry.total_usd > 0 && entry.short_of !== "memory" && (entry.gpu_count === 1 || entry.front || shown.has(`${entry.source} ${named(entry)}`)));
}

// Whether any of them is grey.
export const unreached = (answer) => drawnIn(answer).some((entry) => entry.short_of);
export const reached = (answer) => drawnIn(answer).some((entry) => entry.front);

// Speed is in the unit of the work: for text, more is better; for everything else, less.
export function scatter(answer, best, speed, use) {
  const height = (entry) => speed.value(entry);
  const shown = shownIn(answer);
  const drawn = drawnIn(answer);
  const hover = (entry) => [`<b>${plain(named(entry))}</b> (${entry.source})`, `${speed.of(entry)}${speed.rising ? ` (${speed.title})` : ""}`, `${f.usd(entry.total_usd)} in total${entry.usd_per_run && speed.rising ? `, ${f.cents(entry.usd_per_run)} per run` : ""}`, plain(reason(entry, answer))].filter(Boolean).join("<br>");
  const trace = (entries, more) => ({
    type: "scatter", mode: "markers", x: entries.map((entry) => entry.total_usd), y: entries.map(height),
    hovertext: entries.map(hover), hoverinfo: "text", customdata: entries, ...more,
  });
  const front = drawn.filter((entry) => entry.front).sort((one, other) => one.total_usd - other.total_usd);
  const out = drawn.filter((entry) => entry.short_of);
  const ranges = [spread(drawn.map((entry) => entry.total_usd), narrow() ? 0.06 : 0.14, 0.05), spread(drawn.map(height), ...(speed.rising ? [0.24, 0.08] : [0.08, 0.24]))];
  const traces = [
    out.length > 0 && trace(out, { name: "out of reach", marker: { color: colour("grey"), size: 7, symbol: "x-thin-open", line: { width: 1.5 } } }),
    { type: "scatter", mode: "lines", name: "best for their cost", x: front.map((entry) => entry.total_usd), y: front.map(height), line: { color: colour("muted"), width: 1.5, dash: "dot" }, hoverinfo: "skip" },
    ...KINDS.map(([kind, shade, symbol]) => {
      const entries = drawn.filter((entry) => entry.source === kind && !entry.short_of);
      return entries.length && trace(entries, { name: kind, marker: { color: colour(shade), size: 10, symbol, line: { width: 1, color: colour("panel") } } });
    }),
  ].filter(Boolean);
  if (best) traces.push({ type: "scatter", mode: "markers", showlegend: false, hoverinfo: "skip", x: [best.total_usd], y: [height(best)], cliponaxis: false, marker: { size: 18, color: "rgba(0,0,0,0)", line: { width: 2, color: colour("ink") } } });
  if (!narrow()) traces.push(names([...drawn.filter((entry) => shown.has(`${entry.source} ${named(entry)}`)), ...front.filter((entry) => !shown.has(`${entry.source} ${named(entry)}`))].filter((entry) => !(best && named(entry) === named(best))), drawn, height, speed.rising, best, ranges));
  const label = best && { x: Math.log10(best.total_usd), y: Math.log10(height(best)), text: `<b>${plain(named(best))}</b>`, showarrow: true, arrowhead: 0, arrowwidth: 1.5, arrowcolor: colour("ink"), ax: -64, ay: speed.rising ? 46 : -46, standoff: 9, bgcolor: colour("panel"), borderpad: 3, font: { color: colour("ink"), size: 13 } };
  return { traces, annotations: label ? [label] : [], x: { title: `cost of ${use}, in US dollars`, ...logTicks(drawn.map((entry) => entry.total_usd), (value) => (value >= 1000 ? `$${value / 1000}k` : `$${value}`)), range: ranges[0] }, y: { ...(speed.rising ? { title: speed.title, ...clockTicks(drawn.map(height)) } : { title: "tokens per second", ...logTicks(drawn.map(height), (value) => f.number(value)) }), range: ranges[1] } };
}

// The range of a log axis with room for names at its low end, in Plotly's units.
function spread(values, before, after) {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(Math.log10);
  const span = high - low || 0.5;
  return [low - before * span, high + after * span];
}

// The names of the table's options and of the best for their cost, if a name overlaps no other name or point; the others appear only
// on hover. Beyond the line of the best nothing is drawn, so their names stand there.
function names(entries, all, height, rising, best, [across, up]) {
  const [broad, tall] = [Math.min(860, innerWidth - 570), 370]; // the plot, about
  const share = (value, [low, high]) => (Math.log10(value) - low) / (high - low);
  const place = (entry) => [broad * share(entry.total_usd, across), tall * (1 - share(height(entry), up))];
  const points = all.map(place);
  const side = (entry) => (rising === entry.front ? "bottom" : "top") + (entry.front ? " left" : " right");
  const free = (entry) => {
    const [[x, y], wide] = [place(entry), 22 + 7 * named(entry).length];
    const [left, middle] = [entry.front ? x - wide : x + 3, y + (side(entry).startsWith("bottom") ? 12 : -12)];
    return left > 0 && !points.some((point) => point[0] > left && point[0] < left + wide - 3 && Math.abs(point[1] - middle) < 13);
  };
  const [mine, nudge] = best ? [named(best), rising ? 46 : -46] : ["", 0]; // the label of the recommended one comes first
  const taken = best ? [place(best)[0] - 74 - 4 * mine.length, place(best)[1] + nudge] : [0, 0];
  const texts = uncrowded([mine, ...entries.map((entry) => (free(entry) ? plain(named(entry)) : ""))], [taken, ...entries.map(place)], ["", ...entries.map(side)]).slice(1);
  return { type: "scatter", mode: "text", showlegend: false, hoverinfo: "skip", x: entries.map((entry) => entry.total_usd), y: entries.map(height), text: texts.map((text) => text && `\u00a0\u00a0${text}\u00a0\u00a0`), textposition: entries.map(side), textfont: { size: 12, color: colour("ink") } };
}
