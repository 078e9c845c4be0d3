// The attention explorer: draws the maps, and follows pointer and keys.  explorer_maps.js comes before it.

const state = { kind: 0, layer: 0, head: 0, query: 0, key: 0, zoomed: false };
const ZOOMED = 40, LISTED = 8;
let weights = null, place = null, wanted = 0;

// ---- small multiples ------------------------------------------------------------------------------------------------

function buildHeads() {
  const kind = data.kinds[state.kind], grid = at("heads"), n = kind.maps[0].length;
  grid.replaceChildren();
  grid.style.gridTemplateColumns = `max-content repeat(${n}, minmax(2.4rem, ${n > 4 ? 7 : 9}rem))`;
  const put = (tag, className, text) => {
    const element = document.createElement(tag);
    element.className = className;
    element.textContent = text;
    grid.append(element);
    return element;
  };
  put("div", "row", "head");
  for (let head = 0; head < n; head++) put("div", "column", String(head + 1));
  kind.maps.forEach((row, layer) => {
    put("div", "row", layer ? String(layer + 1) : "layer 1");
    row.forEach((_, head) => {
      const button = put("button", "", "");
      button.type = "button";
      button.dataset.layer = layer;
      button.dataset.head = head;
      button.append(document.createElement("canvas"), document.createElement("span"));
      button.addEventListener("click", () => choose({ layer, head }));
      button.addEventListener("keydown", (event) => moveHead(event, layer, head));
    });
  });
}

const buttonOf = (layer, head) => at("heads").querySelector(`[data-layer="${layer}"][data-head="${head}"]`);

function moveHead(event, layer, head) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const next = step && buttonOf(layer + step[0], head + step[1]);
  if (!next) return;
  event.preventDefault();
  choose({ layer: layer + step[0], head: head + step[1] });
  next.focus();
}

async function drawHeads() {
  const mine = ++wanted, kind = state.kind, [rows, columns] = data.kinds[kind].shape;
  for (const button of at("heads").querySelectorAll("button")) {
    const values = await mapOf(kind, +button.dataset.layer, +button.dataset.head);
    if (mine !== wanted) return;
    const [small, high, wide] = pooled(values, rows, columns), canvas = button.firstChild;
    [canvas.width, canvas.height] = [wide, high];
    canvas.getContext("2d").putImageData(pixels(small, high, wide), 0, 0);
  }
}

function writeBelow() {
  const found = data.kinds[state.kind].statistics[at("below").value];
  for (const button of at("heads").querySelectorAll("button")) {
    const { layer, head } = button.dataset, number = found ? found[layer][head].toFixed(2) : "";
    button.lastChild.textContent = number;
    button.setAttribute("aria-label", `layer ${+layer + 1}, head ${+head + 1}${number && `: ${number}`}`);
  }
}

// ---- the large map --------------------------------------------------------------------------------------------------

const short = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** What part of the map is shown: first query, first key, and how many of each. */
function view(rows, columns) {
  if (!state.zoomed) return [0, 0, rows, columns];
  const begin = (chosen, all) => Math.max(0, Math.min(chosen - ZOOMED / 2, all - ZOOMED));
  return [begin(state.query, rows), begin(state.key, columns), Math.min(ZOOMED, rows), Math.min(ZOOMED, columns)];
}

function drawMap() {
  const kind = data.kinds[state.kind], [rows, columns] = kind.shape, canvas = at("map");
  const names = { y: data.tokens[kind.queries], x: data.tokens[kind.keys] };
  const [q0, k0, high, wide] = view(rows, columns);
  const context = canvas.getContext("2d"), ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  context.font = "12px system-ui, sans-serif";
  const most = width < 420 ? 7 : 12;
  const longest = (all, from, n) =>
    Math.max(24, ...all.slice(from, from + n).map((name) => context.measureText(short(name, most)).width));
  const over = longest(names.x, k0, wide); // names of columns lean to the right, by 60 degrees
  const left = longest(names.y, q0, high) + 26, top = over * 0.87 + 34;
  const cell = Math.min(34, (width - left - over / 2 - 8) / wide, Math.max(560, width) / high);
  const height = Math.ceil(top + cell * high + 4);
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  canvas.style.height = `${height}px`;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const sheet = document.createElement("canvas");
  [sheet.width, sheet.height] = [columns, rows];
  sheet.getContext("2d").putImageData(pixels(weights, rows, columns), 0, 0);
  context.imageSmoothingEnabled = cell < 1;
  context.drawImage(sheet, k0, q0, wide, high, left, top, cell * wide, cell * high);
  place = { left, top, cell, q0, k0, high, wide };
  frame(context, place, names, most);
}

/** Axes, names of tokens as far as there is room, and the chosen row and column. */
function frame(context, { left, top, cell, q0, k0, high, wide }, names, most) {
  const ink = colourOf("--ink"), soft = colourOf("--soft"), paper = colourOf("--paper"), mark = colourOf("--validation");
  context.strokeStyle = colourOf("--rule");
  context.strokeRect(left - 0.5, top - 0.5, cell * wide + 1, cell * high + 1);
  const every = Math.ceil(14 / cell);
  context.direction = "ltr";
  const label = (text, x, y, turned, strong) => {
    context.save();
    context.translate(x, y);
    if (turned) context.rotate(-Math.PI / 3);
    context.font = `${strong ? "bold " : ""}12px system-ui, sans-serif`;
    context.textAlign = turned ? "left" : "right";
    context.textBaseline = "middle";
    const shown = short(text, most);
    if (strong && every > 1) {
      const room = context.measureText(shown).width;
      context.fillStyle = paper;
      context.fillRect(turned ? -3 : -room - 3, -9, room + 6, 18);
    }
    context.fillStyle = strong ? mark : ink;
    context.fillText(shown, 0, 0);
    context.restore();
  };
  const row = (t, strong) => label(names.y[t], left - 6, top + (t - q0 + 0.5) * cell, false, strong);
  const column = (s, strong) => label(names.x[s], left + (s - k0 + 0.5) * cell, top - 8, true, strong);
  for (let t = q0; t < q0 + high; t += every) if (t !== state.query) row(t, false);
  for (let s = k0; s < k0 + wide; s += every) if (s !== state.key) column(s, false);
  const across = [left, top + (state.query - q0) * cell, cell * wide, cell];
  const down = [left + (state.key - k0) * cell, top, cell, cell * high];
  if (state.query >= q0 && state.query < q0 + high) {
    outline(context, across, mark);
    row(state.query, true);
  }
  if (state.key >= k0 && state.key < k0 + wide) {
    outline(context, down, mark);
    column(state.key, true);
  }
  context.fillStyle = soft;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText("attended to →", left, 11);
  if (cell * high < 60) return;
  context.translate(11, top);
  context.rotate(-Math.PI / 2);
  context.textAlign = "right";
  context.fillText("← attends", 0, 0);
}

/** A row or a column is marked: around it, or, where it is thin, across the whole map but so that one sees through. */
function outline(context, [x, y, width, height], mark) {
  const thin = Math.min(width, height) < 4;
  context.globalAlpha = thin ? 0.55 : 1;
  context.strokeStyle = context.fillStyle = mark;
  if (thin) context.fillRect(x, y, Math.max(1, width), Math.max(1, height));
  else context.strokeRect(x - 0.5, y - 0.5, width + 1, height + 1);
  context.globalAlpha = 1;
}

function pointAt(event) {
  if (!place) return;
  const box = at("map").getBoundingClientRect(), { left, top, cell, q0, k0, high, wide } = place;
  const key = Math.floor((event.clientX - box.left - left) / cell);
  const query = Math.floor((event.clientY - box.top - top) / cell);
  if (query >= 0 && query < high && key >= 0 && key < wide) point(q0 + query, k0 + key);
}

function moveInMap(event) {
  const [rows, columns] = data.kinds[state.kind].shape;
  const step = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0],
    Home: [0, -columns], End: [0, columns],
  }[event.key];
  if (!step) return;
  event.preventDefault();
  const within = (value, all) => Math.max(0, Math.min(all - 1, value));
  point(within(state.query + step[0], rows), within(state.key + step[1], columns));
}

// ---- the text, or the image ---------------------------------------------------------------------------------------

/** Whether the tokens that attend and those attended to are one strip: a text is, an image is shown twice. */
const single = (kind) => kind.queries === kind.keys && !data.patches;

function buildStrips() {
  const kind = data.kinds[state.kind], self = single(kind), tokens = data.patches ? "patches" : "tokens";
  at("keys").hidden = at("keys-label").hidden = self;
  at("queries-label").textContent = self ? `the ${kind.queries}` : `${kind.queries}: the ${tokens} that attend`;
  at("keys-label").textContent = `${kind.keys}: the ${tokens} attended to`;
  for (const [id, axis, chosen] of [["queries", kind.queries, "query"], ["keys", kind.keys, "key"]]) {
    const strip = at(id);
    strip.replaceChildren();
    strip.dir = data.direction[axis];
    if (id === "keys" && self) continue;
    data.tokens[axis].forEach((name, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.tabIndex = -1;
      const here = () => (chosen === "query" ? point(index, state.key) : point(state.query, index));
      button.addEventListener("mouseenter", here);
      button.addEventListener("focus", here);
      button.addEventListener("click", here);
      button.addEventListener("keydown", (event) => moveInStrip(event, strip, index));
      strip.append(button);
    });
    if (data.patches) asImage(strip);
  }
}

/** A strip of patches becomes the image that they were cut from. */
async function asImage(strip) {
  const { columns, height, width, pixels } = data.patches, size = height * width;
  at("reading").classList.add("image");
  strip.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  const patches = [...strip.children].slice(1), colours = await inflate(pixels);
  patches.forEach((button, number) => {
    const canvas = document.createElement("canvas"), image = new ImageData(width, height);
    [canvas.width, canvas.height] = [width, height];
    for (let i = 0; i < size; i++) {
      const from = 3 * (number * size + i);
      image.data.set([colours[from], colours[from + 1], colours[from + 2], 255], 4 * i);
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    button.setAttribute("aria-label", button.textContent);
    button.replaceChildren(canvas);
  });
}

function moveInStrip(event, strip, index) {
  const forward = strip.dir === "rtl" ? -1 : 1;
  const line = data.patches ? data.patches.columns : 10;
  const step = { ArrowLeft: -forward, ArrowRight: forward, ArrowUp: -line, ArrowDown: line }[event.key];
  const next = step && strip.children[Math.max(0, Math.min(strip.children.length - 1, index + step))];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function shadeStrips() {
  const kind = data.kinds[state.kind], columns = kind.shape[1], self = single(kind);
  const row = weights.subarray(state.query * columns, (state.query + 1) * columns);
  const top = row.reduce((a, b) => Math.max(a, b), 1e-9), shaded = at(self ? "queries" : "keys").children;
  for (let s = 0; s < columns; s++) {
    shaded[s].style.setProperty("--weight", Math.sqrt(row[s] / top).toFixed(3));
    shaded[s].classList.toggle("hidden", kind.causal && s > state.query);
  }
  [...at("queries").children].forEach((button, index) => {
    button.classList.toggle("query", index === state.query);
    button.tabIndex = index === state.query ? 0 : -1;
  });
  bringIntoView(at("queries"), state.query);
  if (!self) bringIntoView(at("keys"), state.key);
  [...at("keys").children].forEach((button, index) => (button.tabIndex = index === state.key ? 0 : -1));
  return row;
}

/** A strip is scrolled, and the page is not, until a token of it can be seen. */
function bringIntoView(strip, index) {
  const { offsetTop, offsetHeight } = strip.children[index];
  const above = offsetTop < strip.scrollTop, below = offsetTop + offsetHeight > strip.scrollTop + strip.clientHeight;
  if (above || below) strip.scrollTop = offsetTop - strip.clientHeight / 2;
}

/** A weight as far as it is known. */
function written(weight, { q }) {
  if (weight < 0.5 / q && q < 65535) return `< ${(0.5 / q).toFixed(4)}`;
  return weight.toFixed(q >= 4095 ? 4 : q >= 255 ? 3 : 2);
}

function describe(row) {
  const kind = data.kinds[state.kind], names = data.tokens[kind.keys], next = data.next[state.query];
  const writes = next && kind.queries !== "source" ? `, before ‘${next}’,` : "";
  at("said").textContent = `${state.query + 1} ‘${data.tokens[kind.queries][state.query]}’${writes} attends to`;
  const order = [...row.keys()].filter((s) => !(kind.causal && s > state.query));
  order.sort((a, b) => row[b] - row[a] || a - b);
  at("most").replaceChildren(...order.slice(0, LISTED).map((s) => {
    const item = document.createElement("li"), bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${100 * row[s]}%`;
    for (const [className, text] of [["weight", written(row[s], kind)], ["name", `${s + 1} ${names[s]}`]]) {
      const part = document.createElement("bdi");
      part.className = className;
      part.textContent = text;
      item.append(part);
    }
    item.append(bar);
    return item;
  }));
  const chosen = written(row[state.key], kind);
  at("map").setAttribute("aria-label", `Map of layer ${state.layer + 1}, head ${state.head + 1}. `
    + `Token ${state.query + 1}, ${data.tokens[kind.queries][state.query]}, gives ${chosen} to token `
    + `${state.key + 1}, ${names[state.key]}. Arrow keys move.`);
}

// ---- what the pieces are told ---------------------------------------------------------------------------------------

/** A query and a key are looked at. */
function point(query, key) {
  if (query === state.query && key === state.key) return;
  [state.query, state.key] = [query, key];
  if (weights) show();
}

function show() {
  drawMap();
  describe(shadeStrips());
}

/** A head is chosen. */
async function choose(change) {
  Object.assign(state, change);
  const { kind, layer, head } = state, name = [kind, layer, head].join();
  for (const button of at("heads").querySelectorAll("button")) {
    const chosen = +button.dataset.layer === layer && +button.dataset.head === head;
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
  const map = await mapOf(kind, layer, head);
  if (name !== [state.kind, state.layer, state.head].join()) return;
  keep(name, map);
  weights = map;
  at("head-name").textContent = `Layer ${layer + 1}, head ${head + 1}`;
  const numbers = Object.entries(data.kinds[kind].statistics).flatMap(([key, values]) => {
    const term = document.createElement("dt"), value = document.createElement("dd");
    term.textContent = data.measures[key][0];
    const meaning = document.createElement("small");
    value.textContent = `${values[layer][head].toFixed(3)} ${data.measures[key][1]} `;
    meaning.textContent = data.measures[key][2];
    value.append(meaning);
    return [term, value];
  });
  at("numbers").replaceChildren(...numbers);
  show();
}

/** The token of an axis is looked at, where the kind of attention shown has rows of that axis. */
function pointAtToken(axis, token) {
  if (data && data.kinds[state.kind].queries === axis) point(token, state.key);
}

/** A kind of attention is chosen. */
function chooseKind(number) {
  const found = data.kinds[number], [rows, columns] = found.shape;
  weights = null;
  Object.assign(state, { kind: number, layer: Math.min(state.layer, found.maps.length - 1), zoomed: false });
  Object.assign(state, { head: Math.min(state.head, found.maps[0].length - 1) });
  Object.assign(state, { query: Math.min(rows - 1, Math.floor(rows / 2)), key: 0 });
  [...at("kinds").children].forEach((tab, index) => {
    tab.setAttribute("aria-selected", index === number);
    tab.tabIndex = index === number ? 0 : -1;
  });
  at("zoom").hidden = Math.max(rows, columns) <= ZOOMED;
  at("zoom").setAttribute("aria-pressed", "false");
  const before = at("below").value;
  at("below").replaceChildren(...Object.keys(found.statistics).map((key) => new Option(data.measures[key][0], key)));
  if (before in found.statistics) at("below").value = before;
  buildHeads();
  buildStrips();
  writeBelow();
  choose({});
  drawHeads();
}

/** A list of tabs, one for each kind of attention if there are several. */
function buildKinds() {
  at("kinds").replaceChildren();
  if (data.kinds.length < 2) return;
  data.kinds.forEach((kind, number) => {
    const tab = document.createElement("button");
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.textContent = kind.title;
    tab.addEventListener("click", () => chooseKind(number));
    tab.addEventListener("keydown", (event) => {
      const next = number + { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!(next in data.kinds)) return;
      chooseKind(next);
      at("kinds").children[next].focus();
    });
    at("kinds").append(tab);
  });
}

/** Follow the pointer, the keys and the window; once for a page. */
function listen() {
  at("shade").addEventListener("change", () => (show(), drawHeads()));
  at("below").addEventListener("change", writeBelow);
  at("zoom").addEventListener("click", () => {
    state.zoomed = !state.zoomed;
    at("zoom").setAttribute("aria-pressed", state.zoomed);
    show();
  });
  at("map").addEventListener("mousemove", (event) => state.zoomed || pointAt(event));
  at("map").addEventListener("click", pointAt);
  at("map").addEventListener("keydown", moveInMap);
  addEventListener("resize", () => weights && at("map").clientWidth && show());
  dark.addEventListener("change", () => (choosePalette(), weights && at("map").clientWidth && (show(), drawHeads())));
}

/** Show the maps of ``found``; the playground calls it again for every text. */
function openExplorer(found) {
  if (!data) listen();
  [data, weights, place] = [found, null, null];
  kept.clear();
  at("explorer").hidden = false;
  choosePalette();
  const longest = Math.max(...data.kinds.flatMap((kind) => kind.shape));
  at("shade").value = longest > POOLED ? "row" : "all";
  buildKinds();
  chooseKind(data.kinds.length - 1);
}

const embedded = at("data");
if (!("DecompressionStream" in window)) at("old").hidden = false;
else if (embedded) openExplorer(JSON.parse(embedded.textContent));
