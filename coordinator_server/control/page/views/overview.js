// What a developer wants to know first: brokers, who is behind, what is blocked, what changed.

import { all, call, get, getIfAllowed, path } from "../api.js";
import { count, counted, duration, h, time } from "../dom.js";
import {
  action,
  ALTER_CLUSTER,
  beyondEnd,
  brokerNow,
  changeColumn,
  cluster,
  facts,
  link,
  openness,
  state,
  table,
} from "../ui.js";
import { snippets } from "./connect.js";
import { recent } from "./recent.js";

const MOST = 10;

export const overview = {
  title: () => "Overview",

  async load(parts, query, signal) {
    if (!cluster.current.running) {
      return { brokers: await getIfAllowed("/brokers", null, signal), groups: null };
    }
    const [brokers, groups, transactions, topics] = await Promise.all([
      getIfAllowed("/brokers", null, signal),
      all("/groups", "groups", { times: true }, signal),
      get("/transactions", { limit: 1 }, signal),
      get("/topics", { internal: false, limit: 1 }, signal),
    ]);
    return { brokers, groups: groups.entries, held: transactions.held_back, topics: topics.topics };
  },

  show({ brokers, groups, held, topics }) {
    const now = cluster.current;
    const isEmpty = groups && !groups.length && !topics.length;
    const behind = groups?.filter((row) => row.lag > 0 || row.beyond_end > 0).sort(byAge);
    return h(
      "div",
      null,
      h("h1", null, "Overview"),
      openness(),
      facts(
        ["Topics", count(now.counts.topics)],
        ["Partitions", count(now.counts.partitions)],
        ["Groups", link(["groups"], count(now.counts.groups))],
        brokers && ["Connections", link(["connections"], count(now.counts.connections))],
        ["Open transactions", link(["transactions"], count(now.counts.open_transactions))],
        now.offline_partitions
          ? ["Partitions without a leader", count(now.offline_partitions)]
          : null,
        ["Broker’s time", time(now.now_ms)],
      ),
      isEmpty ? firstSteps(brokers?.brokers) : null,
      groups && !isEmpty ? [groupsBehind(behind), blocked(held)] : null,
      isEmpty ? null : recent(),
      brokers ? brokerTable(brokers.brokers) : null,
      h("h2", null, "This broker"),
      facts(
        ["Version", now.version],
        ["Behaves as Apache Kafka", now.kafka_version],
        ["Cluster id", h("code", null, now.cluster_id)],
        now.data_directory
          ? ["Data", now.data_directory, now.is_ephemeral ? " (deleted with the process)" : ""]
          : null,
        ["Started", time(now.started_at_ms)],
      ),
    );
  },
};

const byAge = (left, right) =>
  (right.time_lag_ms ?? 0) - (left.time_lag_ms ?? 0) || right.lag - left.lag;

function firstSteps(brokers) {
  return [
    h("h2", null, "Nothing is here yet"),
    h("p", null, "No topic and no group exists. Connect a client:"),
    brokers ? snippets(brokers) : null,
  ];
}

function groupsBehind(groups) {
  const columns = [
    ["Group", (row) => link(["groups", row.group], row.group)],
    ["State", (row) => state(row.state)],
    ["Lag, records", (row) => [count(row.lag), beyondEnd(row)], "number"],
    ["Lag, time", (row) => duration(row.time_lag_ms), "number"],
    [
      "Oldest unread record",
      (row) => (row.time_lag_ms ? time(brokerNow() - row.time_lag_ms) : "–"),
    ],
    ["Members", (row) => count(row.members), "number"],
  ];
  const rest = groups.length - MOST;
  return [
    h("h2", null, "Who is behind"),
    table("Groups with unread records or offsets beyond the log end, the longest delay first", columns, groups.slice(0, MOST), {
      key: (row) => row.group,
      empty: "every group has read everything",
    }),
    rest > 0 ? h("p", null, link(["groups"], `${counted(rest, "more group")}`)) : null,
  ];
}

function blocked(held) {
  if (!held.length) return null;
  const columns = [
    ["Partition", (row) => `${row.topic}-${row.partition}`],
    [
      "Held back by",
      (row) =>
        row.transactional_id === null
          ? `producer ${row.producer_id}`
          : link(["transactions", row.transactional_id], row.transactional_id),
    ],
    ["Records", (row) => count(row.log_end_offset - row.last_stable_offset), "number"],
    ["Since", (row) => time(row.since_ms)],
  ];
  return [
    h("h2", null, "What is blocked"),
    table("Partitions in which read_committed consumers wait for a transaction", columns, held, {
      key: (row) => `${row.topic}-${row.partition}`,
    }),
  ];
}

function brokerTable(brokers) {
  const columns = [
    ["Broker", (row) => count(row.id)],
    ["State", (row) => state(row.state)],
    ["Listeners", (row) => row.listeners.join(", ")],
    ["Leads partitions", (row) => count(row.partitions_led), "number"],
    ["Coordinates groups", (row) => count(row.groups), "number"],
    ["Connections", (row) => count(row.connections), "number"],
    changeColumn(changeOf, ALTER_CLUSTER),
  ];
  return [
    h("h2", null, "Brokers"),
    table("Brokers of this process", columns, brokers, {
      isTitled: true,
      key: (row) => `broker ${row.id}`,
    }),
  ];
}

function changeOf(broker) {
  const change = (verb) => () => call("POST", path("brokers", String(broker.id), verb));
  if (broker.state === "stopped") return action("Start", null, change("start"));
  const question = `Stop broker ${broker.id}? Its clients are disconnected until it is started.`;
  return action("Stop", question, change("stop"), { isDangerous: true });
}
