"use strict";
// Reads the maps of the explorer's data, in the format of attention_store.py, and turns them into pixels.

let data = null;
const at = (id) => document.getElementById(id);
const kept = new Map(); // the last few maps that were looked at
const KEPT = 8, POOLED = 64;
const STOPS = {
  light: [[255, 255, 255], [158, 202, 225], [0, 114, 178], [8, 39, 84]],
  dark: [[21, 24, 28], [22, 78, 116], [86, 180, 233], [240, 249, 255]],
};
const dark = matchMedia("(prefers-color-scheme: dark)");
let palette = [];

// ---- reading maps ---------------------------------------------------------------------------------------------------

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

async function mapOf(kind, layer, head) {
  const name = [kind, layer, head].join();
  if (kept.has(name)) return kept.get(name);
  const { maps, rests, q, cell, shape: [rows, columns], causal } = data.kinds[kind];
  const bytes = await inflate(maps[layer][head]);
  const means = cell ? await inflate(rests[layer][head]) : null;
  const across = Math.ceil(columns / (cell || 1)), size = rows * columns;
  const found = new Float32Array(size);
  for (let t = 0; t < rows; t++) {
    for (let s = 0; s < columns; s++) {
      const i = t * columns + s;
      const level = q <= 255 ? bytes[i] : bytes[i] * 256 + bytes[i + size];
      if (level) found[i] = level / q;
      else if (cell && !(causal && s > t)) {
        found[i] = means[Math.floor(t / cell) * across + Math.floor(s / cell)] / (510 * q);
      }
    }
  }
  return found;
}

function keep(name, map) {
  kept.set(name, map);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
}

// ---- colours --------------------------------------------------------------------------------------------------------

function choosePalette() {
  const stops = STOPS[dark.matches ? "dark" : "light"];
  palette = Array.from({ length: 256 }, (_, i) => {
    const x = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(x), stops.length - 2);
    return stops[low].map((from, c) => Math.round(from + (stops[low + 1][c] - from) * (x - low)));
  });
}

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Values as pixels: the root of each value by 1, or by the largest of its row. */
function pixels(values, rows, columns) {
  const image = new ImageData(columns, rows), byRow = at("shade").value === "row";
  for (let t = 0; t < rows; t++) {
    let top = 1;
    if (byRow) {
      top = 1e-9;
      for (let s = 0; s < columns; s++) top = Math.max(top, values[t * columns + s]);
    }
    for (let s = 0; s < columns; s++) {
      const i = t * columns + s;
      const [r, g, b] = palette[Math.min(255, Math.round(255 * Math.sqrt(values[i] / top)))];
      image.data.set([r, g, b, 255], 4 * i);
    }
  }
  return image;
}

/** The largest value of each cell, for maps that are larger than their small image. */
function pooled(values, rows, columns) {
  const step = Math.ceil(Math.max(rows, columns) / POOLED);
  if (step === 1) return [values, rows, columns];
  const high = Math.ceil(rows / step), wide = Math.ceil(columns / step), found = new Float32Array(high * wide);
  for (let t = 0; t < rows; t++) {
    for (let s = 0; s < columns; s++) {
      const i = Math.floor(t / step) * wide + Math.floor(s / step);
      found[i] = Math.max(found[i], values[t * columns + s]);
    }
  }
  return [found, high, wide];
}
