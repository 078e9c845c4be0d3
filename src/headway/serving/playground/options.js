// Controls for the options of a task, made from their schema.

import { field, make } from "./dom.js";

/** A control for each option; ``values`` holds those that were changed. */
export function optionFields(model) {
  const controls = Object.entries(model.options ?? {}).map(([name, schema]) => {
    const types = [schema.type ?? []].flat(), flag = types.includes("boolean");
    const numeric = types.includes("number") || types.includes("integer");
    const input = make("input", flag ? { type: "checkbox", checked: schema.default ?? false }
      : { type: numeric ? "number" : "text", value: schema.default ?? "", step: types.includes("integer") ? 1 : "any" });
    const title = name.replace(/_/g, " ");
    const read = () => (flag ? input.checked : input.value === "" ? null : numeric ? Number(input.value) : input.value);
    return { name, changed: () => read() !== (schema.default ?? (flag ? false : null)), read, usable: !types.includes("array"),
      row: field(title[0].toUpperCase() + title.slice(1), input, schema.description ?? "") };
  }).filter(({ usable }) => usable);
  return {
    box: make("div", { className: "controls" }, controls.map(({ row }) => row)),
    get values() {
      return Object.fromEntries(controls.filter(({ changed }) => changed()).map(({ name, read }) => [name, read()]));
    },
  };
}
