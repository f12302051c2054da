// Transactions: which are open, what they hold back, and who waits for them.

import { all, call, get, path } from "../api.js";
import { count, duration, h, time } from "../dom.js";
import { action, brokerNow, facts, link, more, state, table } from "../ui.js";

const HELD = [
  ["Partition", (row) => link(["topics", row.topic], `${row.topic}-${row.partition}`)],
  ["Last stable offset", (row) => count(row.last_stable_offset), "number"],
  ["Log end", (row) => count(row.log_end_offset), "number"],
  ["Records held back", (row) => count(row.log_end_offset - row.last_stable_offset), "number"],
  ["Since", (row) => [time(row.since_ms), ` (${duration(brokerNow() - row.since_ms)})`]],
  [
    "By",
    (row) =>
      row.transactional_id === null
        ? `producer ${row.producer_id}, whose transactional id is not known`
        : link(["transactions", row.transactional_id], row.transactional_id),
  ],
];

const heldTable = (held) =>
  table("Partitions in which read_committed consumers wait", HELD, held, {
    key: (row) => `held ${row.topic}-${row.partition}`,
    empty: "nothing is held back",
  });

export const transactions = {
  title: () => "Transactions",
  wants: (event) => event.type === "transaction",

  load: (parts, query, signal) => all("/transactions", "transactions", null, signal),

  show({ entries, isWhole, page }) {
    const columns = [
      [
        "Transactional id",
        (row) => link(["transactions", row.transactional_id], row.transactional_id),
      ],
      ["State", (row) => state(row.state)],
      ["Open since", (row) => time(row.open_since_ms)],
      ["Timeout", (row) => duration(row.timeout_ms), "number"],
      ["Producer id", (row) => String(row.producer_id), "number"],
      ["Epoch", (row) => count(row.producer_epoch), "number"],
      ["Partitions", (row) => count(row.partitions.length), "number"],
    ];
    return h(
      "div",
      null,
      h("h1", null, "Transactions"),
      h("h2", null, "Held back"),
      heldTable(page.held_back),
      h("h2", null, "Transactional ids"),
      table("Transactional ids", columns, entries, { key: (row) => row.transactional_id }),
      more(isWhole, entries.length, "transactional ids"),
    );
  },
};

export const transaction = {
  title: (parts) => `Transaction ${parts[1]}`,
  wants: (event, parts) => event.type === "transaction" && event.data.transactional_id === parts[1],

  load: ([, id], query, signal) => get(path("transactions", id), null, signal),

  show({ transaction: row, held_back: held, stuck_groups: stuck }, [, id]) {
    const columns = [
      ["Group", (row) => link(["groups", row.group], row.group)],
      ["Partition", (row) => `${row.topic}-${row.partition}`],
      ["Committed offset", (row) => count(row.offset), "number"],
      ["Records behind the transaction", (row) => count(row.records_behind), "number"],
    ];
    return h(
      "div",
      null,
      h("h1", null, "Transaction ", id),
      facts(
        ["State", state(row.state)],
        ["Open since", time(row.open_since_ms)],
        row.open_since_ms ? ["Open for", duration(brokerNow() - row.open_since_ms)] : null,
        ["Timeout", duration(row.timeout_ms)],
        ["Producer id and epoch", `${row.producer_id}, ${row.producer_epoch}`],
        ["Coordinator", `broker ${row.coordinator}`],
        ["Partitions", row.partitions.join(", ") || "none"],
      ),
      h("h2", null, "What is stuck behind it"),
      heldTable(held),
      table("Groups that wait for the end of the transaction", columns, stuck, {
        key: (row) => `stuck ${row.group} ${row.topic}-${row.partition}`,
        empty: "no group waits for it",
      }),
      row.open_since_ms
        ? action(
            "Abort the transaction",
            `Abort the open transaction of ${id}? Its producer is fenced.`,
            () => call("POST", path("transactions", id, "abort")),
            { isDangerous: true, needs: ["WRITE", "TRANSACTIONAL_ID"] },
          )
        : null,
    );
  },
};
