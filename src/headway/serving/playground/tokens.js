// A text token by token: each shaded by its probability, with its alternatives.

import { make, percent, styled, visible } from "./dom.js";

const STEPS = [0.5, 0.2, 0.05, 0.01];

const level = (probability) => STEPS.filter((step) => probability < step).length;

/** The tokens of a chunk of a stream, each with the part of the text that is its own. */
export function tokensOf({ text, logprobs }) {
  if (!logprobs?.tokens?.length) return text ? [{ piece: text, probability: null, others: [] }] : [];
  const whole = logprobs.tokens.join("") === text;
  return logprobs.tokens.map((token, number) => ({
    piece: whole ? token : number === logprobs.tokens.length - 1 ? text : "",
    token,
    probability: Math.exp(logprobs.token_logprobs[number]),
    others: Object.entries(logprobs.top_logprobs?.[number] ?? {})
      .map(([name, value]) => ({ text: name, probability: Math.exp(value) }))
      .sort((a, b) => b.probability - a.probability),
  }));
}

/** Tokens that can be looked at, and a card with the alternatives of one; ``goOn(number, text)`` takes one of them. */
export function tokenView(goOn) {
  const text = make("div", { className: "written", role: "group", "aria-label": "Text of the model, token by token" });
  const card = make("div", { className: "card alternatives", role: "region", "aria-label": "Alternatives of a token" });
  const empty = () => card.replaceChildren(make("p", { className: "soft",
    textContent: "Point at a token, or move to it with the arrow keys, to see the tokens that could have stood there." }));
  let tokens = [], pinned = null;
  empty();

  const show = (number) => {
    const token = tokens[number];
    for (const one of text.querySelectorAll(".looked")) one.classList.remove("looked");
    text.querySelector(`[data-number="${number}"]`)?.classList.add("looked");
    const rows = token.others.map((other) => make("button", {
      type: "button", className: other.text === token.token ? "bar-row taken" : "bar-row",
      title: "Go on from here with this token", disabled: /^bytes:\\x/.test(other.text),
      onclick: () => goOn(number, other.text),
    }, make("bdi", { className: "name", textContent: visible(other.text) }),
      styled(make("span", { className: "bar" }), { "--share": other.probability }),
      make("span", { className: "value", textContent: percent(other.probability) })));
    card.replaceChildren(
      make("p", {}, "Token ", make("bdi", { className: "token", textContent: visible(token.token ?? token.piece) }),
        token.probability === null ? "" : ` had ${percent(token.probability)}`),
      ...(rows.length ? [make("p", { className: "soft", textContent: "Choose one to go on from there:" }), ...rows]
        : [make("p", { className: "soft", textContent: "This model tells no alternatives." })]));
  };

  const focusOn = (number) => {
    for (const one of text.children) one.tabIndex = -1;
    const found = text.children[number];
    if (!found) return;
    found.tabIndex = 0;
    found.focus();
  };
  text.addEventListener("keydown", (event) => {
    const at = [...text.children].indexOf(event.target);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 10, ArrowDown: at + 10, Home: 0,
      End: text.children.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") pinned = at;
    else if (to === undefined) return;
    else focusOn(Math.max(0, Math.min(text.children.length - 1, to)));
    event.preventDefault();
    if (event.key === "Enter" || event.key === " ") card.querySelector("button")?.focus();
  });
  text.addEventListener("focusin", (event) => show(pinned = +event.target.dataset.number));
  text.addEventListener("mouseover", (event) => {
    if (pinned === null && event.target.dataset.number) show(+event.target.dataset.number);
  });
  text.addEventListener("click", (event) => {
    if (event.target.dataset.number) show(pinned = +event.target.dataset.number);
  });
  text.addEventListener("focusout", () => (pinned = null));

  const add = (token) => {
    const number = tokens.push(token) - 1;
    const shown = token.piece || "";
    text.append(make("span", {
      className: `tok p${token.probability === null ? 0 : level(token.probability)}`, role: "button",
      tabIndex: number ? -1 : 0, "data-number": number, textContent: shown,
      "aria-label": `${visible(token.token ?? shown)}${token.probability === null ? "" : `, ${percent(token.probability)}`}`,
    }));
  };
  return {
    text, card, add,
    keep(count) {
      tokens = tokens.slice(0, count);
      while (text.children.length > count) text.lastChild.remove();
      pinned = null;
      empty();
    },
    before: (number) => tokens.slice(0, number).map(({ piece }) => piece).join(""),
    get all() { return tokens.map(({ piece }) => piece).join(""); },
    get count() { return tokens.length; },
  };
}
