// Training: the curves, samples and verdict of the run that a model comes from, also while it trains.

import { run } from "./api.js";
import { draw, make, problem } from "./dom.js";
import { guide, modelChoice } from "./form.js";

const EVERY = 3000, WIDTH = 720, HEIGHT = 280, LEFT = 52, BOTTOM = 30;

export function build(panel, models) {
  const choice = modelChoice(models, () => look());
  const result = make("div", { className: "run" });
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    if (panel.hidden) return (timer = setTimeout(look, EVERY));
    try {
      const found = await run(choice.value);
      show(found);
      if (!found.finished) timer = setTimeout(look, EVERY);
    } catch (error) {
      problem(error.message);
    }
  }

  function show(found) {
    const told = found.finished ? found.verdict : `Step ${(found.last_step ?? 0).toLocaleString("en")}; still training, or left before its end.`;
    result.replaceChildren(
      make("section", { className: "card" }, make("h2", { textContent: "Verdict" }), make("p", { textContent: told || "There is no verdict." }),
        found.health ? make("p", { className: "note", textContent: found.health }) : ""),
      make("section", { className: "card" }, make("h2", { textContent: "Loss" }), curves(found),
        make("p", { className: "soft legend-of-curves" }, make("span", { className: "training", textContent: "training" }), make("span", { className: "validation", textContent: "held out" }))),
      ...(found.samples.length ? [make("section", { className: "card" }, make("h2", { textContent: "Samples" }),
        found.samples.reverse().map(({ step, text }) => make("figure", {}, make("figcaption", { className: "soft", textContent: `step ${step}` }),
          make("p", { className: "given", dir: "auto", textContent: text }))))] : []));
  }

  panel.append(guide("How to read this page", [
    "The loss is how badly the model predicts: lower is better. The line of dots is on data that the model does not learn from.",
    "When the training loss falls and the other rises, the model memorises. The weights of the lowest held-out loss are kept.",
  ]), make("form", {}, choice.row), result);
  panel.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  look();
}

/** Both losses against the step, as lines with axes. */
function curves({ steps, evaluations }) {
  const all = [...steps, ...evaluations];
  if (!all.length) return make("p", { className: "soft", textContent: "Nothing is logged yet." });
  const most = Math.max(...all.map(([step]) => step), 1), values = all.map(([, loss]) => loss);
  const low = Math.min(...values), span = Math.max(...values) - low || 1;
  const x = (step) => LEFT + ((WIDTH - LEFT - 12) * step) / most, y = (loss) => 12 + ((HEIGHT - BOTTOM - 20) * (low + span - loss)) / span;
  const path = (points) => points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ");
  const last = (points) => (points.length ? points.at(-1)[1].toFixed(3) : "none");
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane curves", role: "img",
    "aria-label": `Loss over ${most} steps: training ${last(steps)}, held out ${last(evaluations)} at the end` });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const loss = low + span * part;
    svg.append(draw("line", { x1: LEFT, x2: WIDTH - 12, y1: y(loss), y2: y(loss) }), draw("text", { x: LEFT - 8, y: y(loss) + 4, "text-anchor": "end" }, loss.toFixed(2)),
      draw("text", { x: x(most * part), y: HEIGHT - 8, "text-anchor": part === 1 ? "end" : "middle" }, Math.round(most * part).toLocaleString("en")));
  }
  svg.append(draw("polyline", { points: path(steps), class: "training" }), draw("polyline", { points: path(evaluations), class: "validation" }),
    ...evaluations.map(([step, loss]) => draw("circle", { cx: x(step), cy: y(loss), r: 3 }, draw("title", {}, `step ${step}: ${loss.toFixed(3)}`))));
  return svg;
}
