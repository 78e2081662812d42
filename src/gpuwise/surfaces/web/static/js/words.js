// Sentences of the server for readers of a page: instructions to type a command are left out, and what they can do here remains.

const COMMAND = /`[^`]*(?:--|gpuwise(?! capture)|nvidia-smi)[^`]*`|(?:^|\s)--[a-z]/; // capturing one’s own code is the one thing that the page cannot do itself

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// The names of models as everybody writes them. Aliases that are words of their own ("transformer", "llama") stay words.
let named = null;
export function nameModels(titles) {
  const names = [...titles.keys()].filter((name) => /\d|[_-]/.test(name)).sort((one, other) => other.length - one.length);
  const found = names.length && new RegExp(`(?<![\\w./-])(?:${names.map((name) => name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")).join("|")})(?![\\w/-]|\\.\\d)`, "g");
  named = found ? (text) => text.replace(found, (name) => titles.get(name)) : null;
}

// A month as on the rest of the page: "2026-09" is "Sep 2026".
const months = (text) => text.replace(/\b(20\d\d)-(0[1-9]|1[0-2])\b(?!-)/g, (_, year, month) => `${MONTHS[month - 1]} ${year}`);
// Amounts as on the rest of the page: ages in figures, and memory in GiB (bandwidths are in GB/s, and names have no space).
const NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
const ages = (text) => text.replace(new RegExp(`\\b(${NUMBERS.join("|")})(?= (?:month|year)s? old\\b)`, "gi"), (word) => NUMBERS.indexOf(word.toLowerCase()));
const memory = (text) => text.replace(/(\d) GB\b(?!\/)/g, "$1 GiB");
const limits = (text) => text.replace(/\blimited by memory\b(?! bandwidth)/g, "limited by memory bandwidth"); // not by its size
export const plainly = (text) => limits(memory(ages(months(named ? named(text) : text))));

const without = (text, between) => text.split(between).filter((part) => !COMMAND.test(part)).join(between);

export function said(text) {
  if (!text) return "";
  const kept = text.replace(/ \([^()]*`[^()`]*(?:--|gpuwise(?! capture))[^()]*\)/g, ""); // a remark between brackets
  const sentences = kept.split(/(?<=[.!?])\s+(?=[A-Z])/).map((sentence) => {
    if (!COMMAND.test(sentence)) return sentence;
    const rest = without(sentence.replace(/[.]$/, ""), "; ");
    return rest && `${rest}${/[.]$/.test(sentence) ? "." : ""}`;
  });
  return plainly(sentences.filter(Boolean).join(" ").replaceAll("`", "").trim());
}

// What belongs together: a sentence, and those that go on from it.
export const sentences = (text) => text.split(/(?<=\.) (?=[A-Z])(?!(?:At \d|That |It |They ))/).filter(Boolean);

// The part of a verdict that is about this, such as the reason or the rent; nothing where the verdict has none.
export const part = (answer, about) => said(answer.said.filter((entry) => entry.about === about).map((entry) => entry.text).join(" "));

// The same for a list, without the lines of which nothing remains.
export const lines = (texts) => texts.map(said).filter(Boolean);

// "Sep 2026, 2 months old", so that an old price is not mistaken for today's.
export function aged(dated, now = new Date()) {
  const [year, month] = String(dated ?? "").split("-").map(Number);
  if (!year || !month) return "";
  const months = Math.max(0, 12 * (now.getFullYear() - year) + now.getMonth() + 1 - month);
  const age = months === 0 ? "this month" : months === 1 ? "1 month old" : months < 24 ? `${months} months old` : `${Math.floor(months / 12)} years old`;
  return `${MONTHS[month - 1]} ${year}, ${age}`;
}

const an = (name) => (/^(?:[aeio]|RTX|RX|A\d|H\d|L\d|M[IX\d])/i.test(name) && !/^(?:quadro|tesla|titan)/i.test(name) ? `an ${name}` : `a ${name}`);
export const one = (name, count) => (count > 1 ? `${count}x ${name}` : an(name));
