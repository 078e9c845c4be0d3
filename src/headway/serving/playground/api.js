// The server's routes.  A refusal becomes an Error whose message is the server's own sentence.

import { note } from "./dom.js";

let key = "";

/** The key of the server, kept in memory alone. */
export function useKey(given) {
  key = given;
}

const headers = (more = {}) => ({ ...more, ...(key ? { authorization: `Bearer ${key}` } : {}) });

async function refused(response) {
  let said = "", code = null;
  try {
    ({ message: said, code } = (await response.json()).error);
  } catch {
    said = response.statusText;
  }
  const error = new Error(said || `The server answered with status ${response.status}.`);
  [error.status, error.code] = [response.status, code];
  error.wait = Number(response.headers.get("retry-after")) || 0;
  return error;
}

async function reach(path, options) {
  try {
    return await fetch(`.${path}`, options); // the server may have a prefix
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is it still running?");
  }
}

/** The models that are served. */
export async function models() {
  const response = await reach("/v1/models", { headers: headers() });
  if (!response.ok) throw await refused(response);
  return (await response.json()).data;
}

const post = (path, body, signal) =>
  reach(path, { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal });

/** The run that a model comes from, as its directory tells it: now, or of a run that is watched, after some seconds or at its end. */
export async function run(model, wait = 0) {
  const asked = new URLSearchParams({ model: model.id, ...(wait ? { wait } : {}) });
  const response = await reach(`/training?${asked}`, { headers: headers() });
  if (!response.ok) throw await refused(response);
  return response.json();
}

/** The answer of a route. */
export async function ask(path, body, signal) {
  const response = await post(path, body, signal);
  if (!response.ok) throw await refused(response);
  return response.json();
}

/** The answers of a model to some inputs; what it warns about is shown. */
export async function answers(model, inputs, options = {}, signal) {
  const found = await ask(model.route, { model: model.id, inputs, ...options }, signal);
  if (found.warnings) note(`${found.warnings.join("; ")}.`);
  return found.answers;
}

/** A text from the server as events, one object each; where the context has less room than was asked for, as long as fits. */
export async function* stream(path, body, signal) {
  try {
    yield* events(path, body, signal);
  } catch (error) {
    if (error.code !== "context_length_exceeded") throw error;
    const [reads, has] = (error.message.match(/\d[\d,]*/g) ?? []).map((number) => Number(number.replace(/,/g, "")));
    if (!(reads - has >= 1 && reads - has < body.max_tokens)) throw error;
    yield* events(path, { ...body, max_tokens: reads - has }, signal);
  }
}

/** Events until the server says that it is done. */
async function* events(path, body, signal) {
  const response = await post(path, { ...body, stream: true }, signal);
  if (!response.ok) throw await refused(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) throw new Error("The server ended the text early.");
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ")) continue;
      if (event === "data: [DONE]") return;
      const found = JSON.parse(event.slice(6));
      if (found.error) throw new Error(found.error.message);
      yield found;
    }
  }
}
