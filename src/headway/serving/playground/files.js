// Files of the user's, read slice by slice: they never have to fit in memory.

const SLICE = 1 << 18;

/** The texts of a file, in slices. */
async function* slices(file) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decoded = (...given) => {
    try {
      const text = decoder.decode(...given);
      if (!text.includes("\0")) return text;
    } catch { /* said below */ }
    throw new Error(`${file.name} is no text in UTF-8. Save it as "CSV UTF-8" and choose it again.`);
  };
  for (let at = 0; at < file.size; at += SLICE) {
    const bytes = await file.slice(at, at + SLICE).arrayBuffer();
    yield { text: decoded(bytes, { stream: true }), read: Math.min(file.size, at + SLICE) };
  }
  yield { text: decoded(), read: file.size };
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

/**
 * RFC 4180: cells in quotation marks may hold anything; doubled marks stand for one.  An Error says where a mark is never
 * closed, and which row, counted as a spreadsheet counts them, has other cells than the first one.
 */
async function* cells(file, given) {
  let separator = given, row = [], cell = "", quoted = false, closing = false, begun = false;
  let line = 1, number = 1, opened = 1, width = 0; // the present line and row, the line of the mark, the cells of a row
  const whole = (read) => {
    const found = { row: [...row, cell.replace(/\r$/, "")], read };
    width ||= found.row.length;
    const cells = (count) => `${count} cell${count === 1 ? "" : "s"}`;
    if (found.row.length !== width) throw new Error(`${file.name}, row ${number}: has ${cells(found.row.length)}, and the first row ${cells(width)}.`);
    return found;
  };
  for await (const { text, read } of slices(file)) {
    separator ??= likeliest(text);
    for (const c of begun ? text : text.replace(/^\ufeff/, "")) {
      begun = true;
      if (c === "\n") line += 1;
      if (quoted && !closing) {
        if (c === '"') closing = true;
        else cell += c;
      } else if (closing && c === '"') {
        cell += c;
        closing = false;
      } else if (c === '"' && cell === "" && !closing) [quoted, opened] = [true, line];
      else if (c === separator) {
        row.push(cell);
        [cell, quoted, closing] = ["", false, false];
      } else if (c === "\n") {
        if (row.length || !/^\r?$/.test(cell) || quoted) yield whole(read);
        [row, cell, quoted, closing, number] = [[], "", false, false, number + 1];
      } else if (c !== "\r" || !closing) cell += c;
    }
  }
  if (quoted && !closing) throw new Error(`${file.name}, line ${opened}: the quotation mark opened there is never closed.`);
  if (cell !== "" || row.length) yield whole(file.size);
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
