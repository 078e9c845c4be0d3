// Classify: a bar for each label, the words that mattered, and whole files.

import { answers, ask } from "./api.js";
import { bars, weighed } from "./bars.js";
import { announce, field, make, percent, slider } from "./dom.js";
import { batch } from "./batch.js";
import { asking, guide, modelChoice, textOf } from "./form.js";
import { asBase64 } from "./files.js";

/** The labels of an answer: one, or several where a text may have several. */
const named = (answer) => answer.labels ?? (answer.label === null ? [] : [answer.label]);

/** The probability of the label of an answer; null without one. */
const sureness = (answer) => answer.score ?? answer.scores[answer.label] ?? null;
/** Whether answers of a model have a mean of their labels, which are levels. */
const rates = (model) => "value" in (model.answer.properties ?? {});

export function build(panel, models) {
  const choice = modelChoice(models, adapt);
  const text = make("textarea", { rows: 4, placeholder: "A text to classify" });
  const picture = make("input", { type: "file", accept: "image/*" });
  const asText = field("Text", text), asPicture = field("Picture", picture);
  const result = make("div", { className: "output", "aria-live": "polite" });
  const bound = slider("Threshold", { min: 0, max: 1, step: 0.01, value: 0, shown: percent, change: () => verdict(),
    hint: "Below it, an answer counts as unsure." });
  const files = batch({
    model: () => choice.value,
    columns: (model) => ["label", "score", "sure", ...(rates(model) ? ["value"] : []), ...model.labels.map((label) => `score: ${label}`), ...(model.reads === "text" ? ["known"] : [])],
    cells: (answer, model) => [named(answer).join(";"), answer.labels ? "" : sureness(answer)?.toFixed(6) ?? "",
      answer.labels ? "" : sureness(answer) !== null && sureness(answer) >= bound.value ? "yes" : "no", ...(rates(model) ? [answer.value?.toFixed(6) ?? ""] : []),
      ...model.labels.map((label) => answer.scores[label]?.toFixed(6) ?? ""),
      ...(model.reads === "text" ? [(answer.known ?? (Object.keys(answer.scores).length ? null : 0))?.toFixed(6) ?? ""] : [])],
  });
  let last = null;

  const { form } = asking([choice.row, asText, asPicture], "Classify", async (signal) => {
    const model = choice.value, reads = model.reads === "text";
    if (!reads && !picture.files.length) throw new Error("Choose a picture first.");
    const given = reads ? textOf(text) : await asBase64(picture.files[0]);
    [last] = await answers(model, [given], {}, signal);
    bound.row.hidden = last.labels !== undefined;
    const mattered = make("div", { className: "mattered" });
    const rows = Object.entries(last.scores).map(([name, share]) => ({ name, share, mark: named(last).includes(name) }));
    result.replaceChildren(make("p", { className: "verdict" }), bars(rows.sort((a, b) => b.share - a.share), { label: "Probability of each label" }), mattered);
    verdict();
    if (reads && named(last).length) await words(model, given, mattered, signal);
  }, () => clear());

  function verdict() {
    const box = result.querySelector(".verdict");
    if (!box || !last) return;
    const sure = sureness(last) >= bound.value, mean = last.value === undefined ? "" : `; ${last.value.toFixed(2)} on average`, known = last.known === undefined ? "" : `; it knows ${percent(last.known)} of the text`;
    if (!Object.keys(last.scores).length) box.replaceChildren("No label: the text has no token that the model knows.");
    else if (last.labels) box.replaceChildren(...(last.labels.length ? last.labels.flatMap((label, at) => [at ? ", " : "", make("strong", { textContent: label })]) : ["None of the labels"]), known);
    else box.replaceChildren(sure ? "" : "Unsure, perhaps ", make("strong", { textContent: last.label }), ` (${percent(sureness(last))}${mean}${known})`);
    announce(box.textContent);
  }

  function adapt(model) {
    asText.hidden = model.reads !== "text";
    asPicture.hidden = !asText.hidden;
    files.box.hidden = asText.hidden;
    bound.row.hidden = false;
    clear();
  }

  function clear() {
    result.replaceChildren();
    last = null;
  }

  panel.append(make("div", { className: "columns" }, make("div", {}, form, result), make("div", {}, bound.row, files.box)),
    guide("How to read this page", [
      "A bar is the probability that the model gives a label; those of all labels add up to 100 %, unless a text may have several.",
      "Words that mattered: by how much the label's score would grow if the word's vector were a little longer (gradient × input). It is a hint, not a proof.",
      "A probability is only as good as the data that the model learnt from: a text of another kind can get a sure and wrong answer.",
    ]));
  adapt(models[0]);
}

/** The words that mattered, where the model can be looked into. */
async function words(model, given, box, signal) {
  try {
    const found = await ask("/inside", { model: model.id, text: given, maps: false }, signal);
    const weights = found.attribution[found.axis];
    if (!weights) return;
    box.replaceChildren(make("h2", { textContent: "Words that mattered" }), weighed(found.tokens[found.axis], weights, "Words that mattered"),
      make("p", { className: "legend soft" }, make("span", { className: "for", textContent: "for" }), " and ", make("span", { className: "against", textContent: "against" }), " the answer"));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    box.replaceChildren(make("p", { className: "soft", textContent: `The words that mattered are not shown: ${error.message}` }));
  }
}
