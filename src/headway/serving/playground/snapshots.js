// The snapshots of a run: the models of its evaluations, and the command that answers with each.

import { make } from "./dom.js";

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** 1,234,567 bytes as "1.2 MB". */
function size(bytes) {
  const at = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(bytes || 1) / 3)));
  return `${(bytes / 1000 ** at).toFixed(at ? 1 : 0)} ${UNITS[at]}`;
}

/** What the section shows, as a key that changes with it and a function that makes it. */
export function snapshots({ snapshots: found, run, here }) {
  return [JSON.stringify([found, run]), () => found.length && [
    make("p", { className: "soft", textContent: `The run answers with the weights that are marked as kept. The commands are for the folder ${here ? "where this server was started" : `that holds ${run}`}.` }),
    make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Table of snapshots" }, make("table", {},
      make("thead", {}, make("tr", {}, ["Step", "Held-out loss", "Size", "Answer with it"].map((textContent, at) =>
        make("th", { scope: "col", textContent, className: at < 3 ? "n" : "" })))),
      make("tbody", {}, found.map(row)))),
  ]];
}

const row = ({ name, step, val_loss: loss, bytes, kept, command }) => make("tr", { className: kept ? "kept" : "", title: name },
  make("th", { scope: "row", className: "n", textContent: step.toLocaleString("en") }, kept ? make("small", { textContent: "kept" }) : ""),
  make("td", { className: "n", textContent: loss === null ? "–" : loss.toFixed(3) }), make("td", { className: "n", textContent: size(bytes) }),
  make("td", {}, make("code", { textContent: command })));
