// Open connections of clients.

import { all } from "../api.js";
import { bytes, count, h, time } from "../dom.js";
import {
  action,
  ALTER_CLUSTER,
  changeColumn,
  cluster,
  filters,
  more,
  remove,
  table,
} from "../ui.js";

// Connections whose APIs are listed. The lists of all would be most of the elements of the view.
const opened = new Set();

// The age changes all the time, and would make every row new.
const rowOf = ({ age_ms: _, ...connection }) => ({
  ...connection,
  isOpen: opened.has(connection.id),
});

export const clients = {
  title: () => "Connections",
  wants: (event) => event.type === "connection",
  first: 40,

  load: (parts, { filter, topic }, signal, first) =>
    all("/connections", "connections", { filter, topic }, signal, first, first),

  show({ entries, isWhole }, parts, query) {
    const columns = [
      ["Client id", (row) => row.client_id ?? "–"],
      [
        "Software",
        (row) => `${row.software_name} ${row.software_version}`.trim() || "unknown",
        "wide",
      ],
      ["Principal", (row) => row.principal],
      ["Address", (row) => row.remote],
      cluster.current.brokers > 1 ? ["Broker", (row) => String(row.broker)] : null,
      ["Listener", (row) => row.listener, "short"],
      ["Since", (row) => time(row.connected_at_ms)],
      ["Last request", (row) => time(row.last_request_at_ms)],
      ["Requests", (row) => count(row.requests), "number"],
      ["Errors", (row) => count(row.errors), "number"],
      ["Received", (row) => bytes(row.bytes_in), "number"],
      ["Sent", (row) => bytes(row.bytes_out), "number"],
      ["APIs", (row) => apis(row)],
      changeColumn((row) =>
        action("Close", `Close the connection of ${row.remote}? Most clients reconnect.`, () =>
          remove(["connections", String(row.id)]),
        ),
        ALTER_CLUSTER,
      ),
    ];
    return h(
      "div",
      null,
      h("h1", null, "Connections"),
      filters(["connections"], query, [
        { name: "filter", label: "Client id, address or principal contains" },
        { name: "topic", label: "Uses the topic" },
      ]),
      table("Connections", columns.filter(Boolean), entries.map(rowOf), {
        isTitled: true,
        isPure: true,
        key: (row) => `connection ${row.id}`,
        empty: "no client is connected",
      }),
      more(isWhole, entries.length, "connections"),
    );
  },
};

function apis(row) {
  const ontoggle = ({ currentTarget: details }) => {
    if (details.open === opened.has(row.id)) return;
    if (details.open) opened.add(row.id);
    else opened.delete(row.id);
    if (details.open && details.children.length === 1) details.append(apiList(row));
  };
  return h(
    "details",
    { "data-key": `apis ${row.id}`, open: row.isOpen, ontoggle },
    h("summary", null, `${count(row.apis.length)} APIs`),
    row.isOpen ? apiList(row) : null,
  );
}

function apiList(row) {
  return h(
    "ul",
    { class: "plain" },
    row.apis.map((use) => {
      const errors = use.errors ? `, ${count(use.errors)} errors, last ${use.last_error}` : "";
      return h("li", null, `${use.api} v${use.version}: ${count(use.requests)} requests${errors}`);
    }),
  );
}
