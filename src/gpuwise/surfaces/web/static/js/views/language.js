// Text from a language model, for the view of one model: tokens per second first, then what each user waits for.

import { titleOf } from "../case.js";
import { colour, logTicks, narrow, uncrowded } from "../charts.js";
import { titleOfEngine } from "../fields.js";
import * as f from "../format.js";
import { facts, num } from "../ui.js";

const engineOf = (told) => titleOfEngine(told.engine);
const users = (count) => (count === 1 ? "1 user" : `${count} users`);

// The cache is counted among the activations; the bar of the memory has a piece for each.
export const withCacheApart = (result) => ({ ...result, memory: { ...result.memory, activation_bytes: result.memory.activation_bytes - result.memory.kv_cache_bytes } });

export function textSaid({ answer, result, gpu, fits }) {
  const told = result.generation;
  const name = f.several(result.gpu_count, result.gpu);
  const how = `${told.weights} weights in ${engineOf(told)}`;
  if (!fits) return `${titleOf(answer.model)} does not fit on ${f.the(name)} with ${how}: it needs ${f.gib(result.memory.total_bytes)}${result.gpu_count > 1 ? " on each GPU" : ""}, but ${engineOf(told)} can use ${f.gib(gpu.usable_memory_bytes)}.`;
  const each = told.users > 1 ? ` (${f.number(told.tokens_per_s_per_user)} for each of ${users(told.users)})` : "";
  const placed = told.offloaded_fraction ? `${f.percent(told.offloaded_fraction)} of the layers run on the CPU, because they do not all fit` : `The model fits: ${f.gib(result.memory.total_bytes)} of ${f.gib(gpu.usable_memory_bytes)} usable${result.gpu_count > 1 ? " on each GPU" : ""}, with room for ${f.plural(told.users_fit, "request")} at once`;
  return `${f.the(name, true)} ${result.gpu_count > 1 ? "generate" : "generates"} ${f.number(told.tokens_per_s)} tokens per second with ${titleOf(answer.model)}${each}. The first token arrives after ${f.seconds(told.time_to_first_token_s)}. ${placed}.`;
}

// With what it runs and for whom, and which part of it does not run on the GPU.
export function textLead({ result: { generation: told } }) {
  const away = told.offloaded_fraction ? ` ${f.percent(told.offloaded_fraction)} of the layers run on the CPU, because they do not all fit.` : "";
  return `With ${told.weights} weights in ${engineOf(told)}, for ${users(told.users)}.${away}`;
}

export function textFigures({ answer, result, gpu, fits }) {
  const told = result.generation;
  const own = { ...answer, assumptions: result.assumptions };
  const how = `${told.weights} in ${engineOf(told)}`;
  const rent = (answer.rents ?? [])[0];
  const needs = ["memory", num(f.gib(result.memory.total_bytes), { title: "Memory", formula: `${f.gib(result.memory.total_bytes)} needed, ${f.gib(gpu.usable_memory_bytes)} usable`, answer: own }), `${fits ? "of" : "does not fit in"} ${f.gib(gpu.usable_memory_bytes)} usable${result.gpu_count > 1 ? " each" : ""}`, result.memory.total_bytes / gpu.usable_memory_bytes];
  const short = result.memory.total_bytes - gpu.usable_memory_bytes;
  if (!fits) return facts([needs, ["too large by", num(f.gib(short), { title: "Too large by", formula: `${f.gib(result.memory.total_bytes)} needed − ${f.gib(gpu.usable_memory_bytes)} usable`, answer: own }), `${f.number(result.memory.total_bytes / gpu.usable_memory_bytes, 2)} times what ${engineOf(told)} can use`], ["weights and engine", num(told.weights, { title: "Weights and engine", formula: how, answer: own }), engineOf(told)]]);
  return [
    facts([
      ["tokens per second", num(f.number(told.tokens_per_s), { title: "Tokens per second", formula: `${users(told.users)} ÷ ${f.seconds(told.time_per_token_s)} per token`, rows: [["range", `${f.number(told.tokens_per_s_low)} to ${f.number(told.tokens_per_s_high)}${result.range_basis === "assumed" ? " (assumed)" : ", which contains 80% of measurements"}`], ["weights and engine", how]], answer: own }), `${f.number(told.tokens_per_s_low)} – ${f.number(told.tokens_per_s_high)}${told.users > 1 ? ` for all ${users(told.users)}` : ""}`],
      ["first token", num(f.seconds(told.time_to_first_token_s), { title: "Time to the first token", formula: `a prompt of ${told.prompt} tokens at ${f.number(told.prompt_tokens_per_s)} tokens per second`, rows: [["range", `${f.seconds(told.time_to_first_token_low_s)} to ${f.seconds(told.time_to_first_token_high_s)}`], ["full response", f.seconds(told.request_s)]], answer: own }), `prompt of ${told.prompt}`],
      needs,
      ["requests that fit", num(f.number(told.users_fit, 6), { title: "Requests that fit", formula: `requests of ${told.prompt + told.output} tokens at the same time`, answer: own })],
    ]),
    facts([
      told.users > 1 && [`each of ${users(told.users)}`, num(`${f.number(told.tokens_per_s_per_user)} tokens/s`, { title: "Tokens per second for each user", formula: `1 ÷ ${f.seconds(told.time_per_token_s)} per token`, rows: [["time per step", f.seconds(result.step_s)], ["between two tokens", "one step, plus a share of the prompt processing for other users"]], answer: own }), ""],
      ["limited by", num(f.bound(result.bound), { title: "Limited by", formula: Object.entries(result.bound_fractions).map(([name, share]) => `${f.bound(name)}: ${f.percent(share, 1)}`).join("\n"), answer: own }), how],
      rent && ["per million tokens", num(f.cents(rent.price.whole_usd_per_million), { title: "Cost per million tokens", formula: `$${rent.price.output_usd_per_million.toPrecision(3)} per million output tokens and $${rent.price.input_usd_per_million.toPrecision(3)} per million input tokens, with ${told.prompt} input tokens for every ${told.output} output tokens`, rows: [["rent", `${rent.cloud}: $${rent.usd_per_gpu_hour.toFixed(2)} per hour, ${rent.dated}`]], answer: own }), `rented, ${rent.cloud}`],
    ], "minor"),
  ];
}

// The point of the curve at which the memory is full, on the way from one number of users to the next.
function between(one, next, count) {
  if (!next || !(count > one.users && count < next.users)) return null;
  const share = Math.log(count / one.users) / Math.log(next.users / one.users);
  const at = (key) => one[key] * (next[key] / one[key]) ** share;
  return { users: count, time_per_token_s: at("time_per_token_s"), tokens_per_s: at("tokens_per_s"), time_to_first_token_s: at("time_to_first_token_s") };
}

export function curveChart({ curve, result }) {
  const told = curve.results.map((entry) => ({ ...entry.generation, fits: entry.fits && !entry.generation.offloaded_fraction }));
  const last = told.findLastIndex((one) => one.fits);
  const times = told.map((one) => one.time_per_token_s * 1e3);
  const [wide, tall, most] = [narrow() ? 300 : Math.min(950, innerWidth - 480), 240, Math.max(...told.map((one) => one.tokens_per_s))];
  const place = (one) => [(wide * Math.log(one.time_per_token_s * 1e3 / Math.min(...times))) / Math.log(Math.max(...times) / Math.min(...times) || 2), tall * (1 - one.tokens_per_s / most)];
  const names = uncrowded([...told].reverse().map((one) => String(one.users)), [...told].reverse().map(place)).reverse(); // many users are rarer than few
  const trace = (points, more) => ({ type: "scatter", mode: "lines+markers+text", x: points.map((one) => one.time_per_token_s * 1e3), y: points.map((one) => one.tokens_per_s), text: points.map((one) => names[told.indexOf(one)]), textposition: "top left", cliponaxis: false, hovertext: points.map((one) => `${users(one.users)}: ${f.number(one.tokens_per_s)} tokens/s, ${f.seconds(one.time_per_token_s)} per token, first token after ${f.seconds(one.time_to_first_token_s)}`), hoverinfo: "text", ...more });
  const mine = result.generation;
  const edge = last >= 0 && between(told[last], told[last + 1], mine.users_fit);
  const [inside, outside] = [told.slice(0, last + 1), told.slice(last + 1)];
  const marked = (one, text, more) => ({ x: Math.log10(one.time_per_token_s * 1e3), y: one.tokens_per_s, text, showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: colour("muted"), standoff: 9, ax: 60, ay: 26, xanchor: "left", font: { size: 13, color: colour("ink") }, bgcolor: colour("panel"), ...more });
  return {
    traces: [
      trace([...(edge ? [edge] : inside.slice(-1)), ...outside], { name: "does not fit", line: { color: colour("grey"), dash: "dot" } }),
      trace(edge ? [...inside, edge] : inside, { name: "fits", line: { color: colour("c0"), width: 2.5 } }),
      { type: "scatter", mode: "markers", name: "your users", x: [mine.time_per_token_s * 1e3], y: [mine.tokens_per_s], marker: { size: 15, color: "rgba(0,0,0,0)", line: { width: 2, color: colour("ink") } }, hoverinfo: "skip" },
    ],
    annotations: narrow() ? [] : [marked(mine, mine.users === 1 ? "your user" : `your ${mine.users} users`), edge && marked(edge, `at most ${mine.users_fit} fit`)].filter(Boolean),
    showlegend: narrow(),
    x: { title: "milliseconds per token (labels show users)", ...logTicks(times, (value) => f.number(value)) },
    y: { title: "tokens per second, all users", rangemode: "tozero" },
  };
}
