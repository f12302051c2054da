// Settings with their sources.

import { call, get } from "../api.js";
import { h } from "../dom.js";
import { ALTER_CONFIGS, filters, form, lines, pairs, table } from "../ui.js";

const CHANGED = (row) => row.source !== "DEFAULT_CONFIG";

/** Return a table of configs with sources. */
export function configTable(caption, configs) {
  const columns = [
    ["Name", (row) => h("code", null, row.name)],
    ["Value", (row) => (row.is_sensitive ? "(secret)" : (row.value ?? "–"))],
    ["Source", (row) => sourceOf(row)],
    ["At run time", (row) => (row.is_read_only ? "no" : "yes")],
    ["Meaning", (row) => row.documentation ?? ""],
  ];
  return table(caption, columns, configs, {
    isPure: true,
    key: (row) => row.name,
    selected: CHANGED,
  });
}

function sourceOf(row) {
  const name = row.source
    .replace(/_CONFIG$/, "")
    .replaceAll("_", " ")
    .toLowerCase();
  if (row.synonyms.length < 2) return name;
  return h(
    "details",
    { "data-key": `source ${row.name}` },
    h("summary", null, name),
    h(
      "ul",
      { class: "plain" },
      row.synonyms.map((synonym) =>
        h("li", null, `${synonym.name}=${synonym.value ?? ""} (${synonym.source})`),
      ),
    ),
  );
}

export const settings = {
  title: () => "Settings",
  wants: () => false,

  load: (parts, { filter, broker }, signal) => get("/settings", { filter, broker }, signal),

  show({ configs }, parts, query) {
    const shown = query.changed === "true" ? configs.filter(CHANGED) : configs;
    return h(
      "div",
      null,
      h("h1", null, "Settings"),
      filters(["settings"], query, [
        { name: "filter", label: "Name contains" },
        { name: "changed", label: "only settings that are not default", type: "checkbox" },
      ]),
      form(
        "Change settings of all brokers",
        [
          { name: "set", label: "Set", type: "lines", hint: "one NAME=VALUE on each line" },
          { name: "unset", label: "Remove", type: "lines", hint: "one name on each line" },
        ],
        ({ set, unset }) =>
          call("PATCH", "/settings", {
            body: { set: pairs(set), unset: lines(unset) },
          }),
        { needs: ALTER_CONFIGS },
      ),
      configTable("Settings of the broker", shown),
    );
  },
};
