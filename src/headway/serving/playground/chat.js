// Chat: a conversation by the model's own template.

import { stream } from "./api.js";
import { announce, field, make } from "./dom.js";
import { asking, modelChoice } from "./form.js";
import { samplingControls, speedometer } from "./sampling.js";

export function build(panel, models) {
  const choice = modelChoice(models, () => reset());
  const log = make("div", { className: "talk", role: "log", "aria-label": "Conversation", tabIndex: 0 });
  const said = make("textarea", { rows: 3, placeholder: "Say something" });
  const system = make("textarea", { rows: 2 });
  const controls = samplingControls(models[0].context), speed = make("output", { className: "soft", "aria-live": "off" });
  let messages = [];

  function reset() {
    asked?.stop();
    messages = [];
    log.replaceChildren();
    speed.textContent = "";
  }

  function show(role, text) {
    const body = make("p", { className: "said", textContent: text, dir: "auto" });
    log.append(make("div", { className: `message ${role}` }, make("b", { textContent: role === "user" ? "You" : "Model" }), body));
    log.scrollTop = log.scrollHeight;
    return body;
  }

  const asked = asking([field("Message", said, "Ctrl and Enter send it.")], "Send", async (signal) => {
    if (!said.value.trim()) return;
    messages.push({ role: "user", content: said.value });
    show("user", said.value);
    said.value = "";
    await reply(signal);
  });

  async function reply(signal) {
    const first = system.value.trim() ? [{ role: "system", content: system.value }] : [];
    const body = { model: choice.value.id, messages: [...first, ...messages], ...controls.body };
    const shown = show("assistant", ""), meter = speedometer(speed);
    speed.textContent = "";
    let reason = "";
    try {
      for await (const event of stream("/v1/chat/completions", body, signal)) {
        const [piece] = event.choices;
        if (piece?.delta?.content) {
          shown.textContent += piece.delta.content;
          meter.add(1);
          log.scrollTop = log.scrollHeight;
        }
        reason = piece?.finish_reason ?? reason;
      }
    } finally {
      if (shown.textContent) messages.push({ role: "assistant", content: shown.textContent });
      else {
        shown.parentElement.remove();
        if (!signal.aborted && !reason) {
          said.value = messages.pop().content;
          log.lastChild?.remove();
        }
      }
      meter.end(signal.aborted ? "stopped" : reason);
    }
    announce(`The model: ${shown.textContent.slice(0, 500)}`);
  }

  const again = make("button", { type: "button", textContent: "Another reply", onclick: () => {
    if (messages.at(-1)?.role !== "assistant") return;
    messages.pop();
    log.lastChild.remove();
    asked.run(reply);
  } });
  panel.append(make("div", { className: "columns" },
    make("div", {}, choice.row, log, asked.form,
      make("div", { className: "row" }, speed, again, make("button", { type: "button", textContent: "New conversation", onclick: reset }))),
    make("div", {}, field("System message", system, "What the model is told before the conversation."), controls.box)));
}
