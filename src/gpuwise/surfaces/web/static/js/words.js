// Sentences of the server for readers of a page: what tells them to type a command is left out, and what they can do here remains.

const COMMAND = /`[^`]*(?:--|gpuwise(?! capture)|nvidia-smi)[^`]*`|(?:^|\s)--[a-z]/; // capturing one’s own code is the one thing that the page cannot do itself

const without = (text, between) => text.split(between).filter((part) => !COMMAND.test(part)).join(between);

export function said(text) {
  if (!text) return "";
  const kept = text.replace(/ \([^()]*`[^()`]*(?:--|gpuwise(?! capture))[^()]*\)/g, ""); // a remark between brackets
  const sentences = kept.split(/(?<=[.!?])\s+(?=[A-Z])/).map((sentence) => {
    if (!COMMAND.test(sentence)) return sentence;
    const rest = without(sentence.replace(/[.]$/, ""), "; ");
    return rest && `${rest}${/[.]$/.test(sentence) ? "." : ""}`;
  });
  return sentences.filter(Boolean).join(" ").replaceAll("`", "").trim();
}

// The same for a list, without the lines of which nothing remains.
export const lines = (texts) => texts.map(said).filter(Boolean);

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// "Sep 2026, 2 months old", so that nobody takes an old price for today's.
export function aged(dated, now = new Date()) {
  const [year, month] = String(dated ?? "").split("-").map(Number);
  if (!year || !month) return "";
  const months = Math.max(0, 12 * (now.getFullYear() - year) + now.getMonth() + 1 - month);
  const age = months === 0 ? "this month" : months === 1 ? "1 month old" : months < 24 ? `${months} months old` : `${Math.floor(months / 12)} years old`;
  return `${MONTHS[month - 1]} ${year}, ${age}`;
}

const an = (name) => (/^(?:[aeio]|RTX|RX|A\d|H\d|L\d|MI)/i.test(name) && !/^(?:quadro|tesla|titan)/i.test(name) ? `an ${name}` : `a ${name}`);
export const one = (name, count) => (count > 1 ? `${count}x ${name}` : an(name));
