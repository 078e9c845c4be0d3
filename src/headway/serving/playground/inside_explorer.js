// The attention explorer in the playground: the same code as the page of `headway attention`, fed by the server.

import { field, make } from "./dom.js";

/** The explorer's elements, which explorer.js finds by their ids; ``show(data)`` draws them. */
export function explorer() {
  const select = (id, ...options) => make("select", { id }, options.map(([value, name]) => make("option", { value, textContent: name })));
  const old = make("p", { className: "note", id: "old", hidden: true, textContent: "This browser is too old to unpack the maps." });
  const box = make("div", {}, old, make("div", { id: "explorer", hidden: true },
    make("div", { id: "kinds", role: "tablist", "aria-label": "Kind of attention" }),
    make("div", {}, make("h3", { textContent: "All heads" }),
      field("Number below", select("below")), make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "All heads" }, make("div", { id: "heads" }))),
    make("div", {}, make("h3", { id: "head-name" }),
      make("div", { className: "row" }, field("Shade", select("shade", ["all", "all rows alike, 0 to 1"], ["row", "each row by its largest"])),
        make("button", { type: "button", id: "zoom", "aria-pressed": "false", textContent: "Zoom to 40 tokens" })),
      make("canvas", { id: "map", tabIndex: 0, role: "img", "aria-label": "Attention map" }), make("dl", { id: "numbers" })),
    make("div", { id: "reading" },
      make("p", { className: "soft", textContent: "Point at a token, or move with the arrow keys: the others are shaded by how much it attends to them." }),
      make("p", { className: "label", id: "queries-label" }), make("div", { className: "strip", id: "queries", role: "group", "aria-labelledby": "queries-label" }),
      make("p", { className: "label", id: "keys-label" }), make("div", { className: "strip keys", id: "keys", role: "group", "aria-labelledby": "keys-label" }),
      make("p", { id: "said", "aria-live": "polite" }), make("ol", { id: "most" }))));
  return {
    box,
    show(data) {
      if ("DecompressionStream" in window) window.openExplorer(data);
      else old.hidden = false;
    },
    /** Choose the row of a token. */
    point(axis, token) {
      if (token !== null && "DecompressionStream" in window) window.pointAtToken(axis, token);
    },
  };
}
