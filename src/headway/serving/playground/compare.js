// Compare: the cosine of every text with every other, and the rows of a file that are nearest to one.

import { answers } from "./api.js";
import { bars } from "./bars.js";
import { announce, field, make, problem, styled } from "./dom.js";
import { rows } from "./files.js";
import { asking, guide, modelChoice } from "./form.js";

const AT_ONCE = 32, KEPT = 20, MOST = 40;

export function build(panel, models) {
  const choice = modelChoice(models, () => result.replaceChildren());
  const texts = make("textarea", { rows: 6, placeholder: "One text a line" });
  const result = make("div", { className: "output" });
  const { form } = asking([choice.row, field("Texts, one a line", texts)], "Compare", async (signal) => {
    const given = texts.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (given.length < 2) throw new Error("Give at least two texts, one a line.");
    if (given.length > MOST) throw new Error(`Give at most ${MOST} texts; for more, drop a file.`);
    const units = (await answers(choice.value, given, {}, signal)).map(unit);
    result.replaceChildren(matrix(given, units.map((a) => units.map((b) => dot(a, b)))));
    announce("Similarity matrix shown.");
  }, () => result.replaceChildren());

  const query = make("input", { type: "text", placeholder: "A text" });
  const chosen = make("input", { type: "file", accept: ".csv,.tsv,.txt" }), found = make("div", { "aria-live": "polite" });
  const bar = make("progress", { max: 1, value: 0, hidden: true, "aria-label": "Progress" });
  const search = asking([field("Text to look for", query), field("File of texts (.txt, or the longest column of a CSV)", chosen), bar], "Find the nearest", async (signal) => {
    const [file] = chosen.files;
    if (!query.value.trim() || !file) throw new Error("Give a text and a file.");
    bar.hidden = false;
    found.replaceChildren(nearestList(await nearest(choice.value, query.value, file, signal, (share) => (bar.value = share))));
  });
  const box = make("section", { className: "card drop", "aria-label": "Nearest of a file" }, make("h2", { textContent: "Nearest of a file" }), search.form, found);
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    problem("");
    chosen.files = event.dataTransfer.files;
  });
  panel.append(make("div", { className: "columns" }, make("div", {}, form, result), make("div", {}, box)),
    guide("How to read this page", [
      "The model turns every text into a vector. The number in a cell is the cosine of two of them: 1 for the same direction, 0 for nothing in common.",
      "Cosines of one model can be compared with each other, not with those of another model.",
    ]));
}

const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
const unit = (vector) => {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((value) => value / length);
};

function matrix(texts, cosines) {
  const cell = (value) => styled(make("td", { className: "shaded n", textContent: value.toFixed(2) }), { "--share": Math.max(0, value) });
  const table = make("table", { className: "matrix" },
    make("caption", { textContent: "Cosine of every text with every other" }),
    make("thead", {}, make("tr", {}, make("td"), texts.map((_, at) => make("th", { scope: "col", textContent: String(at + 1) })))),
    make("tbody", {}, texts.map((text, at) => make("tr", {},
      make("th", { scope: "row", title: text }, `${at + 1} `, make("bdi", { textContent: text.length > 48 ? `${text.slice(0, 47)}…` : text })), cosines[at].map(cell)))));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Similarity matrix" }, table);
}

/** The rows of a file that are nearest to a text, best first. */
async function nearest(model, query, file, signal, progress) {
  const target = unit((await answers(model, [query], {}, signal))[0]), plain = /\.txt$/i.test(file.name);
  let best = [], waiting = [], at = null, first = !plain, number = 0;
  const flush = async (read) => {
    const vectors = await answers(model, waiting, {}, signal);
    vectors.forEach((vector, i) => best.push({ text: waiting[i], score: dot(unit(vector), target), number: ++number }));
    best = best.sort((a, b) => b.score - a.score).slice(0, KEPT);
    waiting = [];
    progress(read / file.size);
  };
  for await (const { row, read } of rows(file)) {
    if (first) {
      first = false;
      continue;
    }
    at ??= row.reduce((longest, cell, i) => (cell.length > row[longest].length ? i : longest), 0);
    if (!row[at]?.trim()) continue;
    waiting.push(row[at]);
    if (waiting.length === AT_ONCE) await flush(read);
  }
  if (waiting.length) await flush(file.size);
  progress(1);
  return best;
}

const nearestList = (found) => bars(found.map(({ text, score }) => ({ name: text, share: Math.max(0, score), value: score.toFixed(3) })), { label: "Nearest texts" });
