// Topics, and one topic with its partitions, configs and clients.

import { all, call, get, getIfAllowed, path } from "../api.js";
import { bytes, count, counted, duration, h, time } from "../dom.js";
import {
  action,
  cluster,
  facts,
  filters,
  form,
  isWritable,
  lines,
  link,
  more,
  pairs,
  place,
  remove,
  table,
} from "../ui.js";
import { configTable } from "./settings.js";

const total = (topic) =>
  topic.partitions.reduce((sum, row) => sum + row.end_offset - row.start_offset, 0);

const partitionsOf = ({ partitions }) => {
  const offline = partitions.filter((row) => row.error !== undefined).length;
  return count(partitions.length) + (offline ? `, ${count(offline)} offline` : "");
};

const leaderOf = ({ leader, error }) => {
  if (error !== undefined) return `offline: ${error}`;
  return leader < 0 ? "offline" : `broker ${leader}`;
};

export const topics = {
  title: () => "Topics",
  wants: (event) => event.type === "topic",

  load: (parts, { filter, internal }, signal) =>
    all("/topics", "topics", { filter, internal: internal === "true" }, signal, 10_000),

  show({ entries, isWhole }, parts, query) {
    const columns = [
      ["Topic", (row) => link(["topics", row.topic], row.topic)],
      ["Partitions", (row) => partitionsOf(row), "number"],
      ["Offsets kept", (row) => count(total(row)), "number"],
      ["Own configs", (row) => configsOf(row)],
      ["Content", (row) => link(["records", row.topic], "Records")],
    ];
    return h(
      "div",
      null,
      h("h1", null, "Topics"),
      filters(["topics"], query, [
        { name: "filter", label: "Name contains" },
        { name: "internal", label: "with internal topics", type: "checkbox" },
      ]),
      table("Topics", columns, entries, {
        isPure: true,
        key: (row) => row.topic,
        empty: "no topic matches",
      }),
      more(isWhole, entries.length, "topics"),
      form(
        "Create a topic",
        [
          { name: "name", label: "Name" },
          {
            name: "partitions",
            label: "Partitions",
            type: "number",
            hint: "empty: num.partitions",
          },
          { name: "configs", label: "Configs", type: "lines", hint: "one NAME=VALUE on each line" },
        ],
        ({ name, partitions, configs }) =>
          call("POST", path("topics", name), {
            body: {
              partitions: partitions ? Number(partitions) : null,
              configs: pairs(configs),
            },
          }),
        { button: "Create", needs: cluster.rights?.creates_topics ? null : ["CREATE", "TOPIC"] },
      ),
    );
  },
};

const configsOf = ({ configs }) =>
  Object.entries(configs)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ") || "–";

export const topic = {
  title: (parts) => `Topic ${parts[1]}`,
  wants: (event, parts) => event.type === "topic" && event.data.topic === parts[1],

  async load([, name], query, signal) {
    const [described, partitions, configs, clients] = await Promise.all([
      get(path("topics", name), null, signal),
      all(path("topics", name, "partitions"), "partitions", null, signal, 10_000),
      getIfAllowed(path("topics", name, "configs"), null, signal),
      getIfAllowed("/connections", { topic: name, closed: true }, signal),
    ]);
    return { described, partitions, configs: configs?.configs, clients: clients?.connections };
  },

  show({ described, partitions, configs, clients }, [, name]) {
    const columns = [
      ["Partition", (row) => count(row.partition)],
      ["Leader", leaderOf],
      ["Start offset", (row) => count(row.start_offset), "number"],
      ["High watermark", (row) => count(row.end_offset), "number"],
      ["Last stable offset", (row) => count(row.last_stable_offset), "number"],
      ["Size", (row) => bytes(row.size_bytes), "number"],
      ["Open transactions", (row) => count(row.open_transactions), "number"],
      [
        "Content",
        (row) =>
          h("a", { href: place(["records", name], { partition: row.partition }) }, "Records"),
      ],
    ];
    return h(
      "div",
      null,
      h("h1", null, "Topic ", name),
      facts(
        ["Topic id", h("code", null, described.topic_id)],
        ["Partitions", count(described.partitions.length)],
        ["Offsets kept", count(total(described))],
        described.is_internal ? ["Internal", "clients may not write"] : null,
      ),
      h(
        "p",
        null,
        h("a", { class: "button", href: place(["records", name], {}) }, "Browse records"),
      ),
      clients ? [h("h2", null, "Clients"), clientTable(clients, name)] : null,
      h("h2", null, "Partitions"),
      table("Partitions", columns, partitions.entries, {
        isTitled: true,
        isPure: true,
        key: (row) => `partition ${row.partition}`,
      }),
      more(partitions.isWhole, partitions.entries.length, "partitions"),
      changes(described, name),
      configs ? [h("h2", null, "Configs"), configTable("Configs of the topic", configs)] : null,
    );
  },
};

function clientTable(clients, name) {
  const columns = [
    ["Client id", (row) => row.client_id ?? "–"],
    ["Does", (row) => deeds(row, name)],
    ["Software", (row) => `${row.software_name} ${row.software_version}`.trim() || "unknown"],
    ["Address", (row) => row.remote],
    ["Principal", (row) => row.principal],
    ["Connection", connectionState],
  ];
  const sorted = [...clients].sort((left, right) => endOf(right) - endOf(left));
  return table("Connections that produce to this topic or fetch from it", columns, sorted, {
    key: (row) => `client ${row.id}`,
    empty: "none is open, and none was closed recently",
  });
}

// Open connections first, then those that were closed last.
const endOf = (client) => client.closed_at_ms ?? Number.MAX_SAFE_INTEGER;

function connectionState({ closed_at_ms: closedAtMs }) {
  if (closedAtMs === null) return "open";
  // Connections are dated by the machine's clock.
  return ["closed ", duration(Math.max(Date.now() - closedAtMs, 0)), " ago: ", time(closedAtMs)];
}

function deeds(client, name) {
  const does = [
    client.topics_written.includes(name) ? "produces" : null,
    client.topics_read.includes(name) ? "fetches" : null,
  ];
  return does.filter(Boolean).join(", ");
}

function changes({ partitions, is_internal: isInternal }, name) {
  if (isInternal || !isWritable()) return null;
  const grow = ({ count: wanted }) =>
    call("POST", path("topics", name, "partitions"), { body: { count: Number(wanted) } });
  const alter = ({ set, unset }) =>
    call("PATCH", path("topics", name, "configs"), {
      body: { set: pairs(set), unset: lines(unset) },
    });
  return [
    form(
      "Add partitions",
      [{ name: "count", label: "New number of partitions", type: "number" }],
      grow,
      { needs: ["ALTER", "TOPIC"] },
    ),
    form(
      "Change configs",
      [
        { name: "set", label: "Set", type: "lines", hint: "one NAME=VALUE on each line" },
        { name: "unset", label: "Remove", type: "lines", hint: "one name on each line" },
      ],
      alter,
      { needs: ["ALTER_CONFIGS", "TOPIC"] },
    ),
    action(
      "Delete the topic",
      `Delete ${name} with ${counted(partitions.length, "partition")} and all records?`,
      async () => {
        await remove(["topics", name]);
        location.hash = "#/topics";
      },
      { isDangerous: true, needs: ["DELETE", "TOPIC"] },
    ),
  ];
}
