// Files of the user's, read slice by slice: they never have to fit in memory.

const SLICE = 1 << 18;

/** The texts of a file, in slices. */
async function* slices(file) {
  const decoder = new TextDecoder();
  for (let at = 0; at < file.size; at += SLICE) {
    const bytes = await file.slice(at, at + SLICE).arrayBuffer();
    yield { text: decoder.decode(bytes, { stream: true }), read: Math.min(file.size, at + SLICE) };
  }
  yield { text: decoder.decode(), read: file.size };
}

/** The rows of a file, each a list of cells, with ``read``: bytes so far.  A .txt file has one cell a line. */
export async function* rows(file) {
  if (/\.txt$/i.test(file.name)) yield* lines(file);
  else yield* cells(file, /\.tsv$/i.test(file.name) ? "\t" : null);
}

async function* lines(file) {
  let held = "";
  for await (const { text, read } of slices(file)) {
    const found = (held + text).split(/\r?\n/);
    held = found.pop();
    for (const line of found) yield { row: [line], read };
  }
  if (held) yield { row: [held], read: file.size };
}

/** RFC 4180: cells in quotation marks may hold anything; doubled marks stand for one. */
async function* cells(file, given) {
  let separator = given, row = [], cell = "", quoted = false, closing = false, begun = false;
  for await (const { text, read } of slices(file)) {
    separator ??= likeliest(text);
    for (const c of begun ? text : text.replace(/^\ufeff/, "")) {
      begun = true;
      if (quoted && !closing) {
        if (c === '"') closing = true;
        else cell += c;
      } else if (closing && c === '"') {
        cell += c;
        closing = false;
      } else if (c === '"' && cell === "" && !closing) quoted = true;
      else if (c === separator) {
        row.push(cell);
        [cell, quoted, closing] = ["", false, false];
      } else if (c === "\n") {
        row.push(cell.replace(/\r$/, ""));
        if (row.length > 1 || row[0] !== "" || quoted) yield { row, read };
        [row, cell, quoted, closing] = [[], "", false, false];
      } else if (c !== "\r" || !closing) cell += c;
    }
  }
  if (cell !== "" || row.length) yield { row: [...row, cell.replace(/\r$/, "")], read: file.size };
}

function likeliest(text) {
  const head = text.split("\n", 1)[0], count = (c) => head.split(c).length;
  return [",", ";", "\t"].reduce((best, c) => (count(c) > count(best) ? c : best));
}

/** A row as a line of CSV. */
export function csvLine(values) {
  return `${values.map((value) => {
    const text = String(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  }).join(",")}\n`;
}

/** A cell that a spreadsheet does not compute: what begins like a formula gets an apostrophe. */
export function withoutFormula(value) {
  return /^\s*(=|[@+-].*[(|])/s.test(value) ? `'${value}` : value;
}

/** The content of a file in base64. */
export function asBase64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
