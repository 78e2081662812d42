// Numbers as people read them. Everything the server sends is SI.

const trim = (value, digits = 3) => {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(digits)));
};

export const number = (value, digits = 3) => (value == null ? "–" : trim(value, digits));

const UNITS = [[86400, "days", 2], [3600, "h", 2], [60, "min", 1], [1, "s", 1], [1e-3, "ms", 1], [1e-6, "µs", 1]];
const unitOf = (value) => UNITS.find(([size, , least]) => value >= size * least) ?? UNITS.at(-1);

// Minutes up to two hours, hours up to two days: as in the sentences of the server. In a column, all have the unit of one of them.
export function seconds(value, like = value) {
  if (value == null) return "–";
  const [size, name] = unitOf(like);
  return `${trim(value / size)} ${name}`;
}

// A range in one unit: that of the value beside it, or else of its larger end.
export function between(low, high, like = high) {
  if (low == null || high == null) return "–";
  const [size, name] = unitOf(like);
  return `${trim(low / size)} – ${trim(high / size)} ${name}`;
}

export function usd(value, digits = 0) {
  if (value == null) return "–";
  const shown = value !== 0 && Math.abs(value) < 10 && digits === 0 ? 2 : digits;
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: shown, maximumFractionDigits: shown })}`;
}

// A cost of a run, which may be below a cent.
export const cents = (value) => (value == null ? "–" : usd(value, value >= 0.1 ? 2 : 3));

export const gib = (bytes) => (bytes == null ? "–" : Math.abs(bytes) < 2 ** 30 ? `${trim(bytes / 2 ** 20)} MiB` : `${trim(bytes / 2 ** 30)} GiB`);
export const percent = (fraction, digits = 0) => (fraction == null ? "–" : `${(100 * fraction).toFixed(digits)}%`.replace(/^-(0(?:\.0+)?%)$/, "$1").replace("-", "−"));
export const signed = (fraction, digits = 0) => `${fraction > 0 ? "+" : ""}${percent(fraction, digits)}`;
export const watts = (value) => (value == null ? "–" : `${trim(value)} W`);
export const ratio = (value) => (value == null ? "–" : value.toFixed(2));
export const times = (value) => (value == null ? "–" : `${ratio(value)} times`);

export function si(value, unit) {
  if (value == null) return "–";
  const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const [size, prefix] = steps.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return `${trim(value / size)} ${prefix}${unit}`;
}

export const days = (value, like = value) => (value == null ? "never" : like > 730 ? `${trim(value / 365.25, 2)} years` : `${trim(value)} days`);
export const plural = (count, noun) => `${trim(Number(count))} ${noun}${Number(count) === 1 ? "" : "s"}`;
// "Oct 2022", as everywhere on the page.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
export const month = (date) => (date ? `${MONTHS[Number(date.slice(5, 7)) - 1] ?? ""} ${date.slice(0, 4)}`.trim() : "–");

export const day = (date) => `${Number(date.slice(8, 10))} ${month(date)}`;

// An architecture as its maker writes it: "Ampere (GA100)", "RDNA 3.5", "Apple M4".
const OWN_NAMES = { rdna35: "RDNA 3.5", vega20: "Vega 20", terascale: "TeraScale", terascale3: "TeraScale 3", "turing-16": "Turing (GTX 16)", "intel-gen": "Intel Gen" };
export function architecture(name) {
  const [first, ...rest] = name.split("-");
  const series = /^(rdna|cdna|gcn)(\d)$/.exec(name);
  if (OWN_NAMES[name]) return OWN_NAMES[name];
  if (series) return `${series[1].toUpperCase()} ${series[2]}`;
  if (first === "tpu") return `TPU ${rest.join(" ")}`;
  const more = rest.map((part) => (/\d|^rtx$/.test(part) ? part.toUpperCase().replace(/(\d)X$/, "$1x") : capital(part))).join(" ");
  return first === "apple" ? `Apple ${more}` : `${capital(first)}${more && (/\d/.test(more) ? ` (${more})` : ` ${more}`)}`;
}

// What limits a step, in words that cannot be mistaken: memory is its bandwidth here, not its size.
const BOUNDS = { memory: "memory bandwidth", launch: "kernel launches", input: "data loading", copy: "copies to the GPU" };
export const bound = (name) => BOUNDS[name] ?? name;
export const words = (name) => name.replaceAll("_", " ");
export const several = (count, name) => (count > 1 ? `${count}x ${name}` : name);
// A GPU with its article, as in running text; a name with a count ("2x RTX 3090") has none.
export const the = (name, first = false) => (/^\d+\s*x\s/i.test(name) ? name : `${first ? "The" : "the"} ${name}`);
export const capital = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
export const sentence = (text) => `${capital(text)}.`;
