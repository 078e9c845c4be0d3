// A whole file through a model: read in slices, answered some rows at a time, written as CSV.

import { answers } from "./api.js";
import { announce, download, field, make, problem } from "./dom.js";
import { csvLine, rows, withoutFormula } from "./files.js";

const AT_ONCE = 32, PART = 500;

/** A place to drop a file; ``columns(model)`` and ``cells(answer, model)`` say what is added to each row. */
export function batch({ model, columns, cells, options = () => ({}) }) {
  const chosen = make("input", { type: "file", accept: ".csv,.tsv,.txt" });
  const column = make("select"), start = make("button", { type: "button", className: "main", textContent: "Answer all rows" });
  const stop = make("button", { type: "button", textContent: "Stop", hidden: true });
  const bar = make("progress", { max: 1, value: 0, "aria-label": "Progress" }), told = make("p", { className: "soft" });
  const which = field("Column with the text", column);
  const settings = make("div", { hidden: true }, which, make("div", { className: "row" }, start, stop), bar, told);
  const box = make("section", { className: "card drop", "aria-label": "Whole files" },
    make("h2", { textContent: "A whole file" }),
    field("CSV, TSV or a text of one line each", chosen, "Drop it here or choose it. It is read in slices, and nothing is kept."), settings);
  let file = null, controller = null, header = [];

  async function take(given) {
    file = given;
    problem("");
    settings.hidden = true;
    [bar.value, told.textContent] = [0, ""];
    const first = [], plain = /\.txt$/i.test(file.name);
    try {
      for await (const { row } of rows(file)) if (first.push(row) > 20) break;
    } catch (error) {
      return problem(error.message);
    }
    if (!first.length) return problem(`${file.name} is empty.`);
    if (first.length === 1 && !plain) return problem(`${file.name} has a header and no row.`);
    settings.hidden = false;
    header = plain ? ["text"] : first[0];
    const length = (at) => first.slice(1).reduce((sum, row) => sum + (row[at]?.length ?? 0), 0);
    column.replaceChildren(...header.map((name, at) => new Option(name || `column ${at + 1}`, at)));
    column.value = header.reduce((best, _, at) => (length(at) > length(best) ? at : best), 0);
    which.hidden = header.length < 2;
  }

  async function run() {
    const mine = new AbortController(), at = Number(column.value), parts = [], begun = performance.now(), used = model();
    controller = mine;
    const lines = [csvLine([...header, ...columns(used)])];
    let waiting = [], done = 0, first = !/\.txt$/i.test(file.name);
    const flush = async (read) => {
      const found = await patient(used, waiting.map((row) => row[at] ?? ""), options(), mine.signal);
      found.forEach((answer, number) => lines.push(csvLine([...header.map((_, i) => waiting[number][i] ?? ""), ...cells(answer, used).map(withoutFormula)])));
      done += waiting.length;
      waiting = [];
      if (lines.length > PART) parts.push(new Blob(lines.splice(0)));
      bar.value = read / file.size;
      const seconds = (performance.now() - begun) / 1000, left = Math.ceil((seconds * (file.size - read)) / read);
      told.textContent = `${rowsOf(done)}, ${Math.round(done / seconds)} a second${left > 5 ? `, about ${minutes(left)} left` : ""}`;
    };
    let whole = false;
    stop.hidden = false;
    start.disabled = true;
    problem("");
    try {
      for await (const { row, read } of rows(file)) {
        if (first) first = false;
        else if (waiting.push(row) === AT_ONCE) await flush(read);
      }
      if (waiting.length) await flush(file.size);
      [bar.value, whole] = [1, true];
    } catch (error) {
      if (error.name !== "AbortError") problem(`After ${rowsOf(done)}: ${error.message}`);
    } finally {
      stop.hidden = true;
      start.disabled = false;
    }
    announce(`${rowsOf(done)} answered.`);
    const name = `${file.name.replace(/\.\w+$/, "")}.answers${whole ? "" : `.first-${done}`}.csv`;
    if (done) download(name, [...parts, ...lines], "text/csv");
  }

  chosen.addEventListener("change", () => chosen.files.length && take(chosen.files[0]));
  start.addEventListener("click", run);
  stop.addEventListener("click", () => controller?.abort());
  box.addEventListener("dragover", (event) => (event.preventDefault(), box.classList.add("over")));
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
  return { box };
}

const rowsOf = (count) => `${count.toLocaleString("en")} row${count === 1 ? "" : "s"}`;
const minutes = (seconds) => (seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);

/** The answers to some rows; a server that is busy is asked again. */
async function patient(model, inputs, options, signal) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await answers(model, inputs, options, signal);
    } catch (error) {
      if (![429, 503].includes(error.status) || attempt === 20) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.max(1, error.wait)));
      if (signal.aborted) throw error;
    }
  }
}
