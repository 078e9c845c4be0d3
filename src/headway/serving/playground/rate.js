// Rate: a number for each text.

import { answers } from "./api.js";
import { bars } from "./bars.js";
import { batch } from "./batch.js";
import { announce, field, make } from "./dom.js";
import { asking, modelChoice } from "./form.js";

export function build(panel, models) {
  const choice = modelChoice(models), result = make("div", { className: "output" });
  const texts = make("textarea", { rows: 5, placeholder: "One text a line" });
  const number = (answer) => Number(typeof answer === "object" ? answer.value ?? answer.score : answer);
  const shown = (value, digits) => (Number.isNaN(value) ? "no token is known" : value.toPrecision(digits));
  const { form } = asking([choice.row, field("Texts, one a line", texts)], "Rate", async (signal) => {
    const given = texts.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!given.length) throw new Error("Give some texts, one a line.");
    const found = (await answers(choice.value, given, {}, signal)).map(number);
    const top = Math.max(...found.map((value) => Math.abs(value) || 0), 1e-9);
    result.replaceChildren(bars(given.map((name, at) => ({ name, share: Math.max(0, found[at] || 0), value: shown(found[at], 4) })), { label: "Number for each text", scale: top }));
    announce(given.map((name, at) => `${name}: ${shown(found[at], 3)}`).slice(0, 5).join("; "));
  }, () => result.replaceChildren());
  const files = batch({ model: () => choice.value, columns: (model) => [model.verb], cells: (answer) => [Number.isNaN(number(answer)) ? "" : number(answer)] });
  panel.append(make("div", { className: "columns" }, make("div", {}, form, result), make("div", {}, files.box)));
}
