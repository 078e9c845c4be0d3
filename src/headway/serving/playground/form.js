// What most tabs begin with: the choice of a model, a form, and a request at a time.

import { announce, field, make, problem } from "./dom.js";

/** A choice among the models of a tab; ``value`` is the model chosen. */
export function modelChoice(models, change = () => {}) {
  const select = make("select", { onchange: () => change(models[select.selectedIndex]) },
    models.map((model) => make("option", { textContent: model.id })));
  const row = field("Model", select);
  row.classList.add("model");
  const told = make("small", { textContent: about(models[0]) });
  row.append(told);
  select.addEventListener("change", () => (told.textContent = about(models[select.selectedIndex])));
  return { row, get value() { return models[select.selectedIndex]; } };
}

const about = (model) => `${model.title ?? model.task}${model.context ? `, reads up to ${model.context.toLocaleString("en")} tokens` : ""}`;

/** A form whose button asks, and a second one that stops what was asked; ``clear`` takes away what is no longer true. */
export function asking(parts, word, ask, clear = () => {}) {
  const button = make("button", { className: "main", textContent: word });
  const stop = make("button", { type: "button", textContent: "Stop", hidden: true, onclick: () => controller?.abort() });
  let controller = null;
  const form = make("form", {}, parts, make("div", { className: "row" }, button, stop));
  const run = async (work = ask) => {
    controller?.abort();
    const mine = new AbortController();
    controller = mine;
    problem("");
    stop.hidden = false;
    form.setAttribute("aria-busy", "true");
    try {
      await work(mine.signal);
    } catch (error) {
      if (error.name === "AbortError") announce("Stopped.");
      else if (controller === mine) {
        clear();
        problem(error.message);
      }
    }
    if (controller !== mine) return;
    controller = null;
    if (document.activeElement === stop) button.focus();
    stop.hidden = true;
    form.removeAttribute("aria-busy");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return { form, run, stop: () => controller?.abort() };
}

/** The text of a field.  Throws where it is empty. */
export function textOf(control) {
  if (!control.value.trim()) throw new Error("Give a text first.");
  return control.value;
}

/** The reading guide of a tab, as a list of sentences. */
export function guide(title, sentences, open = false) {
  return make("details", { className: "guide", open }, make("summary", { textContent: title }),
    make("ul", {}, sentences.map((sentence) => make("li", { textContent: sentence }))));
}
