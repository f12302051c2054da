// One group: its timeline, rebalances in words, members, lag, offsets, and records in flight.

import { all, call, get, path } from "../api.js";
import { assignment, clockTime, count, duration, h, localTime, ranges, time } from "../dom.js";
import { colors, draw, spans } from "../timeline.js";
import {
  action,
  beyondEnd,
  brokerNow,
  facts,
  field,
  form,
  isWritable,
  link,
  more,
  place,
  remove,
  state,
  table,
} from "../ui.js";

const MOST_REBALANCES = 200;
const MOST_SAMPLES = 720;
const DEFAULT_SPAN_MS = 10 * 60_000;
const ZOOM = 2;
const PRESETS = [
  [60_000, "1 min"],
  [DEFAULT_SPAN_MS, "10 min"],
  [3_600_000, "1 h"],
  [86_400_000, "1 d"],
];

// The samples of the lag of the group that is shown; each answer adds those since the last one.
let samples = { group: null, lag: [] };

async function lagHistory(group, signal) {
  const known = samples.group === group ? samples.lag : [];
  const target = path("groups", group, "lag", "history");
  const answer = await get(target, { since_ms: known.at(-1)?.at_ms }, signal);
  const first = answer.samples[0]?.at_ms ?? Infinity;
  const lag = [...known.filter((sample) => sample.at_ms < first), ...answer.samples];
  samples = { group, lag: lag.slice(-MOST_SAMPLES) };
}

// The time of the first sample after the group had last read everything; null if it is not known.
function behindSince() {
  const last = samples.lag.findLastIndex((sample) => sample.lag === 0);
  return last < 0 ? null : (samples.lag[last + 1]?.at_ms ?? null);
}

async function rebalancesOf(group, { near, to }, signal) {
  const target = path("groups", group, "rebalances");
  // After "Go to time", the rebalances up to the end of the shown time: the latest may be too many.
  const span = near && to ? { until_ms: to } : null;
  const { entries, isWhole } = await all(target, "rebalances", span, signal, MOST_REBALANCES, 100);
  return { list: entries.reverse(), isWhole };
}

export const group = {
  title: (parts) => `Group ${parts[1]}`,
  every: 2_000,
  wants: ({ type, data }, parts) =>
    (type === "group" || type === "rebalance") && data.group === parts[1],

  async load([, name], query, signal) {
    const described = await get(path("groups", name), null, signal);
    const [lag, rebalances, inFlight] = await Promise.all([
      get(path("groups", name, "lag"), null, signal),
      rebalancesOf(name, query, signal),
      described.type === "share"
        ? get(path("groups", name, "in-flight"), { limit: 500 }, signal)
        : null,
      lagHistory(name, signal),
    ]);
    return { described, lag, rebalances, inFlight };
  },

  show({ described, lag, rebalances, inFlight }, [, name], query) {
    const since = behindSince();
    return h(
      "div",
      null,
      h("h1", null, "Group ", name),
      facts(
        ["Type", described.type],
        ["State", state(described.state)],
        [described.type === "classic" ? "Generation" : "Epoch", count(described.generation)],
        ["Members", count(described.members.length)],
        described.protocol ? ["Assignor", described.protocol] : null,
        ["Coordinator", `broker ${described.coordinator}`],
        ["Lag", `${count(lag.lag)} records, ${duration(lag.time_lag_ms)}`],
        lag.time_lag_ms ? ["Oldest unread record", time(lag.now_ms - lag.time_lag_ms)] : null,
        lag.lag && since ? ["Behind since", time(since)] : null,
        lag.beyond_end ? ["Offsets", beyondEnd(lag)] : null,
        lag.lost ? ["Lost", `${count(lag.lost)} records were deleted unread`] : null,
      ),
      described.under_way?.length ? words("Rebalance in progress", described.under_way) : null,
      timeline(name, rebalances.list, query),
      account(name, rebalances.list, query),
      h("h2", null, "Members"),
      memberTable(described),
      described.share_partitions ? sharePart(described, inFlight) : null,
      h("h2", null, "Lag"),
      lagTable(lag.partitions),
      changes(name, described, lag.partitions),
      more(rebalances.isWhole, rebalances.list.length, "rebalances"),
    );
  },
};

const words = (title, lines) => [
  h("h2", null, title),
  h("pre", { class: "story", tabindex: "0" }, lines.join("\n")),
];

// Without a span in the address, the shortest preset that has all rebalances is shown, up to 10 min.
function spanFor(list, to) {
  const age = list.length ? to - list[0].started_ms : 0;
  return age > 60_000 ? DEFAULT_SPAN_MS : 60_000;
}

function frame(query, list) {
  const to = Number(query.to) || brokerNow();
  const span = Number(query.span) || spanFor(list, to);
  return { from: to - span, to, span, isLive: !query.to };
}

function timeline(name, list, query) {
  const { from, to, span, isLive } = frame(query, list);
  const now = brokerNow();
  const rows = spans(list, now);
  const go = (changes) => {
    location.replace(place(["groups", name], { ...query, ...changes }));
  };
  const zoom = (factor) => () =>
    go({ span: Math.min(Math.max(Math.round(span * factor), 2_000), 31_536_000_000) });
  const shift = (part) => () => {
    const end = Math.round(to + span * part);
    go({ to: end >= now ? null : end });
  };
  const onkeydown = (event) => {
    const moves = {
      "+": zoom(1 / ZOOM),
      "-": zoom(ZOOM),
      ArrowLeft: shift(-0.25),
      ArrowRight: shift(0.25),
      End: () => go({ to: null }),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  };
  const width = Math.max(document.getElementById("main").clientWidth - 34, 340);
  const button = (title, label, onclick) =>
    h("button", { type: "button", title, "aria-label": title, onclick }, label);
  return [
    h("h2", null, "Who had which partition"),
    h(
      "div",
      { class: "buttons" },
      button("Earlier", "←", shift(-0.5)),
      button("Later", "→", shift(0.5)),
      button("Zoom in", "+", zoom(1 / ZOOM)),
      button("Zoom out", "−", zoom(ZOOM)),
      PRESETS.map(([ms, label]) => button(`Show ${label}`, label, () => go({ span: ms }))),
      button(
        isLive ? "live: stays at the present" : "go live: go to the present and stay there",
        isLive ? "live" : "go live",
        () => go({ to: null }),
      ),
      h("span", { class: "note" }, `${clockTime(from)} to ${clockTime(to)}`),
      h(
        "form",
        { class: "filters", onsubmit: (event) => event.preventDefault() },
        field({
          name: "near",
          label: "Go to time",
          type: "datetime-local",
          value: localTime(query.near),
          onchange: ({ target }) => {
            const at = new Date(target.value).getTime();
            if (Number.isNaN(at)) return;
            go({ near: at, to: Math.round(at + span / 2), span, at: null });
          },
        }),
      ),
    ),
    h(
      "div",
      {
        class: "scroll",
        tabindex: "0",
        role: "region",
        onkeydown,
        "aria-label": "Timeline; arrow keys move, plus and minus zoom, End shows the present",
      },
      draw({
        rebalances: list,
        rows,
        lag: samples.lag,
        from,
        to,
        now,
        width,
        at: Number(query.at) || null,
        onSelect: (at) => go({ at }),
      }),
    ),
    h(
      "p",
      { class: "note" },
      "The lag is sampled every 5 s since the start of the control server.",
    ),
    spanTable(rows, from, to),
  ];
}

function spanTable(rows, from, to) {
  const numbers = colors(rows);
  const inside = [...rows]
    .flatMap(([partition, list]) => list.map((span) => ({ partition, ...span })))
    .filter((span) => span.to >= from && span.from <= to);
  const columns = [
    ["Partition", (row) => row.partition],
    [
      "Member",
      (row) => [h("span", { class: `swatch color${numbers.get(row.member)}` }), " ", row.name],
    ],
    [
      "From",
      (row) =>
        Number.isFinite(row.from) ? time(row.from, true) : "before the first known rebalance",
    ],
    ["To", (row) => time(row.to, true)],
  ];
  return h(
    "details",
    { "data-key": "spans" },
    h("summary", null, "The same as a table"),
    table("Owners of partitions in this time", columns, inside, {
      key: (row) => `span ${row.partition} ${row.from}`,
    }),
  );
}

function account(name, list, query) {
  const at = Number(query.at) || null;
  const newestFirst = [...list].reverse();
  const chosen =
    newestFirst.find((row) => row.ended_ms === at) ?? nearest(list, query.near) ?? newestFirst[0];
  const columns = [
    [
      "Began",
      (row) =>
        h(
          "a",
          { href: place(["groups", name], { ...query, at: row.ended_ms }) },
          clockTime(row.started_ms, true, true),
        ),
    ],
    ["Took", (row) => duration(row.ended_ms - row.started_ms), "number"],
    ["Because", (row) => reasonOf(row.account)],
    ["Generation", (row) => count(row.account.generation), "number"],
    ["Members", (row) => count(row.account.members_after), "number"],
    ["Moved", (row) => count(row.account.partitions?.moved), "number"],
  ];
  return [
    h("h2", null, "Rebalances, explained"),
    chosen ? h("pre", { class: "story", tabindex: "0" }, chosen.story.join("\n")) : null,
    table("Rebalances, the latest first", columns, newestFirst.slice(0, 50), {
      key: (row) => `rebalance ${row.ended_ms} ${row.account.generation}`,
      empty: "none is known",
      selected: (row) => row === chosen,
    }),
  ];
}

// The rebalance that was nearest to a time; null without a time or rebalances.
function nearest(list, text) {
  if (!text || !list.length) return null;
  const distance = ({ started_ms: from, ended_ms: to }) =>
    Math.max(from - Number(text), Number(text) - to, 0);
  return list.reduce((best, row) => (distance(row) <= distance(best) ? row : best));
}

function reasonOf({ trigger, culprit, reason }) {
  const who = culprit ? `${culprit.instance ?? culprit.client_id} on ${culprit.host}` : null;
  return [trigger, who ? ` (${who})` : null, reason ? `: ${reason}` : null];
}

function memberTable({ members, type }) {
  const hasEpochs = type !== "classic";
  const columns = [
    ["Client id", (row) => row.client_id],
    ["Member id", (row) => h("code", null, row.member_id)],
    members.some((row) => row.instance_id)
      ? ["Instance id", (row) => row.instance_id ?? "–"]
      : null,
    ["Host", (row) => row.host],
    ["Subscribed to", (row) => row.subscription.join(", ") || "–"],
    ["Has", (row) => assignment(row.assignment)],
    hasEpochs ? ["Target", (row) => assignment(row.target)] : null,
    hasEpochs ? ["Epoch", (row) => count(row.epoch), "number"] : null,
    hasEpochs ? ["State", (row) => (row.state ? state(row.state) : "–")] : null,
    ["Waits for", (row) => waits(row)],
  ];
  return table("Members", columns, members, {
    isTitled: true,
    key: (row) => `member ${row.member_id}`,
    empty: "the group has no members",
  });
}

function waits(member) {
  const parts = [
    member.waits_for,
    member.revoking_ms
      ? `revoking ${assignment(member.revoking)} for ${duration(member.revoking_ms)}`
      : null,
    member.waiting_ms ? `waiting for ${duration(member.waiting_ms)}` : null,
  ];
  return parts.filter(Boolean).join("; ") || "–";
}

function sharePart({ share_partitions: shared }, inFlight) {
  const columns = [
    ["Partition", (row) => `${row.topic}-${row.partition}`],
    ["State", (row) => state(row.state)],
    ["Start offset", (row) => count(row.start_offset), "number"],
    ["In flight", (row) => count(row.in_flight), "number"],
    ["By state", (row) => numbers(row.states)],
    ["By deliveries", (row) => numbers(row.deliveries)],
    ["By member", (row) => numbers(row.members)],
    ["Given up", (row) => givenUp(row.given_up)],
  ];
  const details = [
    [
      "Records",
      (row) =>
        `${row.topic}-${row.partition}: ${row.first === row.last ? row.first : `${row.first}-${row.last}`}`,
    ],
    ["State", (row) => state(row.state)],
    ["Deliveries", (row) => count(row.delivery_count), "number"],
    ["Member", (row) => row.member_id ?? "–"],
    [
      "Lock ends",
      (row) =>
        row.locked_until_ms
          ? [
              time(row.locked_until_ms, true),
              ` (in ${duration(Math.max(row.locked_until_ms - inFlight.now_ms, 0))})`,
            ]
          : "–",
    ],
  ];
  return [
    h("h2", null, "Records in flight"),
    table("Share partitions", columns, shared, {
      key: (row) => `share ${row.topic}-${row.partition}`,
    }),
    table("Records in flight", details, inFlight?.in_flight ?? [], {
      key: (row) => `flight ${row.topic}-${row.partition} ${row.first}`,
      empty: "no record is in flight",
    }),
    more(!inFlight?.next, inFlight?.in_flight.length, "ranges of records"),
  ];
}

const numbers = (byName) =>
  Object.entries(byName)
    .map(([name, number]) => `${name}: ${count(number)}`)
    .join(", ") || "–";

const givenUp = (list) =>
  list
    .map(
      (row) =>
        `${row.first === row.last ? row.first : ranges([row.first, row.last])} after ${row.delivery_count} deliveries`,
    )
    .join("; ") || "–";

function lagTable(partitions) {
  const columns = [
    ["Partition", (row) => link(["topics", row.topic], `${row.topic}-${row.partition}`)],
    ["Committed", (row) => count(row.offset), "number"],
    ["End", (row) => count(row.end_offset), "number"],
    ["Lag, records", (row) => [count(row.lag), beyondEnd(row)], "number"],
    ["Lag, time", (row) => duration(row.time_lag_ms), "number"],
    ["Oldest unread record", (row) => time(row.lagging_since_ms)],
    ["Last commit", (row) => time(row.commit_timestamp_ms)],
    ["Owner", (row) => row.client_id ?? "–"],
    ["Lost", (row) => count(row.lost), "number"],
  ];
  return table("Lag by partition", columns, partitions, {
    isTitled: true,
    isPure: true,
    key: (row) => `lag ${row.topic}-${row.partition}`,
    empty: "no partition is committed or assigned",
  });
}

function changes(name, { members, type }, partitions) {
  if (!isWritable()) return null;
  if (members.length) {
    const text = "Offsets can be reset, and the group can be deleted, once its members have left.";
    return h("p", { class: "note" }, text);
  }
  const reset = async ({ to, topic, timestamp, shift, offset, dry }) => {
    const body = { to, dry_run: dry === "yes" };
    if (topic) body.topics = [topic];
    if (to === "timestamp") body.timestamp_ms = new Date(timestamp).getTime();
    if (to === "shift") body.shift_by = Number(shift);
    if (to === "offset") body.offset = Number(offset);
    const answer = await call("POST", path("groups", name, "offsets", "reset"), { body });
    const failed = answer.offsets.filter((row) => row.error);
    if (failed.length)
      throw new Error(
        failed.map((row) => `${row.topic}-${row.partition}: ${row.error}`).join("; "),
      );
    const list = answer.offsets.map(
      ({ topic, partition, before, after, warning }) =>
        `${topic}-${partition} ${count(before)} → ${count(after)}${warning ? ` (${warning})` : ""}`,
    );
    return `${answer.dry_run ? "Would set" : "Set"} ${list.join(", ")}`;
  };
  const topics = [...new Set(partitions.map((row) => row.topic))];
  return [
    form(
      "Reset offsets",
      [
        {
          name: "to",
          label: "To",
          options: ["earliest", "latest", "timestamp", "shift", "offset"],
        },
        {
          name: "topic",
          label: "Topic",
          options: [["", "all"], ...topics.map((topic) => [topic, topic])],
        },
        { name: "timestamp", label: "Time, for timestamp", type: "datetime-local" },
        { name: "shift", label: "Records, for shift", type: "number", hint: "negative: back" },
        { name: "offset", label: "Offset, for offset", type: "number" },
        { name: "dry", label: "Only show the result", options: ["yes", "no"] },
      ],
      reset,
      { button: "Reset", needs: ["READ", "GROUP"] },
    ),
    action(
      "Delete the group",
      `Delete the ${type} group ${name} with its offsets?`,
      async () => {
        await remove(["groups", name]);
        location.hash = "#/groups";
      },
      { isDangerous: true, needs: ["DELETE", "GROUP"] },
    ),
  ];
}
