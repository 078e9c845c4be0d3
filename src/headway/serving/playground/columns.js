// Columns: what the model says of each column of a table.

import { answers } from "./api.js";
import { batch } from "./batch.js";
import { announce, field, make, percent } from "./dom.js";
import { asking, guide, modelChoice, textOf } from "./form.js";

/** What is said of a column, and how sure the model is of it. */
function said(answer) {
  if (answer.labels) return [answer.labels.map((label) => `${label} (${percent(answer.scores[label])})`).join(", ") || "none", ""];
  if ((answer.label ?? answer.value ?? null) === null) return ["no token of the text is known", ""];
  if (!answer.scores) return [answer.value.toPrecision(6), ""];
  const mean = answer.value === undefined ? "" : `, ${answer.value.toFixed(2)} on average`;
  return [answer.label, `${percent(answer.scores[answer.label])}${mean}`];
}

export function build(panel, models) {
  const choice = modelChoice(models), result = make("div", { className: "output", "aria-live": "polite" });
  const text = make("textarea", { rows: 4, placeholder: "A text" });
  const { form } = asking([choice.row, field("Text", text)], "Predict", async (signal) => {
    const [answer] = await answers(choice.value, [textOf(text)], {}, signal);
    const lines = Object.entries(answer).map(([name, one]) => [name, ...said(one)]);
    const head = make("tr", {}, ["column", "answer", "probability"].map((name) => make("th", { scope: "col", textContent: name })));
    const rows = lines.map(([name, ...cells]) => make("tr", {}, make("th", { scope: "row", textContent: name }), cells.map((cell) => make("td", { textContent: cell }))));
    result.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, rows)));
    announce(lines.map(([name, value]) => `${name}: ${value}`).join("; "));
  }, () => result.replaceChildren());
  const files = batch({ model: () => choice.value, columns: () => ["answer"], cells: (answer) => [JSON.stringify(answer)] });
  panel.append(make("div", { className: "columns" }, make("div", {}, form, result), make("div", {}, files.box)),
    guide("How to read this page", [
      "Each column is answered as by a model of its own: a class, a level, several labels or a number.",
      "In the file of answers a row keeps its columns, and the answers are JSON; `headway predict` writes a column for each.",
    ]));
}
