// The page: a tab for each kind of answer that the served models give.

import { models, useKey } from "./api.js";
import { announce, make, problem } from "./dom.js";

/** What shows an answer of each kind; a task that a package brings has the tab of its kind, named by its verb. */
const FILES = { labels: "classify.js", spans: "spans.js", text: "translate.js", vectors: "compare.js", ranking: "rank.js", number: "rate.js", columns: "columns.js" };

const KINDS = ["text", ...Object.keys(FILES).filter((kind) => kind !== "text")];

const titled = (verb) => verb[0].toUpperCase() + verb.slice(1);

/** The tabs of some models: one for each kind and verb, those for writing, and one to look inside. */
function tabsOf(models) {
  const found = new Map();
  const put = (id, title, file, model) => {
    if (!found.has(id)) found.set(id, { id, title, file: `./${file}`, models: [] });
    found.get(id).models.push(model);
  };
  const rank = (model) => (model.completions ? 0 : 1 + KINDS.indexOf(model.kind));
  for (const model of [...models].sort((a, b) => rank(a) - rank(b))) {
    if (model.completions) put("write", "Write", "write.js", model);
    if (model.chat) put("chat", "Chat", "chat.js", model);
    if (!model.completions && FILES[model.kind]) {
      const title = { vectors: "Compare", columns: "Columns" }[model.kind] ?? titled(model.verb);
      put(title.toLowerCase(), title, FILES[model.kind], model);
    }
  }
  for (const model of models) if (model.reads === "text") put("inside", "Look inside", "inside.js", model);
  for (const model of models) if (model.training) put("training", "Training", "training.js", model);
  return [...found.values()];
}

const panels = new Map(); // what a tab holds is kept while another is looked at
const list = document.getElementById("tabs"), main = document.getElementById("panel");
let shown = [], tries = 0;

/** Show a tab; one that the user ``asked`` for is a step that the browser's Back takes back. */
function choose(id, { focus = false, asked = false } = {}) {
  for (const { id: other } of shown) {
    const tab = document.getElementById(`tab-${other}`), chosen = other === id;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
    if (chosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (panels.has(other)) panels.get(other).hidden = !chosen;
  }
  problem("");
  if (location.hash !== `#${id}`) history[asked ? "pushState" : "replaceState"](null, "", `#${id}`);
  if (!panels.has(id)) open(id);
}

async function open(id) {
  const tab = shown.find((one) => one.id === id);
  const panel = make("section", { id: `panel-${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}` });
  panels.set(id, panel);
  main.append(panel);
  let found;
  try {
    found = await import(tries ? `${tab.file}?try=${tries}` : tab.file); // browsers remember what could not be loaded
  } catch {
    tries += 1;
    panels.delete(id);
    panel.remove();
    problem("The server does not answer. Is it still running? Choose the tab again to try again.");
    return;
  }
  try {
    found.build(panel, tab.models);
  } catch (error) {
    problem(error.message);
  }
}

function move(event) {
  const at = shown.findIndex(({ id }) => `tab-${id}` === event.target.id);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: shown.length - 1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  choose(shown[(to + shown.length) % shown.length].id, { focus: true, asked: true });
}

async function begin() {
  let found = [];
  problem("");
  try {
    found = await models();
  } catch (error) {
    if (error.status === 401) document.getElementById("access").open = true;
    problem(error.status === 401 ? "This server needs a key. Enter it above." : error.message);
    return;
  }
  document.getElementById("access").hidden = found.length > 0 && found.every(({ watched }) => watched);
  panels.clear();
  main.replaceChildren();
  shown = tabsOf(found);
  list.replaceChildren(...shown.map(({ id, title }) => make("button", {
    id: `tab-${id}`, type: "button", role: "tab", textContent: title, "aria-controls": `panel-${id}`,
    onclick: () => choose(id, { asked: true }),
  })));
  list.addEventListener("keydown", move);
  if (!shown.length) {
    main.append(make("p", { className: "note", textContent: "The server has no models. Start it with a run: headway serve RUN" }));
    return;
  }
  if (!found[0].watched) announce(`${found.length} model${found.length > 1 ? "s" : ""} served.`);
  const asked = location.hash.slice(1);
  choose(shown.some(({ id }) => id === asked) ? asked : shown[0].id);
}

window.addEventListener("popstate", () => {
  const id = location.hash.slice(1);
  if (shown.some((one) => one.id === id)) choose(id);
});
document.getElementById("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(document.getElementById("key").value.trim());
  begin();
});
begin();
