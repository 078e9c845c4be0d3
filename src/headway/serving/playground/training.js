// Training: the curves, samples, verdict and snapshots of a run, also while it trains.

import { run } from "./api.js";
import { announce, draw, make, problem } from "./dom.js";
import { guide, modelChoice } from "./form.js";
import { snapshots } from "./snapshots.js";

const EVERY = 3000, TRIES = 3, NEWEST = 3, WIDTH = 720, HEIGHT = 280, LEFT = 52, BOTTOM = 30;
const SECTIONS = { Verdict: verdict, Loss: losses, Snapshots: snapshots, Samples: samples };

export function build(panel, models) {
  const { watched } = models[0], choice = modelChoice(models, () => begin());
  const boxes = new Map(Object.keys(SECTIONS).map((title) => [title, make("section", { className: "card", "aria-label": title, hidden: true })]));
  const end = make("p", { className: "note", hidden: true });
  let timer = 0, failed = 0, turn = 0, last = null;

  function begin() {
    clearTimeout(timer);
    turn += 1;
    look(0, turn);
  }

  /** Ask and show, and go on as long as there may be something new; a run that is watched answers when there is. */
  async function look(wait, mine) {
    if (panel.hidden && !watched) return (timer = setTimeout(look, EVERY, 0, mine));
    const asked = Date.now();
    try {
      const found = await run(choice.value, wait);
      if (mine !== turn) return;
      [failed, last] = [0, found];
      show(found);
      if (watched ? found.ended : found.finished) return;
      timer = setTimeout(look, watched && (!wait || Date.now() - asked > EVERY / 2) ? 0 : EVERY, watched ? EVERY / 1000 : 0, mine);
    } catch (error) {
      if (mine !== turn) return;
      if (!watched) return problem(error.message);
      over(last, "The server of this page does not answer any more. ");
      if (++failed < TRIES) timer = setTimeout(look, EVERY, 0, mine);
    }
  }

  function show(found) {
    problem("");
    end.hidden = true;
    if (found.ended) over(found);
    for (const [title, fill] of Object.entries(SECTIONS)) {
      const box = boxes.get(title), [key, parts] = fill(found);
      if (box.dataset.shown === key) continue; // what has not changed stays, with what is selected in it
      box.dataset.shown = key;
      const content = parts();
      box.hidden = !content;
      box.replaceChildren(...(content ? [make("h2", { textContent: title }), ...content] : []));
    }
  }

  /** The training is over, and the server of its page too. */
  function over(found, why = "") {
    const told = !found ? "The training has ended, or was stopped." : found.finished ? "The training has ended, and this page stays as it is now."
      : why ? "The training has ended, or was stopped; this is what was last seen of it." : "The training was stopped before its end; the same command goes on with it.";
    if (!end.hidden) return;
    end.hidden = false;
    end.replaceChildren(`${why}${told}`, ...(found ? [" To see it again: ", make("code", { textContent: found.serve }), ` ${found.here ? "in the folder where it was started" : `in the folder that holds ${found.run}`}.`] : []));
    announce(end.textContent);
  }

  const form = make("form", {}, watched ? make("p", { className: "watched" }, "Run ", make("strong", {}, make("bdi", { textContent: models[0].id }))) : choice.row);
  panel.append(guide("How to read this page", [
    "The loss is how badly the model predicts: lower is better. The line of dots is on data that the model does not learn from.",
    "The training loss is measured with dropout where the run has it, the held-out loss without: it may be the lower one.",
    "When the training loss falls and the other rises, the model memorises. The weights of the lowest held-out loss are kept.",
    "A snapshot is the model of an evaluation, which train --snapshots saves. It answers by its own name, like the run itself.",
  ]), form, end, make("div", { className: "run" }, [...boxes.values()]));
  form.addEventListener("submit", (event) => event.preventDefault());
  begin();
}

function verdict({ begun, finished, verdict, kept, last_step, health, part, ended }) {
  const step = (last_step ?? 0).toLocaleString("en");
  const told = finished ? verdict || "There is no verdict." : !begun ? "There is nothing to see yet: the data are read and the model is made first."
    : last_step === null ? "The training begins." : `Step ${step}; ${ended ? "stopped" : ended === false ? "still training" : "still training, or left before its end"}.`;
  const lines = [part ? `This is ${part}, one of the runs inside this one.` : "", told, kept].filter(Boolean);
  return [JSON.stringify([lines, health]), () => [...lines.map((textContent) => make("p", { textContent })),
    ...(health ? [make("p", { className: "note", textContent: health })] : [])]];
}

function losses(found) {
  return [JSON.stringify([found.steps, found.evaluations]), () => [make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Curves" }, curves(found)),
    make("p", { className: "soft legend-of-curves" }, make("span", { className: "training", textContent: "training" }), make("span", { className: "validation", textContent: "held out" }))]];
}

function samples({ samples }) {
  const figures = () => [...samples].reverse().map(({ step, text }) =>
    make("figure", {}, make("figcaption", { className: "soft", textContent: `step ${step}` }), make("p", { className: "given", dir: "auto", textContent: text })));
  return [JSON.stringify(samples), () => samples.length && [...figures().slice(0, NEWEST),
    ...(samples.length > NEWEST ? [make("details", {}, make("summary", { textContent: `${samples.length - NEWEST} earlier` }), figures().slice(NEWEST))] : [])]];
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
