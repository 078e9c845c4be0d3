// Look inside: one text on its way through a model.

import { ask } from "./api.js";
import { weighed } from "./bars.js";
import { announce, field, make, percent } from "./dom.js";
import { asking, guide, modelChoice, textOf } from "./form.js";
import { explorer } from "./inside_explorer.js";
import { lensTable, distribution } from "./inside_next.js";
import { plane, positions } from "./inside_vectors.js";

const GUIDE = [
  "A text is cut into tokens. Each becomes a vector, and every layer adds to it: first from other tokens (attention), then by itself (feed-forward).",
  "Attention: a row is a token that attends, a column one that is attended to; the weights of a row add up to 1. The more a cell stands out from the page, the larger its weight; colours follow the square root of a weight, so that small ones can be seen. Choose a head among the small maps.",
  "Layer by layer: what the model would answer if it stopped after that layer. Read it from the top to the bottom to see an answer take shape.",
  "What mattered: by how much the answer's score would grow if a token's vector were a little longer.",
  "Switch a head off and see whether the answer changes. Most heads can be spared on most texts; the few that cannot are worth a look.",
  "None of this is a proof of why a model answers as it does: several heads can do the same work, and attention is not importance.",
];

export function build(panel, models) {
  const choice = modelChoice(models, (model) => {
    result.hidden = true;
    another.hidden = model.task !== "translation";
  });
  const text = make("textarea", { rows: 3, placeholder: "A text of at most 256 tokens" });
  const target = make("input", { type: "text", placeholder: "the model's own" });
  const another = make("details", { hidden: models[0].task !== "translation" }, make("summary", { textContent: "Another target" }),
    field("Target", target, "What the model should have written."));
  const result = make("div", { hidden: true });
  const asked = asking([choice.row, field("Text", text), another], "Look inside", (signal) => look(signal), () => (result.hidden = true));
  const maps = explorer();
  const parts = {}, titles = {}, hints = {};
  const section = (name, title, hint) => {
    parts[name] = make("div");
    titles[name] = make("h2", { textContent: title });
    hints[name] = make("p", { className: "soft", textContent: hint });
    return make("section", { className: "card" }, titles[name], hints[name], parts[name]);
  };
  let given = null, off = [];

  const half = (...sections) => make("div", {}, sections);
  result.append(
    section("tokens", "Tokens", "Choose the token at whose output you look."),
    make("div", { className: "halves" },
      half(section("next", "The answer at that token", "What the model holds likely.")),
      half(section("lens", "Layer by layer", "The likeliest answer after each layer (logit lens); the stronger the colour, the surer."),
        section("mattered", "What mattered", "Tokens that spoke for the likeliest answer, and against it (gradient × input)."))),
    make("section", { className: "card" }, make("h2", { textContent: "Attention" }), maps.box),
    make("div", { className: "halves" },
      half(section("off", "Heads switched off", "Take heads away, and see what becomes of the answer."),
        section("positions", "Position encoding", "How the model knows the order of the tokens.")),
      half(section("vectors", "Vectors", "The vectors of all tokens after a layer, on the plane in which they differ most: across is the direction of the largest differences (the first principal component), upwards the next (the second)."))));
  panel.append(guide("How to read this page", GUIDE, true), asked.form, result);

  async function look(signal) {
    textOf(text);
    const body = { model: choice.value.id, text: text.value, ...(target.value && !another.hidden ? { target: target.value } : {}) };
    off = [];
    const found = await ask("/inside", body, signal);
    given = body;
    result.hidden = false;
    maps.show(found.explorer);
    show(found);
    announce(`${found.tokens[found.axis].length} tokens. The likeliest answer is ${found.outputs?.[0].name ?? "a vector"}.`);
  }

  /** Ask again about another token, or with other heads; the maps stay. */
  const again = (change) => asked.run(async (signal) => {
    const { at = shown.at, heads = off } = change;
    const found = await ask("/inside", { ...given, ...(at === null ? {} : { at }), maps: false,
      off: heads.map(([kind, layer, head]) => ({ kind, layer, head })) }, signal);
    off = heads;
    show(found);
  });
  let shown = { at: null };

  function show(found) {
    shown = found;
    const names = found.tokens[found.axis];
    parts.tokens.replaceChildren(strip(names, found.at, (at) => again({ at })));
    hints.tokens.textContent = found.at === null ? "The model gives one answer for the whole text." : "Choose the token at whose output you look.";
    titles.next.textContent = found.at === null ? "The answer" : "The answer at that token";
    hints.next.textContent = `What the model holds likely.${found.outputs?.length > 8 ? " Temperature and top-p change what a sampler would draw from." : ""}`;
    maps.point(found.axis, found.at);
    const hide = (name, empty) => (parts[name].parentElement.hidden = empty);
    hide("next", !found.outputs);
    hide("lens", !found.lens && !found.why);
    hide("mattered", !found.outputs);
    hide("positions", !Object.keys(found.positions).length);
    if (found.outputs) parts.next.replaceChildren(distribution(found.outputs));
    parts.lens.replaceChildren(found.lens ? lensTable(found.lens, names, found.at) : make("p", { className: "soft", textContent: `Not shown: ${found.why}.` }));
    parts.mattered.replaceChildren(...Object.entries(found.attribution).flatMap(([axis, weights]) => [
      Object.keys(found.attribution).length > 1 ? make("h3", { textContent: axis }) : "",
      weighed(found.tokens[axis], weights, `What mattered in the ${axis}`)]));
    if (!Object.keys(found.attribution).length) {
      parts.mattered.replaceChildren(make("p", { className: "soft", textContent: "Not shown: the model does not compute in float32. Serve it with --precision float32." }));
    }
    parts.off.replaceChildren(switches(found));
    parts.vectors.replaceChildren(plane(found.vectors, names));
    parts.positions.replaceChildren(positions(found.positions));
  }

  /** The heads as check boxes by layer, and what changes without those chosen. */
  function switches(found) {
    const is = (kind, layer, head) => off.some((one) => one[0] === kind && one[1] === layer && one[2] === head);
    const boxes = Object.entries(found.heads).map(([kind, [layers, heads]]) => make("fieldset", {}, make("legend", { textContent: Object.keys(found.heads).length > 1 ? kind : "Heads" }),
      Array.from({ length: layers }, (_, layer) => make("div", { className: "heads" }, make("span", { className: "soft", textContent: `layer ${layer + 1}` }),
        Array.from({ length: heads }, (_, head) => make("label", {}, make("input", { type: "checkbox", checked: is(kind, layer, head),
          "aria-label": `${kind}, layer ${layer + 1}, head ${head + 1} off`,
          onchange: () => again({ heads: is(kind, layer, head) ? off.filter((one) => !(one[0] === kind && one[1] === layer && one[2] === head)) : [...off, [kind, layer, head]] }) }), String(head + 1)))))));
    return make("div", {}, boxes, found.without ? changes(found.without) : make("p", { className: "soft", textContent: "All heads are on." }));
  }
}

function changes({ compared, change }) {
  const told = compared ? `The answers differ by ${change.toFixed(4)} nats (Kullback–Leibler divergence, 0 for equal answers).`
    : `The vectors differ by ${change.toFixed(4)} (1 − cosine, 0 for the same direction).`;
  if (!compared) return make("p", { textContent: told });
  const head = make("tr", {}, ["Answer", "All heads", "Without", "Change, in points"].map((name) => make("th", { scope: "col", textContent: name })));
  const rows = compared.map(({ name, before, after }) => make("tr", {}, make("th", { scope: "row" }, make("bdi", { textContent: name })),
    make("td", { className: "n", textContent: percent(before) }), make("td", { className: "n", textContent: percent(after) }),
    changeCell(100 * (after - before))));
  return make("div", { "aria-live": "polite" }, make("p", { textContent: told }),
    make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "What changes" }, make("table", {}, make("thead", {}, head), make("tbody", {}, rows))));
}

function changeCell(points) {
  const size = Math.abs(points).toFixed(1), none = size === "0.0";
  return make("td", { className: `n ${none ? "" : points < 0 ? "less" : "more"}`, textContent: none ? "0" : `${points < 0 ? "−" : "+"}${size}` });
}

/** The tokens as buttons, one of which is chosen. */
function strip(names, at, choose) {
  const box = make("div", { className: "tokens", role: "group", "aria-label": "Tokens", dir: "auto" }, names.map((name, number) => make("button", {
    type: "button", textContent: name, "aria-pressed": number === at, tabIndex: number === (at ?? 0) ? 0 : -1,
    disabled: at === null, onclick: () => choose(number) })));
  box.addEventListener("keydown", (event) => {
    const here = [...box.children].indexOf(event.target), to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined || !box.children[to]) return;
    event.preventDefault();
    box.children[to].focus();
  });
  return box;
}
