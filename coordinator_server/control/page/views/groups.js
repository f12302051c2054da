// All groups, with their lag.

import { all } from "../api.js";
import { count, duration, h, time } from "../dom.js";
import { beyondEnd, brokerNow, filters, link, more, state, table } from "../ui.js";

const TYPES = [
  ["", "all types"],
  ["classic", "classic"],
  ["consumer", "consumer"],
  ["share", "share"],
  ["streams", "streams"],
];
const ORDERS = [
  ["name", "name"],
  ["time", "lag in time"],
  ["lag", "lag in records"],
];

const COMPARE = {
  name: () => 0,
  time: (left, right) => (right.time_lag_ms ?? -1) - (left.time_lag_ms ?? -1),
  lag: (left, right) => (right.lag ?? -1) - (left.lag ?? -1),
};

export const groups = {
  title: () => "Groups",
  wants: (event) => event.type === "group" || event.type === "rebalance",

  load: (parts, { filter, type }, signal) =>
    all("/groups", "groups", { filter, type, times: true }, signal),

  show({ entries, isWhole }, parts, query) {
    const sorted = [...entries].sort(COMPARE[query.order] ?? COMPARE.name);
    const columns = [
      ["Group", (row) => link(["groups", row.group], row.group)],
      ["Type", (row) => row.type],
      ["State", (row) => state(row.state)],
      ["Members", (row) => count(row.members), "number"],
      ["Generation", (row) => count(row.generation), "number"],
      ["Lag, records", (row) => [count(row.lag), beyondEnd(row)], "number"],
      ["Lag, time", (row) => duration(row.time_lag_ms), "number"],
      [
        "Oldest unread record",
        (row) => (row.time_lag_ms ? time(brokerNow() - row.time_lag_ms) : "–"),
      ],
      ["Coordinator", (row) => `broker ${row.coordinator}`],
    ];
    return h(
      "div",
      null,
      h("h1", null, "Groups"),
      filters(["groups"], query, [
        { name: "filter", label: "Name contains" },
        { name: "type", label: "Type", options: TYPES },
        { name: "order", label: "Order", options: ORDERS },
      ]),
      table("Groups", columns, sorted, {
        isPure: true,
        key: (row) => row.group,
        empty: "no group matches",
      }),
      more(isWhole, entries.length, "groups"),
    );
  },
};
