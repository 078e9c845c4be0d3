// How a text is written: the controls that Write and Chat share.

import { field, make, slider } from "./dom.js";

/** Controls, and ``body``: their values as the server's fields. */
export function samplingControls(longest) {
  const two = (value) => value.toFixed(2);
  const temperature = slider("Temperature", { min: 0, max: 2, step: 0.05, value: 0.8, shown: two,
    hint: "0 always takes the likeliest token." });
  const top_p = slider("Top-p", { min: 0.05, max: 1, step: 0.05, value: 1, shown: two,
    hint: "Choose among the likeliest tokens of this total probability." });
  const max_tokens = slider("Length", { min: 1, max: Math.max(16, Math.min(1000, longest ?? 200)), step: 1,
    value: Math.min(100, Math.ceil((longest ?? 200) / 2)), shown: (value) => `${value} tokens` });
  const top_k = make("input", { type: "number", min: 0, step: 1, value: 0 });
  const min_p = slider("Min-p", { min: 0, max: 0.5, step: 0.01, value: 0, shown: two,
    hint: "Leave out tokens this much less likely than the likeliest." });
  const repetition_penalty = slider("Repetition penalty", { min: 1, max: 2, step: 0.05, value: 1, shown: two,
    hint: "Above 1: repeat less." });
  const seed = make("input", { type: "number", min: 0, step: 1, placeholder: "random" });
  const stop = make("textarea", { rows: 2, placeholder: "one a line, up to four", spellcheck: false });
  const more = make("details", {}, make("summary", { textContent: "More controls" }),
    field("Top-k", top_k, "Choose among the k likeliest tokens; 0 for all."), min_p.row, repetition_penalty.row,
    field("Seed", seed, "The same seed gives the same text."), field("End before", stop));
  const box = make("div", { className: "controls" }, temperature.row, top_p.row, max_tokens.row, more);
  return {
    box,
    get body() {
      const ends = stop.value.split("\n").filter(Boolean).slice(0, 4);
      return {
        temperature: temperature.value, top_p: top_p.value, max_tokens: max_tokens.value,
        min_p: min_p.value, repetition_penalty: repetition_penalty.value, top_k: Number(top_k.value) || 0,
        ...(seed.value === "" ? {} : { seed: Number(seed.value) }), ...(ends.length ? { stop: ends } : {}),
      };
    },
  };
}

const rate = (value) => (value < 10 ? value.toFixed(1) : Math.round(value));

/** Counts tokens and says how fast they come. */
export function speedometer(output) {
  let count = 0, begun = 0, last = 0;
  return {
    add(n) {
      last = performance.now();
      if (!begun) begun = last;
      else count += n;
      const seconds = (last - begun) / 1000;
      if (seconds > 0) output.textContent = `${count + 1} tokens, ${rate(count / seconds)} tokens/s`;
    },
    end(reason) {
      const why = { length: "length reached", stop: "the model ended the text" }[reason] ?? reason;
      output.textContent = `${output.textContent || `${count + Number(begun > 0)} tokens`}${why ? `; ${why}` : ""}`;
    },
  };
}
