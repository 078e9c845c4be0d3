// Spans: parts of a text in the colours of their labels, or what fits in its open places.

import { answers } from "./api.js";
import { bars } from "./bars.js";
import { batch } from "./batch.js";
import { announce, field, make, percent, slider, visible } from "./dom.js";
import { asking, guide, modelChoice, textOf } from "./form.js";

const COLOURS = 8;

export function build(panel, models) {
  const choice = modelChoice(models, () => clear()), { verb } = models[0], fills = verb === "fill";
  const text = make("textarea", { rows: 4, placeholder: fills ? "A text with [MASK] where a word is missing" : "A text" });
  const result = make("div", { className: "output" });
  const bound = slider("Threshold", { min: 0, max: 1, step: 0.01, value: 0, shown: percent, change: () => draw(),
    hint: "Spans with a lower score are not shown." });
  let last = null, read = "";
  const { form } = asking([choice.row, field("Text", text)], verb[0].toUpperCase() + verb.slice(1), async (signal) => {
    read = textOf(text);
    [last] = await answers(choice.value, [read], {}, signal);
    draw();
    announce(said());
  }, () => clear());

  function clear() {
    last = null;
    result.replaceChildren();
  }

  function draw() {
    if (!last) return;
    const places = openPlaces(last);
    result.replaceChildren(...(places ? filled(places) : coloured(read, last.filter(({ score }) => score >= bound.value))));
  }

  const said = () => openPlaces(last)?.map(([best]) => `${best.token}, ${percent(best.score)}`).join("; ")
    ?? (last.map((span) => `${span.text}: ${span.label}`).join("; ") || "No spans.");

  /** What fits in each open place; choosing one puts it there. */
  function filled(places) {
    return places.flatMap((place, number) => [
      make("h2", { textContent: places.length > 1 ? `Place ${number + 1}` : "What fits" }),
      bars(place.map(({ token, score }) => ({ name: token, shown: visible(token), share: score })), {
        label: `Tokens for place ${number + 1}`,
        choose: (token) => {
          let seen = -1;
          text.value = read.replace(/\[MASK\]|<mask>/g, (mask) => (++seen === number ? token : mask));
          text.focus();
        },
      })]);
  }

  const files = batch({
    model: () => choice.value,
    columns: () => [fills ? "tokens" : "spans"],
    cells: (answer) => [JSON.stringify(openPlaces(answer) ? answer : answer.filter(({ score }) => score >= bound.value))],
  });
  panel.append(make("div", { className: "columns" }, make("div", {}, form, result), make("div", {}, fills ? [] : bound.row, files.box)),
    guide("How to read this page", fills ? [
      "Each [MASK] is an open place. The bars are the likeliest tokens for it, with their probabilities; choose one to put it there.",
      "Every place is filled as if the others stayed open.",
      "In the file of answers a row keeps its columns, and the tokens of its places are JSON.",
    ] : [
      "A span is a part of the text that the model gives a label. Its score is the mean probability of the labels of its words.",
      "In the file of answers a row keeps its columns, and its spans are JSON: label, start, end and score. Places are counted in characters from 0.",
    ]));
}

/** The answers for open places, a list for each; null for spans. */
function openPlaces(answer) {
  if (Array.isArray(answer[0])) return answer;
  return answer.length && "token" in answer[0] ? [answer] : null;
}

/** The text with its spans marked, and a list of them.  Places count code points, as the server does. */
function coloured(text, spans) {
  const points = [...text], labels = [...new Set(spans.map(({ label }) => label))].sort();
  const parts = [];
  let at = 0;
  for (const { start, end, label, score } of [...spans].sort((a, b) => a.start - b.start)) {
    if (start < at) continue;
    parts.push(points.slice(at, start).join(""), make("mark", { className: `c${labels.indexOf(label) % COLOURS}`, title: percent(score) },
      points.slice(start, end).join(""), make("small", { textContent: label })));
    at = end;
  }
  parts.push(points.slice(at).join(""));
  const rows = spans.map(({ text: words, label, score }) => make("tr", {}, make("td", { textContent: words }), make("td", { textContent: label }),
    make("td", { className: "n", textContent: percent(score) })));
  const head = make("tr", {}, ["Span", "Label", "Score"].map((name) => make("th", { scope: "col", className: name === "Score" ? "n" : "", textContent: name })));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, rows));
  return [make("p", { className: "spans", dir: "auto" }, parts),
    rows.length ? make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Spans" }, table) : make("p", { className: "soft", textContent: "No spans." })];
}
