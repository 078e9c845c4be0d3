// What comes next: by layer, and as a distribution that temperature and top-p change.

import { bars } from "./bars.js";
import { make, percent, slider, styled } from "./dom.js";

const DRAWN = 12;

/** Logits as the probabilities of a sampler, likeliest first; 0 where top-p leaves one out. */
export function sampled(logits, temperature, top_p) {
  if (temperature === 0) return logits.map((_, at) => (at ? 0 : 1));
  const scaled = logits.map((logit) => Math.exp((logit - logits[0]) / temperature));
  const total = scaled.reduce((a, b) => a + b, 0);
  let before = 0;
  const kept = scaled.map((value) => {
    const keeps = before < top_p;
    before += value / total;
    return keeps ? value / total : 0;
  });
  const left = kept.reduce((a, b) => a + b, 0);
  return kept.map((share) => share / left);
}

/** The answers as bars, under two sliders. */
export function distribution(outputs) {
  const shown = make("div");
  const two = (value) => value.toFixed(2);
  const tell = () => {
    const now = sampled(outputs.map(({ logit }) => logit), temperature.value, top_p.value);
    const plain = temperature.value === 1 && top_p.value === 1;
    const rows = outputs.map(({ name, probability }, at) => ({ name, share: plain ? probability : now[at] }));
    shown.replaceChildren(bars(rows.slice(0, DRAWN), { label: "Likeliest answers" }),
      make("p", { className: "soft", textContent: plain ? "As the model gives them." : `As a sampler would draw them, among the ${outputs.length} likeliest.` }));
  };
  const temperature = slider("Temperature", { min: 0, max: 2, step: 0.05, value: 1, shown: two, change: () => tell() });
  const top_p = slider("Top-p", { min: 0.05, max: 1, step: 0.05, value: 1, shown: two, change: () => tell() });
  tell();
  return make("div", {}, outputs.length > 8 ? make("div", { className: "pair" }, temperature.row, top_p.row) : "", shown);
}

/** The likeliest answer after each layer, for every token. */
export function lensTable({ best, at: chosen }, names, at) {
  const columns = best[0].length === names.length ? names : ["whole text"];
  const head = make("tr", {}, make("th", { scope: "col", textContent: "After" }), columns.map((name, number) =>
    make("th", { scope: "col", className: number === at ? "here" : "" }, make("bdi", { textContent: name }))));
  const rows = best.map((cells, layer) => make("tr", {}, make("th", { scope: "row", textContent: layer ? `layer ${layer}` : "embedding" }),
    cells.map(({ name, probability }, number) => styled(make("td", { className: `shaded${number === at ? " here" : ""}`,
      title: (columns.length === 1 || number === at ? chosen[layer] : [{ name, probability }]).map((one) => `${one.name} ${percent(one.probability)}`).join(", ") },
    make("bdi", { textContent: name })), { "--share": probability }))));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Logit lens" },
    make("table", { className: "lens" }, make("thead", {}, head), make("tbody", {}, rows)));
}
