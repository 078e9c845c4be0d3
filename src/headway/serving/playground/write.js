// Write: a text goes on, token by token, and from any token on another way.

import { stream } from "./api.js";
import { announce, field, make } from "./dom.js";
import { asking, guide, modelChoice } from "./form.js";
import { samplingControls, speedometer } from "./sampling.js";
import { tokensOf, tokenView } from "./tokens.js";

export function build(panel, models) {
  const choice = modelChoice(models);
  const prompt = make("textarea", { rows: 4, placeholder: "The beginning of a text", spellcheck: false });
  const controls = samplingControls(models[0].context);
  const speed = make("output", { className: "soft", "aria-live": "off" });
  const use = make("button", { type: "button", textContent: "Edit as one text", hidden: true });
  const given = make("span", { className: "given" });
  const asked = asking([choice.row, field("Text to go on with", prompt)], "Write", (signal) => begin(signal));
  const view = tokenView((number, text) => asked.run((signal) => goOn(number, text, signal)));

  use.addEventListener("click", () => {
    prompt.value += view.all;
    view.keep(0);
    given.textContent = "";
    use.hidden = true;
    prompt.focus();
  });

  async function begin(signal) {
    view.keep(0);
    given.textContent = "";
    await write(signal, prompt.value);
  }

  async function goOn(number, text, signal) {
    view.keep(number);
    view.add({ piece: text, token: text, probability: null, others: [] });
    await write(signal);
  }

  async function write(signal, start = given.textContent) {
    const meter = speedometer(speed), model = choice.value;
    speed.textContent = "";
    const body = { model: model.id, prompt: start + view.all, ...controls.body, logprobs: 5 };
    let reason = "";
    try {
      for await (const event of chunks(body, signal)) {
        const [piece] = event.choices;
        given.textContent = start;
        const tokens = tokensOf(piece);
        tokens.forEach(view.add);
        if (tokens.length) meter.add(tokens.length);
        reason = piece.finish_reason ?? reason;
      }
    } finally {
      meter.end(signal.aborted ? "stopped" : reason);
      use.hidden = !view.count;
    }
    announce(`Written: ${view.all.slice(0, 500)}`);
  }

  panel.append(
    guide("How to read this page", [
      "A language model gives every token of its vocabulary a probability, and one of them is drawn. Then the next.",
      "The stronger the colour of a token, the less likely the model held it: below 50 %, 20 %, 5 %, 1 %. Point at one to see the alternatives.",
      "Choose an alternative and the model goes on from there.",
      "A low temperature keeps to likely tokens, a high one gives unlikely ones a chance.",
    ]),
    make("div", { className: "columns" },
      make("div", {}, asked.form,
        make("div", { className: "output" }, given, view.text),
        make("div", { className: "row" }, speed, use), view.card),
      make("div", {}, controls.box)));
}

/** The stream of a completion; from models that tell no probabilities, without them. */
async function* chunks(body, signal) {
  try {
    yield* stream("/v1/completions", body, signal);
  } catch (error) {
    if (error.status !== 400 || !error.message.includes("logprobs")) throw error;
    const { logprobs, ...plain } = body;
    yield* stream("/v1/completions", plain, signal);
  }
}
