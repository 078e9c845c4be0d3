// Elements made from text alone: nothing that a model writes is ever read as HTML.

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "textContent", "className", "id", "type", "htmlFor",
  "tabIndex", "dir", "min", "max", "step", "rows", "open", "title", "placeholder", "multiple", "accept", "name", "spellcheck"]);

/** An element with its properties, attributes and listeners (``onclick``), and its children: elements or texts. */
export function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const drawn = "http://www.w3.org/2000/svg";

/** An element of a drawing. */
export function draw(tag, given = {}, ...children) {
  const element = document.createElementNS(drawn, tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A custom property, set by script: the content policy forbids style attributes, and not this. */
export function styled(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(name, value);
  return element;
}

let numbered = 0;

/** A control with its label, and a hint that screen readers read with it. */
export function field(label, control, hint = "") {
  control.id ||= `field-${++numbered}`;
  const parts = [make("label", { htmlFor: control.id }, label), control];
  if (hint) {
    const told = make("small", { id: `${control.id}-hint`, textContent: hint });
    control.setAttribute("aria-describedby", told.id);
    parts.push(told);
  }
  return make("div", { className: "field" }, parts);
}

/** A slider that shows its number. */
export function slider(label, { min, max, step, value, hint, shown = String, change = () => {} }) {
  const input = make("input", { type: "range", min, max, step, value });
  const output = make("output", { textContent: shown(value) });
  const tell = () => {
    output.textContent = shown(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => (tell(), change(Number(input.value))));
  const found = field(label, input, hint);
  found.querySelector("label").append(output);
  tell();
  return { row: found, get value() { return Number(input.value); }, input };
}

/** Say something to those who cannot see it. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** What is worth knowing about the answers, until something else is asked. */
export function note(text) {
  const box = document.getElementById("note");
  box.hidden = !text;
  box.textContent = text;
}

/** One plain message, until the next one or none; a note goes with it. */
export function problem(text) {
  note("");
  const box = document.getElementById("problem");
  box.hidden = !text;
  box.textContent = text || "";
  if (text) box.scrollIntoView({ block: "nearest" });
}

export const percent = (share) => (share >= 0.9995 ? "100 %" : share === 0 ? "0 %" : share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

/** White space and nothing at all, made visible. */
export function visible(text) {
  const named = (c) => `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
  return text === "" ? "∅" : text.replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/[\p{Cc}\p{Cf}]/gu, named);
}

/** A file for the user to keep. */
export function download(name, parts, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
