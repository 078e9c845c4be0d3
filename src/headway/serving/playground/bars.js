// Bars: names with a share each.

import { make, percent, styled } from "./dom.js";

/** Rows [{"name", "share", "mark", "shown"}] as bars, ``shown`` instead of a name that cannot be seen; ``choose(name)`` makes each a button. */
export function bars(rows, { label, choose = null, most = 30, written = percent, scale = 1 } = {}) {
  const list = make("ul", { className: "bars", "aria-label": label });
  const add = (some) => list.append(...some.map(({ name, shown, share, mark, value }) => {
    const parts = [make("bdi", { className: "name", textContent: shown ?? name, title: shown ?? name }),
      styled(make("span", { className: "bar" }), { "--share": Math.max(0, Math.min(1, share / scale)) }),
      make("span", { className: "value", textContent: value ?? written(share) })];
    const row = choose ? make("button", { type: "button", className: "bar-row", onclick: () => choose(name) }, parts)
      : make("div", { className: `bar-row${mark ? " taken" : ""}` }, parts);
    return make("li", {}, row);
  }));
  add(rows.slice(0, most));
  if (rows.length > most) {
    const more = make("li", {}, make("button", { type: "button", textContent: `Show ${rows.length - most} more`, onclick: () => {
      more.remove();
      add(rows.slice(most));
    } }));
    list.append(more);
  }
  return list;
}

/** Tokens shaded by a signed weight: those that spoke for an answer, and those against it. */
export function weighed(tokens, weights, what) {
  const top = Math.max(...weights.map(Math.abs), 1e-9);
  return make("p", { className: "weighed", role: "group", "aria-label": what, dir: "auto" }, tokens.map((token, number) => {
    const share = weights[number] / top;
    return styled(make("span", { className: share < 0 ? "against" : "for", textContent: token,
      title: `${share < 0 ? "against" : "for"}: ${Math.abs(share).toFixed(2)}` }), { "--share": Math.abs(share) });
  }));
}
