// A table of texts as a file: CSV, Markdown, or a picture. Everything is made in the browser.

import { colour } from "./charts.js";

// A spreadsheet treats a cell that begins like a formula as one; an apostrophe keeps it text.
const cell = (text) => {
  const safe = /^[=+@\t\r-]/.test(text) && !/^-?[\d.,]+$/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
export const toCsv = (rows) => `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;

const written = (text) => text.replaceAll("\\", "\\\\").replaceAll("|", "\\|").replaceAll("\n", " ").replaceAll("<", "&lt;");
export function toMarkdown(rows) {
  const line = (row) => `| ${row.map(written).join(" | ")} |`;
  return [line(rows[0]), `|${rows[0].map(() => "---").join("|")}|`, ...rows.slice(1).map(line), ""].join("\n");
}

export function save(name, content) {
  const address = URL.createObjectURL(content);
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function wrapped(pen, text, width) {
  const lines = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    const longer = line ? `${line} ${word}` : word;
    if (line && pen.measureText(longer).width > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return [...lines, line];
}

const [PAD, LINE, FIRST, WIDE] = [12, 19, 150, 250];

// Drawn by hand: a page's own elements cannot be turned into a picture without third-party code.
export function toPicture(rows) {
  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d");
  const font = (place) => `${place === 0 ? "600 " : ""}14px ${getComputedStyle(document.body).fontFamily}`;
  const width = (column) => (column === 0 ? FIRST : WIDE);
  const laid = rows.map((row, place) => {
    pen.font = font(place);
    return row.map((text, column) => wrapped(pen, text, width(column) - 2 * PAD));
  });
  const heights = laid.map((row) => Math.max(...row.map((lines) => lines.length)) * LINE + 2 * PAD);
  const size = [FIRST + WIDE * (rows[0].length - 1), heights.reduce((sum, one) => sum + one, 0)];
  [canvas.width, canvas.height] = size.map((pixels) => 2 * pixels);
  pen.scale(2, 2);
  pen.fillStyle = colour("panel");
  pen.fillRect(0, 0, ...size);
  pen.textBaseline = "top";
  let top = 0;
  laid.forEach((row, place) => {
    let start = 0;
    pen.font = font(place);
    row.forEach((lines, column) => {
      pen.fillStyle = colour(column === 0 ? "muted" : "ink");
      lines.forEach((line, number) => pen.fillText(line, start + PAD, top + PAD + number * LINE));
      start += width(column);
    });
    top += heights[place];
    pen.fillStyle = colour("line");
    pen.fillRect(0, top - 1, size[0], 1);
  });
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
