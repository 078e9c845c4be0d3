// Vectors of tokens on a plane, and position encodings.

import { draw, make, slider } from "./dom.js";

const WIDTH = 640, HEIGHT = 360, MARGIN = 44;

/** Tokens as points, layer by layer. */
export function plane({ plane: layers, norms }, names) {
  const box = make("div"), last = layers.length - 1;
  const show = (layer) => {
    const points = layers[layer], [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
    const scale = (values, from, to) => {
      const low = Math.min(...values), span = Math.max(...values) - low || 1;
      return (value) => from + ((value - low) / span) * (to - from);
    };
    const x = scale(xs, MARGIN, WIDTH - MARGIN - 40), y = scale(ys, HEIGHT - 40, 32);
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane", role: "img",
      "aria-label": `Vectors of ${names.length} tokens ${layer ? `after layer ${layer}` : "after the embedding"}` });
    svg.append(draw("line", { x1: 8, y1: HEIGHT - 8, x2: WIDTH - 8, y2: HEIGHT - 8 }), draw("line", { x1: 8, y1: 8, x2: 8, y2: HEIGHT - 8 }),
      draw("text", { x: WIDTH - 8, y: HEIGHT - 13, "text-anchor": "end", class: "axis" }, "first component →"),
      draw("text", { x: 14, y: 18, class: "axis" }, "↑ second component"));
    const free = roomFor();
    points.forEach(([a, b], number) => {
      const name = names[number].slice(0, 14), beside = [x(a) + 7, y(b) + 4];
      svg.append(draw("g", {}, draw("circle", { cx: x(a).toFixed(1), cy: y(b).toFixed(1), r: 4 }),
        ...(free(beside, name) ? [draw("text", { x: beside[0].toFixed(1), y: beside[1].toFixed(1) }, name)] : []),
        draw("title", {}, `${number + 1} ${names[number]}, length ${norms[layer][number].toFixed(2)}`)));
    });
    const mean = norms[layer].reduce((a, b) => a + b, 0) / norms[layer].length;
    box.replaceChildren(svg, make("p", { className: "soft", textContent: `Mean length of a vector: ${mean.toFixed(2)}. Point at a dot for its token; names that would cover each other are left out.` }));
  };
  const layer = slider("After layer", { min: 0, max: last, step: 1, value: last, change: show,
    shown: (value) => (value ? `${value} of ${last}` : "0, the embedding") });
  show(last);
  return make("div", {}, layer.row, box);
}

/** Whether a name can be written at a place without covering another; a point without a name tells it when pointed at. */
function roomFor() {
  const taken = [];
  return ([left, bottom], name) => {
    const box = [left, bottom - 11, left + 8 * name.length, bottom + 3];
    if (taken.some((one) => box[0] < one[2] && one[0] < box[2] && box[1] < one[3] && one[1] < box[3])) return false;
    return taken.push(box);
  };
}

const MEANINGS = {
  sinusoidal: "sines and cosines, added to the vectors: a row is a position, a column an entry of the vector",
  learned: "a learned table, added to the vectors: a row is a position, a column an entry of the vector",
  rotary: "rotary: pairs of entries of queries and keys turn with the position. A bar is the number of tokens in one turn, on a logarithmic scale",
  alibi: "ALiBi: a bias on the scores that falls with the distance; a line is a head",
  relative: "relative: a learned bias on the scores by distance; a line is a head",
};

/** Each stack's position encoding as a picture. */
export function positions(found) {
  return make("div", {}, Object.entries(found).map(([stack, { kind, values, causal }]) => make("figure", {},
    make("figcaption", { className: "soft", textContent: `${stack === "self" ? "" : `${stack}: `}${MEANINGS[kind] ?? kind}` }),
    { sinusoidal: heat, learned: heat, rotary: turns }[kind]?.(values) ?? lines(values, causal))));
}

function heat(rows) {
  const canvas = make("canvas", { className: "heat", role: "img", "aria-label": `${rows.length} positions` });
  [canvas.width, canvas.height] = [rows[0].length, rows.length];
  const top = Math.max(...rows.flat().map(Math.abs), 1e-9), image = new ImageData(canvas.width, canvas.height);
  rows.flat().forEach((value, i) => {
    const share = Math.sqrt(Math.abs(value) / top), [r, g, b] = value < 0 ? [213, 94, 0] : [0, 114, 178];
    image.data.set([r, g, b, Math.round(255 * share)], 4 * i);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function turns(values) {
  const top = Math.log(Math.max(...values)), width = WIDTH / values.length;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} 140`, class: "plane", role: "img", "aria-label": `Turns of ${values.length} pairs` });
  values.forEach((value, i) => {
    const height = 10 + (120 * Math.log(value)) / top;
    svg.append(draw("rect", { x: i * width + 1, y: 136 - height, width: Math.max(1, width - 2), height },
      draw("title", {}, `pair ${i + 1}: one turn in ${value.toFixed(1)} tokens`)));
  });
  return svg;
}

function lines(heads, causal) {
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} 200`, class: "plane lines", role: "img", "aria-label": `Biases of ${heads.length} heads by distance` });
  const seen = heads.map((biases) => (causal ? biases.slice(0, Math.ceil(biases.length / 2)) : biases));
  const all = seen.flat(), low = Math.min(...all), span = Math.max(...all) - low || 1;
  for (const biases of seen) {
    const points = biases.map((bias, i) => `${((WIDTH * i) / Math.max(1, biases.length - 1)).toFixed(1)},${(190 - (180 * (bias - low)) / span).toFixed(1)}`);
    svg.append(draw("polyline", { points: points.join(" ") }));
  }
  return svg;
}
