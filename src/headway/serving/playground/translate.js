// Translate: alternatives with their scores, and which word came from which.

import { answers } from "./api.js";
import { batch } from "./batch.js";
import { announce, draw, field, make, slider } from "./dom.js";
import { asking, guide, modelChoice, textOf } from "./form.js";

const LEAST = 0.12;

export function build(panel, models) {
  const choice = modelChoice(models, () => result.replaceChildren());
  const text = make("textarea", { rows: 4, placeholder: "A text" });
  const beam = slider("Beam width", { min: 1, max: 10, step: 1, value: 5, hint: "1 is greedy search." });
  const n_best = slider("Alternatives", { min: 1, max: 8, step: 1, value: 3 });
  const penalty = slider("Length penalty", { min: -1, max: 2, step: 0.1, value: 1, shown: (value) => value.toFixed(1),
    hint: "Above 0 favours longer answers." });
  const result = make("div", { className: "output" });
  const has = (name) => choice.value.options && name in choice.value.options;

  function options(several) {
    const found = { beam: beam.value, length_penalty: penalty.value };
    if (several) Object.assign(found, { n_best: Math.min(n_best.value, beam.value), scores: true, alignment: true });
    return Object.fromEntries(Object.entries(found).filter(([name]) => has(name)));
  }

  const { form } = asking([choice.row, field("Text", text)], models[0].verb[0].toUpperCase() + models[0].verb.slice(1), async (signal) => {
    const answer = await answered(choice.value, textOf(text), options(true), signal);
    const found = (Array.isArray(answer) ? answer : [answer]).map((one) => (typeof one === "string" ? { text: one } : one));
    result.replaceChildren(...found.map((one, rank) => alternative(one, rank, found.length)));
    announce(found[0].text);
  }, () => result.replaceChildren());
  const files = batch({ model: () => choice.value, columns: () => ["answer"], options: () => options(false),
    cells: (answer) => [typeof answer === "string" ? answer : answer.text] });
  panel.append(make("div", { className: "columns" }, make("div", {}, form, result),
    make("div", {}, make("div", { className: "controls" }, beam.row, n_best.row, penalty.row), files.box)),
    guide("How to read this page", [
      "The search keeps the likeliest beginnings, as many as its beam is wide. A score is ln p divided by the length to the power of the penalty: the closer to 0, the likelier.",
      "Lines connect each written word with the words of the text that the model attended to (cross-attention of the last layer but one). The stronger the line, the more attention.",
    ]));
}

/** An answer with its alignment, or without one where the model has no cross-attention. */
async function answered(model, text, options, signal) {
  try {
    return (await answers(model, [text], options, signal))[0];
  } catch (error) {
    if (!options.alignment || !/align|split/.test(error.message)) throw error;
    const { alignment, ...others } = options;
    return (await answers(model, [text], /split/.test(error.message) ? { ...others, n_best: 1 } : others, signal))[0];
  }
}

function alternative({ text, score, alignment }, rank, count) {
  const head = make("p", { className: "verdict", dir: "auto", textContent: text });
  const about = score === undefined ? null
    : make("p", { className: "soft", textContent: `${count > 1 ? `Alternative ${rank + 1}, ` : ""}score ${score.toFixed(3)}` });
  const drawn = alignment?.source?.length ? aligned(alignment) : null;
  const more = drawn && make("details", { open: rank === 0 }, make("summary", { textContent: "Alignment" }), drawn);
  return make("article", { className: "card" }, about, head, more);
}

/** Two rows of words with lines between them. */
function aligned({ source, target, weights }) {
  const widths = (words) => words.map((word) => 9 * Math.min(word.length, 16) + 18);
  const places = (all) => all.reduce(({ at, found }, width) => ({ at: at + width, found: [...found, at + width / 2] }), { at: 0, found: [] });
  const from = places(widths(source)), to = places(widths(target)), width = Math.max(from.at, to.at, 60);
  const shift = { source: (width - from.at) / 2, target: (width - to.at) / 2 };
  const svg = draw("svg", { viewBox: `0 0 ${width} 130`, width, height: 130, role: "img", class: "alignment", "aria-label": told({ source, target, weights }) });
  weights.forEach((row, t) => row.forEach((weight, s) => {
    if (weight < LEAST) return;
    svg.append(draw("line", { x1: shift.source + from.found[s], y1: 28, x2: shift.target + to.found[t], y2: 104,
      "stroke-opacity": Math.min(1, weight).toFixed(2), "stroke-width": (0.8 + 3 * weight).toFixed(1) }));
  }));
  const write = (words, found, y, move) => words.forEach((word, number) => svg.append(
    draw("text", { x: move + found[number], y, "text-anchor": "middle" }, word.length > 16 ? `${word.slice(0, 15)}…` : word)));
  write(source, from.found, 18, shift.source);
  write(target, to.found, 122, shift.target);
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Alignment" }, svg);
}

const told = ({ source, target, weights }) => target.map((word, t) => {
  const best = weights[t].indexOf(Math.max(...weights[t]));
  return `${word} from ${source[best]}`;
}).join(", ");
