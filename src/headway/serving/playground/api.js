// The server's routes.  A refusal becomes an Error whose message is the server's own sentence.

let key = "";

/** The key of the server, kept in memory alone. */
export function useKey(given) {
  key = given;
}

const headers = (more = {}) => ({ ...more, ...(key ? { authorization: `Bearer ${key}` } : {}) });

async function refused(response) {
  let said = "";
  try {
    said = (await response.json()).error.message;
  } catch {
    said = response.statusText;
  }
  const error = new Error(said || `The server answered with status ${response.status}.`);
  error.status = response.status;
  error.wait = Number(response.headers.get("retry-after")) || 0;
  return error;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
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

/** The answer of a route. */
export async function ask(path, body, signal) {
  const response = await post(path, body, signal);
  if (!response.ok) throw await refused(response);
  return response.json();
}

/** The answers of a model to some inputs. */
export async function answers(model, inputs, options = {}, signal) {
  return (await ask(model.route, { model: model.id, inputs, ...options }, signal)).answers;
}

/** Events of a stream, one object each, until the server says that it is done. */
export async function* stream(path, body, signal) {
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
