// Rank: the inputs of a request, best first.  An answer is a list of {text, score} or {index, score}.

import { answers } from "./api.js";
import { bars } from "./bars.js";
import { announce, field, make } from "./dom.js";
import { asking, modelChoice } from "./form.js";
import { optionFields } from "./options.js";

export function build(panel, models) {
  let controls = optionFields(models[0]);
  const choice = modelChoice(models, (model) => {
    const next = optionFields(model);
    controls.box.replaceWith(next.box);
    controls = next;
  });
  const texts = make("textarea", { rows: 8, placeholder: "One text a line" }), result = make("div", { className: "output" });
  const { form } = asking([choice.row, field("Texts, one a line", texts)], "Rank", async (signal) => {
    const given = texts.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!given.length) throw new Error("Give some texts, one a line.");
    const ranked = order(await answers(choice.value, given, controls.values, signal), given);
    const top = Math.max(...ranked.map(({ score }) => Math.abs(score)), 1e-9);
    result.replaceChildren(bars(ranked.map(({ text, score }) => ({ name: text, share: Math.max(0, score), value: Number(score).toPrecision(3) })), { label: "Ranking", scale: top }));
    announce(`First: ${ranked[0].text}`);
  });
  panel.append(make("div", { className: "columns" }, make("div", {}, form, result), make("div", {}, controls.box)));
}

/** Answers as texts with scores, best first: a score for each input, or a list that is ranked already. */
export function order(answers, given) {
  const flat = answers.length === 1 && Array.isArray(answers[0]) ? answers[0] : answers;
  const rows = flat.map((answer, at) => (typeof answer === "number" ? { text: given[at], score: answer }
    : { text: answer.text ?? given[answer.index ?? at], score: answer.score ?? 0 }));
  return rows.sort((a, b) => b.score - a.score);
}
